//! Who has which bytes of the arena, and who waits for some: the bookkeeping, without the memory.
//!
//! One lock guards all of it, and no waker runs under that lock. Whoever asked first is served first, so that a large
//! request is not starved by small ones; a span that comes back is joined with its free neighbours.

use std::collections::BTreeMap;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use crate::sync::checked::{Arc, Mutex, MutexGuard, lock};

/// What spans are rounded up to, in bytes: a multiple of every sector size, so that neighbours never share one.
pub(crate) const GRAIN: usize = 4096;

/// Cloning gives another handle on the same books.
#[derive(Clone, Debug)]
pub(crate) struct Pool {
    len: usize,
    state: Arc<Mutex<State>>,
}

#[derive(Debug)]
struct State {
    /// Start and length of each free span; no two of them touch.
    free: BTreeMap<usize, usize>,
    lent: usize,
    /// Nothing beyond it is lent.
    limit: usize,
    /// Some of what is lent will never come back.
    lost: bool,
    /// By ticket, so in the order they came.
    waiting: BTreeMap<u64, Waiter>,
    /// For whoever comes next, and for whoever is put before all.
    next_ticket: u64,
    first_ticket: u64,
}

#[derive(Debug)]
struct Waiter {
    want: Want,
    served: Option<Span>,
    waker: Option<Waker>,
}

#[derive(Clone, Copy, Debug)]
struct Want {
    len: usize,
    align: usize,
}

/// A part of the arena: `start..start + len`, where `len` is a multiple of [`GRAIN`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Span {
    start: usize,
    len: usize,
}

impl Pool {
    pub(crate) fn new(len: usize) -> Self {
        let state = State {
            free: BTreeMap::from([(0, len)]),
            lent: 0,
            limit: len,
            lost: false,
            waiting: BTreeMap::new(),
            next_ticket: 1 << 63,
            first_ticket: 1 << 63,
        };
        Self { len, state: Arc::new(Mutex::new(state)) }
    }

    /// Bytes in all.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Bytes on loan now.
    pub(crate) fn lent(&self) -> usize {
        lock(&self.state).lent
    }

    /// Lends `len` bytes now, or nothing where they are not free in one piece or others wait already.
    pub(crate) fn try_lend(&self, len: usize, align: usize) -> Option<Lease> {
        let mut state = lock(&self.state);
        if state.waiting.values().any(|waiter| waiter.served.is_none()) {
            return None;
        }
        let span = state.take(Want { len, align })?;
        drop(state);
        Some(Lease { pool: self.clone(), span })
    }

    /// Queues for `len` bytes, which must not exceed the pool.
    pub(crate) fn lend(&self, len: usize, align: usize) -> Queued {
        let mut state = lock(&self.state);
        let ticket = state.next_ticket;
        state.next_ticket += 1;
        self.queue(state, ticket, Want { len, align })
    }

    /// The same before all others, for what was served with memory that turned out not to be there.
    pub(crate) fn lend_first(&self, len: usize, align: usize) -> Queued {
        let mut state = lock(&self.state);
        state.first_ticket -= 1;
        let ticket = state.first_ticket;
        self.queue(state, ticket, Want { len, align })
    }

    /// Lends nothing beyond `limit` until it is set anew, but what is longer than that. What is lent there already comes back as
    /// ever.
    pub(crate) fn limit(&self, limit: usize) {
        let mut state = lock(&self.state);
        state.limit = limit.min(self.len);
        // Those who wait may fit by now.
        let wakers = state.serve();
        drop(state);
        wake(wakers);
    }

    /// Whether some of it is not to be lent now.
    pub(crate) fn is_limited(&self) -> bool {
        lock(&self.state).limit < self.len
    }

    /// Whether anybody waits for memory.
    pub(crate) fn has_waiting(&self) -> bool {
        lock(&self.state).waiting.values().any(|waiter| waiter.served.is_none())
    }

    fn queue(&self, mut state: MutexGuard<'_, State>, ticket: u64, want: Want) -> Queued {
        state.waiting.insert(ticket, Waiter { want, served: None, waker: None });
        // Nobody may be before us, and the memory may be free.
        let wakers = state.serve();
        drop(state);
        wake(wakers);
        Queued { pool: self.clone(), ticket }
    }

    /// Whether a span was lost. Whoever asks after a poll that was pending is woken when one is.
    pub(crate) fn has_lost(&self) -> bool {
        lock(&self.state).lost
    }

