use std::fmt;
use std::io;
use std::path::Path;

use nix::libc;

use super::EngineKind;
use crate::sync::ThreadError;
use crate::sys::{limits, process};
use crate::units::Size;

/// An engine that could not be started.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EngineError {
    /// The kernel refused a step of the set-up.
    #[error("the engine {kind} cannot start: {step}: {error}; {fix}", fix = step.fix(.error))]
    Refused {
        /// The engine.
        kind: EngineKind,
        /// What was being done.
        step: EngineStep,
        /// The kernel's answer.
        #[source]
        error: io::Error,
    },
    /// Its threads could not be started.
    #[error("the engine {kind} cannot start: {error}")]
    Threads {
        /// The engine.
        kind: EngineKind,
        /// How many, and why.
        #[source]
        error: ThreadError,
    },
    /// The reader was closed before it needed this engine.
    #[error("the engine {kind} cannot start: the reader was closed; build a new one")]
    Closed {
        /// The engine.
        kind: EngineKind,
    },
    /// A setting is out of its range.
    #[error("{setting} = {value} is out of range; give {range}")]
    Setting {
        /// The setting's name.
        setting: &'static str,
        /// The value given.
        value: u64,
        /// What it may be.
        range: &'static str,
    },
}

/// A step of starting an engine, beside its threads. Each asks the kernel for something else, and is refused for
/// reasons of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum EngineStep {
    /// The eventfd that wakes a ring's thread.
    Eventfd,
    /// Setting up a ring, and its first operation.
    Ring,
    /// A first read with the ring, of an eventfd.
    Read,
}

impl fmt::Display for EngineStep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Eventfd => "creating an eventfd",
            Self::Ring => "setting up a ring",
            Self::Read => "a first read with the ring",
        })
    }
}

impl EngineStep {
    fn fix(self, error: &io::Error) -> String {
        let instead = ", or use the engine pread";
        let fix = match (self, error.raw_os_error()) {
            (_, Some(libc::EMFILE)) => "raise the limit of open files with `ulimit -n`".into(),
            (_, Some(libc::ENFILE)) => "raise the system's limit fs.file-max".into(),
            (Self::Ring, Some(libc::EPERM | libc::EACCES)) => io_uring_forbidden(),
            (Self::Ring, Some(libc::ENOSYS)) => {
                format!("this kernel has no io_uring, or {}", process::forbidden(RING_CALLS))
            }
            (Self::Ring, Some(libc::ENOMEM)) => match limits::locked_memory() {
                Some(bytes) => {
                    format!("free memory, or raise RLIMIT_MEMLOCK, which is {}, with `ulimit -l`", Size(bytes))
                }
                None => "free memory".into(),
            },
            // It has rings from 5.1 on, and no IORING_OP_READ.
            (Self::Read, Some(libc::EINVAL)) => "run Linux 5.6 or later".into(),
            (Self::Eventfd, Some(libc::EPERM | libc::EACCES | libc::ENOSYS)) => process::forbidden("eventfd2"),
            (Self::Eventfd, Some(libc::ENOMEM)) => "free memory".into(),
            _ => return "use the engine pread".into(),
        };
        fix + instead
    }
}

const RING_CALLS: &str = "io_uring_setup, io_uring_enter and io_uring_register";

/// The sysctl refuses with the same error as a filter does.
fn io_uring_forbidden() -> String {
    const SYSCTL: &str = "/proc/sys/kernel/io_uring_disabled";
    let is_filtered = process::is_filtered(Path::new("/proc")) == Some(true);
    match std::fs::read_to_string(SYSCTL).unwrap_or_default().trim() {
        "2" => "the sysctl kernel.io_uring_disabled is 2, set it to 0".into(),
        "1" if is_filtered => format!(
            "the sysctl kernel.io_uring_disabled is 1, which leaves io_uring to the group kernel.io_uring_group, and {}",
            process::forbidden(RING_CALLS)
        ),
        "1" => "the sysctl kernel.io_uring_disabled is 1, set it to 0 or join the group kernel.io_uring_group".into(),
        _ => process::forbidden(RING_CALLS),
    }
}

#[cfg(all(test, not(forebay_loom)))]
mod tests {
    use super::*;

    fn said(step: EngineStep, errno: i32) -> String {
        let error = io::Error::from_raw_os_error(errno);
        EngineError::Refused { kind: EngineKind::Uring, step, error }.to_string()
    }

    #[test]
    fn what_to_do_is_of_the_step_that_was_refused() {
        for errno in [libc::EPERM, libc::EACCES, libc::ENOSYS] {
            let eventfd = said(EngineStep::Eventfd, errno);
            assert!(eventfd.contains("eventfd2") && !eventfd.contains("io_uring"), "{eventfd}");
        }
        assert!(said(EngineStep::Ring, libc::EPERM).contains("io_uring"));
        for step in [EngineStep::Eventfd, EngineStep::Ring] {
            assert!(said(step, libc::EMFILE).contains("ulimit -n"));
            assert_eq!(said(step, libc::EMFILE).matches("; ").count(), 1);
        }
    }
}
