//! Calls of the driver and of cuFile that fail, one after the other and at every moment: right bytes or a clear error, and
//! the next carrier works.
use std::thread;
use std::time::Duration;

use forebay::{CarrierBuilder, Device, DeviceFault, Error, Extent, Placed, Route};

use crate::common::emulated::{Emulated, clean};
use crate::common::emulator::Control;
use crate::common::watchdog::eventually;
use crate::common::watchdog::guarded;
use crate::rig::{FORMS, Files, builder, builder_on, check, ways, whole, works};

const LEN: u64 = 700_001;

/// What a call that fails may keep for ever: it cannot be known whether the device still uses it, or it was not freed.
const KEEPS: [&str; 10] = [
    "cuCtxGetCurrent",
    "cuCtxSetCurrent",
    "cuStreamSynchronize",
    "cuStreamDestroy_v2",
    "cuEventDestroy_v2",
    "cuMemFree_v2",
    "cuMemHostUnregister",
    "cuDevicePrimaryCtxRelease_v2",
    "cuFileBufDeregister",
    "cuFileHandleDeregister",
];

const DRIVER: [&str; 24] = [
    "cuInit",
    "cuDeviceGetCount",
    "cuDeviceGet",
    "cuDeviceGetAttribute",
    "cuDeviceGetName",
    "cuDeviceGetPCIBusId",
    "cuDevicePrimaryCtxRetain",
    "cuDevicePrimaryCtxRelease_v2",
    "cuCtxGetCurrent",
    "cuCtxSetCurrent",
    "cuMemAlloc_v2",
    "cuMemFree_v2",
    "cuMemHostRegister_v2",
    "cuMemHostUnregister",
    "cuStreamCreate",
    "cuStreamDestroy_v2",
    "cuStreamSynchronize",
    "cuEventCreate",
    "cuEventDestroy_v2",
    "cuEventRecord",
    "cuEventQuery",
    "cuEventSynchronize",
    "cuMemcpyHtoDAsync_v2",
    "cuMemcpyDtoHAsync_v2",
];

const CUFILE: [&str; 12] = [
    "cuFileDriverOpen",
    "cuFileDriverGetProperties",
    "cuFileGetVersion",
    "cuFileBufRegister",
    "cuFileBufDeregister",
    "cuFileHandleRegister",
    "cuFileRead",
    "cuFileBatchIOSetUp",
    "cuFileBatchIOSubmit",
    "cuFileBatchIOGetStatus",
    "cuFileStreamRegister",
    "cuFileReadAsync",
];

/// All that a program does: a device, a carrier, a file carried and fetched, all dropped.
fn everything(set: impl Fn(CarrierBuilder) -> CarrierBuilder, files: &Files) -> Result<(), Error> {
    let device = Device::cuda(0)?;
    let carrier = set(builder_on(&device)).build()?;
    let file = carrier.open(&files.paths[0])?;
    let landed = carrier.carry_blocking(&[whole(&file), Extent::new(&file, 4097, 5)])?;
    for (i, (from, len)) in [(0, LEN), (4097, 5)].into_iter().enumerate() {
        crate::common::data::check(&landed.to_host(i)?, 0, from).unwrap();
        assert_eq!(landed.piece_len(i), Some(len as usize));
    }
    let buffer = device.allocate(1 << 20)?;
    // Whole blocks, as cuFile takes no others to a place of the caller's.
    let blocks = LEN / 4096 * 4096;
    let (carried, buffer) = carrier.carry_into(buffer, &[Placed::new(Extent::new(&file, 0, blocks), 8192)]).wait();
    carried?;
    let got = Control::here().read_device(buffer.device_address().unwrap() + 8192, blocks as usize);
    crate::common::data::check(&got, 0, 0).unwrap();
    Ok(())
}

