//! Device memory: not the host's to touch, poisoned, and dead when it is freed.
use crate::common::emulator::Emulator;
use crate::common::privilege::{child_done, in_child, run};
use crate::or_skip;
use crate::rig::*;

#[test]
fn memory_is_counted_and_runs_out() {
    under("memory=1MiB", |rig| {
        let (mut free, mut total) = (0, 0);
        let all = rig.device_memory(1 << 20);
        assert_eq!((rig.cuMemGetInfo_v2(&mut free, &mut total), free, total), (0, 0, 1 << 20));
        assert_eq!(rig.cuMemAlloc_v2(&mut 0, 1), OUT_OF_MEMORY);
        assert_eq!(rig.cuMemFree_v2(all), 0);
        assert_eq!((rig.cuMemGetInfo_v2(&mut free, &mut total), free), (0, 1 << 20));
        assert_eq!(rig.cuMemAlloc_v2(&mut 0, 0), INVALID_VALUE);
        assert_eq!(rig.cuMemAlloc_v2(&mut 0, usize::MAX), OUT_OF_MEMORY);
    });
}

#[test]
fn a_large_allocation_costs_what_is_written_to_it() {
    under("memory=64GiB; jitter_us=0", |rig| {
        let ptr = rig.device_memory(40 << 30);
        let last = ptr + (40 << 30) - 8;
        assert_eq!(rig.cuMemcpyHtoD_v2(last, b"the last".as_ptr() as usize, 8), 0);
        assert_eq!(rig.read_device(last, 8), b"the last");
        assert_eq!(rig.cuMemFree_v2(ptr), 0);
    });
}

#[test]
fn fresh_memory_is_neither_zero_nor_what_was_there() {
    under("memory=4MiB; jitter_us=0", |rig| {
        let mut seen = Vec::new();
        // More than the address space holds at once, so that addresses come again.
        for round in 0..3000u32 {
            let ptr = rig.device_memory(1 << 20);
            seen.push(ptr);
            if round % 100 == 0 {
                assert!(rig.read_device(ptr, 1 << 20).iter().all(|&byte| byte == 0xa5));
                assert_eq!(rig.cuMemcpyHtoD_v2(ptr, [7u8; 64].as_ptr() as usize, 64), 0);
            }
            assert_eq!(rig.cuMemFree_v2(ptr), 0);
        }
        assert!(seen.windows(2).all(|pair| pair[0] != pair[1]), "a freed address is not the next one given");
    });
}

#[test]
fn use_after_free_is_caught() {
    under("", |rig| {
        let (ptr, from, stream) = (rig.device_memory(4096), rig.pinned(4096), rig.stream());
        assert_eq!(rig.cuMemFree_v2(ptr), 0);
        assert_eq!(rig.cuMemcpyHtoDAsync_v2(ptr, from.at(), 4096, stream), INVALID_VALUE);
        rig.expect_violation("is device memory that was freed (4096 bytes at 0x");
        assert_eq!(rig.cuMemFree_v2(ptr), INVALID_VALUE);
        rig.expect_violation("cuMemFree_v2: 0x");
        assert_eq!(rig.cuStreamDestroy_v2(stream), 0);
    });
}

#[test]
fn running_over_the_end_is_caught() {
    under("", |rig| {
        let (ptr, from, stream) = (rig.device_memory(4096), rig.pinned(8192), rig.stream());
        assert_eq!(rig.cuMemcpyHtoDAsync_v2(ptr + 1, from.at(), 4096, stream), INVALID_VALUE);
        rig.expect_violation("pass the end of the 4096 bytes allocated");
        assert_eq!(rig.cuMemsetD8Async(ptr, 0, 4097, stream), INVALID_VALUE);
        rig.expect_violation("pass the end");
        assert_eq!(rig.cuMemcpyHtoDAsync_v2(ptr + 4096, from.at(), 1, stream), INVALID_VALUE);
        rig.expect_violation("is not device memory");
        assert_eq!(rig.cuMemFree_v2(ptr + 8), INVALID_VALUE);
        rig.expect_violation("is inside an allocation");
        assert_eq!((rig.cuMemFree_v2(ptr), rig.cuStreamDestroy_v2(stream)), (0, 0));
    });
}

