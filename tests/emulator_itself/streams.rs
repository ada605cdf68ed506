//! Streams: in order each, in no order among each other, and late.
use std::ffi::c_void;
use std::sync::Mutex;
use std::thread;
use std::time::{Duration, Instant};

use crate::rig::*;

/// Numbers in the order in which host functions gave them.
static ORDER: Mutex<Vec<usize>> = Mutex::new(Vec::new());

extern "C" fn note(number: *mut c_void) {
    ORDER.lock().unwrap().push(number as usize);
}

#[test]
fn jitter_reorders_streams_among_each_other_and_never_within() {
    under("jitter_us=300; seed=5", |rig| {
        let streams: Vec<usize> = (0..4).map(|_| rig.stream()).collect();
        let start = Instant::now();
        for number in 0..200 {
            assert_eq!(rig.cuLaunchHostFunc(streams[number % 4], note, number as *mut c_void), 0);
        }
        for stream in &streams {
            assert_eq!(rig.cuStreamSynchronize(*stream), 0);
        }
        // Fifty delays of up to 300 us each; their sum is hardly ever below a third of the most.
        assert!(start.elapsed() > Duration::from_millis(5), "nothing was late: {:?}", start.elapsed());
        let order = std::mem::take(&mut *ORDER.lock().unwrap());
        assert_eq!(order.len(), 200);
        for stream in 0..4 {
            assert!(
                order.iter().filter(|number| **number % 4 == stream).is_sorted(),
                "stream {stream} is out of order"
            );
        }
        assert!(!order.is_sorted(), "the streams kept step: nothing was late");
        for stream in streams {
            assert_eq!(rig.cuStreamDestroy_v2(stream), 0);
        }
    });
}

#[test]
fn calls_return_before_their_work_is_done() {
    under("jitter_us=0; stall=execute:200", |rig| {
        let (ptr, from, stream) = (rig.device_memory(4096), rig.pinned(4096), rig.stream());
        let start = Instant::now();
        assert_eq!(rig.cuMemcpyHtoDAsync_v2(ptr, from.at(), 4096, stream), 0);
        assert_eq!(rig.in_flight(), 1);
        assert_eq!(rig.read_device(ptr, 4096), [0xa5; 4096]);
        assert_eq!(rig.cuStreamSynchronize(stream), 0);
        assert!(start.elapsed() >= Duration::from_millis(200));
        assert_eq!(rig.read_device(ptr, 4096), [0; 4096]);
        assert_eq!((rig.cuMemFree_v2(ptr), rig.cuStreamDestroy_v2(stream)), (0, 0));
    });
}

#[test]
fn a_stream_destroyed_early_finishes_its_work_and_is_noted() {
    under("paused=1", |rig| {
        let (ptr, from, stream) = (rig.device_memory(4096), rig.pinned(4096), rig.stream());
        assert_eq!(rig.cuMemcpyHtoDAsync_v2(ptr, from.at(), 4096, stream), 0);
        assert_eq!(rig.cuStreamDestroy_v2(stream), 0);
        assert!(rig.notes().iter().any(|note| note.contains("still has work queued")), "{:?}", rig.notes());
        rig.assert_no_violations();
        let uses = [
            rig.cuStreamSynchronize(stream),
            rig.cuStreamDestroy_v2(stream),
            rig.cuMemcpyHtoDAsync_v2(ptr, from.at(), 4096, stream),
        ];
        assert_eq!(uses, [INVALID_HANDLE; 3]);
        assert_eq!(rig.violations().iter().filter(|one| one.contains("was destroyed before")).count(), 3);
        rig.reset_violations();
        rig.script("paused=0");
        while rig.in_flight() > 0 {
            thread::sleep(Duration::from_millis(1));
        }
        assert_eq!(rig.read_device(ptr, 4096), [0; 4096]);
        assert_eq!(rig.cuMemFree_v2(ptr), 0);
        let idle = rig.stream();
        assert_eq!(rig.cuStreamDestroy_v2(idle), 0);
        assert_eq!(rig.notes(), [""; 0], "nothing was queued there");
    });
}

#[test]
fn a_context_is_released_after_the_work_of_streams_destroyed_before() {
    under("", |rig| {
        let (stream, mut ptr) = (rig.stream(), 0);
        assert_eq!(rig.cuMemAllocAsync(&mut ptr, 4096, stream), 0);
        assert_eq!((rig.cuMemsetD8Async(ptr, 1, 4096, stream), rig.cuMemFreeAsync(ptr, stream)), (0, 0));
        assert_eq!(rig.cuStreamDestroy_v2(stream), 0);
    });
}

#[test]
fn the_context_waits_for_all_streams() {
    under("jitter_us=0; stall=execute@1:50", |rig| {
        let (ptr, first, second) = (rig.device_memory(4096), rig.stream(), rig.stream());
        assert_eq!((rig.cuMemsetD8Async(ptr, 1, 1, first), rig.cuMemsetD8Async(ptr + 1, 1, 1, second)), (0, 0));
        assert_eq!(rig.cuCtxSynchronize(), 0);
        assert_eq!(rig.in_flight(), 0);
        assert_eq!(rig.read_device(ptr, 2), [1, 1]);
        assert_eq!((rig.cuStreamDestroy_v2(first), rig.cuStreamDestroy_v2(second)), (0, 0));
        assert_eq!(rig.cuMemFree_v2(ptr), 0);
    });
}

