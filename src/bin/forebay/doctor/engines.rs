//! The engines, each tried by starting one.

use std::time::Duration;

use forebay::{EngineChoice, Reader, ReaderBuilder, RingFeatures, facts};

use crate::args::Engine;

use super::advice::split;
use super::finding::Finding;

/// Enough for an engine to start, so that a large budget is not what makes it fail.
const BUDGET: u64 = 1 << 20;
const PREAD_INSTEAD: &str = "use --engine pread";

/// Findings on the engine asked for, or on both.
pub fn findings(asked: Engine) -> Vec<Finding> {
    let mut findings = Vec::new();
    if asked != Engine::Pread {
        findings.extend(uring());
    }
    if asked != Engine::Uring {
        findings.push(pread());
    }
    findings.push(cachestat());
    findings
}

fn uring() -> Vec<Finding> {
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
        feature("fixed_buffers", features.fixed_buffers, "memory is registered with the ring", FIXED_BUFFERS),
        feature("fixed_files", features.fixed_files, "files are registered with the ring", FIXED_FILES),
        optional("iopoll", builder(EngineChoice::Uring).iopoll(true), |features| features.iopoll),
        optional("sqpoll", builder(EngineChoice::Uring).sqpoll(Some(SQPOLL_IDLE)), |features| features.sqpoll),
    ]
}

const SQPOLL_IDLE: Duration = Duration::from_millis(10);
const FIXED_BUFFERS: [&str; 2] = [
    "the kernel did not register the buffers, so that it pins pages anew for each read",
    "raise RLIMIT_MEMLOCK (`ulimit -l unlimited`), and allow io_uring_register in the seccomp filter if there is one",
];
const FIXED_FILES: [&str; 2] = [
    "the kernel did not register files, so that it looks them up for each read",
    "allow io_uring_register in the seccomp filter if there is one, or use a newer kernel",
];

fn feature(subject: &'static str, has: bool, yes: &str, [reason, fix]: [&str; 2]) -> Finding {
    match has {
        true => Finding::yes("ring", subject, yes),
        false => Finding::no("ring", subject, reason, fix),
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
            let reason = format!("{error}: the slower mincore is asked instead");
            Finding::no(
                KIND,
                "kernel",
                with_filter(&reason),
                "use Linux 6.5 or newer, and allow cachestat in the seccomp filter",
            )
        }
    }
}

fn builder(engine: EngineChoice) -> ReaderBuilder {
    Reader::builder().engine(engine).budget(BUDGET)
}

/// Starts an engine and ends it again.
fn started(builder: ReaderBuilder) -> Result<Option<RingFeatures>, String> {
    builder.build().map(|reader| reader.ring_features()).map_err(|error| error.to_string())
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

/// Adds what often lies behind a refusal.
fn with_filter(reason: &str) -> String {
    match facts::is_filtered(facts::proc()) {
        Some(true) => format!("{reason} (a seccomp filter is in place)"),
        _ => reason.to_owned(),
    }
}
