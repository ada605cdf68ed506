//! What can go wrong, per operation: opening a file, starting an engine, reading.

use std::fmt;
use std::io;
use std::path::PathBuf;

use nix::libc;

use super::direct::NoDirect;
use crate::memory::MemoryError;

/// A file that could not be opened.
#[derive(Debug)]
#[non_exhaustive]
pub struct OpenError {
    /// The file's path, as given.
    pub path: PathBuf,
    /// What is wrong.
    pub fault: OpenFault,
}

impl fmt::Display for OpenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} at 0: {}", self.path.display(), self.fault)
    }
}

/// The message tells the fault in full, so the source is what lies behind the fault.
impl std::error::Error for OpenError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.fault.source()
    }
}

/// Why a file could not be opened.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenFault {
    /// This process was forked from the one that built the reader.
    #[error("the reader was built before this process was forked; build one here")]
    Forked,
    /// The kernel refused.
    #[error("cannot open: {0}; {fix}", fix = open_fix(.0))]
    Io(#[source] io::Error),
    /// It is neither a regular file nor a block device.
    #[error("it is a {0}; give a regular file or a block device")]
    NotAFile(&'static str),
    /// Its content is made up by the kernel when it is read, and has no true size (procfs, sysfs and their like).
    #[error("it is a file that the kernel makes up, as those of /proc and /sys are; copy it to a real file first")]
    MadeUp,
    /// Its size is told as 0, and a read of it gives bytes: where they end, only reading tells.
    #[error("its size is told as 0, but it has bytes; copy it to a file whose size is known")]
    UntoldSize,
    /// Direct reads were asked for and cannot be had.
    #[error("direct reads were asked for, but {0}; {fix}, or allow reads through the page cache", fix = .0.fix())]
    NoDirect(NoDirect),
    /// Every descriptor that the limit allows is in use by reads that do not end.
    #[error("no file descriptor came free within {seconds} s (limit {limit}); raise it with `ulimit -n`")]
    NoDescriptor {
        /// Seconds waited.
        seconds: u64,
        /// The soft limit of open files.
        limit: u64,
    },
}

fn open_fix(error: &io::Error) -> &'static str {
    match error.raw_os_error() {
        Some(libc::ENOENT) => "check the path",
        Some(libc::EACCES | libc::EPERM) => "check the permissions of the file and of the folders above it",
        Some(libc::EMFILE) => "raise the limit of open files with `ulimit -n`",
        Some(libc::ENFILE) => "raise the system's limit fs.file-max",
        Some(libc::ELOOP) => "the links go in a circle; point them at a file",
        Some(libc::ENOTDIR) => "a folder in the path is a file; check the path",
        Some(libc::ESTALE | libc::ENOTCONN | libc::EIO) => "check the mount and the device under it",
        _ => "check the path and the file system",
    }
}

/// A read that failed. Nothing of the request is delivered.
#[derive(Debug)]
#[non_exhaustive]
pub struct ReadError {
    /// The file's path, as it was opened.
    pub path: PathBuf,
    /// The offset in the file where the read failed, in bytes.
    pub offset: u64,
    /// What is wrong.
    pub fault: ReadFault,
}

impl fmt::Display for ReadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} at {}: {}", self.path.display(), self.offset, self.fault)
    }
}

/// As for [`OpenError`].
impl std::error::Error for ReadError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.fault.source()
    }
}

/// Why a read failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReadFault {
    /// The range passes the end of the file.
    #[error("a range of {} bytes passes the end of the file, which has {file_len} bytes; ask for a range inside it", .len)]
    PastEnd {
        /// Bytes asked for.
        len: u64,
        /// Bytes in the file when it was opened.
        file_len: u64,
    },
    /// The file is not the one that was opened.
    #[error("{0}; open it again to read what is there now")]
    Changed(Change),
    /// The kernel answered "end of file" inside a file that has not changed.
    #[error("the file ends here, {missing} bytes before the range does; check the file system")]
    Ends {
        /// Bytes that are missing.
        missing: u64,
    },
    /// A block device answered nothing.
    #[error("the device answers nothing, as one that was pulled out does; check the drive and its cable")]
    DeviceGone,
    /// The kernel refused, or the device failed.
    #[error("{error}; {fix}", fix = read_fix(.error))]
    Io {
        /// The kernel's answer.
        #[source]
        error: io::Error,
    },
    /// Direct reads were asked for and are refused.
    #[error("direct reads were asked for, but {0}; {fix}, or allow reads through the page cache", fix = .0.fix())]
    NoDirect(NoDirect),
    /// The kernel kept asking to try again.
    #[error("the kernel asked to try again {tries} times; free memory or lower the queue depth")]
    Busy {
        /// Times tried.
        tries: u32,
    },
    /// The engine was closed, or its ring broke, before the read was done.
    #[error("the engine ended before this read was done; build a new reader")]
    EngineEnded,
    /// The process that built the reader is another one.
    #[error("the reader was built before this process was forked, and its engine is not in it; build one here")]
    Forked,
    /// The request cannot fit the memory budget.
    #[error("{0}")]
    Memory(#[source] MemoryError),
    /// The file had to be opened again, and could not be.
    #[error("{0}")]
    Open(#[source] OpenFault),
}

fn read_fix(error: &io::Error) -> &'static str {
    match error.raw_os_error() {
        Some(libc::ENODATA) => {
            "the drive cannot read this place (a medium error): restore the file and check the drive"
        }
        Some(libc::EIO) => "check the drive, the kernel log and the file system",
        Some(libc::ESTALE) => "the server no longer knows the file: check the mount, then open it again",
        Some(libc::ENOTCONN | libc::ECONNABORTED) => "the process behind the FUSE mount is gone: mount it again",
        Some(libc::ENOMEM) => "free memory or lower the budget",
        Some(libc::EOPNOTSUPP) => "the device or its queue does not serve this kind of read; read it another way",
        _ => "check the kernel log and the file system",
    }
}

/// How a file is no longer the one that was opened.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Change {
    /// It has fewer bytes than before.
    Shrank {
        /// Bytes when it was opened.
        from: u64,
        /// Bytes now.
        to: u64,
    },
    /// It has more bytes than before.
    Grew {
        /// Bytes when it was opened.
        from: u64,
        /// Bytes now.
        to: u64,
    },
    /// The path leads to another file.
    Replaced,
    /// The path leads nowhere.
    Removed,
    /// Same file, same size, but another mtime: its content was written to.
    Touched,
    /// Same file, size and mtime, but another ctime: its mode, owner, name or number of links was changed, as by `chmod` or a
    /// backup that makes hard links; or its content, by somebody who set the mtime back. By default that is a warning, and an
    /// error with [`strict_ctime`](crate::ReaderBuilder::strict_ctime).
    Status,
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Shrank { from, to } => write!(f, "the file shrank from {from} to {to} bytes since it was opened"),
            Self::Grew { from, to } => write!(f, "the file grew from {from} to {to} bytes since it was opened"),
            Self::Replaced => f.write_str("the path leads to another file than the one that was opened"),
            Self::Removed => f.write_str("the file was removed since it was opened"),
            Self::Touched => f.write_str("the file was changed since it was opened"),
            Self::Status => f.write_str("the file's mode, owner, name or links were changed since it was opened"),
        }
    }
}
