//! Opening, closing, properties and parameters.

use crate::abi::{self, DrvProps, SUCCESS, Status, code};
use crate::rig::{Rig, Sample};
use std::mem::MaybeUninit;
use std::ptr::null_mut;

fn properties(rig: &Rig) -> DrvProps {
    let mut props = MaybeUninit::uninit();
    // SAFETY: a place of our own, filled where the call succeeds.
    unsafe {
        assert_eq!((rig.api.cuFileDriverGetProperties)(props.as_mut_ptr()), SUCCESS);
        props.assume_init()
    }
}

#[test]
fn nothing_but_version_and_parameters_works_before_the_driver_is_open() {
    let rig = Rig::closed("");
    let closed = Status::of(code::DRIVER_NOT_INITIALIZED);
    let memory = rig.memory(4096);
    assert_eq!(rig.register(0).unwrap_err(), closed);
    assert_eq!(rig.register_memory(memory.address, 4096), closed);
    assert_eq!(rig.read(null_mut(), memory.address, 4096, 0, 0), -5001);
    let (mut batch, mut version, mut depth) = (null_mut(), 0, 0);
    // SAFETY: places of our own.
    unsafe {
        assert_eq!((rig.api.cuFileBatchIOSetUp)(&mut batch, 1), closed);
        assert_eq!((rig.api.cuFileStatsStart)(), closed);
        assert_eq!((rig.api.cuFileDriverClose_v2)(), closed);
        assert_eq!((rig.api.cuFileUseCount)(), 0);
        assert_eq!((rig.api.cuFileGetVersion)(&mut version), SUCCESS);
        assert_eq!((rig.api.cuFileGetParameterSizeT)(9, &mut depth), SUCCESS);
    }
    assert_eq!((version, depth), (1150, 128));
    rig.assert_clean();
}

#[test]
fn opening_without_a_context_is_caught() {
    let rig = Rig::closed("");
    // SAFETY: it takes nothing.
    let status = rig.without_context(|| unsafe { (rig.api.cuFileDriverOpen)() });
    assert_eq!(status, Status::cuda(abi::CUDA_ERROR_INVALID_CONTEXT));
    rig.assert_caught("no context is current");
    assert_eq!(rig.count("opens"), 0);
}

#[test]
fn a_driver_is_open_once_until_it_is_closed() {
    let rig = Rig::open("");
    // SAFETY: they take nothing.
    unsafe {
        assert_eq!((rig.api.cuFileDriverOpen)(), Status::of(code::DRIVER_ALREADY_OPEN));
        assert_eq!((rig.api.cuFileUseCount)(), 1);
        assert_eq!((rig.api.cuFileDriverClose_v2)(), SUCCESS);
        assert_eq!((rig.api.cuFileUseCount)(), 0);
        assert_eq!((rig.api.cuFileDriverOpen)(), SUCCESS);
        assert_eq!((rig.api.cuFileDriverClose)(), SUCCESS);
    }
    assert_eq!(rig.count("opens"), 2);
    rig.assert_clean();
}

#[test]
fn the_script_can_fail_any_call() {
    let rig = Rig::closed("cufile_open=5033");
    // SAFETY: it takes nothing.
    let open = || unsafe { (rig.api.cuFileDriverOpen)() };
    assert_eq!(open(), Status::of(5033));
    rig.script("cufile_open=0;fail=cuFileDriverOpen@1:5010");
    assert_eq!(open(), Status::of(5010));
    assert_eq!(open(), SUCCESS);
    rig.script("fail=cuFileBufRegister@2:5011");
    let memory = rig.registered(4096);
    let failed = rig.register_memory(memory.address, 4096);
    assert_eq!(failed.err, code::CUDA_DRIVER_ERROR);
    assert_ne!(failed.cu_err, 0, "a failure of the driver names the driver's code");
    rig.assert_clean();
}

