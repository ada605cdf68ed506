//! The thread that reads and copies at the same time.
//!
//! It begins reads of groups while fewer than a window of bytes are being read, orders each group's copy when it is
//! there, and lets its slot go when the copy has passed: reads and copies overlap, in as much pinned memory as the
//! budget has. It waits for reads by their wakers and looks at copies in short naps, so that no call waits for the
//! device.

use std::collections::VecDeque;
use std::future::Future;
use std::pin::Pin;
use std::sync::mpsc::{Receiver, SendError, Sender, TryRecvError, channel};
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll};
use std::thread::{self, Thread};
use std::time::{Duration, Instant};

use slab::Slab;

use super::bytes::RouteBytes;
use super::error::CarryError;
use super::job::{Job, Load, Piece, Place};
use super::pack::packed;
use crate::device::{Copier, DeviceError, DeviceSlot, Event, Memory, Ordered, Span, Ticket};
#[cfg(test)]
use crate::emulated::mutant;
use crate::memory::HoldsSlot;
use crate::storage::{Read, ReadError, ReadFault, Reader};
use crate::sync::{ThreadError, Threads, unpark_this_thread};

/// How long the conductor naps before it looks at copies again. A copy of 4 MiB takes 80 µs or more.
const NAP: Duration = Duration::from_micros(50);

/// The longest nap while only streams of the consumer's are waited for. Naps grow by an eighth, so that memory comes back at most so
/// much later than it could, and the driver is asked a hundred times a second and not twenty thousand.
const LONG_NAP: Duration = Duration::from_millis(10);

/// A handle on the thread; dropping it lets the thread finish what it has.
#[derive(Debug)]
pub(super) struct Conductor {
    messages: Sender<Message>,
    thread: Thread,
    threads: Arc<Threads>,
    failure: Failure,
}

/// How the device has failed for good, once it has.
type Failure = Arc<OnceLock<DeviceError>>;

impl Conductor {
    /// Starts the thread. `window` is the bytes that may be being read at once.
    pub(super) fn start(reader: Reader, copier: Box<dyn Copier>, window: usize) -> Result<Self, ThreadError> {
        let (messages, inbox) = channel();
        let threads = Arc::<Threads>::default();
        let failure = Failure::default();
        let broken = Arc::clone(&failure);
        let work = move || Work::new(reader, copier, window, inbox, broken).run();
        let thread = threads.start("forebay-conductor".into(), (0, 1), work)?;
        Ok(Self { messages, thread, threads, failure })
    }

    /// How the device has failed for good, where it has: memory that it had may never come back.
    pub(super) fn failure(&self) -> Option<&DeviceError> {
        self.failure.get()
    }

    /// Takes a job; one that cannot be taken is dropped, which its waiter hears.
    pub(super) fn take(&self, job: Job) {
        self.send(Message::Carry(Box::new(job)));
    }

    /// Gives device memory back once all of `uses` have passed.
    pub(super) fn release_after(&self, uses: Vec<Event>, memory: Arc<DeviceSlot>) {
        self.send(Message::Release(Released { uses, memory }));
    }

    fn send(&self, message: Message) {
        // After a fault of the thread itself, memory that somebody may still be using is lost and not lent again.
        if let Err(SendError(message)) = self.messages.send(message)
            && let Message::Release(released) = message
        {
            drop(released);
        }
        self.thread.unpark();
    }

    /// Takes no more jobs, and waits for those taken at most until `until`; whether all are over.
    pub(super) fn close(self, until: Option<Instant>) -> bool {
        let Self { messages, thread, threads, .. } = self;
        drop(messages);
        thread.unpark();
        threads.ended_by(until)
    }
}

#[derive(Debug)]
enum Message {
    Carry(Box<Job>),
    Release(Released),
}

/// Device memory that its holder has given up while a stream of his may still be using it.
#[derive(Debug)]
struct Released {
    uses: Vec<Event>,
    memory: Arc<DeviceSlot>,
}

impl Released {
    /// Whether every stream has passed.
    fn is_over(&mut self) -> Result<bool, DeviceError> {
        while let Some(event) = self.uses.last() {
            if !event.is_passed()? {
                return Ok(false);
            }
            self.uses.pop();
        }
        Ok(true)
    }
}

