//! Full disks, limits and file systems that refuse: an error that says where, nothing left behind, and never wrong bytes.
use std::fs;
use std::path::Path;
use std::process::Command;

use forebay::pack::{PackError, PackOptions, pack};
use nix::libc;

use crate::common::privilege::{Outside, Reduced, child_dir, child_done, expect_child, in_child};
use crate::common::seccomp::Deny;
use crate::common::{Skip, folder, is_root, mounts};
use crate::made::{Made, sample, tensor, uniform, varying};
use crate::{or_skip, oracle};
use forebay::dataset::DType;

fn is_empty(folder: &Path) -> bool {
    fs::read_dir(folder).unwrap().next().is_none()
}

/// A tmpfs of so many bytes on `point`.
struct Small<'a>(&'a Path);

impl<'a> Small<'a> {
    fn mount(point: &'a Path, bytes: u64) -> Result<Self, Skip> {
        if !is_root() {
            return Err(Skip::because("mounting needs root"));
        }
        let options = format!("size={bytes}");
        let status = Command::new("mount").args(["-t", "tmpfs", "-o", &options, "tmpfs"]).arg(point).status();
        match status {
            Ok(status) if status.success() => Ok(Self(point)),
            other => Err(Skip::because(format!("mount: {other:?}"))),
        }
    }
}

impl Drop for Small<'_> {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(self.0).status();
    }
}

#[test]
fn a_full_disk_is_an_error_and_leaves_nothing() {
    let (source, out) = (folder(), folder());
    let small = or_skip!(Small::mount(out.path(), 1 << 20));
    let samples: Vec<_> = (0..40).map(|i| sample(i, [tensor("x", DType::U8, &[50_000 + i], i)])).collect();
    let made = Made::new(source.path(), &samples);
    for options in [PackOptions::new(), PackOptions::new().shard_bytes(200_000)] {
        for to in ["x", "x.safetensors"] {
            let options = if to == "x" { options.clone() } else { PackOptions::new() };
            let error = pack(&made, &out.path().join(to), &options).unwrap_err();
            let PackError::Io { path, offset, source, .. } = &error else { panic!("{error}") };
            assert_eq!(source.raw_os_error(), Some(libc::ENOSPC));
            assert!(
                path.starts_with(out.path()) && offset.is_some() && error.to_string().contains("free space"),
                "{error}"
            );
            assert!(is_empty(out.path()));
        }
    }
    // What is there stays as it was, also where it was to be replaced.
    fs::write(out.path().join("x.safetensors"), "mine").unwrap();
    pack(&made, &out.path().join("x.safetensors"), &PackOptions::new().overwrite(true)).unwrap_err();
    assert_eq!(fs::read(out.path().join("x.safetensors")).unwrap(), b"mine");
    drop(small);
}

#[test]
fn a_disk_that_is_found_full_by_writing_is_the_same() {
    let outside = Outside::new();
    fs::create_dir(outside.path().join("small")).unwrap();
    let small = outside.path().join("small");
    let _small = or_skip!(Small::mount(&small, 1 << 20));
    let reduced = Reduced::new().deny(&[Deny::Fallocate(libc::EOPNOTSUPP)]);
    expect_child("a full disk", outside.rerun(&reduced, "faults::in_child_the_disk_is_full"));
}

#[test]
#[ignore = "a part of another test"]
fn in_child_the_disk_is_full() {
    if !in_child() {
        return;
    }
    let small = child_dir().join("small");
    let samples: Vec<_> = (0..40).map(|i| sample(i, [tensor("x", DType::U8, &[50_000 + i], i)])).collect();
    let made = Made::new(&child_dir(), &samples);
    let error = pack(&made, &small.join("x.safetensors"), &PackOptions::new()).unwrap_err();
    let PackError::Io { path, offset: Some(offset), doing: "write", source, .. } = &error else { panic!("{error}") };
    assert_eq!((source.raw_os_error(), path), (Some(libc::ENOSPC), &small.join("x.safetensors")));
    assert!(*offset > 900_000 && *offset <= 1 << 20, "{error}");
    assert!(is_empty(&small));
    child_done();
}