#[test]
fn properties_say_what_the_script_says() {
    let rig = Rig::open("cufile_path=nvfs;cufile_batch=64;cufile_max_direct_io_kb=4096;cufile_version=1090");
    let props = properties(&rig);
    assert_eq!((props.nvfs.major_version, props.nvfs.minor_version), (2, 28));
    assert_eq!((props.max_batch_io_size, props.nvfs.max_direct_io_size), (64, 4096));
    assert_eq!(props.max_device_pinned_mem_size, 32 << 20, "32 GiB in KiB");
    assert_eq!(props.nvfs.dstatusflags, 1 << 4);
    assert_eq!(props.nvfs.dcontrolflags & 2, 2, "compatibility mode is allowed unless forbidden");
    assert_eq!(props.fflags & 6, 6, "batches and streams");
    let mut version = 0;
    // SAFETY: a place of our own.
    assert_eq!(unsafe { (rig.api.cuFileGetVersion)(&mut version) }, SUCCESS);
    assert_eq!(version, 1090);

    rig.script("cufile_path=compat;cufile_nvfs_version=2.25;cufile_no_compat;cufile_no_batch;cufile_no_async");
    let props = properties(&rig);
    assert_eq!((props.nvfs.major_version, props.nvfs.minor_version), (2, 25));
    assert_eq!((props.nvfs.dstatusflags, props.nvfs.dcontrolflags & 2, props.fflags & 6), (0, 0, 0));
}

#[test]
fn limits_are_set_in_whole_blocks() {
    let rig = Rig::open("");
    let refused = Status::of(code::DRIVER_UNSUPPORTED_LIMIT);
    // SAFETY: they take numbers.
    unsafe {
        assert_eq!((rig.api.cuFileDriverSetMaxDirectIOSize)(6), refused);
        assert_eq!((rig.api.cuFileDriverSetMaxDirectIOSize)(1024), SUCCESS);
        assert_eq!((rig.api.cuFileDriverSetMaxCacheSize)(2048), SUCCESS);
        assert_eq!((rig.api.cuFileDriverSetMaxPinnedMemSize)(4096), SUCCESS);
        assert_eq!((rig.api.cuFileDriverSetPollMode)(true, 8), SUCCESS);
    }
    let props = properties(&rig);
    assert_eq!((props.nvfs.max_direct_io_size, props.nvfs.poll_thresh_size), (1024, 8));
    assert_eq!((props.max_device_cache_size, props.max_device_pinned_mem_size), (2048, 4096));
    assert_eq!(props.nvfs.dcontrolflags & 1, 1);
}

#[test]
fn parameters_are_fixed_once_the_driver_is_open() {
    let rig = Rig::closed("");
    let (mut size, mut flag, mut text, mut range) = (0, true, [0i8; 64], (0, 0));
    // SAFETY: places of our own, and a C string.
    unsafe {
        assert_eq!((rig.api.cuFileSetParameterSizeT)(9, 32), SUCCESS);
        assert_eq!((rig.api.cuFileSetParameterSizeT)(9, 257), Status::of(code::INVALID_VALUE));
        assert_eq!((rig.api.cuFileSetParameterSizeT)(12, 1), Status::of(code::INVALID_VALUE));
        assert_eq!((rig.api.cuFileSetParameterBool)(1, false), SUCCESS);
        assert_eq!((rig.api.cuFileSetParameterString)(2, c"/var/log".as_ptr()), SUCCESS);
        assert_eq!((rig.api.cuFileDriverOpen)(), SUCCESS);
        assert_eq!((rig.api.cuFileSetParameterSizeT)(9, 64), Status::of(code::DRIVER_ALREADY_OPEN));
        assert_eq!((rig.api.cuFileSetParameterBool)(1, true), Status::of(code::DRIVER_ALREADY_OPEN));
        assert_eq!((rig.api.cuFileGetParameterSizeT)(9, &mut size), SUCCESS);
        assert_eq!((rig.api.cuFileGetParameterBool)(1, &mut flag), SUCCESS);
        assert_eq!((rig.api.cuFileGetParameterString)(2, text.as_mut_ptr(), 64), SUCCESS);
        assert_eq!((rig.api.cuFileGetParameterString)(2, text.as_mut_ptr(), 4), Status::of(code::INVALID_VALUE));
        assert_eq!((rig.api.cuFileGetParameterMinMaxValue)(9, &mut range.0, &mut range.1), SUCCESS);
    }
    assert_eq!((size, flag, range), (32, false, (1, 256)));
    assert_eq!(text[..9].iter().map(|byte| *byte as u8).collect::<Vec<_>>(), b"/var/log\0");
    let props = properties(&rig);
    assert_eq!((props.max_batch_io_size, props.nvfs.dcontrolflags & 2), (32, 0));
}

