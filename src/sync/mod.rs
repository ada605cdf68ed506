//! Threads and locking without a panic, and the locks of the code that loom checks.

mod threads;
mod unpark;
mod wait;

use std::sync::{Mutex, MutexGuard, PoisonError};

pub use threads::ThreadError;
pub(crate) use threads::Threads;
pub(crate) use unpark::unpark_this_thread;
pub(crate) use wait::wait_for;

/// Locks, also after a panic elsewhere: every state behind these locks is whole between two statements.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// std's, or loom's under `--cfg forebay_loom`.
#[cfg(not(forebay_loom))]
pub(crate) mod checked {
    pub(crate) use super::lock;
    pub(crate) use std::sync::{Arc, Mutex};
}

/// std's, or loom's under `--cfg forebay_loom`.
#[cfg(forebay_loom)]
pub(crate) mod checked {
    use loom::sync::MutexGuard;
    pub(crate) use loom::sync::{Arc, Mutex};

    pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
        mutex.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}
