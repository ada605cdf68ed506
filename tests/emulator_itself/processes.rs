//! Processes: forked children, the environment, and the loader.
use nix::libc;

use crate::common::emulator::{Control, Emulator, Report};
use crate::common::privilege::{child_done, expect_child, in_child};
use crate::or_skip;
use crate::rig::*;

/// A child of fork has none of the driver's threads and all of its locks as they were.
#[test]
fn calls_in_a_forked_child_fail_and_never_hang() {
    under("", |rig| {
        let stream = rig.stream();
        // Threads that are inside the emulator when it forks.
        let stop = std::sync::atomic::AtomicBool::new(false);
        std::thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    assert_eq!(rig.cuCtxSetCurrent(rig.context), 0);
                    while !stop.load(std::sync::atomic::Ordering::Relaxed) {
                        assert_eq!(rig.cuEventDestroy_v2(rig.event()), 0);
                    }
                });
            }
            for _ in 0..20 {
                assert_eq!(in_forked_child(|| child_codes(rig, stream)), 0, "bit n: call n was wrong");
            }
            stop.store(true, std::sync::atomic::Ordering::Relaxed);
        });
        assert_eq!(rig.cuStreamDestroy_v2(stream), 0);
    });
}

/// A bit for each call that did not answer NOT_INITIALIZED.
fn child_codes(rig: &Rig, stream: usize) -> i32 {
    let codes = [
        rig.cuInit(0),
        rig.cuDeviceGetCount(&mut 0),
        rig.cuMemAlloc_v2(&mut 0, 1),
        rig.cuStreamSynchronize(stream),
        rig.cuCtxSetCurrent(rig.context),
        rig.cuDevicePrimaryCtxRelease_v2(0),
    ];
    let named = rig.cuGetErrorName(NOT_INITIALIZED, &mut std::ptr::null());
    let wrong = codes.iter().enumerate().filter(|(_, code)| **code != NOT_INITIALIZED);
    wrong.fold(0, |bits, (n, _)| bits | 1 << n) | (named & 1) << 6
}

/// The exit code of a forked child that does this; 255 if it hangs.
fn in_forked_child(work: impl FnOnce() -> i32) -> i32 {
    // SAFETY: the child calls only the emulator, which allocates nothing and takes no lock there, and `_exit`.
    unsafe {
        let child = libc::fork();
        assert!(child >= 0);
        if child == 0 {
            libc::alarm(10);
            libc::_exit(work());
        }
        let mut status = 0;
        assert_eq!(libc::waitpid(child, &mut status, 0), child);
        if libc::WIFEXITED(status) { libc::WEXITSTATUS(status) } else { 255 }
    }
}

#[test]
fn a_process_forked_before_init_is_as_good_as_any() {
    let rig = or_skip!(Rig::bare(""));
    assert_eq!(rig.cuDriverGetVersion(&mut 0), 0);
    assert_eq!(in_forked_child(|| rig.cuInit(0)), 0);
}

#[test]
fn the_environment_chooses_devices() {
    let emulator = or_skip!(Emulator::new());
    let cases = [("", 0, ""), ("-1", 0, ""), ("1", 1, "1"), ("1,0", 2, "1"), ("0,7,1", 1, "0"), ("0,0", 1, "0")];
    for (visible, count, first) in cases {
        let mut command = emulator.command("processes::count_devices", "devices=2");
        command.env("CUDA_VISIBLE_DEVICES", visible).env("EXPECTED", format!("{count} {first}"));
        expect_child(&format!("CUDA_VISIBLE_DEVICES={visible}"), command);
    }
}

#[test]
#[ignore = "a part of the_environment_chooses_devices"]
fn count_devices() {
    if !in_child() {
        return;
    }
    let driver = Control::here();
    let init = driver.function::<extern "C" fn(u32) -> i32>("cuInit");
    let count_of = driver.function::<extern "C" fn(*mut i32) -> i32>("cuDeviceGetCount");
    let name_of = driver.function::<extern "C" fn(*mut u8, i32, i32) -> i32>("cuDeviceGetName");
    let (mut count, mut name) = (0, [0u8; 32]);
    let expected = std::env::var("EXPECTED").unwrap();
    if expected.starts_with('0') {
        assert_eq!(init(0), NO_DEVICE);
    } else {
        assert_eq!((init(0), count_of(&mut count), name_of(name.as_mut_ptr(), 32, 0)), (0, 0, 0));
        let name = std::ffi::CStr::from_bytes_until_nul(&name).unwrap().to_str().unwrap();
        assert_eq!(format!("{count} {}", name.trim_start_matches("Emulated GPU ")), expected);
    }
    child_done();
}

/// The script comes from the environment, the names can be had singly, and a process leaves a report.
#[test]
fn a_child_finds_it_by_name_and_leaves_a_report() {
    let emulator = or_skip!(Emulator::with(&["libcuda.so.1"]));
    let report = emulator.path().join("report");
    let script = format!("driver=11040; report={}", report.display());
    expect_child("by name", emulator.command("processes::by_name", &script));
    let report = Report::read(&report);
    assert_eq!((report.calls("cuMemAlloc_v2"), report.calls("cuMemFree_v2")), (1, 0), "{report:?}");
    assert!(matches!(&report.violations[..], [one] if one.starts_with("cuMemAlloc_v2: no context")), "{report:?}");
    assert!(matches!(&report.leaks[..], [one] if one.starts_with("event 0x")), "{report:?}");
}

#[test]
#[ignore = "a part of a_child_finds_it_by_name_and_leaves_a_report"]
fn by_name() {
    if !in_child() {
        return;
    }
    // SAFETY: neither library runs anything when it is loaded.
    let (cufile, again) =
        unsafe { (libloading::Library::new("libcufile.so.0"), libloading::Library::new("libcuda.so.1")) };
    assert!(cufile.is_err(), "a library whose name was left out is not there");
    let driver = Control::here();
    // Who opened it to look closes it again, while others use it.
    drop(again);
    let mut version = 0;
    assert_eq!(driver.function::<extern "C" fn(*mut i32) -> i32>("cuDriverGetVersion")(&mut version), 0);
    assert_eq!(version, 11040);
    assert_eq!(driver.function::<extern "C" fn(u32) -> i32>("cuInit")(0), 0);
    let allocate = driver.function::<extern "C" fn(*mut u64, usize) -> i32>("cuMemAlloc_v2");
    assert_eq!(allocate(&mut 0, 1), INVALID_CONTEXT);
    let mut context = 0;
    assert_eq!(
        driver.function::<extern "C" fn(*mut usize, i32) -> i32>("cuDevicePrimaryCtxRetain")(&mut context, 0),
        0
    );
    assert_eq!(driver.function::<extern "C" fn(usize) -> i32>("cuCtxSetCurrent")(context), 0);
    assert_eq!(driver.function::<extern "C" fn(*mut usize, u32) -> i32>("cuEventCreate")(&mut 0, 0), 0);
    child_done();
}
