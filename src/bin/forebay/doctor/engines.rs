//! The engines, each tried by starting one.

use std::time::Duration;

use forebay::{EngineChoice, Reader, ReaderBuilder, RingFeatures, facts};
use nix::errno::Errno;

use crate::args::Engine;
use crate::warnings;

use super::advice::split;
use super::finding::Finding;
use super::machine::ALLOW_REGISTER;
use super::trial::Trial;

/// Enough for an engine to start, so that a large budget is not what makes it fail.
const BUDGET: u64 = 1 << 20;
const PREAD_INSTEAD: &str = "use --engine pread";

/// Findings on the engine asked for, or on both.
pub fn findings(asked: Engine, trial: &Trial) -> Vec<Finding> {
    let mut findings = Vec::new();
    if asked != Engine::Pread {
        findings.extend(uring(trial));
    }
    if asked != Engine::Uring {
        findings.push(pread());
    }
    findings.push(cachestat());
    findings
}

fn uring(trial: &Trial) -> Vec<Finding> {
    let features = match started(builder(EngineChoice::Uring)) {
        Ok(features) => features.unwrap_or_default(),
        Err(error) => {
            let (reason, fix) = split(&error, PREAD_INSTEAD);
            return vec![Finding::no("engine", "uring", reason, fix)];
        }
    };
    let reason = format!("a ring was built and answered, with {}", flags(&features));
    vec![
        Finding::yes("engine", "uring", reason),
        fixed_buffers(trial),
        fixed_files(&features),
        optional("iopoll", builder(EngineChoice::Uring).iopoll(true), |features| features.iopoll),
        optional("sqpoll", builder(EngineChoice::Uring).sqpoll(Some(SQPOLL_IDLE)), |features| features.sqpoll),
    ]
}

const SQPOLL_IDLE: Duration = Duration::from_millis(10);

/// Of the whole budget: a little memory is registered where that much is not.
fn fixed_buffers(trial: &Trial) -> Finding {
    const SUBJECT: &str = "fixed_buffers";
    match trial.registered {
        Some(Ok(())) => Finding::yes("ring", SUBJECT, "the budget was registered with a ring"),
        Some(Err(errno)) => {
            let error = errno.map_or_else(String::new, |errno| format!(" ({})", Errno::from_raw(errno).desc()));
            let reason =
                format!("the budget was not registered{error}, so that the kernel pins pages anew for each read");
            let fix = match errno.map(Errno::from_raw) {
                Some(Errno::EPERM | Errno::EACCES | Errno::ENOSYS) => ALLOW_REGISTER,
                _ => "see memlock above, or use a smaller --budget",
            };
            Finding::no("ring", SUBJECT, reason, fix)
        }
        None => {
            let why = trial.failed.as_deref().unwrap_or("no ring could be built with the budget");
            Finding::note("ring", SUBJECT, why)
        }
    }
}

fn fixed_files(features: &RingFeatures) -> Finding {
    const SUBJECT: &str = "fixed_files";
    match features.fixed_files {
        true => Finding::yes("ring", SUBJECT, "files are registered with the ring"),
        false => {
            let reason = "the kernel did not register files, so that it looks them up for each read";
            let fix = "allow io_uring_register in the seccomp filter if there is one, or use a newer kernel";
            Finding::no("ring", SUBJECT, reason, fix)
        }
    }
}

/// What is off unless asked for: tried here, so that asking for it is an informed choice.
fn optional(subject: &'static str, builder: ReaderBuilder, has: impl Fn(RingFeatures) -> bool) -> Finding {
    const UNNEEDED: &str = "nothing to do: it is off unless asked for";
    match started(builder) {
        Ok(Some(features)) if has(features) => {
            Finding::yes("ring", subject, "such a ring can be built; off by default")
        }
        Ok(_) => Finding::no("ring", subject, "the kernel did not give such a ring", UNNEEDED),
        Err(error) => {
            let (reason, fix) = split(&error, UNNEEDED);
            Finding::no("ring", subject, reason, fix)
        }
    }
}

fn pread() -> Finding {
    match started(builder(EngineChoice::Pread)) {
        Ok(_) => Finding::yes("engine", "pread", "a pool of threads that read; needs nothing of the kernel"),
        Err(error) => {
            let (reason, fix) = split(&error, "free memory");
            Finding::no("engine", "pread", reason, fix)
        }
    }
}

fn cachestat() -> Finding {
    const KIND: &str = "cachestat";
    match facts::try_cachestat() {
        Ok(()) => Finding::yes(KIND, "kernel", "tells what part of a file is in the page cache"),
        Err(error) => {
            let fix = match error.raw_os_error().map(Errno::from_raw) {
                Some(Errno::ENOSYS) => "use Linux 6.5 or newer, and a seccomp filter that knows the call",
                _ => "allow cachestat in the seccomp filter, or the security module, that forbids it",
            };
            Finding::no(KIND, "kernel", format!("{error}: the slower mincore is asked instead"), fix)
        }
    }
}

fn builder(engine: EngineChoice) -> ReaderBuilder {
    Reader::builder().engine(engine).budget(BUDGET)
}

/// Starts an engine and ends it again.
fn started(builder: ReaderBuilder) -> Result<Option<RingFeatures>, String> {
    warnings::muted(|| builder.build()).map(|reader| reader.ring_features()).map_err(|error| error.to_string())
}

fn flags(features: &RingFeatures) -> String {
    let flags = [
        (features.single_issuer, "SINGLE_ISSUER"),
        (features.defer_taskrun, "DEFER_TASKRUN"),
        (features.coop_taskrun, "COOP_TASKRUN"),
    ];
    let taken: Vec<&str> = flags.iter().filter(|(has, _)| *has).map(|(_, flag)| *flag).collect();
    if taken.is_empty() { "none of the newer flags".to_owned() } else { taken.join(", ") }
}
