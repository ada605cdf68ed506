//! How a command ends when it does not end well.

use std::io;

pub type Outcome = Result<(), Failure>;

#[derive(Debug)]
pub enum Failure {
    /// A data or machine error, in the words that follow `error: `.
    Error(String),
    /// A command line that makes no sense, in the words that follow `error: `.
    Usage(String),
    /// A signal has ended it, and what was done until then is told.
    Interrupted,
    /// Whoever read our output has gone, as `| head` does: nothing left to do, and no mistake.
    StdoutClosed,
}

impl Failure {
    /// An error of the library, which says where, what and what to do.
    pub fn of(error: impl std::error::Error) -> Self {
        Self::Error(error.to_string())
    }

    /// What became of a write to stdout.
    pub fn of_stdout(error: &io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::BrokenPipe => Self::StdoutClosed,
            _ => {
                let fix = fix_of_write(error, "check where the output goes");
                Self::Error(format!("stdout: cannot write: {error}; {fix}"))
            }
        }
    }
}

/// What to do about a write that failed, or `otherwise`.
pub fn fix_of_write(error: &io::Error, otherwise: &'static str) -> &'static str {
    match error.kind() {
        io::ErrorKind::FileTooLarge => "raise the limit of file sizes (`ulimit -f`)",
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => "free space there, or write to another disk",
        _ => otherwise,
    }
}
