use std::io;

use nix::libc;

/// Why a file cannot be read directly, past the page cache.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NoDirect {
    /// The file system keeps its files in the page cache and nowhere else.
    #[error("its file system (tmpfs or the like) keeps files in the page cache and nowhere else")]
    InMemory,
    /// The kernel says that this file has no direct I/O (inline data, compression, encryption, journalled data).
    #[error("the kernel says that this file has no direct I/O (inline data, compression, encryption or the like)")]
    Refused,
    /// Opening with `O_DIRECT` failed, with this error number.
    #[error("opening it with O_DIRECT failed: {}", io::Error::from_raw_os_error(*.0))]
    Open(i32),
    /// A well-aligned direct read failed, with this error number.
    #[error("an aligned direct read failed: {}", io::Error::from_raw_os_error(*.0))]
    Read(i32),
}

impl NoDirect {
    /// What to do about it, in a few words.
    pub fn fix(&self) -> &'static str {
        match self {
            Self::InMemory => "nothing is gained by direct reads here; put the file on a disk to measure one",
            Self::Refused => "copy the file to a file system, or with attributes, that allow direct I/O",
            Self::Open(libc::EINVAL | libc::EOPNOTSUPP | libc::ENOSYS)
            | Self::Read(libc::EINVAL | libc::EOPNOTSUPP | libc::ENOSYS) => {
                "use a file system with direct I/O (ext4, xfs), or read it through the page cache"
            }
            Self::Open(libc::EPERM | libc::EACCES) => {
                "check the permissions of the file, and that no seccomp filter or sandbox forbids O_DIRECT"
            }
            Self::Open(_) => "check the file system and the kernel log, or read it through the page cache",
            Self::Read(_) => "check the drive, the file system and the kernel log, or read it through the page cache",
        }
    }
}