#[test]
fn freeing_what_a_copy_still_uses_is_caught() {
    under("paused=1", |rig| {
        let (ptr, from, stream) = (rig.device_memory(4096), rig.pinned(4096), rig.stream());
        assert_eq!(rig.cuMemcpyHtoDAsync_v2(ptr, from.at(), 4096, stream), 0);
        assert_eq!(rig.cuMemFree_v2(ptr), 0);
        rig.expect_violation("are still used by cuMemcpyHtoDAsync_v2");
        rig.script("paused=0");
        assert_eq!(rig.cuStreamSynchronize(stream), 0);
        rig.expect_violation("when it was carried out, 0x");
        assert_eq!(rig.cuStreamDestroy_v2(stream), 0);
    });
}

#[test]
fn freeing_in_the_order_of_the_stream_is_clean() {
    under("paused=1", |rig| {
        let (from, stream, mut ptr) = (rig.pinned(4096), rig.stream(), 0);
        assert_eq!(rig.cuMemAllocAsync(&mut ptr, 4096, stream), 0);
        assert_eq!(rig.cuMemcpyHtoDAsync_v2(ptr, from.at(), 4096, stream), 0);
        assert_eq!(rig.cuMemFreeAsync(ptr, stream), 0);
        assert_eq!(rig.cuMemcpyHtoDAsync_v2(ptr, from.at(), 4096, stream), INVALID_VALUE);
        rig.expect_violation("was given to cuMemFreeAsync before");
        rig.script("paused=0");
        assert_eq!(rig.cuStreamSynchronize(stream), 0);
        assert_eq!(rig.cuStreamDestroy_v2(stream), 0);
    });
}

#[test]
fn freeing_in_another_streams_order_is_caught() {
    under("jitter_us=0; stall=execute@1:400", |rig| {
        let (from, busy, other, mut ptr) = (rig.pinned(4096), rig.stream(), rig.stream(), 0);
        assert_eq!(rig.cuMemAllocAsync(&mut ptr, 4096, busy), 0);
        assert_eq!(rig.cuMemcpyHtoDAsync_v2(ptr, from.at(), 4096, busy), 0);
        std::thread::sleep(std::time::Duration::from_millis(20));
        assert_eq!(rig.cuMemFreeAsync(ptr, other), 0);
        assert_eq!((rig.cuStreamSynchronize(other), rig.cuStreamSynchronize(busy)), (0, 0));
        rig.expect_violation("cuMemFreeAsync: 4096 bytes of device memory at 0x");
        assert_eq!((rig.cuStreamDestroy_v2(busy), rig.cuStreamDestroy_v2(other)), (0, 0));
    });
}

#[test]
fn pointers_tell_what_they_are() {
    under("", |rig| {
        let (ptr, host) = (rig.device_memory(10_000), rig.pinned(4096));
        let (mut base, mut len, mut kind, mut ordinal) = (0, 0, 0u32, -1i32);
        assert_eq!((rig.cuMemGetAddressRange_v2(&mut base, &mut len, ptr + 77), base, len), (0, ptr, 10_000));
        assert_eq!((rig.cuPointerGetAttribute((&raw mut kind).cast(), 2, ptr + 77), kind), (0, 2));
        assert_eq!((rig.cuPointerGetAttribute((&raw mut ordinal).cast(), 9, ptr), ordinal), (0, 0));
        assert_eq!((rig.cuPointerGetAttribute((&raw mut kind).cast(), 2, host.at() as u64), kind), (0, 1));
        assert_eq!(rig.cuPointerGetAttribute((&raw mut kind).cast(), 2, (&raw const base) as u64), INVALID_VALUE);
        assert_eq!((rig.cuMemHostGetDevicePointer_v2(&mut base, host.at(), 0), base), (0, host.at() as u64));
        assert_eq!(rig.cuMemFree_v2(ptr), 0);
    });
}

/// A host access to device memory ends the process, so it is made in a child.
#[test]
fn the_host_cannot_touch_device_memory() {
    use std::os::unix::process::ExitStatusExt;
    let emulator = or_skip!(Emulator::new());
    let output = run("touching", emulator.command("memory::touch", ""));
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(said.contains("touching"), "the child came as far: {said}");
    assert_eq!(output.status.signal(), Some(nix::libc::SIGSEGV), "{}", output.status);
}

#[test]
#[ignore = "a part of the_host_cannot_touch_device_memory"]
fn touch() {
    if !in_child() {
        return;
    }
    loosely("", |rig| {
        let ptr = rig.device_memory(4096);
        println!("touching");
        // SAFETY: it is not: this must end the process.
        let byte = unsafe { (ptr as *const u8).read_volatile() };
        println!("read {byte}");
    });
    child_done();
}
