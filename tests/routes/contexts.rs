//! The calling thread's current context is as it was after every call: programs with several devices rely on it.
use forebay::{Device, Placed};

use crate::common::emulated::clean;
use crate::common::emulator::Control;
use crate::rig::{Files, check, ways, whole};

fn current(control: &Control) -> usize {
    let mut context = 0;
    assert_eq!(control.function::<extern "C" fn(*mut usize) -> i32>("cuCtxGetCurrent")(&mut context), 0);
    context
}

fn set_current(control: &Control, context: usize) {
    assert_eq!(control.function::<extern "C" fn(usize) -> i32>("cuCtxSetCurrent")(context), 0);
}

/// Runs each call with no context current, with that of another device, and with that of the same one.
#[test]
fn no_call_changes_what_is_current() {
    clean("", |control| {
        let files = Files::one(1 << 20);
        assert_eq!(control.function::<extern "C" fn(u32) -> i32>("cuInit")(0), 0);
        let retain = control.function::<extern "C" fn(*mut usize, i32) -> i32>("cuDevicePrimaryCtxRetain");
        let release = control.function::<extern "C" fn(i32) -> i32>("cuDevicePrimaryCtxRelease_v2");
        let mut contexts = [0; 3];
        assert_eq!((retain(&mut contexts[1], 1), retain(&mut contexts[2], 0)), (0, 0));
        for before in contexts {
            set_current(control, before);
            let same = |what: &str| assert_eq!(current(control), before, "after {what}");
            let device = Device::cuda(0).unwrap();
            same("opening a device");
            assert!(device.memory().unwrap().is_some() && device.driver_version().unwrap().is_some());
            same("asking it");
            for (way, builder) in ways() {
                let carrier = builder.build().unwrap();
                same(&format!("building a carrier, {way}"));
                let file = carrier.open(&files.paths[0]).unwrap();
                same(&format!("opening a file, {way}"));
                let mut landed = carrier.carry_blocking(&[whole(&file)]).unwrap();
                same(&format!("carrying, {way}"));
                check(&landed, &[(0, 0, 1 << 20)]);
                same(&format!("fetching, {way}"));
                let stream = device.context().unwrap().default_stream();
                set_current(control, before);
                landed.used_on(&stream).unwrap();
                same(&format!("marking a use, {way}"));
                drop(landed);
                same(&format!("dropping what landed, {way}"));
                let buffer = device.allocate(1 << 20).unwrap();
                same(&format!("allocating, {way}"));
                let (carried, buffer) = carrier.carry_into(buffer, &[Placed::new(whole(&file), 0)]).wait();
                assert_eq!(carried.unwrap().total(), 1 << 20);
                same(&format!("carrying into a buffer, {way}"));
                drop(buffer);
                same(&format!("dropping a buffer, {way}"));
                drop(carrier.carry(&[whole(&file)]));
                same(&format!("dropping a carry, {way}"));
                drop((carrier, file));
                same(&format!("dropping a carrier, {way}"));
            }
            let clone = device.clone();
            drop(clone);
            drop(device);
            same("dropping a device");
        }
        set_current(control, 0);
        assert_eq!((release(0), release(1)), (0, 0));
    });
}

/// A capture of the mode `GLOBAL` on any thread is broken by what other threads ask the driver meanwhile, unless they have
/// said that they have no part in it. Threads of the caller's keep the mode that they have.
#[test]
fn our_threads_have_no_part_in_captures() {
    clean("", |control| {
        let files = Files::one(1 << 20);
        for (way, builder) in ways() {
            control.reset_calls();
            let carrier = builder.build().unwrap();
            let file = carrier.open(&files.paths[0]).unwrap();
            check(&carrier.carry_blocking(&[whole(&file)]).unwrap(), &[(0, 0, 1 << 20)]);
            assert!(control.calls("cuThreadExchangeStreamCaptureMode") > 0, "{way}");
            const GLOBAL: u32 = 0;
            let mut mode = GLOBAL;
            let exchange = control.function::<extern "C" fn(*mut u32) -> i32>("cuThreadExchangeStreamCaptureMode");
            assert_eq!((exchange(&mut mode), mode), (0, GLOBAL), "{way}");
        }
    });
}
