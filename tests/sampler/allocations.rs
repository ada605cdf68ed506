//! Counts what a thread allocates.
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use forebay::sampler::{Remainder, Sampler, Shuffle, World};

use crate::rig::{blocks, order};

struct Counting;

thread_local! {
    static CALLS: Cell<u64> = const { Cell::new(0) };
    static BYTES: Cell<usize> = const { Cell::new(0) };
}

// SAFETY: each call is the system allocator's, with what the caller answers for; counting allocates nothing.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        CALLS.set(CALLS.get() + 1);
        BYTES.set(BYTES.get() + layout.size());
        // SAFETY: as above.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: as above.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

fn counted(work: impl FnOnce()) -> (u64, usize) {
    let before = (CALLS.get(), BYTES.get());
    work();
    (CALLS.get() - before.0, BYTES.get() - before.1)
}

#[test]
fn once_its_vector_has_grown_a_step_allocates_nothing() {
    for (samples, shuffle) in [
        (1000, Shuffle::None),
        (1000, Shuffle::Full),
        (100_000, Shuffle::Full),
        (1003, blocks(10)),
        (100_003, blocks(6000)),
        (1_000_000_000, Shuffle::Full),
    ] {
        let world = World::new(1, 3).unwrap();
        let mut sampler = Sampler::new(order(samples, 1, shuffle), world, 64, Remainder::Pad, false, None).unwrap();
        let mut indices = Vec::new();
        sampler.next_step(&mut indices).unwrap();
        let (calls, _) = counted(|| {
            for _ in 0..2000 {
                indices.clear();
                sampler.next_step(&mut indices).unwrap();
            }
        });
        assert_eq!(calls, 0, "{samples} {shuffle}");
    }
    // The counter counts.
    assert_eq!(counted(|| drop(std::hint::black_box(Box::new(1)))).0, 1);
}

#[test]
fn an_order_takes_as_little_memory_for_a_billion_samples_as_for_ten_thousand() {
    for shuffle in [Shuffle::None, Shuffle::Full, blocks(4096)] {
        let bytes = |samples| {
            counted(|| {
                let mut order = order(samples, 1, shuffle).epoch(3);
                assert!(order.sample(samples - 1) < samples);
            })
            .1
        };
        assert!(bytes(1_000_000_000_000) <= bytes(10_000).max(20 << 10), "{shuffle}");
    }
}