    fn lose(&self) {
        let mut state = lock(&self.state);
        state.lost = true;
        let wakers = state.waiting.values_mut().filter_map(|waiter| waiter.waker.take()).collect();
        drop(state);
        wake(wakers);
    }

    fn give_back(&self, span: Span) {
        let mut state = lock(&self.state);
        state.put(span);
        let wakers = state.serve();
        drop(state);
        wake(wakers);
    }
}

impl State {
    /// The lowest free span that fits: memory used last is near the start, and still in the processor's caches.
    fn take(&mut self, want: Want) -> Option<Span> {
        let len = want.len.max(1).checked_next_multiple_of(GRAIN)?;
        // What can never fit below the limit need not wait for it: whoever gets it finds out whether it is there.
        let limit = if len > self.limit { usize::MAX } else { self.limit };
        let (from, size, start) = self.free.iter().find_map(|(&from, &size)| {
            let start = from.checked_next_multiple_of(want.align.max(GRAIN))?;
            (start.checked_add(len)? <= (from + size).min(limit)).then_some((from, size, start))
        })?;
        self.free.remove(&from);
        if start > from {
            self.free.insert(from, start - from);
        }
        if start + len < from + size {
            self.free.insert(start + len, from + size - start - len);
        }
        self.lent += len;
        Some(Span { start, len })
    }

    fn put(&mut self, span: Span) {
        let Span { mut start, mut len } = span;
        if len == 0 {
            return;
        }
        self.lent -= len;
        if let Some((&before, &size)) = self.free.range(..start).next_back()
            && before + size == start
        {
            self.free.remove(&before);
            start = before;
            len += size;
        }
        if let Some(size) = self.free.remove(&(start + len)) {
            len += size;
        }
        self.free.insert(start, len);
    }

    /// Serves from the front until the first that does not fit, and says whom to wake.
    fn serve(&mut self) -> Vec<Waker> {
        let mut wakers = Vec::new();
        let mut from = 0;
        while let Some((ticket, want)) = self.first_unserved(from) {
            let Some(span) = self.take(want) else { break };
            from = ticket + 1;
            if let Some(waiter) = self.waiting.get_mut(&ticket) {
                waiter.served = Some(span);
                wakers.extend(waiter.waker.take());
            }
        }
        wakers
    }

    /// Those served are the first in the queue, and few: they only have yet to notice.
    fn first_unserved(&self, from: u64) -> Option<(u64, Want)> {
        let mut waiting = self.waiting.range(from..);
        waiting.find(|(_, waiter)| waiter.served.is_none()).map(|(&ticket, waiter)| (ticket, waiter.want))
    }
}

fn wake(wakers: Vec<Waker>) {
    wakers.into_iter().for_each(Waker::wake);
}

/// A place in the queue. Dropped unserved it leaves the queue; dropped served it gives the span back.
#[derive(Debug)]
pub(crate) struct Queued {
    pool: Pool,
    ticket: u64,
}

impl Future for Queued {
    type Output = Lease;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Lease> {
        let mut state = lock(&self.pool.state);
        let Some(waiter) = state.waiting.get_mut(&self.ticket) else {
            // Polled again after it was ready: there is nothing more to come.
            return Poll::Pending;
        };
        let Some(span) = waiter.served else {
            let before = waiter.waker.replace(context.waker().clone());
            drop(state);
            // It may hold the last of a task, and that memory of this pool.
            drop(before);
            return Poll::Pending;
        };
        state.waiting.remove(&self.ticket);
        drop(state);
        Poll::Ready(Lease { pool: self.pool.clone(), span })
    }
}

impl Drop for Queued {
    fn drop(&mut self) {
        let mut state = lock(&self.pool.state);
        let Some(waiter) = state.waiting.remove(&self.ticket) else { return };
        if let Some(span) = waiter.served {
            state.put(span);
        }
        // Those behind us may fit where we did not, or into what we gave back.
        let wakers = state.serve();
        drop(state);
        wake(wakers);
    }
}

/// A span on loan, given back on drop.
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
        self.span.start + self.span.len
    }

    /// The first `at` bytes, a multiple of [`GRAIN`] and inside the span, and the others: each comes back by itself.
    pub(crate) fn split(mut self, at: usize) -> (Self, Self) {
        let at = at.min(self.span.len);
        let rest = Span { start: self.span.start + at, len: self.span.len - at };
        self.span.len = at;
        let rest = Self { pool: self.pool.clone(), span: rest };
        (self, rest)
    }

    /// Says that this will never be given back.
    pub(crate) fn lose(&self) {
        self.pool.lose();
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        self.pool.give_back(self.span);
    }
}

