//! How much of a file's range is in the page cache: `cachestat(2)` (Linux 6.5), else `mincore(2)` on a mapping.

use std::io;
use std::num::NonZeroUsize;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::sync::atomic::{AtomicBool, Ordering};

use nix::libc;

/// The same number on every architecture, since the call is younger than the common table.
const SYS_CACHESTAT: libc::c_long = 451;

#[repr(C)]
struct Range {
    offset: u64,
    length: u64,
}

#[repr(C)]
#[derive(Default)]
struct Answer {
    cached: u64,
    dirty: u64,
    writeback: u64,
    evicted: u64,
    recently_evicted: u64,
}

/// How many pages of `offset..offset + length` are in the page cache; `length` is in bytes and not zero.
///
/// # Errors
/// The kernel's; `EPERM` where it does not tell this user, who neither owns the file nor may write to it.
pub(crate) fn resident_pages(fd: BorrowedFd<'_>, offset: u64, length: u64) -> io::Result<u64> {
    static MISSING: AtomicBool = AtomicBool::new(false);
    if !MISSING.load(Ordering::Relaxed) {
        match cachestat(fd, offset, length) {
            Err(error) if error.raw_os_error() == Some(libc::ENOSYS) => {
                MISSING.store(true, Ordering::Relaxed);
            }
            answer => return answer,
        }
    }
    mincore(fd, offset, length)
}

/// Whether the kernel answers `cachestat`, tried on `fd`.
///
/// # Errors
/// The kernel's, `ENOSYS` where it is older than the call.
pub(crate) fn cachestat(fd: BorrowedFd<'_>, offset: u64, length: u64) -> io::Result<u64> {
    let range = Range { offset, length };
    let mut answer = Answer::default();
    // SAFETY: both structures have the layout of the kernel's ABI, outlive the call, and the kernel keeps neither.
    let status = unsafe { libc::syscall(SYS_CACHESTAT, fd.as_raw_fd(), &raw const range, &raw mut answer, 0) };
    if status == 0 { Ok(answer.cached) } else { Err(io::Error::last_os_error()) }
}

/// The same by mapping the range: nothing is read through the mapping, so a file that shrinks meanwhile is harmless.
fn mincore(fd: BorrowedFd<'_>, offset: u64, length: u64) -> io::Result<u64> {
    let page = super::page::size();
    let start = offset - offset % page as u64;
    let length = usize::try_from(offset + length - start).ok().and_then(NonZeroUsize::new);
    let (Some(length), Ok(start)) = (length, libc::off_t::try_from(start)) else {
        return Err(io::Error::from(io::ErrorKind::InvalidInput));
    };
    let resident = resident(fd, start, length)?;
    // To whom the kernel does not tell, it says that all is resident, past the end of the file too.
    if resident == length.get().div_ceil(page) as u64 {
        let end = std::fs::File::from(fd.try_clone_to_owned()?).metadata()?.len().next_multiple_of(page as u64);
        if let (Ok(end), Some(one)) = (libc::off_t::try_from(end), NonZeroUsize::new(page))
            && self::resident(fd, end, one)? > 0
        {
            return Err(io::Error::from_raw_os_error(libc::EPERM));
        }
    }
    Ok(resident)
}

/// Pages of a range that starts at a whole one.
fn resident(fd: BorrowedFd<'_>, start: libc::off_t, length: NonZeroUsize) -> io::Result<u64> {
    use nix::sys::mman::{MapFlags, ProtFlags, mmap, munmap};
    let mut pages = vec![0_u8; length.get().div_ceil(super::page::size())];
    // SAFETY: a new read-only mapping at an address of the kernel's choice touches no memory of ours.
    let map = unsafe { mmap(None, length, ProtFlags::PROT_READ, MapFlags::MAP_SHARED, fd, start) }?;
    // SAFETY: `map` is a live mapping of `length` bytes and `pages` has a byte for each of its pages.
    let status = unsafe { libc::mincore(map.as_ptr(), length.get(), pages.as_mut_ptr()) };
    let error = io::Error::last_os_error();
    // SAFETY: the mapping made above, which nothing else knows of.
    unsafe { munmap(map, length.get()) }?;
    if status != 0 {
        return Err(error);
    }
    Ok(pages.iter().filter(|&&page| page & 1 == 1).count() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::os::fd::AsFd;

    #[test]
    fn a_file_just_written_is_resident_by_either_call() {
        let mut file = tempfile::tempfile().unwrap();
        let page = crate::sys::page::size() as u64;
        file.write_all(&vec![7; 10 * page as usize]).unwrap();
        assert_eq!(mincore(file.as_fd(), 0, 10 * page).unwrap(), 10);
        assert_eq!(mincore(file.as_fd(), page + 5, page).unwrap(), 2);
        match cachestat(file.as_fd(), 0, 10 * page) {
            Ok(pages) => assert_eq!(pages, 10),
            Err(error) => crate::skipped::skipped(format!("cachestat: {error}")),
        }
    }
}
