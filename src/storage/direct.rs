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
    /// Direct reads are taken, and go through the page cache all the same, as was seen by one.
    #[error("reads with O_DIRECT fill the page cache on {file_system}{}", .cause.likely())]
    #[non_exhaustive]
    FillsCache {
        /// The file system, by the name people know.
        file_system: String,
        /// The likely cause.
        cause: CacheCause,
    },
}

/// Why a file system reads through the page cache where it was asked not to: the likely cause, by what it tells of the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum CacheCause {
    /// The bytes lie in the file system's own records, as those of small files may.
    Inline,
    /// They are compressed.
    Compressed,
    /// They are encrypted.
    Encrypted,
    /// It tells nothing that would explain it.
    Unknown,
}

impl CacheCause {
    fn likely(self) -> &'static str {
        match self {
            Self::Inline => ", most likely since the file is stored inline, in its metadata",
            Self::Compressed => ", most likely since the file is compressed",
            Self::Encrypted => ", most likely since the file is encrypted",
            Self::Unknown => "",
        }
    }
}

impl NoDirect {
    /// What to do about it, in a few words.
    pub fn fix(&self) -> &'static str {
        match self {
            Self::FillsCache { cause: CacheCause::Inline, .. } => {
                "nothing is gained by direct reads of so small a file; pack small files into large ones"
            }
            Self::FillsCache { cause: CacheCause::Compressed, .. } => {
                "store it uncompressed (`chattr +m`, or `btrfs property set FILE compression none`, and write it anew)"
            }
            Self::FillsCache { .. } => "copy the file to another file system, or read it through the page cache",
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
