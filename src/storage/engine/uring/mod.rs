//! The engine on io_uring: one ring per thread, which alone submits to it and alone answers from it.

mod buffers;
mod files;
mod mailbox;
mod queue;
mod setup;
mod worker;

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

use nix::sys::eventfd::{EfdFlags, EventFd};

use super::super::request::Job;
use super::{Engine, EngineError, EngineKind, EngineStep};
use crate::memory::{Arena, Owner};
use crate::sync::{ThreadError, Threads};
use mailbox::Mailbox;
pub use setup::RingFeatures;
use worker::Worker;

#[derive(Clone, Debug)]
pub(crate) struct UringSettings {
    /// Reads under way at once, per ring.
    pub(crate) depth: u32,
    pub(crate) rings: u32,
    /// Poll for completions of direct reads, where the device has polled queues.
    pub(crate) iopoll: bool,
    /// A kernel thread submits, and sleeps after this long without work.
    pub(crate) sqpoll: Option<Duration>,
    #[cfg(test)]
    pub(crate) faults: Option<Arc<super::faults::Faults>>,
}

#[derive(Debug)]
pub(crate) struct Uring {
    rings: Vec<Arc<Inbox>>,
    next: AtomicUsize,
    features: RingFeatures,
    threads: Arc<Threads>,
    owner: Owner,
}

/// The way to one ring's thread.
#[derive(Debug)]
struct Inbox {
    mailbox: Mailbox<Letter>,
    bell: EventFd,
}

#[derive(Debug)]
enum Letter {
    Job(Job),
    /// A pair of descriptors was closed, by id.
    Closed(u64),
    End,
}

impl Inbox {
    /// Gives the letter back where the ring has ended.
    fn post(&self, letter: Letter) -> Result<(), Letter> {
        if self.mailbox.post(letter)? {
            self.ring();
        }
        Ok(())
    }

    fn ring(&self) {
        // It can only fail when 2^64 - 2 rings are unheard.
        if let Err(error) = self.bell.write(1) {
            tracing::error!("cannot wake the ring's thread: {error}");
        }
    }
}

impl Uring {
    /// Starts the rings, each tried with one operation before it counts.
    pub(crate) fn new(settings: &UringSettings, arena: &Arena) -> Result<Self, EngineError> {
        let mut engine = Self {
            rings: Vec::new(),
            next: AtomicUsize::new(0),
            features: RingFeatures::default(),
            threads: Arc::default(),
            owner: Owner::this(),
        };
        for number in 0..settings.rings.max(1) {
            // A failure drops what there is of the engine, and that ends the rings already started.
            engine.features = engine.start(number, settings, arena)?;
        }
        Ok(engine)
    }

    /// What the rings turned out to have.
    pub(crate) fn features(&self) -> RingFeatures {
        self.features
    }

    fn start(&mut self, number: u32, settings: &UringSettings, arena: &Arena) -> Result<RingFeatures, EngineError> {
        const KIND: EngineKind = EngineKind::Uring;
        let bell = EventFd::from_flags(EfdFlags::EFD_CLOEXEC).map_err(|errno| EngineError::Refused {
            kind: KIND,
            step: EngineStep::Eventfd,
            error: errno.into(),
        })?;
        let inbox = Arc::new(Inbox { mailbox: Mailbox::new(), bell });
        let (started, outcome) = mpsc::channel();
        let work = {
            let (inbox, settings, arena) = (Arc::clone(&inbox), settings.clone(), arena.clone());
            // The ring belongs to the thread that builds it.
            move || match Worker::new(inbox, &settings, arena, number) {
                Ok((worker, features)) => {
                    let _ = started.send(Ok(features));
                    worker.run();
                }
                Err(error) => {
                    let _ = started.send(Err(error));
                }
            }
        };
        let of = (number as usize, settings.rings.max(1) as usize);
        let no_thread = |error| EngineError::Threads { kind: KIND, error };
        self.threads.start(format!("forebay-uring-{number}"), of, work).map_err(no_thread)?;
        let features = outcome.recv().unwrap_or_else(|_| Err(no_thread(ThreadError::ended())))?;
        self.rings.push(inbox);
        Ok(features)
    }
}

impl Engine for Uring {
    fn take(&self, job: Job) {
        let next = self.next.fetch_add(1, Ordering::Relaxed);
        let mut letter = Letter::Job(job);
        // Others go on where one ring broke.
        for number in 0..self.rings.len() {
            match self.rings[next.wrapping_add(number) % self.rings.len()].post(letter) {
                Ok(()) => return,
                Err(back) => letter = back,
            }
        }
        // Of its drop the job's waiter hears.
    }

    fn lanes(&self) -> usize {
        self.rings.len()
    }

    fn close(&self) {
        for inbox in &self.rings {
            // One that has ended needs no word.
            let _ = inbox.post(Letter::End);
        }
    }

    fn ended_by(&self, until: Option<Instant>) -> bool {
        self.threads.ended_by(until)
    }
}

impl Drop for Uring {
    fn drop(&mut self) {
        // A forked child has neither the threads nor, perhaps, the locks; the bell is the parent's.
        if self.owner.is_here() {
            self.close();
        }
    }
}