/// Each of the calls fails at its first, second… time, until it is made less often than that.
fn storm(
    control: &Control,
    calls: &[&str],
    keeps: &[&str],
    code: i32,
    most: u64,
    set: impl Fn(CarrierBuilder) -> CarrierBuilder,
) {
    let files = Files::one(LEN);
    let (mut struck, mut errors) = (0, 0);
    for call in calls {
        for nth in 1..=most {
            files.cool();
            control.reset_calls();
            let before = control.leaks().len();
            control.script(&format!("fail={call}@{nth}:{code}"));
            let outcome = everything(&set, &files);
            let what = format!("{call}, the {nth}th time: {outcome:?}");
            let reached = control.calls(call) >= nth;
            control.script("clear");
            if let Err(error) = &outcome {
                let said = error.to_string();
                assert!(reached && said.lines().count() == 1 && said.contains(['(', ';']), "{what}: {said}");
                errors += 1;
            }
            assert!(control.violations().is_empty(), "{what}: {:#?}", control.violations());
            let left = || control.leaks().len() == before;
            assert!(keeps.contains(call) || eventually(left), "{what}: {:#?}", &control.leaks()[before..]);
            if !reached {
                break;
            }
            struck += 1;
        }
    }
    assert!(struck > 0 && errors > 0, "{struck} calls failed, {errors} requests");
    everything(&set, &files).unwrap();
    eprintln!("{struck} calls failed, {errors} requests with them");
}

#[test]
fn every_call_of_the_driver_may_fail() {
    Emulated::new("jitter_us=50").patience(Duration::from_secs(90)).run(|control| {
        storm(control, &DRIVER, &KEEPS, 700, 6, |builder| builder.route(Route::Bounce));
    });
}

/// Some drivers answer what is not even a code of theirs.
#[test]
fn every_call_of_the_driver_may_fail_with_a_code_without_a_name() {
    Emulated::new("jitter_us=50").patience(Duration::from_secs(90)).run(|control| {
        storm(control, &DRIVER[9..], &KEEPS, 4711, 3, |builder| builder.route(Route::Cached));
    });
}

#[test]
fn every_call_of_cufile_may_fail() {
    Emulated::new("jitter_us=50; cufile_late_us=50").patience(Duration::from_secs(90)).run(|control| {
        for form in FORMS {
            for code in [5001, 5030] {
                storm(control, &CUFILE, &KEEPS, code, 4, |builder| builder.route(Route::Direct).direct_form(form));
            }
            // Left to choose, it falls back.
            storm_without_error(control, |builder| builder.direct_form(form));
        }
    });
}

/// Before the first byte is carried, a failure of cuFile's is a reason to take another route.
fn storm_without_error(control: &Control, set: impl Fn(CarrierBuilder) -> CarrierBuilder) {
    let files = Files::one(LEN);
    for call in ["cuFileBufRegister", "cuFileHandleRegister", "cuFileDriverGetProperties"] {
        files.cool();
        control.script(&format!("fail={call}@1:5030"));
        everything(&set, &files).unwrap_or_else(|error| panic!("{call}: {error}"));
        control.script("clear");
    }
}

#[test]
fn every_call_of_the_driver_may_fail_beneath_cufile() {
    Emulated::new("jitter_us=50; cufile_late_us=50").patience(Duration::from_secs(90)).run(|control| {
        for form in FORMS {
            // By its events a stream tells how reads ended: without them nobody knows.
            let keeps = [&KEEPS[..], &["cuEventCreate", "cuEventRecord", "cuEventQuery"]].concat();
            storm(control, &DRIVER[8..22], &keeps, 700, 3, |builder| builder.route(Route::Direct).direct_form(form));
        }
    });
}

/// It takes longer, and that is all.
#[test]
fn a_call_that_stalls_is_waited_for() {
    clean("", |control| {
        let files = Files::one(LEN);
        for call in ["cuMemAlloc_v2", "cuMemHostRegister_v2", "cuMemcpyHtoDAsync_v2", "cuEventRecord", "cuEventQuery"] {
            control.script(&format!("stall={call}@2:200"));
            everything(|builder| builder.route(Route::Bounce), &files).unwrap();
            control.script("clear");
        }
        for (form, calls) in FORMS.into_iter().zip([
            ["cuFileRead", "cuFileHandleRegister"],
            ["cuFileBatchIOSubmit", "batch_entry"],
            ["cuFileReadAsync", "async_entry"],
        ]) {
            for call in calls {
                control.script(&format!("stall={call}@1:200"));
                everything(|builder| builder.route(Route::Direct).direct_form(form), &files).unwrap();
                control.script("clear");
            }
        }
    });
}