/// The first operation is slow; only its order keeps the second, on the other stream, from being overwritten by it.
#[test]
fn blocking_streams_and_the_default_stream_wait_for_each_other() {
    under("jitter_us=0", |rig| {
        let (mut blocking, free, ptr) = (0, rig.stream(), rig.device_memory(4096));
        assert_eq!(rig.cuStreamCreate(&mut blocking, 0), 0);
        // One operation is done, in each round before the first.
        assert_eq!((rig.cuMemsetD8Async(ptr, 0, 1, 0), rig.cuCtxSynchronize()), (0, 0));
        for (first, second) in [(0, blocking), (blocking, 0)] {
            rig.script("stall=execute@1:300");
            assert_eq!(rig.cuMemsetD8Async(ptr, 1, 1, first), 0);
            // It has begun: the stall is its own.
            while rig.calls("execute") == 1 {
                thread::yield_now();
            }
            assert_eq!(rig.cuMemsetD8Async(ptr, 2, 1, second), 0);
            assert_eq!(rig.cuMemsetD8Async(ptr + 1, 9, 1, free), 0);
            assert_eq!(rig.cuStreamSynchronize(free), 0);
            assert_eq!(rig.in_flight(), 2, "a non-blocking stream waits for neither");
            assert_eq!(rig.cuCtxSynchronize(), 0);
            assert_eq!(rig.read_device(ptr, 2), [2, 9]);
            rig.reset_calls();
            assert_eq!((rig.cuMemsetD8Async(ptr, 0, 1, free), rig.cuCtxSynchronize()), (0, 0));
        }
        assert_eq!((rig.cuStreamDestroy_v2(blocking), rig.cuStreamDestroy_v2(free)), (0, 0));
        assert_eq!(rig.cuMemFree_v2(ptr), 0);
    });
}

#[test]
fn each_thread_has_a_default_stream_of_its_own() {
    const PER_THREAD: usize = 2;
    under("jitter_us=0", |rig| {
        let ptr = rig.device_memory(2);
        thread::scope(|scope| {
            for n in 0..2 {
                scope.spawn(move || {
                    assert_eq!(rig.cuCtxSetCurrent(rig.context), 0);
                    assert_eq!(rig.cuMemsetD8Async(ptr + n, n as u8, 1, PER_THREAD), 0);
                    assert_eq!(rig.cuStreamSynchronize(PER_THREAD), 0);
                });
            }
        });
        assert_eq!(rig.read_device(ptr, 2), [0, 1]);
        assert_eq!(rig.cuStreamDestroy_v2(PER_THREAD), INVALID_HANDLE);
        rig.expect_violation("a default stream cannot be destroyed");
        assert_eq!(rig.cuMemFree_v2(ptr), 0);
    });
}

/// A host function that changes a source before its copy is a part of the program's order.
#[test]
fn a_host_function_may_fill_a_source() {
    extern "C" fn fill(at: *mut c_void) {
        // SAFETY: the test gives the address of 4096 bytes that live until the stream is done.
        unsafe { at.cast::<u8>().write_bytes(3, 4096) };
    }
    under("jitter_us=100", |rig| {
        let (ptr, from, stream) = (rig.device_memory(4096), rig.pinned(4096), rig.stream());
        assert_eq!(rig.cuLaunchHostFunc(stream, fill, from.at() as *mut c_void), 0);
        assert_eq!(rig.cuMemcpyHtoDAsync_v2(ptr, from.at(), 4096, stream), 0);
        assert_eq!(rig.cuStreamSynchronize(stream), 0);
        assert_eq!(rig.read_device(ptr, 4096), [3; 4096]);
        assert_eq!((rig.cuMemFree_v2(ptr), rig.cuStreamDestroy_v2(stream)), (0, 0));
    });
}

#[test]
fn a_host_function_may_not_call_the_driver() {
    extern "C" fn synchronize(rig: *mut c_void) {
        // SAFETY: the test gives the address of its rig, which lives until the stream is done.
        let rig = unsafe { &*(rig as *const Rig) };
        assert_eq!(rig.cuCtxSetCurrent(rig.context), 800);
        assert_eq!(rig.cuCtxSynchronize(), 800);
    }
    under("", |rig| {
        let stream = rig.stream();
        assert_eq!(rig.cuLaunchHostFunc(stream, synchronize, (rig as *const Rig).cast_mut().cast()), 0);
        assert_eq!(rig.cuStreamSynchronize(stream), 0);
        assert_eq!(rig.violations().len(), 2);
        rig.expect_violation("cuCtxSynchronize: called from a host function");
        assert_eq!(rig.cuStreamDestroy_v2(stream), 0);
    });
}
