//! Threads for the processor's part, which is done by whoever asks where there are none.

use std::collections::VecDeque;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, PoisonError};

use tokio::sync::oneshot;

use crate::sync::{ThreadError, Threads, lock};

type Task = Box<dyn FnOnce() + Send>;

/// Dropping it lets every thread finish what it is at, and begin nothing more.
pub(super) struct Pool {
    shared: Arc<Shared>,
    workers: usize,
}

#[derive(Default)]
struct Shared {
    queue: Mutex<Queue>,
    work: Condvar,
}

#[derive(Default)]
struct Queue {
    tasks: VecDeque<Task>,
    closed: bool,
}

impl Pool {
    pub(super) fn new(workers: usize, threads: &Arc<Threads>) -> Result<Self, ThreadError> {
        let pool = Self { shared: Arc::default(), workers };
        for number in 0..workers {
            let shared = Arc::clone(&pool.shared);
            let work = move || {
                while let Some(task) = shared.next() {
                    task();
                }
            };
            threads.start(format!("forebay-worker-{number}"), (number, workers), work)?;
        }
        Ok(pool)
    }

    /// Whether there are no threads.
    pub(super) fn is_empty(&self) -> bool {
        self.workers == 0
    }

    /// Does it, and tells what came of it. Whoever asked hears nothing where it panics.
    pub(super) fn run<T: Send + 'static>(&self, work: impl FnOnce() -> T + Send + 'static) -> oneshot::Receiver<T> {
        let (done, outcome) = oneshot::channel();
        let task = move || {
            // The panic hook has told what happened; the sender is dropped, which tells the waiter.
            let _ = catch_unwind(AssertUnwindSafe(|| done.send(work()).is_ok()));
        };
        if self.is_empty() {
            task();
        } else {
            lock(&self.shared.queue).tasks.push_back(Box::new(task));
            self.shared.work.notify_one();
        }
        outcome
    }
}

impl Shared {
    fn next(&self) -> Option<Task> {
        let mut queue = lock(&self.queue);
        loop {
            if queue.closed {
                return None;
            }
            if let Some(task) = queue.tasks.pop_front() {
                return Some(task);
            }
            queue = self.work.wait(queue).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        let mut queue = lock(&self.shared.queue);
        queue.closed = true;
        let tasks = std::mem::take(&mut queue.tasks);
        drop(queue);
        // They hold memory of the arena, and what users gave us, which must not be dropped under the lock.
        drop(tasks);
        self.shared.work.notify_all();
    }
}

impl fmt::Debug for Pool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pool").field("workers", &self.workers).finish_non_exhaustive()
    }
}
