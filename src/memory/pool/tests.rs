use super::*;
use proptest::prelude::*;

fn poll_once(queued: &mut Queued) -> Poll<Lease> {
    Pin::new(queued).poll(&mut Context::from_waker(Waker::noop()))
}

proptest! {
    #[test]
    fn spans_never_overlap_and_all_are_released(
        steps in prop::collection::vec((any::<bool>(), 1_usize..50_000, 0_u32..6, any::<prop::sample::Index>()), 1..200)
    ) {
        let pool = Pool::new(64 * GRAIN);
        let mut leases: Vec<Lease> = Vec::new();
        for (acquires, len, align, which) in steps {
            let align = GRAIN << align;
            if acquires {
                if let Some(lease) = pool.try_acquire(len, align) {
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
            prop_assert_eq!(pool.in_use(), leases.iter().map(|lease| lease.span.len).sum::<usize>());
        }
        leases.clear();
        prop_assert!(pool.try_acquire(64 * GRAIN, GRAIN).is_some());
    }
}

#[test]
fn halves_of_a_span_come_back_by_themselves_and_are_joined() {
    let pool = Pool::new(8 * GRAIN);
    let (first, rest) = pool.try_acquire(6 * GRAIN, GRAIN).unwrap().split(2 * GRAIN);
    assert_eq!((first.start(), rest.start(), pool.in_use()), (0, 2 * GRAIN, 6 * GRAIN));
    drop(first);
    assert_eq!(pool.in_use(), 4 * GRAIN);
    drop(rest);
    assert!(pool.try_acquire(8 * GRAIN, GRAIN).is_some());
    let (all, none) = pool.try_acquire(2 * GRAIN, GRAIN).unwrap().split(2 * GRAIN);
    drop(none);
    assert_eq!(pool.in_use(), 2 * GRAIN);
    drop(all);
    assert!(pool.try_acquire(8 * GRAIN, GRAIN).is_some());
}

proptest! {
    /// A pool of which all was in use, and requests that were served beyond what turns out to be there. Whichever notices first,
    /// memory goes to those that came first: now, and whenever some is released.
    #[test]
    fn requests_whose_memory_is_not_there_are_served_in_the_order_they_came(
        (lens, noticing) in prop::collection::vec(1_usize..4, 2..9).prop_flat_map(|lens| {
            let order: Vec<usize> = (0..lens.len()).collect();
            (Just(lens), Just(order).prop_shuffle())
        }),
        there in 3_usize..20, released in prop::collection::vec(any::<prop::sample::Index>(), 8),
    ) {
        let pool = Pool::new(64 * GRAIN);
        let all = pool.try_acquire(64 * GRAIN, GRAIN).unwrap();
        let mut queue: Vec<Queued> = lens.iter().map(|&len| pool.acquire(len * GRAIN, GRAIN)).collect();
        drop(all);
        let mut leases: Vec<Option<Lease>> = lens.iter().map(|_| None).collect();
        let mut notice = |leases: &mut Vec<Option<Lease>>| {
            for &i in &noticing {
                match poll_once(&mut queue[i]) {
                    Poll::Ready(lease) if lease.end() > there * GRAIN => queue[i].requeue(lease, there * GRAIN),
                    Poll::Ready(lease) => leases[i] = Some(lease),
                    Poll::Pending => {}
                }
            }
        };
        // Twice: who noticed early may have been served by those that noticed later.
        notice(&mut leases);
        notice(&mut leases);
        // From the start on, each that fits beside those before it.
        let ends = lens.iter().scan(0, |end, len| { *end += len; Some(*end) });
        let expected = ends.take_while(|&end| end <= there).count();
        let served = |leases: &[Option<Lease>]| leases.iter().map(Option::is_some).collect::<Vec<_>>();
        let first = |count| (0..lens.len()).map(|i| i < count).collect::<Vec<_>>();
        prop_assert_eq!(served(&leases), first(expected));
        let mut was_served = expected;
        for which in released {
            let held: Vec<usize> = (0..lens.len()).filter(|&i| leases[i].is_some()).collect();
            let Some(&one) = held.get(which.index(held.len().max(1))) else { break };
            leases[one] = None;
            notice(&mut leases);
            let now = leases.iter().rposition(Option::is_some).map_or(was_served, |last| was_served.max(last + 1));
            prop_assert!(leases[was_served..now].iter().all(Option::is_some), "{:?}", served(&leases));
            was_served = now;
        }
        drop((leases, queue));
        prop_assert_eq!(pool.in_use(), 0);
    }
}

#[test]
fn beyond_the_limit_only_what_is_longer_is_given() {
    let pool = Pool::new(4 * GRAIN);
    pool.limit(2 * GRAIN);
    let two = [0, GRAIN].map(|start| {
        let lease = pool.try_acquire(GRAIN, GRAIN).unwrap();
        assert_eq!((lease.start(), lease.end()), (start, start + GRAIN));
        lease
    });
    assert!(pool.try_acquire(GRAIN, GRAIN).is_none());
    let mut waiting = pool.acquire(2 * GRAIN, GRAIN);
    assert!(poll_once(&mut waiting).is_pending());
    drop(two);
    assert!(poll_once(&mut waiting).is_ready());
    assert_eq!(pool.try_acquire(3 * GRAIN, GRAIN).unwrap().start(), 0);
    pool.limit(usize::MAX);
    assert!(!pool.is_limited() && pool.try_acquire(4 * GRAIN, GRAIN).is_some());
}

#[test]
fn a_large_request_is_not_starved_by_small_ones() {
    let pool = Pool::new(4 * GRAIN);
    let small = pool.try_acquire(GRAIN, GRAIN).unwrap();
    let mut large = pool.acquire(4 * GRAIN, GRAIN);
    assert!(poll_once(&mut large).is_pending());
    assert!(pool.try_acquire(GRAIN, GRAIN).is_none());
    let mut later = pool.acquire(GRAIN, GRAIN);
    assert!(poll_once(&mut later).is_pending());
    drop(small);
    let Poll::Ready(lease) = poll_once(&mut large) else { panic!("not served") };
    assert!(poll_once(&mut later).is_pending());
    drop(lease);
    assert!(poll_once(&mut later).is_ready());
    assert_eq!(pool.in_use(), 0);
}

/// A task that is gone may be kept by nothing but its waker, and hold memory.
#[test]
fn a_waker_that_is_dropped_may_give_memory_back() {
    use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
    /// Dropped with the lock held, its lease would wait for ever for itself: it is leaked then.
    struct Holder(Pool, Option<Lease>, std::sync::Arc<AtomicUsize>);
    impl std::task::Wake for Holder {
        fn wake(self: std::sync::Arc<Self>) {}
    }
    impl Drop for Holder {
        fn drop(&mut self) {
            let is_free = self.0.state.try_lock().is_ok();
            self.2.fetch_add(usize::from(is_free), SeqCst);
            if !is_free {
                std::mem::forget(self.1.take());
            }
        }
    }
    let pool = Pool::new(2 * GRAIN);
    let released = std::sync::Arc::new(AtomicUsize::new(0));
    let lease = pool.try_acquire(GRAIN, GRAIN);
    assert!(lease.is_some());
    let waker = Waker::from(std::sync::Arc::new(Holder(pool.clone(), lease, std::sync::Arc::clone(&released))));
    let mut queued = pool.acquire(2 * GRAIN, GRAIN);
    assert!(Pin::new(&mut queued).poll(&mut Context::from_waker(&waker)).is_pending());
    drop(waker);
    // Another task waits now: the first one's waker goes, and with it the memory that was in the way.
    let _ = poll_once(&mut queued);
    assert_eq!(released.load(SeqCst), 1, "it was dropped under the lock, or not at all");
    assert!(poll_once(&mut queued).is_ready());
}

#[test]
fn a_long_queue_costs_no_more_for_each_than_a_short_one() {
    let pool = Pool::new(GRAIN);
    let held = pool.try_acquire(GRAIN, GRAIN).unwrap();
    // The square of them would be 400 units of steps alone.
    crate::work::within(100, "a long queue", || {
        let mut queue: Vec<Queued> = (0..20_000).map(|_| pool.acquire(GRAIN, GRAIN)).collect();
        drop(held);
        for queued in &mut queue {
            assert!(poll_once(queued).is_ready());
        }
    });
}

#[test]
fn a_request_that_leaves_the_queue_makes_room_for_those_behind() {
    let pool = Pool::new(4 * GRAIN);
    let held = pool.try_acquire(2 * GRAIN, GRAIN).unwrap();
    let large = pool.acquire(3 * GRAIN, GRAIN);
    let mut small = pool.acquire(GRAIN, GRAIN);
    assert!(poll_once(&mut small).is_pending());
    drop(large);
    let Poll::Ready(lease) = poll_once(&mut small) else { panic!("not served") };
    let served_and_dropped = pool.acquire(GRAIN, GRAIN);
    drop(served_and_dropped);
    drop((held, lease));
    assert_eq!(pool.in_use(), 0);
}

#[test]
fn only_what_can_never_fit_beside_what_was_lost_is_hopeless() {
    let pool = Pool::new(16 * GRAIN);
    let leases: Vec<_> = (0..4).map(|_| pool.try_acquire(4 * GRAIN, GRAIN).unwrap()).collect();
    let hopeless = |len: usize, align: usize| pool.acquire(len, align).is_hopeless();
    assert!(!hopeless(16 * GRAIN, GRAIN));
    leases[1].lose();
    std::mem::forget(leases);
    // 4 are left in front of it, and 8 behind.
    assert!(!hopeless(8 * GRAIN, GRAIN) && hopeless(8 * GRAIN + 1, GRAIN) && hopeless(16 * GRAIN, GRAIN));
    assert!(!hopeless(8 * GRAIN, 8 * GRAIN) && hopeless(5 * GRAIN, 16 * GRAIN) && !hopeless(4 * GRAIN, 16 * GRAIN));
    assert!(!hopeless(0, GRAIN) && !hopeless(1, GRAIN));
}