#[cfg(all(test, not(forebay_loom)))]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::task::Waker;

    fn poll_once(queued: &mut Queued) -> Poll<Lease> {
        Pin::new(queued).poll(&mut Context::from_waker(Waker::noop()))
    }

    proptest! {
        #[test]
        fn spans_never_overlap_and_all_come_back(
            steps in prop::collection::vec((any::<bool>(), 1_usize..50_000, 0_u32..6, any::<prop::sample::Index>()), 1..200)
        ) {
            let pool = Pool::new(64 * GRAIN);
            let mut leases: Vec<Lease> = Vec::new();
            for (lend, len, align, which) in steps {
                let align = GRAIN << align;
                if lend {
                    if let Some(lease) = pool.try_lend(len, align) {
                        prop_assert_eq!(lease.start() % align, 0);
                        prop_assert!(lease.span.len >= len && lease.span.len < len + GRAIN);
                        prop_assert!(lease.start() + lease.span.len <= pool.len());
                        for other in &leases {
                            let (a, b) = (lease.span, other.span);
                            prop_assert!(a.start + a.len <= b.start || b.start + b.len <= a.start);
                        }
                        leases.push(lease);
                    }
                } else if !leases.is_empty() {
                    leases.swap_remove(which.index(leases.len()));
                }
                prop_assert_eq!(pool.lent(), leases.iter().map(|lease| lease.span.len).sum::<usize>());
            }
            leases.clear();
            prop_assert!(pool.try_lend(64 * GRAIN, GRAIN).is_some());
        }
    }

    #[test]
    fn halves_of_a_span_come_back_by_themselves_and_are_joined() {
        let pool = Pool::new(8 * GRAIN);
        let (first, rest) = pool.try_lend(6 * GRAIN, GRAIN).unwrap().split(2 * GRAIN);
        assert_eq!((first.start(), rest.start(), pool.lent()), (0, 2 * GRAIN, 6 * GRAIN));
        drop(first);
        assert_eq!(pool.lent(), 4 * GRAIN);
        drop(rest);
        assert!(pool.try_lend(8 * GRAIN, GRAIN).is_some());
        let (all, none) = pool.try_lend(2 * GRAIN, GRAIN).unwrap().split(2 * GRAIN);
        drop(none);
        assert_eq!(pool.lent(), 2 * GRAIN);
        drop(all);
        assert!(pool.try_lend(8 * GRAIN, GRAIN).is_some());
    }

    #[test]
    fn beyond_the_limit_only_what_is_longer_is_lent() {
        let pool = Pool::new(4 * GRAIN);
        pool.limit(2 * GRAIN);
        let two = [0, GRAIN].map(|start| {
            let lease = pool.try_lend(GRAIN, GRAIN).unwrap();
            assert_eq!((lease.start(), lease.end()), (start, start + GRAIN));
            lease
        });
        assert!(pool.try_lend(GRAIN, GRAIN).is_none());
        let mut waiting = pool.lend(2 * GRAIN, GRAIN);
        assert!(poll_once(&mut waiting).is_pending());
        drop(two);
        assert!(poll_once(&mut waiting).is_ready());
        assert_eq!(pool.try_lend(3 * GRAIN, GRAIN).unwrap().start(), 0);
        pool.limit(usize::MAX);
        assert!(!pool.is_limited() && pool.try_lend(4 * GRAIN, GRAIN).is_some());
    }

    #[test]
    fn a_large_request_is_not_starved_by_small_ones() {
        let pool = Pool::new(4 * GRAIN);
        let small = pool.try_lend(GRAIN, GRAIN).unwrap();
        let mut large = pool.lend(4 * GRAIN, GRAIN);
        assert!(poll_once(&mut large).is_pending());
        assert!(pool.try_lend(GRAIN, GRAIN).is_none());
        let mut later = pool.lend(GRAIN, GRAIN);
        assert!(poll_once(&mut later).is_pending());
        drop(small);
        let Poll::Ready(lease) = poll_once(&mut large) else { panic!("not served") };
        assert!(poll_once(&mut later).is_pending());
        drop(lease);
        assert!(poll_once(&mut later).is_ready());
        assert_eq!(pool.lent(), 0);
    }

    /// A task that is gone may be kept by nothing but its waker, and hold memory.
    #[test]
    fn a_waker_that_is_dropped_may_give_memory_back() {
        struct Holder(#[allow(dead_code)] Lease);
        impl std::task::Wake for Holder {
            fn wake(self: std::sync::Arc<Self>) {}
        }
        let (done, over) = std::sync::mpsc::channel();
        std::thread::spawn(move || {
            let pool = Pool::new(2 * GRAIN);
            let held = std::sync::Arc::new(Holder(pool.try_lend(GRAIN, GRAIN).unwrap()));
            let mut queued = pool.lend(2 * GRAIN, GRAIN);
            let waker = Waker::from(held);
            assert!(Pin::new(&mut queued).poll(&mut Context::from_waker(&waker)).is_pending());
            drop(waker);
            // Another task waits now: the first one's waker goes, and with it the memory that was in the way.
            let _ = poll_once(&mut queued);
            assert!(poll_once(&mut queued).is_ready());
            done.send(()).unwrap();
        });
        assert!(over.recv_timeout(std::time::Duration::from_secs(5)).is_ok(), "it hangs or fails");
    }

    #[test]
    fn a_long_queue_costs_no_more_for_each_than_a_short_one() {
        let pool = Pool::new(GRAIN);
        let held = pool.try_lend(GRAIN, GRAIN).unwrap();
        // The square of them would be 400 units of steps alone.
        crate::work::within(100, "a long queue", || {
            let mut queue: Vec<Queued> = (0..20_000).map(|_| pool.lend(GRAIN, GRAIN)).collect();
            drop(held);
            for queued in &mut queue {
                assert!(poll_once(queued).is_ready());
            }
        });
    }

    #[test]
    fn who_leaves_the_queue_makes_room_for_those_behind() {
        let pool = Pool::new(4 * GRAIN);
        let held = pool.try_lend(2 * GRAIN, GRAIN).unwrap();
        let large = pool.lend(3 * GRAIN, GRAIN);
        let mut small = pool.lend(GRAIN, GRAIN);
        assert!(poll_once(&mut small).is_pending());
        drop(large);
        let Poll::Ready(lease) = poll_once(&mut small) else { panic!("not served") };
        let served_and_dropped = pool.lend(GRAIN, GRAIN);
        drop(served_and_dropped);
        drop((held, lease));
        assert_eq!(pool.lent(), 0);
    }
}

