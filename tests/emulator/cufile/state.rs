//! Everything that is registered, behind one lock. It is never held over a transfer or a sleep.

use super::batch::Batch;
use super::buffers::Buffer;
use super::handles::OpenHandle;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

pub struct State {
    pub open: bool,
    pub poll: bool,
    /// KiB.
    pub poll_threshold: u64,
    pub handles: BTreeMap<usize, OpenHandle>,
    /// By the address that was registered.
    pub buffers: BTreeMap<u64, Buffer>,
    pub batches: BTreeMap<usize, Arc<Batch>>,
    /// Streams and the flags they were registered with.
    pub streams: BTreeMap<usize, u32>,
    /// Never given out twice, so that a stale handle is always known for one.
    next_id: usize,
}

impl State {
    const fn new() -> State {
        State {
            open: false,
            poll: false,
            poll_threshold: 4,
            handles: BTreeMap::new(),
            buffers: BTreeMap::new(),
            batches: BTreeMap::new(),
            streams: BTreeMap::new(),
            next_id: 1,
        }
    }

    /// A number that stands for a pointer and points nowhere: to follow it is a fault.
    pub fn fresh_id(&mut self) -> usize {
        self.next_id += 1;
        self.next_id << 4
    }

    /// Gives up what is registered; the caller drops it after the lock.
    pub fn take_all(&mut self) -> State {
        let next_id = self.next_id;
        std::mem::replace(self, State { next_id, ..State::new() })
    }
}

static STATE: Mutex<State> = Mutex::new(State::new());

pub fn lock() -> MutexGuard<'static, State> {
    STATE.lock().unwrap_or_else(PoisonError::into_inner)
}

pub fn reset() {
    let old = lock().take_all();
    drop(old);
}
