//! Failures scripted into cuFile's calls: each is told with its place and its code, and the next job works.

use std::time::{Duration, Instant};

use nix::libc;

use super::rig::Rig;
use super::{is_child, pass};
use crate::device::cuda::cufile::{CuFileFault, Form, Job, TransferFault};

#[test]
fn failures_are_told_with_place_and_code_and_the_next_job_works() {
    pass("faults::in_child", "cufile_late_us=20");
}

#[test]
fn a_form_that_is_dropped_while_cufile_stalls_frees_nothing_under_it() {
    pass("faults::stalls_in_child", "cufile_late_us=0");
}

fn code(fault: &TransferFault) -> i32 {
    match &fault.fault {
        CuFileFault::Refused(refusal) => refusal.code.0,
        CuFileFault::Io(error) => error.raw_os_error().unwrap(),
        other => panic!("{other:?}"),
    }
}

#[test]
#[ignore = "run by a test above"]
fn in_child() {
    if !is_child() {
        return;
    }
    let rig = Rig::new();
    let (_, handle) = rig.file("data", 1 << 20);
    let memory = rig.memory(1 << 20);
    let read = |form: &dyn Form, pieces: u64| {
        let piece = |at: u64| rig.transfer(&handle, &memory, at * 8192, 8192, at * 8192);
        let (job, waiter) = Job::new((0..pieces).map(piece).collect());
        form.take(job);
        waiter.wait()
    };
    for (name, form) in rig.forms() {
        let (call, entry) = match name {
            "pool" => ("cuFileRead", "cuFileRead"),
            "batch" => ("cuFileBatchIOSubmit", "batch_entry"),
            _ => ("cuFileReadAsync", "async_entry"),
        };
        for (nth, wanted) in [(1, 5030), (3, 5030), (2, 5001), (4, libc::EIO), (1, libc::ENODATA)] {
            rig.emulator.script(&format!("fail={entry}@{nth}:{wanted}"));
            match read(&*form, 8).unwrap_err() {
                // A stream keeps no error number of a failure that it met in the kernel.
                TransferFault { fault: CuFileFault::IoUnsaid, .. } if name == "stream" && wanted < 5000 => {}
                fault => {
                    assert_eq!(code(&fault), wanted, "{name}: {fault}");
                    assert_eq!(fault.at, fault.index as u64 * 8192, "{name}: {fault}");
                }
            }
            assert!(read(&*form, 8).is_ok(), "{name}: the next job");
        }
        for patience in [libc::EINTR, libc::EAGAIN] {
            if name != "stream" {
                rig.emulator.script(&format!("fail={entry}@2:{patience}"));
                assert!(read(&*form, 8).is_ok(), "{name}: {patience} is no failure");
            }
        }
        rig.emulator.script(&format!("fail={call}@1:5035"));
        assert_eq!(code(&read(&*form, 8).unwrap_err()), 5035, "{name}");
        assert!(read(&*form, 8).is_ok(), "{name}: the next job");
        rig.emulator.script(&format!("short={entry}@1:0"));
        let fault = read(&*form, 1).unwrap_err();
        assert!(matches!(fault.fault, CuFileFault::Ends { missing: 8192 }), "{name}: {fault}");
        if name == "batch" {
            rig.emulator.script("fail=cuFileBatchIOGetStatus@1:5041; fail=cuFileBatchIOGetStatus@2:5041");
            assert!(read(&*form, 8).is_ok(), "an answer that cuFile cannot give yet");
        }
        early_end(&rig, &*form, name);
        form.close();
        assert!(matches!(read(&*form, 1).unwrap_err().fault, CuFileFault::Closed), "{name}");
        assert!(form.ended_by(Some(Instant::now() + Duration::from_secs(10))), "{name}");
    }
    drop((memory, handle));
    rig.end();
}

/// A file that is shorter than it was said to be.
fn early_end(rig: &Rig, form: &dyn Form, name: &str) {
    let (_, handle) = rig.file("short", 20_000);
    let memory = rig.memory(1 << 20);
    let transfers =
        vec![rig.transfer(&handle, &memory, 0, 20_000, 0), rig.transfer(&handle, &memory, 8192, 12_000, 1 << 16)];
    let (job, waiter) = Job::new(transfers);
    form.take(job);
    let fault = waiter.wait().unwrap_err();
    assert_eq!((fault.index, fault.at), (1, 20_000), "{name}: {fault}");
    assert!(matches!(fault.fault, CuFileFault::Ends { missing: 192 }), "{name}: {fault}");
}

#[test]
#[ignore = "run by a test above"]
fn stalls_in_child() {
    if !is_child() {
        return;
    }
    let rig = Rig::new();
    let (_, handle) = rig.file("data", 1 << 20);
    for (name, form) in rig.forms() {
        let entry = match name {
            "pool" => "cuFileRead",
            "batch" => "batch_entry",
            _ => "async_entry",
        };
        let memory = rig.memory(1 << 20);
        rig.emulator.script(&format!("stall={entry}@2:600000"));
        let (job, waiter) =
            Job::new((0..8).map(|at| rig.transfer(&handle, &memory, at * 8192, 8192, at * 8192)).collect());
        // The job alone keeps the memory now.
        drop(memory);
        form.take(job);
        std::thread::sleep(Duration::from_millis(50));
        // It is stalled until the script says otherwise, behind the drop.
        drop(form);
        rig.emulator.script("clear");
        // What was cancelled fails, what was not is whole: neither before the last has come back.
        let outcome = waiter.wait();
        let cancelled = |fault: &TransferFault| matches!(fault.fault, CuFileFault::Entry(_));
        assert!(outcome.as_ref().err().is_none_or(cancelled), "{name}: {outcome:?}");
        assert!(name == "batch" || outcome.is_ok(), "{name}: {outcome:?}");
        // The thread gives back what it has after it has told the waiter.
        let until = Instant::now() + Duration::from_secs(10);
        while rig.emulator.counter("buffers") > 0 && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(5));
        }
        std::thread::sleep(Duration::from_millis(200));
    }
    drop(handle);
    rig.end();
}
