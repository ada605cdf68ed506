//! `statx(2)`: what a file is, and how its direct reads must be aligned (`STATX_DIOALIGN`, Linux 6.1;
//! `STATX_DIO_READ_ALIGN`, Linux 6.14).

use std::ffi::{CString, c_int};
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use nix::libc;

const BASIC_STATS: u32 = 0x7ff;
const DIO_ALIGN: u32 = 0x2000;
const DIO_READ_ALIGN: u32 = 0x0002_0000;

/// What `statx` said of one file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Statx {
    /// The file type and permission bits, as `st_mode`.
    pub(crate) mode: u32,
    /// Bytes, 0 for a device.
    pub(crate) size: u64,
    pub(crate) inode: u64,
    /// The device that holds the file, as major and minor.
    pub(crate) device: (u32, u32),
    /// The device that the file is, as major and minor.
    pub(crate) special: (u32, u32),
    /// Seconds and nanoseconds.
    pub(crate) modified: (i64, u32),
    /// Seconds and nanoseconds.
    pub(crate) changed: (i64, u32),
    pub(crate) direct: DirectAlign,
}

/// What the kernel says of direct reads of one file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DirectAlign {
    /// The file system does not answer the question.
    Unsaid,
    /// The file cannot be read directly.
    Refused,
    /// Bytes that the address in memory, and the offset and length in the file, must be multiples of.
    Said { memory: u32, offset: u32 },
}

/// `struct statx` of the kernel's ABI, declared here since C libraries differ in how much of it they know.
#[repr(C)]
#[derive(Default)]
struct RawStatx {
    mask: u32,
    blksize: u32,
    attributes: u64,
    nlink: u32,
    uid: u32,
    gid: u32,
    mode: u16,
    spare0: u16,
    ino: u64,
    size: u64,
    blocks: u64,
    attributes_mask: u64,
    atime: RawTime,
    btime: RawTime,
    ctime: RawTime,
    mtime: RawTime,
    rdev_major: u32,
    rdev_minor: u32,
    dev_major: u32,
    dev_minor: u32,
    mnt_id: u64,
    dio_mem_align: u32,
    dio_offset_align: u32,
    subvol: u64,
    atomic_write_unit_min: u32,
    atomic_write_unit_max: u32,
    atomic_write_segments_max: u32,
    dio_read_offset_align: u32,
    spare: [u64; 9],
}

#[repr(C)]
#[derive(Default)]
struct RawTime {
    sec: i64,
    nsec: u32,
    spare: i32,
}

const _: () = assert!(size_of::<RawStatx>() == 256);

/// Asks about an open file.
pub(crate) fn of_fd(fd: BorrowedFd<'_>) -> io::Result<Statx> {
    match statx(fd.as_raw_fd(), c"", libc::AT_EMPTY_PATH) {
        Err(error) if is_missing(&error) => {
            let file = std::fs::File::from(fd.try_clone_to_owned()?);
            file.metadata().map(|metadata| from_metadata(&metadata))
        }
        answer => answer,
    }
}

/// Asks about the file that a path leads to now, following links.
pub(crate) fn of_path(path: &Path) -> io::Result<Statx> {
    let name = CString::new(path.as_os_str().as_bytes())
        .map_err(|_| io::Error::new(io::ErrorKind::InvalidInput, "the path holds a NUL byte"))?;
    match statx(libc::AT_FDCWD, &name, 0) {
        Err(error) if is_missing(&error) => std::fs::metadata(path).map(|metadata| from_metadata(&metadata)),
        answer => answer,
    }
}

/// The attributes of the file that a path leads to now, as bits of `STATX_ATTR_`; 0 where the kernel does not tell.
pub(crate) fn attributes(path: &Path) -> u64 {
    let name = CString::new(path.as_os_str().as_bytes());
    let raw = name.ok().and_then(|name| raw_statx(libc::AT_FDCWD, &name, 0).ok());
    raw.map_or(0, |raw| raw.attributes & raw.attributes_mask)
}

fn statx(dir: c_int, name: &std::ffi::CStr, flags: c_int) -> io::Result<Statx> {
    raw_statx(dir, name, flags).map(|raw| from_raw(&raw))
}

fn raw_statx(dir: c_int, name: &std::ffi::CStr, flags: c_int) -> io::Result<RawStatx> {
    let mut raw = RawStatx::default();
    // SAFETY: `name` is NUL-terminated and `raw` is a writable `struct statx` of the kernel's size (asserted above);
    // both outlive the call, which keeps neither.
    let answer = unsafe {
        libc::syscall(
            libc::SYS_statx,
            dir,
            name.as_ptr(),
            flags,
            BASIC_STATS | DIO_ALIGN | DIO_READ_ALIGN,
            &raw mut raw,
        )
    };
    if answer == 0 { Ok(raw) } else { Err(io::Error::last_os_error()) }
}

/// Old kernels lack the call, and a container may forbid it: `stat` still tells all but the alignment.
fn is_missing(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::ENOSYS | libc::EPERM))
}

fn from_raw(raw: &RawStatx) -> Statx {
    let read_align = if raw.mask & DIO_READ_ALIGN != 0 && raw.dio_read_offset_align != 0 {
        raw.dio_read_offset_align
    } else {
        raw.dio_offset_align
    };
    let direct = if raw.mask & DIO_ALIGN == 0 {
        DirectAlign::Unsaid
    } else if raw.dio_mem_align == 0 || read_align == 0 {
        DirectAlign::Refused
    } else {
        DirectAlign::Said { memory: raw.dio_mem_align, offset: read_align }
    };
    Statx {
        mode: u32::from(raw.mode),
        size: raw.size,
        inode: raw.ino,
        device: (raw.dev_major, raw.dev_minor),
        special: (raw.rdev_major, raw.rdev_minor),
        modified: (raw.mtime.sec, raw.mtime.nsec),
        changed: (raw.ctime.sec, raw.ctime.nsec),
        direct,
    }
}

fn from_metadata(metadata: &std::fs::Metadata) -> Statx {
    use std::os::unix::fs::MetadataExt;
    let split = |device: u64| (libc::major(device), libc::minor(device));
    // The kernel's nanoseconds are below 10^9.
    let nanos = |nsec: i64| u32::try_from(nsec).unwrap_or(0);
    Statx {
        mode: metadata.mode(),
        size: metadata.size(),
        inode: metadata.ino(),
        device: split(metadata.dev()),
        special: split(metadata.rdev()),
        modified: (metadata.mtime(), nanos(metadata.mtime_nsec())),
        changed: (metadata.ctime(), nanos(metadata.ctime_nsec())),
        direct: DirectAlign::Unsaid,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsFd;
    use std::os::unix::fs::MetadataExt;

    #[test]
    fn statx_and_stat_tell_the_same_file() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("Cargo.toml");
        let file = std::fs::File::open(&path).unwrap();
        let metadata = file.metadata().unwrap();
        let ours = of_fd(file.as_fd()).unwrap();
        assert_eq!(ours, of_path(&path).unwrap());
        assert_eq!(Statx { direct: DirectAlign::Unsaid, ..ours }, from_metadata(&metadata));
        assert_eq!((ours.size, ours.inode), (metadata.size(), metadata.ino()));
    }

    #[test]
    fn a_path_with_a_nul_byte_is_refused() {
        let path = Path::new(std::ffi::OsStr::from_bytes(b"a\0b"));
        assert_eq!(of_path(path).unwrap_err().kind(), io::ErrorKind::InvalidInput);
    }
}
