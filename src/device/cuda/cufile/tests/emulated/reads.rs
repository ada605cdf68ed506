//! Right bytes, in every form, whatever cuFile does that it may.

use super::rig::Rig;
use super::{is_child, pass};
use crate::device::cuda::cufile::{Counters, Job};

const FILE: usize = (3 << 20) + 777;

#[test]
fn all_forms_read_the_same_bytes_in_any_order_of_events() {
    for seed in 0..6 {
        pass("reads::in_child", &format!("seed={seed}; cufile_late_us=100"));
    }
}

#[test]
fn every_path_underneath_is_told_apart() {
    for path in ["p2p", "nvfs", "compat"] {
        pass("reads::in_child", &format!("cufile_path={path}; cufile_late_us=50"));
    }
}

#[test]
fn short_answers_are_never_taken_for_whole_ones() {
    for short in [4096, 8192, 12_000] {
        let script = format!("short=cuFileRead:{short}; short=batch_entry:{short}; short=async_entry:{short}");
        pass("reads::in_child", &format!("{script}; cufile_late_us=0"));
    }
    pass("reads::in_child", "short=cuFileRead@3:100; short=batch_entry@3:100; short=async_entry@3:100");
}

#[test]
fn small_limits_are_kept() {
    pass("reads::in_child", "cufile_max_direct_io_kb=64; cufile_batch=3; cufile_late_us=0");
    pass("reads::in_child", "cufile_path=compat; cufile_batch=256; cufile_posix_slabs=64; cufile_late_us=20");
    pass("reads::in_child", "cufile_batch=1; cufile_late_us=0");
}

#[test]
#[ignore = "run by the tests above"]
fn in_child() {
    if !is_child() {
        return;
    }
    let rig = Rig::new();
    let (bytes, handle) = rig.file("data", FILE);
    let memory = rig.memory(8 << 20);
    let count = rig.cufile.count();
    for (name, form) in rig.forms() {
        let before = count.now().unwrap();
        let mut random = 0x2545_f491_4f6c_dd1d_u64;
        let mut draw = |below: u64| {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            (random >> 8) % below
        };
        let (mut jobs, mut expected, mut to) = (Vec::new(), Vec::new(), 0);
        for job in 0..4 {
            let mut transfers = Vec::new();
            for _ in 0..[1, 0, 40, 15][job] {
                let from = draw(FILE as u64 / 4096 + 1) * 4096;
                let most = if draw(4) == 0 { 900_000 } else { 9_000 };
                let need = (1 + draw(most)).min(FILE as u64 - from);
                let transfer = rig.transfer(&handle, &memory, from, need, to);
                if to + need.next_multiple_of(4096) + (1 << 20) > memory.len() {
                    break;
                }
                expected.push((from as usize, need as usize, to));
                to += need.next_multiple_of(4096) + 4096;
                transfers.push(transfer);
            }
            let (job, waiter) = Job::new(transfers);
            form.take(job);
            jobs.push(waiter);
        }
        let landed: u64 = jobs.into_iter().map(|job| job.wait().unwrap().bytes).sum();
        for (from, need, to) in expected {
            let found = rig.emulator.read_device(memory.base() + to, need);
            assert!(found == bytes[from..from + need], "wrong bytes: {name}, {need} bytes from {from}");
        }
        prove(&count.now().unwrap().since(&before), landed);
        drop(form);
    }
    assert_eq!((rig.emulator.counter("unaligned"), rig.emulator.counter("unregistered")), (0, 0));
    assert_eq!(rig.emulator.counter("handle_registrations"), 1);
    drop((memory, handle));
    rig.end();
}

/// cuFile's own counts say what ours say, and by which way it came.
fn prove(counted: &Counters, landed: u64) {
    assert_eq!((counted.bytes, counted.reads_unaligned, counted.reads_failed), (landed, 0, 0));
    let script = std::env::var("FOREBAY_EMULATOR").unwrap();
    let compat = script.contains("compat");
    assert_eq!(counted.all_direct(), Some(!compat), "{counted:?}");
    assert_eq!(counted.reads_nvfs > 0, script.contains("nvfs"), "{counted:?}");
}
