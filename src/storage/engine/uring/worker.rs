//! The thread of one ring: takes jobs, keeps the queue full, and answers for what the kernel wrote.
//!
//! At most `depth` reads are under way, fewer than the completion queue holds, so that it cannot overflow. A read keeps
//! its place among them, and its job, until the kernel has answered: nothing else frees what the kernel may write to.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use io_uring::{IoUring, opcode, squeue, types};
use nix::libc;
use slab::Slab;
use std::os::fd::{AsFd, AsRawFd};

use super::super::super::layout::Via;
use super::super::super::progress::{Next, Progress};
use super::super::super::request::Job;
use super::super::EngineError;
use super::buffers::Buffers;
use super::files::FixedFiles;
use super::queue::{poll_once, push, wait_until};
use super::setup::{self, RingFeatures};
use super::{Inbox, Letter, UringSettings};
use crate::memory::Arena;

/// What the wake-up is told apart by: no read has this number.
const BELL: u64 = u64::MAX;

/// The kernel reads no more at once, and a multiple of every alignment is needed to go on from there.
const MOST_AT_ONCE: u64 = 1 << 30;

/// Reads given to the kernel per system call. A device begins the first ones while we prepare the next: measured on a
/// virtual disk at 4 KiB, all at once cost a tenth of its rate, and one at a time a quarter more CPU for the same rate.
const AT_ONCE: usize = 4;

/// Times in a row that the kernel may refuse to take submissions, at a millisecond each.
const MOST_REFUSALS: u32 = 5000;

pub(super) struct Worker {
    // The rings go before the memory that is registered with them.
    ring: IoUring,
    polled: Option<IoUring>,
    buffers: Option<Buffers>,
    files: FixedFiles,
    inbox: Arc<Inbox>,
    letters: Vec<Letter>,
    jobs: Slab<Carried>,
    /// Jobs with parts to begin.
    ready: VecDeque<usize>,
    flights: Slab<Flight>,
    /// Reads to be given to the kernel now.
    again: VecDeque<usize>,
    /// Reads to be given to the kernel later.
    later: Vec<(Instant, usize)>,
    answers: Vec<(u64, i32)>,
    depth: usize,
    /// Reads that the kernel has not answered, without the bell, in either ring.
    in_kernel: usize,
    in_polled: usize,
    /// Where the kernel writes how often the bell was rung.
    heard: Box<u64>,
    listening: bool,
    ending: bool,
    #[cfg(test)]
    faults: Option<Arc<super::super::faults::Faults>>,
    #[cfg(test)]
    number: u32,
    #[cfg(test)]
    held: Vec<(Instant, u64, i32)>,
}

struct Carried {
    job: Job,
    flying: usize,
    /// Parts begun since the job was last put behind the others.
    turn: usize,
}

struct Flight {
    job: usize,
    part: usize,
    progress: Progress,
    polled: bool,
}

impl Worker {
    /// Builds the ring of this number and registers what can be registered. The first warns for all.
    pub(super) fn new(
        inbox: Arc<Inbox>,
        settings: &UringSettings,
        arena: Arena,
        number: u32,
    ) -> Result<(Self, RingFeatures), EngineError> {
        let warns = number == 0;
        let (ring, mut features) = setup::ring(settings)?;
        let (buffers, refused) = match setup::registered(&ring, &arena, warns) {
            Ok(buffers) => (Some(buffers), None),
            Err(refused) => (None, refused),
        };
        let files = FixedFiles::register(&ring.submitter());
        let polled = if settings.iopoll { setup::polled(settings.depth, buffers.as_ref(), warns) } else { None };
        features.fixed_buffers = buffers.is_some();
        features.fixed_buffers_error = refused;
        features.fixed_files = files.has_places();
        features.iopoll = polled.is_some();
        let worker = Self {
            ring,
            polled,
            buffers,
            files,
            inbox,
            letters: Vec::new(),
            jobs: Slab::new(),
            ready: VecDeque::new(),
            flights: Slab::with_capacity(settings.depth as usize),
            again: VecDeque::new(),
            later: Vec::new(),
            answers: Vec::new(),
            depth: settings.depth as usize,
            in_kernel: 0,
            in_polled: 0,
            heard: Box::new(0),
            listening: false,
            ending: false,
            #[cfg(test)]
            faults: settings.faults.clone(),
            #[cfg(test)]
            number,
            #[cfg(test)]
            held: Vec::new(),
        };
        Ok((worker, features))
    }