/// The device fails for good while copies are in flight. Those who wait for it hear of it, whatever they wait for.
#[test]
fn a_device_that_fails_for_good_is_told_to_all_who_wait() {
    Emulated::new("").run(|control| for_good(control, "fail=execute@3:719"));
}

/// The same where its events fail to tell, so that nobody knows what is still in flight.
#[test]
fn a_device_whose_events_fail_for_good_is_told_to_all_who_wait() {
    Emulated::new("").run(|control| for_good(control, "fail=cuEventQuery@2+:719; fail=cuStreamSynchronize:719"));
}

fn for_good(control: &Control, fault: &str) {
    let files = Files::one(12 << 20);
    // All pinned memory is in flight when it happens, and half of the device's is held.
    let carrier = builder().route(Route::Bounce).budget(1 << 20).device_budget(24 << 20).build().unwrap();
    let file = carrier.open(&files.paths[0]).unwrap();
    let before = carrier.carry_blocking(&[Extent::new(&file, 0, 3 << 20)]).unwrap();
    control.script("paused=1");
    let carries: Vec<_> = (0..2).map(|_| carrier.carry(&[whole(&file)])).collect();
    let buffer = carrier.device().allocate(12 << 20).unwrap();
    let placed = carrier.carry_into(buffer, &[Placed::new(whole(&file), 0)]);
    let mut waiters: Vec<_> = carries.into_iter().map(|carry| thread::spawn(move || carry.wait().map(drop))).collect();
    waiters.push(thread::spawn(move || placed.wait().0.map(drop)));
    assert!(eventually(|| control.in_flight() >= 3));
    control.script(fault);
    control.script("paused=0");
    for waiter in waiters {
        assert!(eventually(|| waiter.is_finished()), "a carry hears nothing");
        let error = waiter.join().unwrap().unwrap_err();
        let forebay::CarryFault::Device(device) = &error.fault else { panic!("{error:?}") };
        let right = match &device.fault {
            DeviceFault::Call { code } => code.code == 719,
            fault => *fault == DeviceFault::Ended,
        };
        assert!(right, "{error:?}");
    }
    // Nothing waits for it any more, in vain.
    let fetching = thread::spawn(move || before.to_host(0).map(drop));
    assert!(eventually(|| fetching.is_finished()), "a fetch hears nothing");
    let _ = fetching.join().unwrap();
    let later = carrier.carry(&[Extent::new(&file, 0, 9)]);
    let later = thread::spawn(move || later.wait());
    assert!(eventually(|| later.is_finished()), "a carry begun later hears nothing");
    assert!(later.join().unwrap().is_err());
    guarded("a drop after the fault", move || drop((carrier, file)));
    control.script("clear");
    control.assert_no_violations();
}

/// One failed copy is one failed request.
#[test]
fn a_carrier_survives_a_copy_that_is_refused() {
    clean("", |control| {
        let files = Files::one(LEN);
        let carrier = builder().route(Route::Bounce).build().unwrap();
        let file = carrier.open(&files.paths[0]).unwrap();
        for call in ["cuMemcpyHtoDAsync_v2", "cuEventRecord"] {
            control.script(&format!("fail={call}@2:2"));
            let error = carrier.carry_blocking(&[whole(&file)]).unwrap_err();
            assert!(error.to_string().contains("CUDA_ERROR_OUT_OF_MEMORY"), "{error}");
            assert!(error.to_string().starts_with(&files.paths[0].display().to_string()), "{error}");
            works(&carrier, &files);
        }
    });
}

/// Whatever the way, an error of the file is one of the file.
#[test]
fn a_file_that_is_gone_is_told_by_its_name() {
    clean("", |_| {
        for (way, builder) in ways() {
            let files = Files::one(LEN);
            let carrier = builder.build().unwrap();
            let file = carrier.open(&files.paths[0]).unwrap();
            std::fs::remove_file(&files.paths[0]).unwrap();
            let error = carrier.carry_blocking(&[whole(&file)]).unwrap_err();
            crate::common::reader::names_offset(&error.to_string(), &files.paths[0]).unwrap();
            assert!(carrier.open(&files.paths[0]).is_err(), "{way}");
            check(&carrier.carry_blocking(&[]).unwrap(), &[]);
        }
    });
}
