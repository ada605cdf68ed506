//! The kind of file system under an open file, where it changes how the file may be read.

use std::os::fd::BorrowedFd;

use nix::sys::statfs::fstatfs;

/// A file system, told apart only where reads must be done differently.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FileSystem {
    /// Files live in the page cache and nowhere else (tmpfs, ramfs, hugetlbfs).
    Memory,
    /// A process answers the reads.
    Fuse,
    /// The kernel makes the content up when it is read (procfs, sysfs and their like), so that a size means nothing.
    MadeUp,
    /// Anything else, by `f_type`.
    Other(i64),
}

/// The file system that `fd` lies on; `Other(0)` where the kernel does not say.
#[allow(clippy::unnecessary_cast)] // `f_type` has another width on other architectures
pub(crate) fn of_fd(fd: BorrowedFd<'_>) -> FileSystem {
    const TMPFS: i64 = 0x0102_1994;
    const RAMFS: i64 = 0x8584_58f6;
    const HUGETLBFS: i64 = 0x9584_58f6;
    const FUSE: i64 = 0x6573_5546;
    const PROC: i64 = 0x9fa0;
    const SYSFS: i64 = 0x6265_6572;
    const DEBUGFS: i64 = 0x6462_6720;
    const TRACEFS: i64 = 0x7472_6163;
    const SECURITYFS: i64 = 0x7363_6673;
    const CONFIGFS: i64 = 0x6265_6570;
    const BINFMTFS: i64 = 0x4249_4e4d;
    const SELINUX: i64 = 0xf97c_ff8c;
    const RESCTRL: i64 = 0x0765_5821;
    const FUSECTL: i64 = 0x6573_5543;
    const CGROUP: i64 = 0x0027_e0eb;
    const CGROUP2: i64 = 0x6367_7270;
    match fstatfs(fd).map(|stat| stat.filesystem_type().0 as i64 & 0xffff_ffff) {
        Ok(TMPFS | RAMFS | HUGETLBFS) => FileSystem::Memory,
        Ok(FUSE) => FileSystem::Fuse,
        Ok(PROC | SYSFS | DEBUGFS | TRACEFS | SECURITYFS | CONFIGFS | BINFMTFS | SELINUX | RESCTRL | FUSECTL) => {
            FileSystem::MadeUp
        }
        Ok(CGROUP | CGROUP2) => FileSystem::MadeUp,
        Ok(other) => FileSystem::Other(other),
        Err(_) => FileSystem::Other(0),
    }
}

/// The name people know a file system by, from its `f_type` (`linux/magic.h`).
pub(crate) fn name(kind: FileSystem) -> String {
    match kind {
        FileSystem::Memory => "tmpfs".into(),
        FileSystem::Fuse => "fuse".into(),
        FileSystem::MadeUp => "made up by the kernel".into(),
        FileSystem::Other(0xef53) => "ext4".into(),
        FileSystem::Other(0x5846_5342) => "xfs".into(),
        FileSystem::Other(0x9123_683e) => "btrfs".into(),
        FileSystem::Other(0x794c_7630) => "overlay".into(),
        FileSystem::Other(0x6969) => "nfs".into(),
        FileSystem::Other(0xf2f5_2010) => "f2fs".into(),
        FileSystem::Other(0x2fc1_2fc1) => "zfs".into(),
        FileSystem::Other(0x0bd0_0bd0) => "lustre".into(),
        FileSystem::Other(0x00c3_6400) => "ceph".into(),
        FileSystem::Other(0x7371_7368) => "squashfs".into(),
        FileSystem::Other(0xe0f5_e1e2) => "erofs".into(),
        FileSystem::Other(magic) => format!("file system {magic:#x}"),
    }
}
