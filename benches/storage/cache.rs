//! Empties or fills the page cache for one file, and proves it.

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::AsRawFd;
use std::path::Path;

use nix::fcntl::{PosixFadviseAdvice, posix_fadvise};
use nix::libc;

/// Drops the file from the page cache. An error if more than 0.1 % stays, since reads would then be served from it.
pub fn drop_file(path: &Path) -> Result<(), String> {
    let told = |what: &str, error: &dyn std::fmt::Display| format!("{}: {what}: {error}", path.display());
    let file = File::open(path).map_err(|e| told("open", &e))?;
    let len = file.metadata().map_err(|e| told("stat", &e))?.len();
    // Dirty pages are not dropped. Where nothing can be written there are none: EROFS, or EINVAL of squashfs and erofs.
    match file.sync_data() {
        Err(error) if matches!(error.raw_os_error(), Some(libc::EROFS | libc::EINVAL)) => {}
        synced => synced.map_err(|e| told("sync", &e))?,
    }
    posix_fadvise(&file, 0, 0, PosixFadviseAdvice::POSIX_FADV_DONTNEED).map_err(|e| told("fadvise", &e))?;
    match cached_bytes(&file) {
        Ok(cached) if cached * 1000 > len => Err(format!("{}: {cached} bytes stay in the page cache", path.display())),
        Ok(_) => Ok(()),
        Err(error) => {
            eprintln!("note: {}: cold page cache not proven: cachestat: {error}", path.display());
            Ok(())
        }
    }
}

/// Reads the file into the page cache. An error if less than 99.9 % is there afterwards.
pub fn warm_file(path: &Path) -> Result<(), String> {
    let told = |what: &str, error: &dyn std::fmt::Display| format!("{}: {what}: {error}", path.display());
    let mut file = File::open(path).map_err(|e| told("open", &e))?;
    let len = file.metadata().map_err(|e| told("stat", &e))?.len();
    if cached_bytes(&file).is_ok_and(|cached| cached >= len) {
        return Ok(());
    }
    let mut block = vec![0; 1 << 20];
    while file.read(&mut block).map_err(|e| told("read", &e))? > 0 {}
    match cached_bytes(&file) {
        Ok(cached) if cached * 1000 < len * 999 => {
            Err(format!("{}: only {cached} of {len} bytes are in the page cache", path.display()))
        }
        Ok(_) => Ok(()),
        Err(error) => {
            eprintln!("note: {}: warm page cache not proven: cachestat: {error}", path.display());
            Ok(())
        }
    }
}

/// Bytes of the file that the page cache holds now.
fn cached_bytes(file: &File) -> io::Result<u64> {
    // cachestat(2), the same number on every architecture but alpha; Linux 6.5 and later.
    const SYS_CACHESTAT: libc::c_long = 451;
    // offset, length; 0 and 0 for the whole file.
    let range = [0u64; 2];
    // cache, dirty, writeback, evicted, recently evicted: all in pages.
    let mut counts = [0u64; 5];
    // SAFETY: both arrays have the layout of the kernel's structures and live through the call.
    let result = unsafe { libc::syscall(SYS_CACHESTAT, file.as_raw_fd(), range.as_ptr(), counts.as_mut_ptr(), 0) };
    if result != 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(counts[0] * page_size())
}

fn page_size() -> u64 {
    // SAFETY: sysconf only reads a constant of the running kernel.
    unsafe { libc::sysconf(libc::_SC_PAGESIZE) }.max(0) as u64
}
