//! Contexts: current per thread, and wanted by nearly every call.
use std::ptr;
use std::thread;

use crate::rig::*;

#[test]
fn a_call_on_a_thread_without_a_context_is_a_violation() {
    under("", |rig| {
        let code = thread::scope(|scope| scope.spawn(|| rig.cuMemAlloc_v2(&mut 0, 4096)).join().unwrap());
        assert_eq!(code, INVALID_CONTEXT);
        rig.expect_violation("cuMemAlloc_v2: no context is current on this thread");

        let (to, from, stream) = (rig.device_memory(4096), rig.pinned(4096), rig.stream());
        let copy = || rig.cuMemcpyHtoDAsync_v2(to, from.at(), 4096, stream);
        assert_eq!(copy(), 0);
        assert_eq!(rig.cuStreamSynchronize(stream), 0);
        rig.assert_no_violations();
        assert_eq!(rig.cuCtxSetCurrent(0), 0);
        assert_eq!(copy(), INVALID_CONTEXT);
        rig.expect_violation("cuMemcpyHtoDAsync_v2: no context is current");
        assert_eq!(rig.cuCtxSetCurrent(rig.context), 0);
        assert_eq!(rig.cuMemFree_v2(to), 0);
        assert_eq!(rig.cuStreamDestroy_v2(stream), 0);
    });
}

#[test]
fn a_call_under_the_context_of_another_device_is_a_violation() {
    under("", |rig| {
        let (to, from, stream, event) = (rig.device_memory(4096), rig.pinned(4096), rig.stream(), rig.event());
        let other = rig.retain(1);
        assert_eq!(rig.cuCtxSetCurrent(other), 0);
        assert_eq!(rig.cuMemcpyHtoDAsync_v2(to, from.at(), 4096, stream), INVALID_CONTEXT);
        rig.expect_violation("the stream belongs to device 0, but the context of device 1 is current");
        assert_eq!(rig.cuMemFree_v2(to), INVALID_CONTEXT);
        rig.expect_violation("the memory belongs to device 0");

        let theirs = rig.stream();
        assert_eq!(rig.cuMemcpyHtoDAsync_v2(to, from.at(), 4096, theirs), INVALID_CONTEXT);
        rig.expect_violation("is memory of device 0, but the context of device 1 is current");
        assert_eq!(rig.cuEventRecord(event, theirs), INVALID_HANDLE);
        rig.expect_violation("an event of device 0 on a stream of device 1");
        // To wait for another device's event is what events are for.
        assert_eq!(rig.cuStreamWaitEvent(theirs, event, 0), 0);
        assert_eq!(rig.cuStreamDestroy_v2(theirs), 0);

        assert_eq!(rig.cuCtxSetCurrent(rig.context), 0);
        assert_eq!(rig.cuDevicePrimaryCtxRelease_v2(1), 0);
        assert_eq!((rig.cuMemFree_v2(to), rig.cuStreamDestroy_v2(stream), rig.cuEventDestroy_v2(event)), (0, 0, 0));
    });
}

#[test]
fn contexts_nest() {
    under("", |rig| {
        let (other, mut device, mut context) = (rig.retain(1), -1, 0);
        assert_eq!(rig.cuCtxPushCurrent_v2(other), 0);
        assert_eq!((rig.cuCtxGetDevice(&mut device), device), (0, 1));
        assert_eq!((rig.cuCtxPopCurrent_v2(&mut context), context), (0, other));
        assert_eq!((rig.cuCtxGetDevice(&mut device), device), (0, 0));
        assert_eq!((rig.cuCtxGetCurrent(&mut context), context), (0, rig.context));
        assert_eq!(rig.cuDevicePrimaryCtxRelease_v2(1), 0);
    });
}

#[test]
fn a_released_context_is_dead_and_the_next_is_another() {
    under("", |rig| {
        let second = rig.retain(0);
        assert_eq!(second, rig.context, "a primary context is one for all who retain it");
        assert_eq!(rig.cuDevicePrimaryCtxRelease_v2(0), 0);
        assert_eq!(rig.cuMemGetInfo_v2(&mut 0, &mut 0), 0);
        assert_eq!(rig.cuDevicePrimaryCtxRelease_v2(0), 0);
        assert_eq!(rig.cuMemGetInfo_v2(&mut 0, &mut 0), CONTEXT_IS_DESTROYED);
        rig.expect_violation("the context that is current here was released");
        assert_eq!(rig.cuCtxSetCurrent(second), CONTEXT_IS_DESTROYED);
        rig.expect_violation("is not a context that is alive");
        assert_eq!(rig.cuDevicePrimaryCtxRelease_v2(0), INVALID_CONTEXT);
        rig.expect_violation("device 0's context is not retained");
        let next = rig.retain(0);
        assert_ne!(next, second);
        assert_eq!(rig.cuCtxSetCurrent(next), 0);
    });
}

#[test]
fn what_is_left_in_a_context_is_named_when_it_is_released() {
    loosely("", |rig| {
        let (_, stream, _) = (rig.device_memory(4096), rig.stream(), rig.event());
        let (mut pooled, mut host) = (0, 0);
        assert_eq!(rig.cuMemAllocAsync(&mut pooled, 8192, stream), 0);
        assert_eq!(rig.cuMemHostAlloc(&mut host, 12288, 0), 0);
        let pinned = rig.pinned(16384);
        let expected = [
            "4096 bytes of device memory",
            "8192 bytes of device memory",
            "12288 bytes of host memory",
            "16384 bytes of host memory",
            "stream 0x",
            "event 0x",
        ];
        let all = |leaks: &[String]| expected.iter().all(|what| leaks.iter().any(|leak| leak.contains(what)));
        let before = rig.leaks();
        assert!(before.len() == expected.len() && all(&before), "{before:#?}");
        assert_eq!(rig.cuDevicePrimaryCtxRelease_v2(0), 0);
        let after = rig.leaks();
        assert!(after.len() == expected.len() && all(&after), "{after:#?}");
        assert!(after.iter().all(|leak| leak.ends_with("when the context of device 0 was released")), "{after:#?}");
        rig.assert_no_violations();
        std::mem::forget(pinned);
    });
}

#[test]
fn nothing_works_before_init_but_what_may() {
    let rig = crate::or_skip!(Rig::bare("driver=12080"));
    let mut version = 0;
    assert_eq!((rig.cuDriverGetVersion(&mut version), version), (0, 12080));
    assert_eq!(rig.cuDeviceGetCount(&mut 0), NOT_INITIALIZED);
    assert_eq!(rig.cuDevicePrimaryCtxRetain(&mut 0, 0), NOT_INITIALIZED);
    assert_eq!(rig.cuMemAlloc_v2(&mut 0, 1), NOT_INITIALIZED);
    let mut name = ptr::null();
    assert_eq!(rig.cuGetErrorName(NOT_INITIALIZED, &mut name), 0);
    // SAFETY: the driver gave a C string that it keeps.
    let name = unsafe { std::ffi::CStr::from_ptr(name) };
    assert_eq!(name, c"CUDA_ERROR_NOT_INITIALIZED");
    let mut none = ptr::null();
    assert_eq!(rig.cuGetErrorString(123_456, &mut none), INVALID_VALUE);
    assert!(none.is_null());
    rig.assert_clean();
}
