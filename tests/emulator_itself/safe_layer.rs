//! cudarc on the emulator: its safe layer finds all that it calls, and its bindings have the layouts that we have.
use std::mem::size_of;
use std::ptr;

use cudarc::driver::{CudaContext, PinnedHostSlice, sys};

use crate::common::emulator::{Control, Emulator};
use crate::common::privilege::{child_done, expect_child, in_child};
use crate::or_skip;
use crate::rig::Attributes;

#[test]
fn cudarc_works() {
    let emulator = or_skip!(Emulator::new());
    for script in ["jitter_us=300", "jitter_us=300; attributes=115:0"] {
        expect_child(script, emulator.command("safe_layer::use_cudarc", script));
    }
}

#[test]
#[ignore = "a part of cudarc_works"]
fn use_cudarc() {
    if !in_child() {
        return;
    }
    {
        let context = CudaContext::new(1).unwrap();
        assert_eq!((CudaContext::device_count().unwrap(), context.name().unwrap().as_str()), (2, "Emulated GPU 1"));
        assert_eq!(context.uuid().unwrap().bytes[15], b'1' as i8);
        assert_eq!(context.total_mem().unwrap(), 16 << 30);
        let (stream, other) = (context.new_stream().unwrap(), context.new_stream().unwrap());
        // SAFETY: what is allocated is written before it is read.
        let mut from: PinnedHostSlice<u32> = unsafe { context.alloc_pinned(10_000) }.unwrap();
        // SAFETY: as above.
        let mut back: PinnedHostSlice<u32> = unsafe { context.alloc_pinned(10_000) }.unwrap();
        from.as_mut_slice().unwrap().iter_mut().zip(0..).for_each(|(number, n)| *number = n);
        // SAFETY: as above.
        let mut buffer = unsafe { stream.alloc::<u32>(10_000) }.unwrap();
        stream.memcpy_htod(&from, &mut buffer).unwrap();
        let event = stream.record_event(None).unwrap();
        other.wait(&event).unwrap();
        let copy = other.clone_dtod(&buffer).unwrap();
        other.memcpy_dtoh(&copy, &mut back).unwrap();
        event.synchronize().unwrap();
        assert!(event.is_complete());
        other.synchronize().unwrap();
        assert!(back.as_slice().unwrap().iter().copied().eq(0..10_000));
        stream.memset_zeros(&mut buffer).unwrap();
        stream.memcpy_dtoh(&buffer, &mut back).unwrap();
        assert!(back.as_slice().unwrap().iter().all(|&number| number == 0));
        assert!(context.mem_get_info().unwrap().1 == 16 << 30);
        context.synchronize().unwrap();
        context.check_err().unwrap();
    }
    batch();
    let unknown = format!("{:?} {}", CudaContext::new(9).unwrap_err(), CudaContext::new(9).unwrap_err());
    assert!(unknown.contains("CUDA_ERROR_INVALID_DEVICE"), "{unknown}");
    Control::here().assert_clean();
    child_done();
}

/// The batch call by cudarc's own types.
fn batch() {
    assert_eq!(size_of::<sys::CUmemcpyAttributes>(), size_of::<Attributes>());
    let context = CudaContext::new(0).unwrap();
    let stream = context.new_stream().unwrap();
    // SAFETY: the pointers are to arrays of two, whose memory lives until the stream is done.
    unsafe {
        let mut from: PinnedHostSlice<u8> = context.alloc_pinned(2).unwrap();
        from.as_mut_slice().unwrap().copy_from_slice(&[1, 2]);
        let mut device = 0;
        sys::cuMemAlloc_v2(&mut device, 2).result().unwrap();
        let host = from.as_slice().unwrap().as_ptr() as u64;
        let (mut to, mut src, mut lens) = ([device + 1, device], [host, host + 1], [1, 1]);
        let mut attributes: sys::CUmemcpyAttributes = std::mem::zeroed();
        attributes.srcAccessOrder = sys::CUmemcpySrcAccessOrder::CU_MEMCPY_SRC_ACCESS_ORDER_STREAM;
        let (to, src, lens) = (to.as_mut_ptr(), src.as_mut_ptr(), lens.as_mut_ptr());
        sys::cuMemcpyBatchAsync_v2(to, src, lens, 2, &mut attributes, &mut 0, 1, stream.cu_stream()).result().unwrap();
        stream.synchronize().unwrap();
        assert_eq!(Control::here().read_device(device, 2), [2, 1]);
        sys::cuMemFree_v2(device).result().unwrap();
        assert_eq!(sys::cuStreamQuery(ptr::null_mut()).result(), Ok(()));
    }
}
