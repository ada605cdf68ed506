use std::io;

use nix::libc;

use crate::sys::{limits, process};
use crate::units::Size;

/// Why there is no memory.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MemoryError {
    /// The request is larger than the whole budget, so waiting would be for ever.
    #[error(
        "{} at once cannot fit the memory budget of {}; raise the budget or ask for less at once",
        Size(*asked), Size(*budget)
    )]
    OverBudget {
        /// Bytes asked for.
        asked: u64,
        /// Bytes that the arena has in all.
        budget: u64,
    },
    /// The same of the memory of a device.
    #[error(
        "{} at once cannot fit the device budget of {}; raise the device budget or ask for less at once",
        Size(*asked), Size(*budget)
    )]
    OverDeviceBudget {
        /// Bytes asked for, with what alignment adds.
        asked: u64,
        /// Bytes of device memory in all.
        budget: u64,
    },
    /// The budget allows it, but the machine, or this process's control group, has too little left.
    #[error(
        "{} of memory more are needed beside {} in use, and {} are left; free memory or ask for less at once",
        Size(*more), Size(*held), Size(*left)
    )]
    NotLeft {
        /// Bytes that would have to be added.
        more: u64,
        /// Bytes that the arena has of its budget.
        held: u64,
        /// Bytes that can still be allocated.
        left: u64,
    },
    /// Memory that is needed as a whole is more than what the machine, or this process's control group, has left.
    #[error(
        "a memory budget of {} does not fit the {} that are left; lower the budget or free memory",
        Size(*budget), Size(*left)
    )]
    NotThere {
        /// Bytes asked for as the budget.
        budget: u64,
        /// Bytes that can still be allocated.
        left: u64,
    },
    /// A budget below one page.
    #[error("a memory budget of {} is less than a page; give at least {}", Size(*budget), Size(*least))]
    TooSmall {
        /// Bytes asked for as the budget.
        budget: u64,
        /// The smallest budget, in bytes.
        least: u64,
    },
    /// This process was forked from the one that made the arena, whose pages it does not have.
    #[error("the memory is of the process that this one was forked from; build a reader in this process")]
    Forked,
    /// The kernel refused to map or to fill the arena.
    #[error("the kernel refused {} of memory ({source}); {}", Size(*bytes), refused_fix(.source))]
    Refused {
        /// Bytes asked for.
        bytes: u64,
        /// The kernel's error.
        source: io::Error,
    },
}

fn refused_fix(error: &io::Error) -> String {
    match (error.raw_os_error(), limits::address_space()) {
        (Some(libc::EPERM | libc::EACCES | libc::ENOSYS), _) => process::forbidden("mmap and madvise"),
        (Some(libc::ENOMEM), Some(limit)) => {
            format!("RLIMIT_AS is {}: raise it with `ulimit -v`, lower the budget or free memory", Size(limit))
        }
        _ => "lower the budget or free memory".into(),
    }
}
