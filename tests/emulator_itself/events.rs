//! Events.
use std::time::{Duration, Instant};

use crate::rig::*;

#[test]
fn an_event_is_passed_when_the_work_before_it_is_done() {
    under("paused=1", |rig| {
        let (ptr, from, stream, event) = (rig.device_memory(4096), rig.pinned(4096), rig.stream(), rig.event());
        assert_eq!(rig.cuEventQuery(event), 0, "never recorded: nothing to wait for");
        assert_eq!(rig.cuMemcpyHtoDAsync_v2(ptr, from.at(), 4096, stream), 0);
        assert_eq!(rig.cuEventRecord(event, stream), 0);
        assert_eq!((rig.cuEventQuery(event), rig.cuStreamQuery(stream), rig.in_flight()), (NOT_READY, NOT_READY, 1));
        rig.script("paused=0");
        assert_eq!(rig.cuEventSynchronize(event), 0);
        assert_eq!((rig.cuEventQuery(event), rig.in_flight()), (0, 0));
        assert_eq!(rig.cuStreamSynchronize(stream), 0);
        assert_eq!(rig.cuStreamQuery(stream), 0);
        assert_eq!(rig.cuEventDestroy_v2(event), 0);
        assert_eq!((rig.cuMemFree_v2(ptr), rig.cuStreamDestroy_v2(stream)), (0, 0));
    });
}

#[test]
fn events_tell_the_time_between_them() {
    under("jitter_us=0; stall=execute@1:200", |rig| {
        let (ptr, stream, untimed) = (rig.device_memory(4096), rig.stream(), rig.event());
        let (mut start, mut end, mut time) = (0, 0, 0.0);
        assert_eq!((rig.cuEventCreate(&mut start, 0), rig.cuEventCreate(&mut end, 1)), (0, 0));
        assert_eq!(rig.cuEventElapsedTime(&mut time, start, end), INVALID_HANDLE, "not recorded");
        assert_eq!(rig.cuEventRecord(start, stream), 0);
        assert_eq!(rig.cuMemsetD8Async(ptr, 0, 4096, stream), 0);
        assert_eq!(rig.cuMemsetD8Async(ptr, 0, 4096, stream), 0);
        assert_eq!((rig.cuEventRecord(untimed, stream), rig.cuEventRecord(end, stream)), (0, 0));
        assert_eq!(rig.cuEventElapsedTime(&mut time, start, end), NOT_READY);
        assert_eq!(rig.cuEventSynchronize(end), 0);
        assert_eq!(rig.cuEventElapsedTime(&mut time, start, untimed), INVALID_HANDLE, "made without timing");
        assert_eq!(rig.cuEventElapsedTime(&mut time, start, end), 0);
        assert!(time >= 0.0, "{time} ms");
        for event in [start, end, untimed] {
            assert_eq!(rig.cuEventDestroy_v2(event), 0);
        }
        assert_eq!((rig.cuMemFree_v2(ptr), rig.cuStreamDestroy_v2(stream)), (0, 0));
    });
}

#[test]
fn a_stream_waits_for_what_was_recorded_when_it_was_told_to() {
    under("jitter_us=0; stall=execute@1:60", |rig| {
        let (ptr, slow, quick, event) = (rig.device_memory(4096), rig.stream(), rig.stream(), rig.event());
        let start = Instant::now();
        assert_eq!(rig.cuMemsetD8Async(ptr, 1, 4096, slow), 0);
        assert_eq!(rig.cuEventRecord(event, slow), 0);
        assert_eq!(rig.cuStreamWaitEvent(quick, event, 0), 0);
        assert_eq!(rig.cuMemsetD8Async(ptr, 2, 4096, quick), 0);
        // It is destroyed, and recorded again, while the stream waits for what it was.
        assert_eq!(rig.cuEventDestroy_v2(event), 0);
        assert_eq!(rig.cuStreamSynchronize(quick), 0);
        assert!(start.elapsed() >= Duration::from_millis(60));
        assert_eq!(rig.read_device(ptr, 4096), [2; 4096]);
        assert_eq!((rig.cuStreamDestroy_v2(slow), rig.cuStreamDestroy_v2(quick)), (0, 0));
        assert_eq!(rig.cuMemFree_v2(ptr), 0);
    });
}

#[test]
fn a_destroyed_event_is_caught() {
    under("", |rig| {
        let (event, stream) = (rig.event(), rig.stream());
        assert_eq!(rig.cuEventDestroy_v2(event), 0);
        assert_eq!(rig.cuEventDestroy_v2(event), INVALID_HANDLE);
        rig.expect_violation("cuEventDestroy_v2: 0x");
        assert_eq!(rig.cuEventRecord(event, stream), INVALID_HANDLE);
        rig.expect_violation("was destroyed before");
        assert_eq!(rig.cuStreamWaitEvent(stream, event, 0), INVALID_HANDLE);
        rig.expect_violation("was destroyed before");
        assert_eq!(rig.cuEventSynchronize(77), INVALID_HANDLE);
        rig.expect_violation("0x4d is not an event");
        assert_eq!(rig.cuStreamDestroy_v2(stream), 0);
    });
}
