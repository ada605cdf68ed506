//! Synchronous reads on a few threads: the form that every cuFile has.

use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread;
use std::time::Instant;

use super::backlog::{Backlog, Flight};
use super::context::Context;
use super::error::CuFileError;
use super::form::{Form, admit, close_and_wait};
use super::job::Job;
use super::library::CuFile;
use super::threads::start;
use super::transfer::Next;
use crate::sync::{Threads, lock};
use crate::sys::cufile::decode_at_once;

/// Threads that each read one piece at a time.
#[derive(Debug)]
pub(crate) struct Pool {
    cufile: Arc<CuFile>,
    context: Context,
    shared: Arc<Shared>,
    threads: Arc<Threads>,
}

#[derive(Debug)]
struct Shared {
    queue: Mutex<Queue>,
    work: Condvar,
}

#[derive(Debug)]
struct Queue {
    backlog: Backlog,
    closed: bool,
}

impl Pool {
    /// Starts `threads` threads, at least one, each with `context` current.
    ///
    /// # Errors
    /// Where a thread cannot be started, or the context cannot be made current on it.
    pub(crate) fn new(cufile: &Arc<CuFile>, context: &Context, threads: usize) -> Result<Self, CuFileError> {
        cufile.check_process()?;
        let backlog = Backlog::new(cufile.properties().max_direct_io);
        let shared = Arc::new(Shared { queue: Mutex::new(Queue { backlog, closed: false }), work: Condvar::new() });
        let pool = Self { cufile: Arc::clone(cufile), context: context.clone(), shared, threads: Arc::default() };
        for number in 0..threads.max(1) {
            let (shared, context, cufile) = (Arc::clone(&pool.shared), context.clone(), Arc::clone(cufile));
            start(
                &pool.threads,
                format!("forebay-gds-{number}"),
                move || Ok(context.bind()?),
                move |()| {
                    while let Some(flight) = shared.next() {
                        read(&cufile, flight);
                    }
                },
            )?;
        }
        Ok(pool)
    }
}

impl Form for Pool {
    fn take(&self, job: Job) {
        let Some(job) = admit(job, &self.cufile, &self.context) else { return };
        let mut queue = lock(&self.shared.queue);
        if queue.closed {
            drop(queue);
            drop(job);
            return;
        }
        queue.backlog.add(job);
        drop(queue);
        self.shared.work.notify_all();
    }

    fn close(&self) {
        if self.cufile.is_ours() {
            lock(&self.shared.queue).closed = true;
            self.shared.work.notify_all();
        }
    }

    fn ended_by(&self, until: Option<Instant>) -> bool {
        !self.cufile.is_ours() || self.threads.ended_by(until)
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        close_and_wait(self, &self.threads, &self.cufile);
    }
}

impl Shared {
    fn next(&self) -> Option<Flight> {
        let mut over = Vec::new();
        let mut queue = lock(&self.queue);
        loop {
            let flight = queue.backlog.next(&mut over);
            if !over.is_empty() {
                drop(queue);
                over.clear();
                if flight.is_some() {
                    return flight;
                }
                queue = lock(&self.queue);
                continue;
            }
            if flight.is_some() || queue.closed {
                return flight;
            }
            queue = self.work.wait(queue).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

/// Reads one piece to its end on this thread, which has the context current.
fn read(cufile: &CuFile, mut flight: Flight) {
    while let Some(ask) = flight.ask() {
        // SAFETY: the job, which the flight holds, keeps the handle and the registration alive; `Transfer::new` has
        // checked that the range lies in the registered memory, and a piece stays inside its transfer.
        let number =
            unsafe { (cufile.calls.read)(ask.handle, ask.base, ask.bytes, ask.file_offset, ask.buffer_offset) };
        let answer = decode_at_once(number);
        let mut job = lock(&flight.job);
        match job.answer(&mut flight.piece, answer) {
            Next::Read if job.is_alive() => {}
            Next::Later(pause) if job.is_alive() => {
                drop(job);
                thread::sleep(pause);
            }
            Next::Failed(fault, at) => return job.fail(flight.piece.index, at, fault),
            Next::Read | Next::Later(_) | Next::Done => return,
        }
    }
}
