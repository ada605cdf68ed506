//! Pinned host memory.
use crate::rig::*;

#[test]
fn copies_want_registered_memory() {
    under("jitter_us=0", |rig| {
        let (ptr, stream, mut pageable) = (rig.device_memory(4096), rig.stream(), vec![1u8; 4096]);
        let at = pageable.as_mut_ptr() as usize;
        assert_eq!(rig.cuMemcpyHtoDAsync_v2(ptr, at, 4096, stream), INVALID_VALUE);
        rig.expect_violation("the host source, 4096 bytes at 0x");
        assert_eq!(rig.cuMemcpyDtoHAsync_v2(at, ptr, 4096, stream), INVALID_VALUE);
        rig.expect_violation("the host destination, 4096 bytes at 0x");
        assert_eq!(rig.cuMemcpyAsync(ptr, at as u64, 4096, stream), INVALID_VALUE);
        rig.expect_violation("is not registered");
        // What is done when it returns may take any memory.
        assert_eq!(rig.cuMemcpyHtoD_v2(ptr, at, 4096), 0);
        assert_eq!(rig.read_device(ptr, 4096), pageable);

        let mut pinned = rig.pinned(8192);
        pinned.fill(2);
        assert_eq!(rig.cuMemcpyHtoDAsync_v2(ptr, pinned.at() + 4096, 4096, stream), 0);
        assert_eq!(rig.cuMemcpyDtoHAsync_v2(pinned.at(), ptr, 4096, stream), 0);
        assert_eq!(rig.cuStreamSynchronize(stream), 0);
        assert_eq!(rig.cuMemcpyHtoDAsync_v2(ptr, pinned.at() + 4097, 4096, stream), INVALID_VALUE);
        rig.expect_violation("is not registered");
        // The real driver takes pageable memory here, and waits. So does this one, if it is told to.
        rig.script("pageable");
        assert_eq!(rig.cuMemcpyHtoDAsync_v2(ptr, at, 4096, stream), 0);
        assert_eq!(rig.read_device(ptr, 4096), pageable);
        assert_eq!((rig.cuMemFree_v2(ptr), rig.cuStreamDestroy_v2(stream)), (0, 0));
    });
}

#[test]
fn registrations_do_not_overlap_and_are_given_back_whole() {
    under("register_max=64KiB", |rig| {
        let memory = memmap2::MmapMut::map_anon(1 << 20).unwrap();
        let at = memory.as_ptr() as usize;
        assert_eq!(rig.cuMemHostRegister_v2(at, 65_536, 1), 0);
        for (start, len) in [(at, 65_536), (at + 4096, 1), (at + 65_535, 2)] {
            assert_eq!(rig.cuMemHostRegister_v2(start, len, 1), ALREADY_REGISTERED);
            rig.expect_violation("overlap the 65536 bytes pinned");
        }
        assert_eq!(rig.cuMemHostRegister_v2(at + 65_536, 65_537, 1), INVALID_VALUE, "more than register_max");
        assert_eq!(rig.cuMemHostRegister_v2(at + 65_536, 65_536, 1), 0, "one page beside another");
        assert_eq!(rig.cuMemHostUnregister(at + 4096), NOT_REGISTERED);
        rig.expect_violation("is not the start of pinned memory");
        assert_eq!((rig.cuMemHostUnregister(at), rig.cuMemHostUnregister(at + 65_536)), (0, 0));
        assert_eq!(rig.cuMemHostUnregister(at), NOT_REGISTERED);
        rig.expect_violation("is not the start of pinned memory");
        assert_eq!(rig.cuMemHostRegister_v2(4096, 4096, 1), INVALID_VALUE);
        rig.expect_violation("are mapped");
    });
}

#[test]
fn a_copy_may_span_registrations_that_touch() {
    under("jitter_us=0", |rig| {
        let memory = memmap2::MmapMut::map_anon(8192).unwrap();
        let (at, ptr, stream) = (memory.as_ptr() as usize, rig.device_memory(8192), rig.stream());
        assert_eq!((rig.cuMemHostRegister_v2(at, 4096, 1), rig.cuMemHostRegister_v2(at + 4096, 4096, 1)), (0, 0));
        assert_eq!(rig.cuMemcpyHtoDAsync_v2(ptr, at, 8192, stream), 0);
        assert_eq!(rig.cuStreamSynchronize(stream), 0);
        rig.script("no_spanning");
        assert_eq!(rig.cuMemcpyHtoDAsync_v2(ptr, at, 8192, stream), INVALID_VALUE);
        rig.expect_violation("is not registered");
        assert_eq!((rig.cuMemHostUnregister(at), rig.cuMemHostUnregister(at + 4096)), (0, 0));
        assert_eq!((rig.cuMemFree_v2(ptr), rig.cuStreamDestroy_v2(stream)), (0, 0));
    });
}

#[test]
fn unregistering_what_a_copy_still_uses_is_caught() {
    under("paused=1", |rig| {
        let (ptr, from, stream) = (rig.device_memory(4096), rig.pinned(4096), rig.stream());
        assert_eq!(rig.cuMemcpyHtoDAsync_v2(ptr, from.at(), 4096, stream), 0);
        assert_eq!(rig.cuMemHostUnregister(from.at()), 0);
        rig.expect_violation("bytes of host memory at 0x");
        rig.script("paused=0");
        assert_eq!(rig.cuStreamSynchronize(stream), 0);
        assert_eq!((rig.cuMemFree_v2(ptr), rig.cuStreamDestroy_v2(stream)), (0, 0));
        std::mem::forget(from);
    });
}

#[test]
fn freeing_host_memory_that_a_copy_still_uses_is_caught() {
    under("paused=1", |rig| {
        let (ptr, stream, mut host) = (rig.device_memory(4096), rig.stream(), 0);
        assert_eq!(rig.cuMemHostAlloc(&mut host, 4096, 0), 0);
        assert_ne!(host % 4096, 0, "small pinned memory is not page-aligned");
        assert_eq!(rig.cuMemcpyHtoDAsync_v2(ptr, host, 4096, stream), 0);
        assert_eq!(rig.cuMemFreeHost(host), 0);
        rig.expect_violation("are still used by cuMemcpyHtoDAsync_v2");
        rig.script("paused=0");
        assert_eq!(rig.cuStreamSynchronize(stream), 0);
        assert_eq!(rig.cuMemFreeHost(host), INVALID_VALUE);
        rig.expect_violation("is not the start of pinned memory");
        assert_eq!((rig.cuMemFree_v2(ptr), rig.cuStreamDestroy_v2(stream)), (0, 0));
    });
}

#[test]
fn unmapping_what_a_copy_still_uses_is_caught_and_survived() {
    under("paused=1", |rig| {
        let (ptr, stream) = (rig.device_memory(4096), rig.stream());
        let memory = memmap2::MmapMut::map_anon(1 << 20).unwrap();
        let at = memory.as_ptr() as usize;
        assert_eq!(rig.cuMemHostRegister_v2(at, 1 << 20, 1), 0);
        assert_eq!(rig.cuMemcpyHtoDAsync_v2(ptr, at, 4096, stream), 0);
        drop(memory);
        rig.script("paused=0");
        assert_eq!(rig.cuStreamSynchronize(stream), 0);
        rig.expect_violation("are mapped no more");
        assert_eq!(rig.cuMemHostUnregister(at), 0);
        assert_eq!((rig.cuMemFree_v2(ptr), rig.cuStreamDestroy_v2(stream)), (0, 0));
    });
}
