//! Files that cuFile reads directly, and memory that can vanish.

use std::fs::File;
use std::io::Write;
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

pub const O_DIRECT: i32 = nix::libc::O_DIRECT;

/// Bytes that differ from block to block and from byte to byte.
pub fn pattern(len: usize) -> Vec<u8> {
    (0..len).map(|at| (at / 4096 * 31 + at % 251 + 1) as u8).collect()
}

/// A file on a file system that can be read directly, or why there is none here.
pub struct Sample {
    pub file: File,
    pub path: tempfile::TempPath,
    pub bytes: Vec<u8>,
}

impl Sample {
    pub fn new(len: usize) -> Option<Sample> {
        for folder in [env!("CARGO_TARGET_TMPDIR"), "/var/tmp", "/tmp"] {
            if let Some(sample) = Sample::within(Path::new(folder), len) {
                return Some(sample);
            }
        }
        crate::common::skipped::skipped("no folder here on a file system that cuFile would read directly");
        None
    }

    fn within(folder: &Path, len: usize) -> Option<Sample> {
        let mut file = tempfile::NamedTempFile::new_in(folder).ok()?;
        if is_tmpfs_or_overlay(file.as_file()) {
            return None;
        }
        let bytes = pattern(len);
        file.write_all(&bytes).unwrap();
        let path = file.into_temp_path();
        let file = open(&path, O_DIRECT).ok()?;
        Some(Sample { file, path, bytes })
    }

    pub fn fd(&self) -> i32 {
        self.file.as_raw_fd()
    }
}

pub fn open(path: &Path, flags: i32) -> std::io::Result<File> {
    File::options().read(true).custom_flags(flags).open(path)
}

pub fn is_tmpfs_or_overlay(file: &File) -> bool {
    use nix::libc::{OVERLAYFS_SUPER_MAGIC, TMPFS_MAGIC, fstatfs, statfs};
    // SAFETY: plain numbers, for which zero is a value; the kernel fills it.
    let mut about: statfs = unsafe { std::mem::zeroed() };
    // SAFETY: a place of our own.
    assert_eq!(unsafe { fstatfs(file.as_raw_fd(), &mut about) }, 0);
    matches!(about.f_type, TMPFS_MAGIC | OVERLAYFS_SUPER_MAGIC)
}

/// A page that can be made to vanish. Its address stays taken, so that no other thread's memory comes to lie there.
pub struct Page(memmap2::MmapMut);

impl Page {
    pub fn new() -> Page {
        Page(memmap2::MmapMut::map_anon(4096).unwrap())
    }

    pub fn place<T>(&self) -> *mut T {
        self.0.as_ptr().cast_mut().cast()
    }

    pub fn vanish(&self) {
        // SAFETY: a mapping of our own, to which there are no references.
        assert_eq!(unsafe { nix::libc::mprotect(self.place(), 4096, nix::libc::PROT_NONE) }, 0);
    }
}
