//! Machines that give less: no io_uring, little memory that may be locked, few descriptors. The same tensors.
use std::path::Path;

use forebay::checkpoint::{LoadOptions, load};
use forebay::{Carrier, Device, EngineChoice, Reader};
use nix::libc::{ENOSYS, EPERM};
use safetensors::Dtype;

use crate::common::privilege::{Outside, Reduced, child_dir, child_done, expect_child, in_child};
use crate::common::seccomp::Deny;
use crate::common::weights::{Tensor, oracle, write};
use crate::model::{check, mixed};
use crate::or_skip;

const CHILD: &str = "machines::in_child_load";

fn write_model(folder: &Path, files: u64) {
    for i in 0..files {
        let tensors = match files {
            2 => mixed(&format!("{i}."), i),
            _ => vec![Tensor::new(format!("t{i}"), Dtype::U8, &[1 + (i * 7919 % 20_001) as usize], i)],
        };
        write(folder, format!("{i:04}.safetensors"), &tensors);
    }
}

fn loads(what: &str, reduced: Reduced, files: u64) {
    or_skip!(reduced.possible());
    let outside = Outside::new();
    write_model(outside.path(), files);
    expect_child(what, outside.rerun(&reduced, CHILD));
}

#[test]
fn where_io_uring_is_forbidden() {
    for errno in [EPERM, ENOSYS] {
        loads("no io_uring", Reduced::new().deny(&[Deny::Uring(errno)]), 2);
    }
}

#[test]
fn where_nothing_may_be_registered_with_a_ring() {
    loads("no registration", Reduced::new().deny(&[Deny::Register(EPERM)]), 2);
}

#[test]
fn where_little_memory_may_be_locked() {
    for (user, bytes) in [(64_101, 0), (64_102, 64 << 10), (64_103, 1 << 20)] {
        loads("locked memory", Reduced::new().user(user).memlock(bytes), 2);
    }
}

#[test]
fn where_there_is_no_direct_io_and_no_statx() {
    loads("no O_DIRECT", Reduced::new().deny(&[Deny::DirectOpen(nix::libc::EINVAL), Deny::Cachestat(ENOSYS)]), 2);
}

#[test]
fn where_sixty_four_files_may_be_open_and_there_are_three_hundred() {
    loads("300 files", Reduced::new().open_files(64), 300);
}

#[test]
#[ignore = "a part of another test"]
fn in_child_load() {
    if !in_child() {
        return;
    }
    let mut wanted = Vec::new();
    for entry in std::fs::read_dir(child_dir()).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|extension| extension == "safetensors") {
            wanted.extend(oracle(&std::fs::read(path).unwrap()).unwrap());
        }
    }
    wanted.sort();
    let pread = Carrier::builder().reader(Reader::builder().engine(EngineChoice::Pread));
    for options in [LoadOptions::new(), LoadOptions::new().carrier(pread)] {
        check(&load(child_dir(), &Device::host(), &options).unwrap(), &wanted);
        let even: Vec<_> = wanted.iter().step_by(2).cloned().collect();
        let options = options.names(even.iter().map(|seen| seen.0.clone()));
        check(&load(child_dir(), &Device::host(), &options).unwrap(), &even);
    }
    child_done();
}