/// Run by `RUSTFLAGS="--cfg forebay_loom" cargo test --lib loom`.
#[cfg(all(test, forebay_loom))]
mod loom_tests {
    use super::*;
    use loom::future::block_on;
    use loom::thread;

    #[test]
    fn loom_a_span_is_handed_over_once_and_never_lost() {
        loom::model(|| {
            let pool = Pool::new(2 * GRAIN);
            let held = pool.try_lend(2 * GRAIN, GRAIN).expect("free");
            let taker = thread::spawn({
                let pool = pool.clone();
                move || drop(block_on(pool.lend(2 * GRAIN, GRAIN)))
            });
            drop(held);
            taker.join().expect("served");
            assert_eq!(pool.lent(), 0);
        });
    }

    /// What lies beyond the first half turns out not to be there: who had it asks again for less, and nobody is forgotten.
    #[test]
    fn loom_who_is_put_first_again_is_served_and_so_are_those_behind() {
        let mut model = loom::model::Builder::new();
        // Without a bound it takes hours: three threads that all wait for each other.
        model.preemption_bound = Some(2);
        model.check(|| {
            let pool = Pool::new(2 * GRAIN);
            let held = pool.try_lend(GRAIN, GRAIN).expect("free");
            let refused = pool.try_lend(GRAIN, GRAIN).expect("free");
            let behind = thread::spawn({
                let pool = pool.clone();
                move || drop(block_on(pool.lend(GRAIN, GRAIN)))
            });
            let giver = thread::spawn(move || drop(held));
            pool.limit(GRAIN);
            drop(refused);
            drop(block_on(pool.lend_first(GRAIN, GRAIN)));
            behind.join().expect("served");
            giver.join().expect("given back");
            assert_eq!(pool.lent(), 0);
        });
    }

    #[test]
    fn loom_a_dropped_waiter_never_keeps_a_span() {
        loom::model(|| {
            let pool = Pool::new(GRAIN);
            let held = pool.try_lend(GRAIN, GRAIN).expect("free");
            let leaver = pool.lend(GRAIN, GRAIN);
            let stayer = pool.lend(GRAIN, GRAIN);
            let dropper = thread::spawn(move || drop(leaver));
            let giver = thread::spawn(move || drop(held));
            drop(block_on(stayer));
            dropper.join().expect("dropped");
            giver.join().expect("given back");
            assert_eq!(pool.lent(), 0);
        });
    }
}
