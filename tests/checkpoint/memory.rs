//! A large checkpoint takes its own size of memory, and little more.
use std::fs::File;
use std::os::unix::fs::FileExt;

use forebay::Device;
use forebay::checkpoint::{LoadOptions, load};

use crate::common::data;
use crate::common::privilege::{Outside, Reduced, child_dir, child_done, expect_child, in_child};
use crate::common::watchdog::eventually;
use crate::common::weights::entry;

const TENSORS: u64 = 32;
const EACH: u64 = 16 << 20;
/// What it may take beside its size.
const MORE: u64 = 64 << 20;

#[test]
fn half_a_gibibyte_takes_half_a_gibibyte() {
    let outside = Outside::new();
    let shape = [2, EACH / 2];
    let entries: Vec<String> =
        (0..TENSORS).map(|i| entry(&format!("t{i:02}"), "U8", &shape, i * EACH, (i + 1) * EACH)).collect();
    let header = format!("{{{}}}", entries.join(","));
    let file = File::create(outside.path().join("model.safetensors")).unwrap();
    file.write_all_at(&(header.len() as u64).to_le_bytes(), 0).unwrap();
    file.write_all_at(header.as_bytes(), 8).unwrap();
    let data = 8 + header.len() as u64;
    file.set_len(data + TENSORS * EACH).unwrap();
    for i in 0..TENSORS {
        file.write_all_at(&data::bytes(i, 0, 5000), data + i * EACH).unwrap();
        file.write_all_at(&data::bytes(i, 8, 5000), data + (i + 1) * EACH - 5000).unwrap();
    }
    expect_child("memory", outside.rerun(&Reduced::new(), "memory::in_child_peak"));
}

fn status(field: &str) -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix(field)).unwrap();
    line.trim().strip_suffix(" kB").unwrap().trim().parse::<u64>().unwrap() << 10
}

#[test]
#[ignore = "a part of another test"]
fn in_child_peak() {
    if !in_child() {
        return;
    }
    // The smallest first: the peak is that of all so far.
    let inner = LoadOptions::new().tensor_parallel(1, 2, |_| Some(1));
    let outer = LoadOptions::new().tensor_parallel(0, 2, |_| Some(0));
    for (what, options, size) in [
        ("outer", outer, TENSORS * EACH / 2),
        ("inner", inner, TENSORS * EACH / 2),
        ("whole", LoadOptions::new(), TENSORS * EACH),
    ] {
        let loaded = load(child_dir().join("model.safetensors"), &Device::host(), &options).unwrap();
        eprintln!("{what}: {} bytes at most for {size}", status("VmHWM:"));
        assert!(status("VmHWM:") <= size + MORE, "{what}: {} for {size}", status("VmHWM:"));
        if what == "whole" {
            for (i, tensor) in loaded.tensors().iter().enumerate() {
                let bytes = tensor.host().unwrap();
                data::check(&bytes[..5000], i as u64, 0).unwrap();
                data::check(&bytes[bytes.len() - 5000..], i as u64, 8).unwrap();
            }
        }
        drop(loaded);
        // A thread that touches it ahead may be in the midst of a step.
        let freed = eventually(|| status("VmRSS:") <= MORE);
        assert!(freed, "{what}: {} are left", status("VmRSS:"));
    }
    child_done();
}
