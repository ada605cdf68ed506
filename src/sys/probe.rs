//! One small read, to learn by doing what a file allows or has.

use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

use nix::libc;

/// Whether a read of the first byte gives one, whatever size the file tells.
pub(crate) fn has_a_byte(fd: BorrowedFd<'_>) -> io::Result<bool> {
    let mut byte = 0_u8;
    loop {
        // SAFETY: `byte` is one writable byte, and it lives through the call.
        let answer = unsafe { libc::pread(fd.as_raw_fd(), (&raw mut byte).cast(), 1, 0) };
        if answer >= 0 {
            return Ok(answer == 1);
        }
        let error = io::Error::last_os_error();
        if error.kind() != io::ErrorKind::Interrupted {
            return Err(error);
        }
    }
}

/// Reads the first `align` bytes into memory aligned to as much; an empty file answers 0 bytes, which is fine too.
pub(crate) fn aligned_read(fd: BorrowedFd<'_>, align: usize) -> io::Result<()> {
    aligned_read_at(fd, align, 0)
}

/// The same from `offset` on, which is a multiple of `align`.
pub(crate) fn aligned_read_at(fd: BorrowedFd<'_>, align: usize, offset: u64) -> io::Result<()> {
    let offset = libc::off_t::try_from(offset).map_err(io::Error::other)?;
    let layout = Layout::from_size_align(align, align).map_err(io::Error::other)?;
    if align == 0 {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    // SAFETY: the layout's size is not zero.
    let memory = unsafe { alloc_zeroed(layout) };
    if memory.is_null() {
        return Err(io::ErrorKind::OutOfMemory.into());
    }
    // SAFETY: `memory` is valid for `align` bytes and nobody else knows of it.
    let answer = unsafe { libc::pread(fd.as_raw_fd(), memory.cast(), align, offset) };
    let error = io::Error::last_os_error();
    // SAFETY: allocated above with this layout; the read is over.
    unsafe { dealloc(memory, layout) };
    if answer < 0 { Err(error) } else { Ok(()) }
}
