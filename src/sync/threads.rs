//! Waiting for threads to end, with a limit.

use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

use super::lock;

/// Tells when every thread of a group has ended.
#[derive(Debug, Default)]
pub(crate) struct Threads {
    running: Mutex<usize>,
    ended: Condvar,
}

impl Threads {
    /// To be held by a thread from its start to its end.
    pub(crate) fn enter(self: &Arc<Self>) -> Running {
        *lock(&self.running) += 1;
        Running(Arc::clone(self))
    }

    pub(crate) fn ended_by(&self, until: Option<Instant>) -> bool {
        let mut running = lock(&self.running);
        while *running > 0 {
            let wait = match until {
                None => Duration::MAX,
                Some(until) => match until.checked_duration_since(Instant::now()) {
                    Some(left) if !left.is_zero() => left,
                    _ => return false,
                },
            };
            running = match self.ended.wait_timeout(running, wait) {
                Ok((running, _)) => running,
                Err(poisoned) => poisoned.into_inner().0,
            };
        }
        true
    }
}

#[derive(Debug)]
pub(crate) struct Running(Arc<Threads>);

impl Drop for Running {
    fn drop(&mut self) {
        *lock(&self.0.running) -= 1;
        self.0.ended.notify_all();
    }
}
