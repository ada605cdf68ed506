//! The size of a block device: `BLKGETSIZE64`.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

nix::ioctl_read!(blkgetsize64, 0x12, 114, usize);

/// Bytes on the device.
pub(crate) fn of_fd(fd: BorrowedFd<'_>) -> io::Result<u64> {
    let mut bytes = 0_usize;
    // SAFETY: the kernel writes one 64-bit number to `bytes`; `usize` has that size on the targets that have pinned
    // arenas of this kind (checked below), and the request number encodes it.
    unsafe { blkgetsize64(fd.as_raw_fd(), &raw mut bytes) }?;
    Ok(bytes as u64)
}

const _: () = assert!(size_of::<usize>() == 8, "forebay needs a 64-bit target");
