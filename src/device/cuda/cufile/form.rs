//! The ways in which cuFile is asked, one trait over all.

use std::fmt;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::context::Context;
use super::error::CuFileFault;
use super::job::Job;
use super::library::CuFile;
use crate::sync::{Threads, lock};

/// Carries out jobs. What it took it finishes: a form that is closed, or dropped, first awaits every answer that cuFile
/// owes it.
pub(crate) trait Form: Send + Sync + fmt::Debug {
    /// Takes a job. After a close its waiter hears that.
    fn take(&self, job: Job);

    /// Takes no more jobs, and ends once those taken are done.
    fn close(&self);

    /// Waits for the end, at most until `until`; whether it has come.
    #[cfg_attr(not(test), allow(dead_code, reason = "forms are dropped, which waits; tests close them first"))]
    fn ended_by(&self, until: Option<Instant>) -> bool;
}

/// Ends a job that this form of reading must not take; gives back those that it may.
pub(super) fn admit(mut job: Job, cufile: &CuFile, context: &Context) -> Option<Job> {
    if !cufile.is_ours() {
        job.fail(0, 0, CuFileFault::Forked);
        return None;
    }
    let foreign = job.transfers().iter().position(|transfer| transfer.memory.context() != context);
    if let Some(index) = foreign {
        job.fail(index, 0, CuFileFault::OtherContext);
        return None;
    }
    Some(job)
}

/// Closes a form that is dropped, and waits a moment for its end. Says whether it has come.
pub(super) fn close_and_wait(form: &dyn Form, threads: &Threads, cufile: &CuFile) -> bool {
    const PATIENCE: Duration = Duration::from_secs(1);
    // The threads stayed with the parent, and so may locks that they held.
    if !cufile.is_ours() {
        return true;
    }
    form.close();
    let ended = threads.ended_by(Some(Instant::now() + PATIENCE));
    if !ended {
        tracing::warn!(
            "cuFile's reads are still under way after {PATIENCE:?}; they go on by themselves, and their memory stays \
             until cuFile has answered"
        );
    }
    ended
}

/// How jobs reach a form that has one thread.
#[derive(Debug, Default)]
pub(super) struct Inbox {
    state: Mutex<State>,
    /// Rung for every change.
    bell: Condvar,
}

#[derive(Debug, Default)]
struct State {
    jobs: Vec<Job>,
    closed: bool,
    /// Nobody waits for the end any longer: what can be cancelled is to be.
    hurry: bool,
}

/// What was in the box.
#[derive(Debug)]
pub(super) struct Letters {
    pub(super) jobs: Vec<Job>,
    pub(super) closed: bool,
    pub(super) hurry: bool,
}

impl Inbox {
    /// Leaves a job. Where the box is closed, the job is over.
    pub(super) fn post(&self, job: Job) {
        let mut state = lock(&self.state);
        if state.closed {
            // Whoever hears of its end may come back here: not under the lock.
            drop(state);
            drop(job);
            return;
        }
        state.jobs.push(job);
        drop(state);
        self.bell.notify_all();
    }

    pub(super) fn close(&self) {
        lock(&self.state).closed = true;
        self.bell.notify_all();
    }

    pub(super) fn hurry(&self) {
        lock(&self.state).hurry = true;
        self.bell.notify_all();
    }

    /// Takes what is in the box. Waits for something to be in it at most `wait`; for ever only while it is open.
    pub(super) fn empty(&self, wait: Option<Duration>) -> Letters {
        let mut state = lock(&self.state);
        match wait {
            _ if !state.jobs.is_empty() => {}
            Some(Duration::ZERO) => {}
            Some(wait) => state = self.bell.wait_timeout(state, wait).unwrap_or_else(PoisonError::into_inner).0,
            None if state.closed => {}
            None => state = self.bell.wait(state).unwrap_or_else(PoisonError::into_inner),
        }
        Letters { jobs: std::mem::take(&mut state.jobs), closed: state.closed, hurry: state.hurry }
    }
}

/// Closes its box when its thread ends, by a panic too, so that no job is left in one that nobody empties.
#[derive(Debug)]
pub(super) struct Emptied(pub(super) Arc<Inbox>);

impl Drop for Emptied {
    fn drop(&mut self) {
        self.0.close();
        drop(self.0.empty(Some(Duration::ZERO)));
    }
}

/// How long to sleep when cuFile has nothing new to say: the shorter, the sooner after something was.
#[derive(Debug)]
pub(super) struct Naps(Duration);

impl Naps {
    const SHORTEST: Duration = Duration::from_micros(20);
    const LONGEST: Duration = Duration::from_millis(1);

    pub(super) fn new() -> Self {
        Self(Self::SHORTEST)
    }

    pub(super) fn reset(&mut self) {
        self.0 = Self::SHORTEST;
    }

    pub(super) fn next(&mut self) -> Duration {
        let nap = self.0;
        self.0 = (nap * 2).min(Self::LONGEST);
        nap
    }
}