    pub(super) fn run(mut self) {
        loop {
            self.open_letters();
            self.begin_parts();
            if self.ending && self.jobs.is_empty() && self.inbox.mailbox.close_if_empty() {
                break;
            }
            self.listen();
            let step = self.submit_and_wait();
            let heard = self.reap();
            if let Err(error) = step.and(heard) {
                tracing::error!("a ring broke, and its reads fail: {error}");
                return;
            }
        }
        self.stop_listening();
    }

    fn open_letters(&mut self) {
        let mut letters = std::mem::take(&mut self.letters);
        self.inbox.mailbox.empty_into(&mut letters);
        for letter in letters.drain(..) {
            match letter {
                Letter::Job(job) => {
                    let key = self.jobs.insert(Carried { job, flying: 0, turn: 0 });
                    self.ready.push_back(key);
                }
                Letter::Closed(pair) => self.files.forget(pair, &self.ring.submitter()),
                Letter::End => self.ending = true,
            }
        }
        self.letters = letters;
    }

    /// Begins parts while there is room: those of the first job, until it has had a queue's worth, then the next's.
    fn begin_parts(&mut self) {
        let now = Instant::now;
        if !self.later.is_empty() {
            let (due, later) = self.later.drain(..).partition::<Vec<_>, _>(|&(when, _)| when <= now());
            self.later = later;
            self.again.extend(due.into_iter().map(|(_, flight)| flight));
        }
        while self.flights.len() < self.depth {
            let Some(&key) = self.ready.front() else { break };
            let carried = &mut self.jobs[key];
            match carried.job.begin() {
                Some(part) => {
                    carried.flying += 1;
                    carried.turn += 1;
                    let progress = carried.job.progress(part);
                    let flight = self.flights.insert(Flight { job: key, part, progress, polled: false });
                    self.again.push_back(flight);
                }
                None => {
                    if carried.flying == 0 {
                        self.jobs.remove(key);
                    }
                    self.ready.pop_front();
                    continue;
                }
            }
            if carried.job.is_begun() {
                self.ready.pop_front();
            } else if carried.turn == self.depth {
                carried.turn = 0;
                self.ready.rotate_left(1);
            }
        }
        let mut pushed = 0;
        while let Some(flight) = self.again.pop_front() {
            self.push(flight);
            pushed += 1;
            if pushed % AT_ONCE == 0 {
                // Whatever the kernel says against it, it says again when we wait.
                let _ = self.ring.submit();
            }
        }
    }

    /// Puts a read into the submission queue.
    fn push(&mut self, key: usize) {
        let Some((entry, polled)) = self.entry(key) else {
            // Direct, but the file could not be opened for it this time.
            return self.answered(key, -libc::EINVAL);
        };
        self.flights[key].polled = polled;
        let ring = match &mut self.polled {
            Some(ring) if polled => {
                self.in_polled += 1;
                ring
            }
            _ => {
                self.in_kernel += 1;
                &mut self.ring
            }
        };
        push(ring, &entry.user_data(key as u64));
    }

