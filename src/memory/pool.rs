//! Which bytes of the arena are in use, and which requests wait for some: the bookkeeping, without the memory.
//!
//! One lock guards all of it, and no waker runs under that lock. Requests are served in the order they came, so that a large
//! one is not starved by small ones, and keep their place until they have memory that is there.

mod queue;
mod spans;

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use self::queue::State;
pub(crate) use self::spans::GRAIN;
use self::spans::{Span, Want};
use super::owner::Owner;
use crate::sync::checked::{Arc, Mutex, lock};

/// Cloning gives another handle on the same books.
#[derive(Clone, Debug)]
pub(crate) struct Pool {
    len: usize,
    owner: Owner,
    state: Arc<Mutex<State>>,
}

impl Pool {
    pub(crate) fn new(len: usize) -> Self {
        Self { len, owner: Owner::this(), state: Arc::new(Mutex::new(State::new(len))) }
    }

    /// Bytes in all.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Bytes that are in use.
    pub(crate) fn in_use(&self) -> usize {
        if !self.owner.is_here() {
            return 0;
        }
        lock(&self.state).spans.in_use()
    }

    /// Acquires `len` bytes now, or nothing where they are not free in one piece or others wait already.
    pub(crate) fn try_acquire(&self, len: usize, align: usize) -> Option<Lease> {
        let mut state = lock(&self.state);
        if state.has_waiting() {
            return None;
        }
        let span = state.spans.take(Want { len, align })?;
        drop(state);
        Some(Lease { pool: self.clone(), span })
    }

    /// Queues for `len` bytes, which must not exceed the pool.
    pub(crate) fn acquire(&self, len: usize, align: usize) -> Queued {
        let want = Want { len, align };
        let mut state = lock(&self.state);
        let ticket = state.ticket();
        state.insert(ticket, want);
        // It may be the first, and the memory may be free.
        let wakers = state.serve();
        drop(state);
        wake(wakers);
        Queued { pool: self.clone(), ticket, want }
    }

    /// Gives nothing beyond `limit` until it is set anew, but what is longer than that. What is in use there already is released
    /// as ever.
    pub(crate) fn limit(&self, limit: usize) {
        let wakers = lock(&self.state).limit(limit.min(self.len));
        wake(wakers);
    }

    /// Whether some of it is not given now.
    pub(crate) fn is_limited(&self) -> bool {
        lock(&self.state).spans.limit() < self.len
    }

    /// Whether a request waits for memory.
    pub(crate) fn has_waiting(&self) -> bool {
        lock(&self.state).has_waiting()
    }

    /// Whether a span was lost.
    pub(crate) fn has_lost(&self) -> bool {
        !lock(&self.state).lost.is_empty()
    }

    fn lose(&self, span: Span) {
        let mut state = lock(&self.state);
        state.lost.insert(span.start, span);
        let wakers = state.wakers();
        drop(state);
        wake(wakers);
    }

    fn release(&self, span: Span) {
        // In a forked child the lock may be held for ever, and the memory is the parent's.
        if !self.owner.is_here() {
            return;
        }
        let mut state = lock(&self.state);
        state.spans.put(span);
        let wakers = state.serve();
        drop(state);
        wake(wakers);
    }
}

fn wake(wakers: Vec<Waker>) {
    wakers.into_iter().for_each(Waker::wake);
}

/// A place in the queue. Dropped unserved it leaves the queue; dropped served it releases the span.
#[derive(Debug)]
pub(crate) struct Queued {
    pool: Pool,
    ticket: u64,
    want: Want,
}

impl Queued {
    /// Whether so much was lost that this can never be served. A waiter that looks after a poll that was pending is woken when
    /// something is lost.
    pub(crate) fn is_hopeless(&self) -> bool {
        lock(&self.pool.state).is_hopeless(self.want)
    }

    /// Takes back what this was served, since not all of it is there, and waits again with the ticket that it has, for memory
    /// below `limit`. All of it is one step, so that no request behind it is served meanwhile.
    pub(crate) fn requeue(&mut self, mut lease: Lease, limit: usize) {
        let span = std::mem::replace(&mut lease.span, Span { start: 0, len: 0 });
        drop(lease);
        let mut state = lock(&self.pool.state);
        state.spans.put(span);
        state.insert(self.ticket, self.want);
        let wakers = state.limit(limit.min(self.pool.len));
        drop(state);
        wake(wakers);
    }
}

impl Future for Queued {
    type Output = Lease;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Lease> {
        let (served, before) = lock(&self.pool.state).poll(self.ticket, context);
        drop(before);
        served.map(|span| Lease { pool: self.pool.clone(), span })
    }
}

impl Drop for Queued {
    fn drop(&mut self) {
        if !self.pool.owner.is_here() {
            return;
        }
        let mut state = lock(&self.pool.state);
        if !state.remove(self.ticket) {
            return;
        }
        // Those behind may fit where this did not, or into what it did not take.
        let wakers = state.serve();
        drop(state);
        wake(wakers);
    }
}

/// A span in use, released on drop.
#[derive(Debug)]
pub(crate) struct Lease {
    pool: Pool,
    span: Span,
}

impl Lease {
    /// Where the span begins, in bytes from the arena's start.
    pub(crate) fn start(&self) -> usize {
        self.span.start
    }

    /// Where it ends.
    pub(crate) fn end(&self) -> usize {
        self.span.end()
    }

    /// The first `at` bytes, a multiple of [`GRAIN`] and inside the span, and the others: each is released by itself.
    pub(crate) fn split(mut self, at: usize) -> (Self, Self) {
        let at = at.min(self.span.len);
        let rest = Span { start: self.span.start + at, len: self.span.len - at };
        self.span.len = at;
        let rest = Self { pool: self.pool.clone(), span: rest };
        (self, rest)
    }

    /// Says that this will never be released.
    pub(crate) fn lose(&self) {
        self.pool.lose(self.span);
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        self.pool.release(self.span);
    }
}

#[cfg(all(test, forebay_loom))]
mod loom_tests;
#[cfg(all(test, not(forebay_loom)))]
mod tests;