#[test]
fn slab_arrays_are_pairs_of_equal_length() {
    let rig = Rig::closed("");
    let (mut sizes, mut counts) = ([0; 3], [0; 3]);
    // SAFETY: arrays of our own, of the lengths given.
    unsafe {
        let get = rig.api.cuFileGetParameterPosixPoolSlabArray;
        assert_eq!(get(sizes.as_mut_ptr(), counts.as_mut_ptr(), 3), SUCCESS);
        assert_eq!((sizes, counts), ([4, 1024, 16384], [128, 64, 64]));
        assert_eq!((rig.api.cuFileSetParameterPosixPoolSlabArray)([64, 128].as_ptr(), [7, 8].as_ptr(), 2), SUCCESS);
        assert_eq!(get(sizes.as_mut_ptr(), counts.as_mut_ptr(), 3), Status::of(code::INVALID_VALUE));
        assert_eq!(get(sizes.as_mut_ptr(), counts.as_mut_ptr(), 2), SUCCESS);
        assert_eq!((&sizes[..2], &counts[..2]), (&[64, 128][..], &[7, 8][..]));
        assert_eq!((rig.api.cuFileSetParameterGpuBounceBufferSlabArray)([64].as_ptr(), [1].as_ptr(), 1), SUCCESS);
        assert_eq!(
            (rig.api.cuFileGetParameterGpuBounceBufferSlabArray)(sizes.as_mut_ptr(), counts.as_mut_ptr(), 1),
            SUCCESS
        );
    }
    assert_eq!((sizes[0], counts[0]), (64, 1));
}

#[test]
fn the_machine_can_be_asked_about() {
    let rig = Rig::open("");
    let (mut bar, mut flags) = (0, 0);
    // SAFETY: places of our own.
    unsafe {
        assert_eq!((rig.api.cuFileGetBARSizeInKB)(0, &mut bar), SUCCESS);
        assert_eq!((rig.api.cuFileGetBARSizeInKB)(-1, &mut bar), Status::of(code::INVALID_VALUE));
        assert_eq!((rig.api.cuFileDriverGetP2PFlags)(4, &mut flags), SUCCESS);
        assert_eq!((rig.api.cuFileDriverSetP2PFlags)(4, 1), Status::of(code::PLATFORM_NOT_SUPPORTED));
        assert_eq!((rig.api.cuFileExportPCIeTopology)(c"x".as_ptr()), Status::of(code::PLATFORM_NOT_SUPPORTED));
    }
    assert_eq!((bar, flags), (128 << 20, 1));
}

#[test]
fn closing_forgets_what_was_registered() {
    let Some(sample) = Sample::new(4096) else { return };
    let rig = Rig::open("");
    let memory = rig.registered(4096);
    let stale = rig.register(sample.fd()).unwrap();
    // SAFETY: they take nothing.
    unsafe {
        assert_eq!((rig.api.cuFileDriverClose_v2)(), SUCCESS);
        assert_eq!((rig.api.cuFileDriverOpen)(), SUCCESS);
    }
    assert_eq!((rig.count("handles"), rig.count("buffers")), (0, 0));
    assert_ne!(rig.register(sample.fd()).unwrap(), stale, "no number is given out twice");
    memory.free();
    rig.assert_clean();
}