    fn entry(&mut self, key: usize) -> Option<(squeue::Entry, bool)> {
        let Flight { job, part, ref progress, .. } = self.flights[key];
        let job = &self.jobs[job].job;
        let (range, landing) = job.read(part, progress);
        let (pair, file, via) = (job.pair(part), job.file(part), progress.via);
        let len = (range.end - range.start).min(MOST_AT_ONCE) as usize;
        // A read that ends inside the last block completes while it is being submitted, as a buffered one does.
        let waits = via == Via::Buffered || progress.may_wait || range.end > file.len();
        let polled = self.polled.is_some() && !waits && !file.inner.unpolled.load(std::sync::atomic::Ordering::Relaxed);
        let fd = match via {
            Via::Buffered => pair.buffered(),
            Via::Direct => pair.direct().ok()?,
        };
        let fixed = if polled { None } else { self.files.fixed(pair, via, &self.ring.submitter(), &self.inbox) };
        let buffer = self.buffers.as_mut().and_then(|buffers| match &self.polled {
            Some(polled) => buffers.find(landing, len, &[&self.ring.submitter(), &polled.submitter()]),
            None => buffers.find(landing, len, &[&self.ring.submitter()]),
        });
        let entry = if let Some(buffer) = buffer {
            match fixed {
                Some(file) => {
                    opcode::ReadFixed::new(file, landing.as_ptr(), len as u32, buffer).offset(range.start).build()
                }
                None => opcode::ReadFixed::new(types::Fd(fd.as_raw_fd()), landing.as_ptr(), len as u32, buffer)
                    .offset(range.start)
                    .build(),
            }
        } else {
            match fixed {
                Some(file) => opcode::Read::new(file, landing.as_ptr(), len as u32).offset(range.start).build(),
                None => opcode::Read::new(types::Fd(fd.as_raw_fd()), landing.as_ptr(), len as u32)
                    .offset(range.start)
                    .build(),
            }
        };
        Some((if waits { entry.flags(squeue::Flags::ASYNC) } else { entry }, polled))
    }

    /// Has the kernel tell us when the bell is rung.
    fn listen(&mut self) {
        if self.listening {
            return;
        }
        let heard: *mut u64 = &raw mut *self.heard;
        let entry = opcode::Read::new(types::Fd(self.inbox.bell.as_fd().as_raw_fd()), heard.cast(), 8).build();
        push(&mut self.ring, &entry.user_data(BELL));
        self.listening = true;
    }

    /// Gives the kernel what is in the queues, and sleeps until it has answered something or the bell is rung.
    fn submit_and_wait(&mut self) -> io::Result<()> {
        let mut refusals = 0;
        loop {
            match self.enter() {
                Ok(()) => return Ok(()),
                Err(error) => match error.raw_os_error() {
                    Some(libc::EINTR) => {}
                    // Out of memory for requests, or answers to be taken first: neither takes what was pushed away.
                    Some(libc::EAGAIN | libc::EBUSY | libc::ENOMEM) if refusals < MOST_REFUSALS => {
                        refusals += 1;
                        if self.in_kernel + self.in_polled > 0 && !self.ring.completion().is_empty() {
                            return Ok(());
                        }
                        std::thread::sleep(Duration::from_millis(1));
                    }
                    _ => return Err(error),
                },
            }
        }
    }

    fn enter(&mut self) -> io::Result<()> {
        #[cfg(test)]
        if let Some(errno) = self.faults.as_ref().and_then(|faults| faults.submission(self.number)) {
            return Err(io::Error::from_raw_os_error(errno));
        }
        if let Some(polled) = self.polled.as_ref().filter(|_| self.in_polled > 0) {
            polled.submit_and_wait(1)?;
            return poll_once(&mut self.ring);
        }
        // With the queue full nothing new can begin: then a letter need not wake us.
        let full = self.flights.len() >= self.depth;
        if !full && !self.inbox.mailbox.may_sleep() {
            return poll_once(&mut self.ring);
        }
        match self.next_due() {
            None => self.ring.submit_and_wait(1).map(drop),
            Some(due) => wait_until(&self.ring, due),
        }
    }

    #[cfg(not(test))]
    fn next_due(&self) -> Option<Instant> {
        self.later.iter().map(|&(when, _)| when).min()
    }

    #[cfg(test)]
    fn next_due(&self) -> Option<Instant> {
        self.later.iter().map(|&(when, _)| when).chain(self.held.iter().map(|&(when, ..)| when)).min()
    }

