//! The threads behind batches. Entries start in any order and end in any other.

use super::batch::{Batch, Entry};
use super::chance;
use crate::script::{self, Verdict};
use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, Once, PoisonError};

const WORKERS: usize = 4;

struct Job {
    batch: Arc<Batch>,
    entry: Entry,
    most: Result<Option<u64>, i32>,
}

struct Queue {
    /// As submitted, not yet shown to the script.
    fresh: VecDeque<(Arc<Batch>, Entry)>,
    judged: Vec<Job>,
}

static QUEUE: Mutex<Queue> = Mutex::new(Queue { fresh: VecDeque::new(), judged: Vec::new() });
static FRESH: Condvar = Condvar::new();
static JUDGED: Condvar = Condvar::new();

fn lock() -> MutexGuard<'static, Queue> {
    QUEUE.lock().unwrap_or_else(PoisonError::into_inner)
}

pub fn push(entries: impl Iterator<Item = (Arc<Batch>, Entry)>) {
    static STARTED: Once = Once::new();
    STARTED.call_once(|| {
        let names = std::iter::once("judge").chain(std::iter::repeat_n("work", WORKERS));
        for name in names {
            let body = if name == "judge" { judge as fn() } else { work as fn() };
            // A thread that cannot be had leaves its work to the others, or to nobody, which a waiter's timeout shows.
            let _ = std::thread::Builder::new().name(format!("cufile-{name}")).spawn(body);
        }
    });
    lock().fresh.extend(entries);
    FRESH.notify_all();
}

/// Takes back every second entry of this batch that no worker has yet.
pub fn withdraw(batch: &Arc<Batch>) -> Vec<Entry> {
    let mut queue = lock();
    let mut odd = false;
    let mut take = |of: &Arc<Batch>| {
        odd ^= Arc::ptr_eq(of, batch);
        odd && Arc::ptr_eq(of, batch)
    };
    let (fresh, kept): (Vec<_>, Vec<_>) = queue.fresh.drain(..).partition(|(of, _)| take(of));
    queue.fresh.extend(kept);
    let (judged, kept): (Vec<_>, Vec<_>) = queue.judged.drain(..).partition(|job| take(&job.batch));
    queue.judged = kept;
    fresh.into_iter().map(|(_, entry)| entry).chain(judged.into_iter().map(|job| job.entry)).collect()
}

/// Shows each entry to the script in the order of submission, so that "the third entry" means something, and so that a
/// stall holds up the entries behind it and not the thread that submits.
fn judge() {
    loop {
        let (batch, entry) = {
            let mut queue = lock();
            loop {
                if let Some(fresh) = queue.fresh.pop_front() {
                    break fresh;
                }
                queue = FRESH.wait(queue).unwrap_or_else(PoisonError::into_inner);
            }
        };
        let most = match script::begin("batch_entry") {
            Verdict::Go => Ok(None),
            Verdict::Short(most) => Ok(Some(most)),
            Verdict::Fail(code) => Err(code),
        };
        lock().judged.push(Job { batch, entry, most });
        JUDGED.notify_one();
    }
}

fn work() {
    loop {
        let mut queue = lock();
        while queue.judged.is_empty() {
            queue = JUDGED.wait(queue).unwrap_or_else(PoisonError::into_inner);
        }
        // Let others come, or there would be nothing to pick from.
        drop(queue);
        chance::dawdle();
        let mut queue = lock();
        if queue.judged.is_empty() {
            continue;
        }
        let at = chance::below(queue.judged.len() as u64) as usize;
        let Job { batch, entry, most } = queue.judged.swap_remove(at);
        drop(queue);
        let event = entry.run(most);
        batch.settle(event);
    }
}
