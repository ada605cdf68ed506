//! The engine for machines that forbid io_uring: a bounded pool of threads, each of which reads one part at a time.

use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::ptr::NonNull;
use std::sync::{Arc, Condvar, Mutex};
use std::thread;
use std::time::Instant;

use nix::libc;

use super::super::layout::Via;
use super::super::progress::Next;
use super::super::request::Job;
use super::{Engine, EngineError, EngineKind};
use crate::memory::Owner;
use crate::sync::{Threads, lock};

#[derive(Debug)]
pub(crate) struct Pread {
    shared: Arc<Shared>,
    threads: Arc<Threads>,
    owner: Owner,
}

#[derive(Debug)]
struct Shared {
    queue: Mutex<Queue>,
    work: Condvar,
    #[cfg(test)]
    faults: Option<Arc<super::faults::Faults>>,
}

#[derive(Debug, Default)]
struct Queue {
    /// Jobs with parts to begin.
    jobs: VecDeque<Arc<Mutex<Job>>>,
    closed: bool,
}

impl Pread {
    /// Starts `threads` threads.
    pub(crate) fn new(
        threads: usize,
        #[cfg(test)] faults: Option<Arc<super::faults::Faults>>,
    ) -> Result<Self, EngineError> {
        let engine = Self {
            shared: Arc::new(Shared {
                queue: Mutex::default(),
                work: Condvar::new(),
                #[cfg(test)]
                faults,
            }),
            threads: Arc::default(),
            owner: Owner::this(),
        };
        for number in 0..threads {
            let shared = Arc::clone(&engine.shared);
            let name = format!("forebay-pread-{number}");
            // A failure drops what there is of the engine, and that ends the threads already started.
            let started = engine.threads.start(name, (number, threads), move || work(&shared));
            started.map_err(|error| EngineError::Threads { kind: EngineKind::Pread, error })?;
        }
        Ok(engine)
    }
}

impl Engine for Pread {
    fn take(&self, job: Job) {
        let mut queue = lock(&self.shared.queue);
        if queue.closed {
            drop(queue);
            drop(job);
            return;
        }
        let alone = job.parts() == 1;
        queue.jobs.push_back(Arc::new(Mutex::new(job)));
        drop(queue);
        if alone {
            self.shared.work.notify_one();
        } else {
            self.shared.work.notify_all();
        }
    }

    fn lanes(&self) -> usize {
        1
    }

    fn close(&self) {
        lock(&self.shared.queue).closed = true;
        self.shared.work.notify_all();
    }

    fn ended_by(&self, until: Option<Instant>) -> bool {
        self.threads.ended_by(until)
    }
}

impl Drop for Pread {
    fn drop(&mut self) {
        // A forked child has neither the threads nor, perhaps, the locks; the bell is the parent's.
        if self.owner.is_here() {
            self.close();
        }
    }
}

fn work(shared: &Shared) {
    while let Some((job, part)) = next_part(shared) {
        read_part(&job, part, shared);
    }
}

/// The next part of the front job; each time another job, so that a long one does not hold up the short ones.
fn next_part(shared: &Shared) -> Option<(Arc<Mutex<Job>>, usize)> {
    let mut queue = lock(&shared.queue);
    loop {
        while let Some(job) = queue.jobs.pop_front() {
            let mut state = lock(&job);
            let begun = state.begin();
            let more = !state.is_begun();
            drop(state);
            let Some(part) = begun else {
                // This may be its last handle, and who hears of its end may come back here: not under the lock.
                drop(queue);
                drop(job);
                queue = lock(&shared.queue);
                continue;
            };
            if more {
                queue.jobs.push_back(Arc::clone(&job));
            }
            return Some((job, part));
        }
        if queue.closed {
            return None;
        }
        queue = shared.work.wait(queue).unwrap_or_else(std::sync::PoisonError::into_inner);
    }
}

fn read_part(job: &Mutex<Job>, part: usize, shared: &Shared) {
    let (mut progress, pair) = {
        let job = lock(job);
        (job.progress(part), Arc::clone(job.pair(part)))
    };
    loop {
        let (range, landing) = lock(job).read(part, &progress);
        let fd = match progress.via {
            Via::Buffered => Ok(pair.buffered()),
            Via::Direct => pair.direct(),
        };
        let answer = fd.map_or(-libc::EINVAL, |fd| pread(fd, &range, landing));
        let answer = shared.after(answer, landing);
        let mut job = lock(job);
        match job.answer(part, &mut progress, answer) {
            Next::Read => {}
            Next::Later(pause) => {
                drop(job);
                thread::sleep(pause);
            }
            Next::Done => return,
            Next::Failed(fault) => return job.fail(part, &progress, fault),
        }
    }
}

impl Shared {
    #[cfg(not(test))]
    fn after(&self, answer: i32, _landing: NonNull<u8>) -> i32 {
        answer
    }

    #[cfg(test)]
    fn after(&self, answer: i32, landing: NonNull<u8>) -> i32 {
        self.faults.as_ref().map_or(answer, |faults| {
            let (answer, delay) = faults.answer(answer, landing);
            thread::sleep(delay);
            answer
        })
    }
}

/// Bytes read, or a negative error number, as a ring answers.
fn pread(fd: BorrowedFd<'_>, range: &std::ops::Range<u64>, landing: NonNull<u8>) -> i32 {
    let len = (range.end - range.start).min(i32::MAX as u64 & !4095) as usize;
    let Ok(offset) = libc::off_t::try_from(range.start) else { return -libc::EOVERFLOW };
    // SAFETY: `landing` is the part's place in the slot of a request that the caller's job keeps alive, long enough
    // for the range, and no reference to these bytes exists before the job is gone (see `storage::request`).
    let answer = unsafe { libc::pread(fd.as_raw_fd(), landing.as_ptr().cast(), len, offset) };
    match i32::try_from(answer) {
        Ok(bytes) if bytes >= 0 => bytes,
        _ => -io::Error::last_os_error().raw_os_error().unwrap_or(libc::EIO),
    }
}
