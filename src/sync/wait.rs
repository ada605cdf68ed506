use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::thread;
use std::time::{Duration, Instant};

use tokio::task::coop::unconstrained;

use super::unpark_this_thread;

/// Waits for a future on this thread, with any runtime or none; where that has taken a while, `late` looks at it, once.
pub(crate) fn wait_for<F: Future + Unpin>(mut future: F, late: impl FnOnce(&F)) -> F::Output {
    const WHILE: Duration = if cfg!(test) { Duration::from_millis(100) } else { Duration::from_secs(5) };
    let waker = unpark_this_thread();
    let mut context = Context::from_waker(&waker);
    let start = Instant::now();
    let mut late = Some(late);
    loop {
        // Inside a tokio task, its budget would end, and only yielding, which this thread does not, would renew it.
        if let Poll::Ready(outcome) = Pin::new(&mut unconstrained(&mut future)).poll(&mut context) {
            return outcome;
        }
        match (&late, WHILE.checked_sub(start.elapsed())) {
            (Some(_), Some(left)) => thread::park_timeout(left),
            (Some(_), None) => {
                if let Some(late) = late.take() {
                    late(&future);
                }
            }
            (None, _) => thread::park(),
        }
    }
}