impl Drop for Released {
    /// Whether streams that have not passed have stopped cannot be known any more, whatever the conductor ended by: their memory
    /// is never lent again.
    fn drop(&mut self) {
        if !self.uses.is_empty() {
            self.memory.lose();
            std::mem::forget(Arc::clone(&self.memory));
        }
    }
}

struct Work {
    reader: Reader,
    copier: Box<dyn Copier>,
    window: usize,
    inbox: Receiver<Message>,
    closed: bool,
    jobs: Slab<Job>,
    /// Jobs that have groups left to begin, the oldest first.
    to_begin: VecDeque<usize>,
    reading: Vec<Reading>,
    reading_bytes: usize,
    copying: VecDeque<Copying>,
    released: Vec<Released>,
    nap: Duration,
    /// How a copy was refused last.
    refused: Option<DeviceError>,
    /// Set when the device has failed: nothing more is asked of it.
    broken: Failure,
}

struct Reading {
    read: Read,
    job: usize,
    bytes: usize,
    spans: Vec<Span>,
    place: Place,
}

struct Copying {
    ticket: Ticket,
    job: usize,
    bytes: RouteBytes,
}

impl Work {
    fn new(reader: Reader, copier: Box<dyn Copier>, window: usize, inbox: Receiver<Message>, broken: Failure) -> Self {
        Self {
            reader,
            copier,
            window,
            inbox,
            closed: false,
            jobs: Slab::new(),
            to_begin: VecDeque::new(),
            reading: Vec::new(),
            reading_bytes: 0,
            copying: VecDeque::new(),
            released: Vec::new(),
            nap: NAP,
            refused: None,
            broken,
        }
    }

    fn run(mut self) {
        let waker = unpark_this_thread();
        let mut context = Context::from_waker(&waker);
        if let Err(error) = self.copier.bind() {
            self.break_off(error);
        }
        loop {
            self.take_messages();
            self.begin_reads();
            self.poll_reads(&mut context);
            self.let_go_of_copies();
            self.let_go_of_released();
            if let Some(error) = self.broken.get().cloned() {
                self.fail_all(&error);
            }
            self.end_jobs();
            let watches = !self.copying.is_empty() || !self.released.is_empty();
            let idle = self.jobs.is_empty() && !watches;
            #[cfg(test)]
            let idle = idle || mutant::is_planted(mutant::DROPPED_EARLY);
            if self.closed && idle {
                return;
            }
            match watches {
                true => thread::park_timeout(self.next_nap()),
                false => thread::park(),
            }
        }
    }

    fn next_nap(&mut self) -> Duration {
        let nap = if self.copying.is_empty() { self.nap } else { NAP };
        self.nap = (nap + nap / 8).min(LONG_NAP);
        nap
    }

    fn take_messages(&mut self) {
        while !self.closed {
            match self.inbox.try_recv() {
                Ok(Message::Carry(job)) => {
                    let key = self.jobs.insert(*job);
                    self.to_begin.push_back(key);
                }
                Ok(Message::Release(released)) => {
                    self.released.push(released);
                    self.nap = NAP;
                }
                Err(TryRecvError::Empty) => break,
                Err(TryRecvError::Disconnected) => self.closed = true,
            }
        }
    }

    fn begin_reads(&mut self) {
        while self.reading.is_empty() || self.reading_bytes < self.window {
            // Those behind one that waits for memory would only wait behind it.
            if self.reading.last().is_some_and(|reading| reading.read.is_waiting()) {
                return;
            }
            let Some(&key) = self.to_begin.front() else { return };
            let Load { group, spans } = match self.jobs[key].begin() {
                Some(Piece::Load(load)) => load,
                Some(Piece::Held(slot)) => {
                    let place = self.jobs[key].first().clone();
                    let spans = vec![Span { from: 0, to: 0, len: slot.len() }];
                    self.copy(key, Box::new(slot), spans, RouteBytes::default(), place);
                    continue;
                }
                None => {
                    self.to_begin.pop_front();
                    continue;
                }
            };
            let place = Place::of_group(&group);
            self.reading_bytes += group.len;
            let read = self.reader.read_planned(group.plan);
            self.reading.push(Reading { read, job: key, bytes: group.len, spans, place });
        }
    }