#[test]
fn a_limit_of_file_sizes_is_an_error_and_leaves_nothing() {
    let outside = Outside::new();
    // Its signal is ignored: else the kernel ends the process.
    let child = outside.rerun(&Reduced::new(), "faults::in_child_files_are_limited");
    let mut shell = Command::new("sh");
    shell
        .args(["-c", "trap '' XFSZ; ulimit -f 512; exec \"$@\"", "sh"])
        .arg(child.get_program())
        .args(child.get_args());
    for (key, value) in child.get_envs() {
        shell.env(key, value.unwrap());
    }
    shell.current_dir(outside.path());
    expect_child("a limit of file sizes", shell);
}

/// In files that are below the limit themselves.
fn large() -> Vec<crate::made::Sample> {
    (0..20).map(|i| sample(i, [tensor("x", DType::U8, &[10_000 + i], i)])).collect()
}

#[test]
#[ignore = "a part of another test"]
fn in_child_files_are_limited() {
    if !in_child() {
        return;
    }
    let made = Made::new(&child_dir(), &large());
    let many: Vec<_> = (0..60_usize).map(|i| (i.to_string(), made.samples[i % 20].1.clone())).collect();
    let made = Made { samples: many, ..made };
    let out = child_dir().join("out.safetensors");
    let error = pack(&made, &out, &PackOptions::new()).unwrap_err();
    let PackError::Io { source, .. } = &error else { panic!("{error}") };
    assert_eq!(source.raw_os_error(), Some(libc::EFBIG), "{error}");
    assert!(error.to_string().contains("ulimit"), "{error}");
    let left: Vec<_> = fs::read_dir(child_dir()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert!(left.iter().all(|name| !name.to_string_lossy().starts_with('.') && name != "out.safetensors"), "{left:?}");
    // Smaller shards fit.
    pack(&made, &child_dir().join("out"), &PackOptions::new().shard_bytes(100_000)).unwrap();
    child_done();
}

#[test]
fn where_there_are_no_direct_writes_ordinary_ones_do_and_are_told() {
    let outside = Outside::new();
    for errno in [libc::EINVAL, libc::EOPNOTSUPP] {
        let reduced = Reduced::new().deny(&[Deny::DirectOpen(errno)]);
        expect_child("no direct writes", outside.rerun(&reduced, "faults::in_child_no_direct_writes"));
    }
}

#[test]
#[ignore = "a part of another test"]
fn in_child_no_direct_writes() {
    if !in_child() {
        return;
    }
    let samples = uniform(3000);
    let out = child_dir().join("x.safetensors");
    let packed = pack(&Made::new(&child_dir(), &samples), &out, &PackOptions::new().overwrite(true)).unwrap();
    assert!(!packed.direct);
    assert_eq!(oracle::of_file(&out), oracle::rows(&samples));
    child_done();
}

#[test]
fn every_file_system_holds_the_same_bytes() {
    let systems = [
        mounts::ext4(),
        mounts::ext4_4k_sectors(),
        mounts::ext4_inline_data(),
        mounts::xfs(),
        mounts::btrfs(),
        mounts::tmpfs(),
        mounts::overlay(),
    ];
    let source = folder();
    let samples = [varying(200, 90_000), uniform(1), varying(30, 10)];
    for system in systems {
        let system = match system {
            Ok(system) => system,
            Err(Skip(why)) => {
                crate::common::skipped::skipped(why);
                continue;
            }
        };
        for (i, samples) in samples.iter().enumerate() {
            let to = system.dir.join(i.to_string());
            let made = Made::new(source.path(), samples);
            let packed = pack(&made, &to, &PackOptions::new().shard_bytes(5 << 20)).unwrap();
            oracle::check(&packed, &to);
            let expected = if samples.len() == 1 { oracle::rows(samples) } else { oracle::singles(samples) };
            assert_eq!(oracle::of_files(&packed), expected, "{}", system.kind);
            match system.kind {
                "tmpfs" => assert!(!packed.direct, "tmpfs passes no cache by"),
                "ext4" | "xfs" | "ext4 on 4096-byte sectors" => assert!(packed.direct, "{}", system.kind),
                _ => {}
            }
            // Again, in place of the first.
            pack(&made, &to, &PackOptions::new().shard_bytes(7 << 20).overwrite(true)).unwrap();
        }
    }
}
