//! What the test binaries share: self-describing data, real file systems, a FUSE file system of our own,
//! children under reduced privileges, and a watchdog. Each binary uses a part of it.
#![allow(dead_code)]

pub mod carrier;
pub mod data;
pub mod effort;
pub mod emulated;
pub mod emulator;
pub mod fuse;
pub mod heard;
pub mod knobs;
pub mod mounts;
pub mod privilege;
pub mod python;
pub mod reader;
pub mod seccomp;
pub mod skipped;
pub mod watchdog;
pub mod weights;
pub mod work;

/// Why a test cannot run here. It is printed, never swallowed: a test that skips in silence looks like one that passed.
#[derive(Debug, Clone)]
pub struct Skip(pub String);

impl Skip {
    pub fn because(why: impl Into<String>) -> Skip {
        Skip(why.into())
    }
}

/// Unwraps a fixture, or says aloud why it cannot be had and leaves the test.
#[macro_export]
macro_rules! or_skip {
    ($fixture:expr) => {
        match $fixture {
            Ok(it) => it,
            Err($crate::common::Skip(why)) => {
                $crate::common::skipped::skipped(why);
                return;
            }
        }
    };
}

/// Where test data goes: beside the build, so on a real file system, where files may be opened for direct I/O. Binaries
/// that were taken to another machine have `FOREBAY_GPU_DIR` there, or the folder for temporary files.
pub fn home() -> std::path::PathBuf {
    let built = std::path::Path::new(env!("CARGO_TARGET_TMPDIR"));
    match std::env::var_os("FOREBAY_GPU_DIR") {
        Some(dir) => dir.into(),
        None if built.is_dir() => built.into(),
        None => std::env::temp_dir(),
    }
}

/// A folder for one test's files.
pub fn folder() -> tempfile::TempDir {
    tempfile::tempdir_in(home()).unwrap()
}

/// Copies of the same files on two nodes, made in opposite orders, and listed so: tmpfs lists the newest first. Elsewhere
/// they may be listed alike, and whoever goes by the listing is not found out.
pub fn copies(names: &[String], write: impl Fn(&std::path::Path)) -> [tempfile::TempDir; 2] {
    let made = |home: &std::path::Path| {
        let copies = [(); 2].map(|()| tempfile::tempdir_in(home).unwrap());
        names.iter().for_each(|name| write(&copies[0].path().join(name)));
        names.iter().rev().for_each(|name| write(&copies[1].path().join(name)));
        copies
    };
    let listed = |copy: &tempfile::TempDir| -> Vec<_> {
        let first = copy.path().join(&names[0]);
        std::fs::read_dir(first.parent().unwrap()).unwrap().map(|entry| entry.unwrap().file_name()).collect()
    };
    let memory = std::path::Path::new("/dev/shm");
    if tempfile::tempdir_in(memory).is_ok() {
        let copies = made(memory);
        if listed(&copies[0]) != listed(&copies[1]) {
            return copies;
        }
    }
    crate::common::skipped::skipped(
        "copies that are listed in other orders, since /dev/shm does not list its newest files first",
    );
    made(&home())
}

pub fn is_root() -> bool {
    // SAFETY: geteuid takes nothing and cannot fail.
    unsafe { nix::libc::geteuid() == 0 }
}

/// xorshift64: order and sizes that look random and are the same in every run.
#[derive(Debug, Clone)]
pub struct Rng(u64);

impl Rng {
    pub fn new(seed: u64) -> Rng {
        Rng(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    pub fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    /// A number in `0..end`; `end` must not be 0.
    pub fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }

    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for i in (1..items.len()).rev() {
            let j = self.below(i as u64 + 1) as usize;
            items.swap(i, j);
        }
    }
}