    fn poll_reads(&mut self, context: &mut Context<'_>) {
        let mut i = 0;
        while let Some(reading) = self.reading.get_mut(i) {
            let Poll::Ready(outcome) = Pin::new(&mut reading.read).poll(context) else {
                i += 1;
                continue;
            };
            // In the order they were begun, which is the order that those that wait are served in.
            let Reading { job, bytes, spans, place, .. } = self.reading.remove(i);
            self.reading_bytes -= bytes;
            match outcome {
                Ok(pieces) => match pieces.into_request() {
                    Some(request) => {
                        let carried = RouteBytes::of_reads(&request.carried());
                        self.copy(job, Box::new(request), spans, carried, place);
                    }
                    None => self.jobs[job].landed(RouteBytes::default()),
                },
                Err(error) => {
                    let error = self.cause(error, place);
                    self.jobs[job].fail(error);
                }
            }
            self.begin_reads();
        }
    }

    fn copy(
        &mut self,
        job: usize,
        mut source: Box<dyn HoldsSlot>,
        mut spans: Vec<Span>,
        mut bytes: RouteBytes,
        place: Place,
    ) {
        if let Some(error) = self.broken.get() {
            return self.jobs[job].fail(place.error(error.clone()));
        }
        if !self.copier.copies_at_once()
            && let Some((packed, joined)) = packed(self.reader.arena(), source.slot(), &spans)
        {
            (source, spans) = (Box::new(packed), joined);
        }
        let memory = self.jobs[job].memory();
        match self.copier.to_device(source, memory, &spans) {
            Ok(Ordered { ticket, is_pinned }) => {
                if !is_pinned {
                    bytes.unpinned = spans.iter().map(|span| span.len as u64).sum();
                }
                self.copying.push_back(Copying { ticket, job, bytes });
            }
            Err(error) => {
                self.refused = Some(error.clone());
                self.jobs[job].fail(place.error(error));
            }
        }
    }

    /// Why a read has failed: where it waited for memory that a copy took with it, what became of the copy.
    fn cause(&self, error: ReadError, place: Place) -> CarryError {
        match (&error.fault, &self.refused) {
            (ReadFault::EngineEnded, Some(refused)) if self.reader.arena().has_lost() => place.error(refused.clone()),
            _ => error.into(),
        }
    }

    fn let_go_of_copies(&mut self) {
        if self.copying.is_empty() || self.broken.get().is_some() {
            return;
        }
        match self.copier.first_pending() {
            Ok(first) => {
                while let Some(done) = self.copying.front().filter(|copying| copying.ticket < first) {
                    self.jobs[done.job].landed(done.bytes);
                    self.copying.pop_front();
                }
            }
            Err(error) => self.break_off(error),
        }
    }

    fn let_go_of_released(&mut self) {
        if self.broken.get().is_some() {
            self.released.clear();
        }
        let mut failure = None;
        self.released.retain_mut(|released| match released.is_over() {
            Ok(is_over) => !is_over,
            // A stream that was captured into a graph since: it cannot be followed, and the device is well.
            Err(error) if error.is_of_capture() => {
                tracing::warn!("device memory in use is kept for good: {error}");
                false
            }
            Err(error) => {
                failure.get_or_insert(error);
                true
            }
        });
        if let Some(error) = failure {
            self.break_off(error);
            self.released.clear();
        }
    }

    /// The device has failed. Whoever waits for memory that is in flight would wait for ever, and hears of it.
    fn break_off(&mut self, error: DeviceError) {
        if self.broken.set(error).is_ok() {
            self.copier.give_up();
        }
    }

    fn fail_all(&mut self, error: &DeviceError) {
        // The copier keeps what is in flight.
        self.copying.clear();
        self.reading.clear();
        self.reading_bytes = 0;
        self.to_begin.clear();
        for (_, job) in &mut self.jobs {
            job.fail_whole(error.clone());
        }
    }

    fn end_jobs(&mut self) {
        let jobs = &self.jobs;
        self.to_begin.retain(|&key| jobs[key].has_more());
        let over: Vec<usize> = jobs.iter().filter(|(_, job)| job.is_over()).map(|(key, _)| key).collect();
        for key in over {
            self.jobs.remove(key).end();
        }
    }
}
