//! Facts on the machine, its disks and this process, read from /sys and /proc: what `forebay doctor` judges by.
//!
//! Nothing here fails: a file that is missing, unreadable or garbage is a fact that is missing (`None`, or an empty
//! list). Every function takes the root of the tree it reads, [`sys()`] or [`proc()`] on a live machine.
//!
//! ```
//! use forebay::facts::{self, BlockDevice, DeviceNumber, PciFunction};
//! use std::os::unix::fs::MetadataExt;
//!
//! println!("{} NUMA nodes", facts::numa_nodes(facts::sys()).len());
//! let number = DeviceNumber::from_raw(std::fs::metadata(".")?.dev());
//! if let Some(device) = BlockDevice::from_number(facts::sys(), number) {
//!     for disk in device.leaves() {
//!         println!("{}: {} {:?}", disk.disk, disk.kind, disk.model);
//!         for function in PciFunction::of_disk(disk) {
//!             println!("  {} below its best: {:?}", function.address, function.runs_below_best());
//!         }
//!     }
//! }
//! # Ok::<(), std::io::Error>(())
//! ```

use std::path::Path;

pub use crate::sys::block::{BlockDevice, DeviceNumber, DiskKind, Queue};
pub use crate::sys::cgroup::{MemoryLimit, memory_limit};
pub use crate::sys::machine::{
    CpuList, HugePages, NumaNode, TransparentHugePages, huge_pages, io_uring_disabled,
    io_uring_group, kernel_release, memory_available, memory_total, numa_nodes,
    transparent_huge_pages,
};
pub use crate::sys::mounts::Mount;
pub use crate::sys::pci::{ErrorCount, ErrorCounters, Link, PciFunction};
pub use crate::sys::process::{is_filtered, may_lock_memory};

/// Where sysfs is mounted: `/sys`.
pub fn sys() -> &'static Path {
    Path::new("/sys")
}

/// Where procfs is mounted: `/proc`.
pub fn proc() -> &'static Path {
    Path::new("/proc")
}