    /// Takes all answers that there are. An error where the bell cannot be heard: to listen again would be refused again, and
    /// again.
    fn reap(&mut self) -> io::Result<()> {
        let mut heard = 0;
        let mut answers = std::mem::take(&mut self.answers);
        for answer in self.ring.completion() {
            if answer.user_data() == BELL {
                self.listening = false;
                heard = answer.result();
                continue;
            }
            self.in_kernel -= 1;
            answers.push((answer.user_data(), answer.result()));
        }
        if let Some(polled) = &mut self.polled {
            for answer in polled.completion() {
                self.in_polled -= 1;
                answers.push((answer.user_data(), answer.result()));
            }
        }
        #[cfg(test)]
        self.pass_through_faults(&mut answers);
        for (key, answer) in answers.drain(..) {
            self.answered(key as usize, answer);
        }
        self.answers = answers;
        #[cfg(test)]
        let heard = self.faults.as_ref().and_then(|faults| faults.bell()).filter(|_| heard > 0).unwrap_or(heard);
        match heard {
            0.. => Ok(()),
            _ if matches!(-heard, libc::EINTR | libc::EAGAIN | libc::ECANCELED) => Ok(()),
            _ => Err(io::Error::from_raw_os_error(-heard)),
        }
    }

    fn answered(&mut self, key: usize, answer: i32) {
        let flight = &mut self.flights[key];
        let carried = &mut self.jobs[flight.job];
        // EAGAIN says only that there was no room now: that read is tried again, and not polled for.
        if flight.polled && matches!(-answer, libc::EOPNOTSUPP | libc::EINVAL) {
            let file = carried.job.file(flight.part);
            if !file.inner.unpolled.swap(true, std::sync::atomic::Ordering::Relaxed) {
                tracing::warn!(
                    "{}: read without polling, since its device or file system has no polled queues ({}); add some \
                     (nvme.poll_queues=N) or leave iopoll off",
                    file.path().display(),
                    io::Error::from_raw_os_error(-answer)
                );
            }
            self.again.push_back(key);
            return;
        }
        if flight.polled {
            carried.job.note_polled();
        }
        match carried.job.answer(flight.part, &mut flight.progress, answer) {
            Next::Read => return self.again.push_back(key),
            Next::Later(pause) => return self.later.push((Instant::now() + pause, key)),
            Next::Done => {}
            Next::Failed(fault) => carried.job.fail(flight.part, &flight.progress, fault),
        }
        carried.flying -= 1;
        if carried.flying == 0 && carried.job.is_begun() {
            self.jobs.remove(flight.job);
        }
        self.flights.remove(key);
    }

    /// Rings our own bell, so that nothing is left that the kernel could write to.
    fn stop_listening(&mut self) {
        while self.listening {
            self.inbox.ring();
            if let Err(error) = self.submit_and_wait() {
                tracing::error!("a ring broke while it was closed: {error}");
                return;
            }
            let _ = self.reap();
        }
    }

    #[cfg(test)]
    fn pass_through_faults(&mut self, answers: &mut Vec<(u64, i32)>) {
        let Some(faults) = self.faults.clone() else { return };
        for (key, answer) in answers.drain(..) {
            let Flight { job, part, ref progress, .. } = self.flights[key as usize];
            let (_, landing) = self.jobs[job].job.read(part, progress);
            let (answer, delay) = faults.answer(answer, landing);
            self.held.push((Instant::now() + delay, key, answer));
        }
        let now = Instant::now();
        let (due, held) = self.held.drain(..).partition::<Vec<_>, _>(|&(when, ..)| when <= now);
        self.held = held;
        answers.extend(due.into_iter().map(|(_, key, answer)| (key, answer)));
        faults.shuffle(answers);
    }
}

impl Drop for Worker {
    /// Only a ring that broke still owes answers here. The kernel may write to what it was given until the ring is
    /// gone for good, which nobody tells us: that memory is never lent again.
    fn drop(&mut self) {
        drop(self.inbox.mailbox.close());
        if self.in_kernel + self.in_polled > 0 {
            for (_, carried) in self.jobs.iter().filter(|(_, carried)| carried.flying > 0) {
                carried.job.leak_memory();
            }
        }
        if self.listening {
            std::mem::forget(std::mem::take(&mut self.heard));
        }
    }
}
