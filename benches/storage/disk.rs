//! The file on disk: written once, kept for later runs.

use std::fs::{self, File};
use std::path::{Path, PathBuf};

use nix::sys::statvfs::statvfs;

use crate::random;

/// Larger than what a disk's own cache may hold, small enough for a page cache of a common machine.
pub const FILE_LEN: u64 = 4 << 30;

/// The file of [`FILE_LEN`] bytes in `dir`, written first where it is not there yet.
pub fn file(dir: &Path) -> Result<PathBuf, String> {
    let told = |path: &Path, error: &dyn std::fmt::Display| format!("{}: {error}", path.display());
    let path = dir.join("forebay-bench-storage.bin");
    if fs::metadata(&path).is_ok_and(|meta| meta.len() == FILE_LEN) {
        return Ok(path);
    }
    fs::create_dir_all(dir).map_err(|e| told(dir, &e))?;
    let space = statvfs(dir).map_err(|e| told(dir, &e))?;
    let free = space.blocks_available() * space.fragment_size();
    if free < FILE_LEN + (1 << 30) {
        return Err(format!("{}: {} MiB free, {} MiB needed", dir.display(), free >> 20, (FILE_LEN >> 20) + 1024));
    }
    eprintln!("writing {} MiB to {}", FILE_LEN >> 20, path.display());
    // Under another name until whole, so that a killed run leaves no file that looks whole.
    let part = path.with_extension("part");
    let mut file = File::create(&part).map_err(|e| told(&part, &e))?;
    random::fill(&mut file, FILE_LEN).map_err(|e| told(&part, &e))?;
    fs::rename(&part, &path).map_err(|e| told(&path, &e))?;
    Ok(path)
}
