//! A batch: which of its entries are under way, which are done, and what it still owes to `cuFileBatchIOGetStatus`.

use super::abi::{IoParams, status};
use super::batch_workers;
use super::counters::InFlight;
use super::transfer::Ready;
use super::{chance, peek};
use crate::violations;
use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

#[derive(Debug)]
pub struct Batch {
    /// The most entries that may be owed at once.
    pub room: usize,
    ledger: Mutex<Ledger>,
    moved: Condvar,
}

#[derive(Debug, Default)]
struct Ledger {
    /// Entries that some worker has or will have.
    under_way: usize,
    /// Entries that nobody will ever work on; see `batch_exports`.
    stuck: Vec<Entry>,
    done: VecDeque<Event>,
    destroyed: bool,
}

/// One submitted entry. What it names is held until this is dropped.
#[derive(Debug)]
pub struct Entry {
    pub ready: Ready,
    /// The caller's structure, which is to stay as it was until the entry is done.
    pub watch: Watch,
    pub _in_flight: [Option<InFlight>; 2],
}

/// Memory of the caller that must not change while an operation is in flight.
#[derive(Clone, Copy, Debug)]
pub struct Watch {
    address: usize,
    params: IoParams,
}

#[derive(Clone, Copy, Debug)]
pub struct Event {
    pub cookie: usize,
    pub status: u32,
    pub ret: isize,
}

impl Watch {
    /// The structure at that address, or `None` where no memory is.
    pub fn begin(address: usize) -> Option<Watch> {
        peek::read(address).map(|params| Watch { address, params })
    }

    pub fn params(&self) -> &IoParams {
        &self.params
    }

    pub fn event(&self, status: u32, ret: isize) -> Event {
        Event { cookie: self.params.cookie, status, ret }
    }

    fn check(&self) {
        let wrong = match peek::read::<IoParams>(self.address) {
            Some(now) if now == self.params => return,
            Some(_) => "changed",
            None => "freed",
        };
        violations::report(format!(
            "batch entry with cookie {:#x}: its parameters were {wrong} before it was done",
            self.params.cookie
        ));
    }
}

impl Entry {
    fn finish(self, status: u32, ret: isize) -> Event {
        self.watch.check();
        self.watch.event(status, ret)
    }

    /// Moves the bytes and says how that ended.
    pub fn run(self, most: Result<Option<u64>, i32>) -> Event {
        let Entry { ready, watch, _in_flight } = self;
        let result = most.and_then(|most| ready.run(most));
        watch.check();
        match result {
            Ok(bytes) => watch.event(status::COMPLETE, bytes as isize),
            Err(code) => watch.event(status::FAILED, -(code as isize)),
        }
    }
}

impl Batch {
    pub fn new(room: usize) -> Batch {
        Batch { room, ledger: Mutex::default(), moved: Condvar::new() }
    }

    /// Entries submitted and not yet reported.
    pub fn owed(&self) -> usize {
        let ledger = self.lock();
        ledger.under_way + ledger.stuck.len() + ledger.done.len()
    }

    pub fn submit(self: &Arc<Batch>, entries: Vec<Entry>, refused: Vec<Event>, stuck: Vec<Entry>) {
        {
            let mut ledger = self.lock();
            ledger.under_way += entries.len();
            ledger.done.extend(refused);
            ledger.stuck.extend(stuck);
        }
        self.moved.notify_all();
        batch_workers::push(entries.into_iter().map(|entry| (Arc::clone(self), entry)));
    }

    /// An entry has ended.
    pub fn settle(&self, event: Event) {
        let mut ledger = self.lock();
        ledger.under_way = ledger.under_way.saturating_sub(1);
        if !ledger.destroyed {
            ledger.done.push_back(event);
        }
        drop(ledger);
        self.moved.notify_all();
    }

    /// Waits for `least` events, until `timeout` where there is one, and takes `most` at most. `None` where so many
    /// will never come: the real library would wait for ever.
    pub fn collect(&self, least: usize, most: usize, timeout: Option<Duration>) -> Option<Vec<Event>> {
        let deadline = timeout.and_then(|timeout| Instant::now().checked_add(timeout));
        let mut ledger = self.lock();
        while ledger.done.len() < least {
            let Some(deadline) = deadline else {
                if ledger.done.len() + ledger.under_way < least || ledger.destroyed {
                    return None;
                }
                ledger = self.moved.wait(ledger).unwrap_or_else(PoisonError::into_inner);
                continue;
            };
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            ledger = self.moved.wait_timeout(ledger, left).unwrap_or_else(PoisonError::into_inner).0;
        }
        let available = ledger.done.len().min(most);
        // As many as asked for, and of the others any number but none where there are some.
        let floor = least.max(1).min(available);
        let taken = floor + chance::below((available - floor) as u64 + 1) as usize;
        let events = (0..taken).filter_map(|_| {
            let at = chance::below(ledger.done.len() as u64) as usize;
            ledger.done.remove(at)
        });
        Some(events.collect())
    }

    /// Every second entry that has not begun is cancelled, and all that could never begin. The others go on.
    pub fn cancel(self: &Arc<Batch>) {
        let mut cancelled = batch_workers::withdraw(self);
        let mut ledger = self.lock();
        ledger.under_way = ledger.under_way.saturating_sub(cancelled.len());
        cancelled.append(&mut ledger.stuck);
        ledger.done.extend(cancelled.into_iter().map(|entry| entry.finish(status::CANCELED, 0)));
        drop(ledger);
        self.moved.notify_all();
    }

    /// How many entries were in flight, and how many had ended unseen.
    pub fn destroy(&self) -> (usize, usize) {
        let mut ledger = self.lock();
        ledger.destroyed = true;
        let stuck = std::mem::take(&mut ledger.stuck);
        let counts = (ledger.under_way + stuck.len(), ledger.done.len());
        ledger.done.clear();
        drop(ledger);
        drop(stuck);
        self.moved.notify_all();
        counts
    }

    fn lock(&self) -> MutexGuard<'_, Ledger> {
        self.ledger.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
