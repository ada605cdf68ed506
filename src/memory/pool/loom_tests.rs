//! Run by `RUSTFLAGS="--cfg forebay_loom" cargo test --lib loom`.

use super::*;
use loom::future::block_on;
use loom::thread;

#[test]
fn loom_a_span_is_handed_over_once_and_never_lost() {
    loom::model(|| {
        let pool = Pool::new(2 * GRAIN);
        let held = pool.try_acquire(2 * GRAIN, GRAIN).expect("free");
        let taker = thread::spawn({
            let pool = pool.clone();
            move || drop(block_on(pool.acquire(2 * GRAIN, GRAIN)))
        });
        drop(held);
        taker.join().expect("served");
        assert_eq!(pool.in_use(), 0);
    });
}

/// What lies beyond the first half turns out not to be there: the request that had it waits again, and none is forgotten.
#[test]
fn loom_a_requeued_request_is_served_and_so_are_those_behind() {
    let mut model = loom::model::Builder::new();
    // Without a bound it takes hours: three threads that all wait for each other.
    model.preemption_bound = Some(2);
    model.check(|| {
        let pool = Pool::new(2 * GRAIN);
        let held = pool.try_acquire(GRAIN, GRAIN).expect("free");
        let mut first = pool.acquire(GRAIN, GRAIN);
        let beyond = block_on(&mut first);
        let behind = thread::spawn({
            let pool = pool.clone();
            move || drop(block_on(pool.acquire(GRAIN, GRAIN)))
        });
        let giver = thread::spawn(move || drop(held));
        first.requeue(beyond, GRAIN);
        drop(block_on(first));
        behind.join().expect("served");
        giver.join().expect("released");
        assert_eq!(pool.in_use(), 0);
    });
}

/// Two that were served beyond the limit notice it at the same time: the first one is first again.
#[test]
fn loom_of_two_requeued_requests_the_one_that_came_first_is_served_first() {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(2);
    model.check(|| {
        let pool = Pool::new(3 * GRAIN);
        let held = pool.try_acquire(GRAIN, GRAIN).expect("free");
        let [mut first, mut second] = [(); 2].map(|()| pool.acquire(GRAIN, GRAIN));
        let other = thread::spawn(move || {
            requeue_beyond(&mut second, GRAIN);
            second
        });
        requeue_beyond(&mut first, GRAIN);
        let mut second = other.join().expect("requeued");
        drop(held);
        let lease = block_on(&mut first);
        let waker = std::task::Waker::noop();
        assert!(Pin::new(&mut second).poll(&mut Context::from_waker(waker)).is_pending());
        drop(lease);
        drop(block_on(second));
        assert_eq!(pool.in_use(), 0);
    });
}

/// Takes what a request was served, if it was, and gives it back as memory beyond `limit` that is not there.
fn requeue_beyond(queued: &mut Queued, limit: usize) {
    let context = &mut Context::from_waker(std::task::Waker::noop());
    if let Poll::Ready(lease) = Pin::new(&mut *queued).poll(context) {
        queued.requeue(lease, limit);
    }
}

#[test]
fn loom_a_dropped_waiter_never_keeps_a_span() {
    loom::model(|| {
        let pool = Pool::new(GRAIN);
        let held = pool.try_acquire(GRAIN, GRAIN).expect("free");
        let leaver = pool.acquire(GRAIN, GRAIN);
        let stayer = pool.acquire(GRAIN, GRAIN);
        let dropper = thread::spawn(move || drop(leaver));
        let giver = thread::spawn(move || drop(held));
        drop(block_on(stayer));
        dropper.join().expect("dropped");
        giver.join().expect("released");
        assert_eq!(pool.in_use(), 0);
    });
}
