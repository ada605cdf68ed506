//! Headers of many files at once: on a cold disk each is a wait, and there may be thousands.

use std::num::NonZero;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use super::error::DatasetError;

/// `work` of each item, in their order, on several threads where there are many; the error of the first that fails.
pub(super) fn in_parallel<T: Sync, R: Send>(
    items: &[T],
    work: impl Fn(&T) -> Result<R, DatasetError> + Sync,
) -> Result<Vec<R>, DatasetError> {
    /// More wait for a disk at once than there are processors.
    const MOST: usize = 16;
    /// Fewer are not worth a thread.
    const SHARE: usize = 16;
    on_threads(items.len().div_ceil(SHARE).min(MOST), items, work)
}

/// The same for items of which each is much work: a thread for each, as far as there are processors.
pub(super) fn in_parallel_each<T: Sync, R: Send>(
    items: &[T],
    work: impl Fn(&T) -> Result<R, DatasetError> + Sync,
) -> Result<Vec<R>, DatasetError> {
    on_threads(thread::available_parallelism().map_or(1, NonZero::get).min(items.len()), items, work)
}

fn on_threads<T: Sync, R: Send>(
    threads: usize,
    items: &[T],
    work: impl Fn(&T) -> Result<R, DatasetError> + Sync,
) -> Result<Vec<R>, DatasetError> {
    if threads < 2 {
        return items.iter().map(work).collect();
    }
    let next = AtomicUsize::new(0);
    let take = || {
        let mut done = Vec::new();
        loop {
            let i = next.fetch_add(1, Ordering::Relaxed);
            let Some(item) = items.get(i) else { return done };
            let result = work(item);
            let failed = result.is_err();
            done.push((i, result));
            if failed {
                // Those before it are taken already, and are finished.
                next.store(items.len(), Ordering::Relaxed);
            }
        }
    };
    let mut done: Vec<_> = thread::scope(|scope| {
        let threads: Vec<_> =
            (1..threads).map_while(|_| thread::Builder::new().spawn_scoped(scope, take).ok()).collect();
        let mut done = take();
        for thread in threads {
            match thread.join() {
                Ok(more) => done.extend(more),
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
        done
    });
    done.sort_unstable_by_key(|&(i, _)| i);
    done.into_iter().map(|(_, result)| result).collect()
}
