//! How a file's extents are stored, where that may keep direct reads from being direct: `FS_IOC_FIEMAP` and
//! `FS_IOC_GETFLAGS`.

use std::io;
use std::ops::Range;
use std::os::fd::{AsRawFd, BorrowedFd};

use nix::libc;

/// How a range is stored, as the file system tells it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stored {
    /// In the file system's own records, and not in blocks of the file.
    Inline,
    Compressed,
    Encrypted,
    /// As blocks, or the file system does not tell.
    Plain,
}

const ENCODED: u32 = 0x8;
const ENCRYPTED: u32 = 0x80;
const INLINE: u32 = 0x200;

/// Whether some of the first extents of a range are compressed or inline, so that there are no blocks of a drive that hold
/// their bytes as they are. Encrypted ones may be decrypted on their way from the drive.
pub(crate) fn are_read_through_cache(fd: BorrowedFd<'_>, range: &Range<u64>) -> bool {
    let flags = extent_flags(fd, range).unwrap_or(0);
    flags & INLINE != 0 || (flags & ENCODED != 0 && flags & ENCRYPTED == 0)
}

/// How the first extents of a range are stored; the flags of the file decide where its extents say nothing.
pub(crate) fn stored(fd: BorrowedFd<'_>, range: &Range<u64>) -> Stored {
    const FILE_COMPRESSED: libc::c_long = 0x4;
    const FILE_ENCRYPTED: libc::c_long = 0x800;
    const FILE_INLINE: libc::c_long = 0x1000_0000;
    let extents = extent_flags(fd, range).unwrap_or(0);
    let file = file_flags(fd).unwrap_or(0);
    match () {
        () if extents & INLINE != 0 => Stored::Inline,
        () if extents & ENCRYPTED != 0 => Stored::Encrypted,
        () if extents & ENCODED != 0 => Stored::Compressed,
        () if file & FILE_ENCRYPTED != 0 => Stored::Encrypted,
        () if file & FILE_COMPRESSED != 0 => Stored::Compressed,
        () if file & FILE_INLINE != 0 => Stored::Inline,
        () => Stored::Plain,
    }
}

const EXTENTS: usize = 16;

/// `struct fiemap` of the kernel's ABI, with room for some extents.
#[repr(C)]
#[derive(Default)]
struct Map {
    start: u64,
    length: u64,
    flags: u32,
    mapped: u32,
    room: u32,
    reserved: u32,
    extents: [Extent; EXTENTS],
}

#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Extent {
    logical: u64,
    physical: u64,
    length: u64,
    reserved64: [u64; 2],
    flags: u32,
    reserved: [u32; 3],
}

const _: () = assert!(size_of::<Extent>() == 56 && std::mem::offset_of!(Map, extents) == 32);

/// The flags of the first extents of a range, taken together.
fn extent_flags(fd: BorrowedFd<'_>, range: &Range<u64>) -> io::Result<u32> {
    /// `_IOWR('f', 11, struct fiemap)`, whose size there is that without extents.
    const FIEMAP: libc::c_ulong = 0xc020_660b;
    let mut map = Map { start: range.start, length: range.end - range.start, room: EXTENTS as u32, ..Map::default() };
    // SAFETY: the kernel reads the head of `map` and writes at most `room` extents behind it, for which it has the room
    // (asserted above); it outlives the call, which keeps nothing of it.
    let status = unsafe { libc::ioctl(fd.as_raw_fd(), FIEMAP as _, &raw mut map) };
    if status != 0 {
        return Err(io::Error::last_os_error());
    }
    let mapped = (map.mapped as usize).min(EXTENTS);
    Ok(map.extents[..mapped].iter().fold(0, |all, extent| all | extent.flags))
}

/// The flags that `lsattr` shows.
fn file_flags(fd: BorrowedFd<'_>) -> io::Result<libc::c_long> {
    // The kernel writes an int, though the call's number says long.
    let mut flags: libc::c_long = 0;
    // SAFETY: the kernel writes no more than a long to `flags`, which outlives the call.
    let status = unsafe { libc::ioctl(fd.as_raw_fd(), libc::FS_IOC_GETFLAGS as _, &raw mut flags) };
    if status == 0 { Ok(flags) } else { Err(io::Error::last_os_error()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsFd;

    #[test]
    fn where_the_file_system_does_not_tell_it_is_plain() {
        let Ok(null) = std::fs::File::open("/dev/null") else { return };
        assert_eq!(stored(null.as_fd(), &(0..4096)), Stored::Plain);
    }
}
