//! Streams: threads that run what was queued, in order and late.
mod calls;
pub mod capture;
mod table;
mod worker;

use std::collections::VecDeque;
use std::ffi::c_void;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Instant;

use crate::call::{Answer, under};
use crate::context;
use crate::sync::{lock, wait};

pub use table::{alive, close_device, find, order_with_legacy, synchronize_device};

pub type Op = Box<dyn FnOnce() + Send>;

/// What is queued or running on any stream: operations, not events and waits for them.
static IN_FLIGHT: AtomicU64 = AtomicU64::new(0);

pub fn in_flight() -> u64 {
    IN_FLIGHT.load(Ordering::Acquire)
}

#[derive(Debug)]
pub struct Stream {
    /// Its handle.
    pub id: usize,
    pub device: usize,
    pub flags: u32,
    pub priority: i32,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    queue: VecDeque<Entry>,
    pushed: u64,
    done: u64,
    /// No more will come: the thread ends with the queue.
    closed: bool,
}

impl std::fmt::Debug for State {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} of {} done", self.done, self.pushed)
    }
}

struct Entry {
    what: &'static str,
    kind: Kind,
    queued: Instant,
    run: Op,
}

/// Work is delayed, counted and may be made to fail; a marker (an event, a wait) only keeps its place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Work,
    Marker,
}

impl Stream {
    /// Queues something, and gives its number in the stream.
    pub fn push(&self, what: &'static str, kind: Kind, run: Op) -> u64 {
        if capture::takes(self.id) {
            return self.pushed();
        }
        if kind == Kind::Work {
            IN_FLIGHT.fetch_add(1, Ordering::AcqRel);
        }
        let mut state = lock(&self.state);
        state.queue.push_back(Entry { what, kind, queued: Instant::now(), run });
        state.pushed += 1;
        self.changed.notify_all();
        state.pushed
    }

    /// How much has been queued so far.
    pub fn pushed(&self) -> u64 {
        lock(&self.state).pushed
    }

    pub fn is_idle(&self) -> bool {
        let state = lock(&self.state);
        state.done == state.pushed
    }

    /// Waits until that many have ended.
    pub fn wait_for(&self, number: u64) {
        let mut state = lock(&self.state);
        while state.done < number {
            state = wait(&self.changed, state);
        }
    }

    /// True where it waits for the legacy stream, and that for it.
    pub fn is_blocking(&self) -> bool {
        self.flags & NON_BLOCKING == 0
    }
}

pub const NON_BLOCKING: u32 = 1;

/// Queues an operation of a call on a stream whose context is current.
pub fn submit(stream: &Arc<Stream>, what: &'static str, op: Op) -> Answer {
    context::health(stream.device)?;
    order_with_legacy(stream);
    stream.push(what, Kind::Work, op);
    Ok(())
}

/// Queues an operation of the other library. It writes to device memory only: host memory that other copies wait to
/// read is watched meanwhile.
pub fn enqueue(stream: *mut c_void, what: &'static str, op: Box<dyn FnOnce() + Send>) -> Result<(), i32> {
    under(what, || {
        let stream = find(stream as usize)?;
        submit(&stream, what, op)
    })
}

pub fn exists(stream: *mut c_void) -> bool {
    table::exists(stream as usize)
}
