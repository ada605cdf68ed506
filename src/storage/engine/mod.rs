//! How reads reach the kernel: through io_uring, or through a pool of threads that call `pread`.

use std::fmt;

use super::request::Job;

mod error;
#[cfg(test)]
pub(crate) mod faults;
mod pread;
mod uring;

pub use error::{EngineError, EngineStep};
pub(crate) use pread::Pread;
pub use uring::RingFeatures;
pub(crate) use uring::{Uring, UringSettings};

/// Which engine to use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum EngineChoice {
    /// io_uring where it can be had, else the thread pool, with a warning that says why.
    #[default]
    Auto,
    /// io_uring, or an error.
    Uring,
    /// The thread pool.
    Pread,
}

/// An engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum EngineKind {
    /// io_uring.
    Uring,
    /// A pool of threads that call `pread`.
    Pread,
}

impl fmt::Display for EngineKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Uring => "uring",
            Self::Pread => "pread",
        })
    }
}

/// Carries out jobs. What it took it finishes: an engine that is closed, or dropped, first awaits every answer that
/// the kernel owes it.
pub(crate) trait Engine: Send + Sync + fmt::Debug {
    /// Takes a job. After a close it is dropped, which its waiter hears.
    fn take(&self, job: Job);

    /// Among how many threads the jobs of one request are best divided.
    fn lanes(&self) -> usize;

    /// Takes no more jobs, and ends once those taken are done.
    fn close(&self);

    /// Waits for the end, at most until `until`; whether it has come.
    fn ended_by(&self, until: Option<std::time::Instant>) -> bool;
}
