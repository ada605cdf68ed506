//! Facts on the machine, its disks and this process, read from /sys and /proc: what `forebay doctor` judges by.
//!
//! A file of those trees that is missing, unreadable or garbage is a fact that is missing (`None`, or an empty list),
//! never an error. Such functions take the root of the tree they read, [`sys()`] or [`proc()`] on a live machine.
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
#![forbid(unsafe_code)]

use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::path::Path;

use nix::sys::memfd::{MFdFlags, memfd_create};

use crate::sys::{cachestat, page};

pub use crate::sys::block::{BlockDevice, DeviceNumber, DiskKind, Queue};
pub use crate::sys::cgroup::{MemoryLimit, memory_limit};
pub use crate::sys::machine::{
    CpuList, HugePages, NumaNode, TransparentHugePages, huge_pages, io_uring_disabled, io_uring_group, kernel_release,
    memory_available, memory_total, numa_nodes, transparent_huge_pages,
};
pub use crate::sys::mounts::Mount;
pub use crate::sys::pci::{ErrorCount, ErrorCounters, Link, PciFunction};
pub use crate::sys::process::{is_filtered, may_lock_memory};

/// Facts that decide whether bytes can pass from a disk to an NVIDIA GPU without the CPU: GPUs, NVIDIA's drivers, the
/// kernel's peer-to-peer DMA, IOMMU, distances.
///
/// ```
/// use forebay::facts::{self, gds};
///
/// for gpu in gds::NvidiaGpu::all(facts::sys(), facts::proc()) {
///     println!("{}: {:?}, driver {:?}", gpu.function.address, gpu.model, gpu.driver);
/// }
/// let driver = gds::NvidiaDriver::read(facts::sys(), facts::proc(), facts::root());
/// println!("{driver:?}");
/// ```
pub mod gds {
    pub use crate::sys::direct_storage::{Obstacle, file_obstacle, obstacles};
    pub use crate::sys::gpu::{NvidiaGpu, is_nvidia_gpu_shown};
    pub use crate::sys::iommu::{Iommu, IommuGroup, IommuMode};
    pub use crate::sys::nvidia::{DeviceNode, DriverFlavour, NvidiaDriver};
    pub use crate::sys::nvidia_fs::NvidiaFs;
    pub use crate::sys::p2pdma::P2pDma;
    pub use crate::sys::platform::Platform;
    pub use crate::sys::topology::{Distance, redirecting_bridges};
    pub use crate::sys::version::Version;
}

/// Where sysfs is mounted: `/sys`.
pub fn sys() -> &'static Path {
    Path::new("/sys")
}

/// Where procfs is mounted: `/proc`.
pub fn proc() -> &'static Path {
    Path::new("/proc")
}

/// Where the files of the system lie: `/`.
pub fn root() -> &'static Path {
    Path::new("/")
}

/// How much of the `length` bytes of `file` from `offset` on lies in the page cache, from 0 to 1; 1 for no bytes.
///
/// # Errors
/// The kernel's, where it does not tell, or where `offset + length` passes 2^63 - 1.
pub fn cached_share(file: &File, offset: u64, length: u64) -> io::Result<f64> {
    let end = offset.checked_add(length).filter(|end| i64::try_from(*end).is_ok());
    let Some(end) = end else {
        return Err(io::ErrorKind::InvalidInput.into());
    };
    if length == 0 {
        return Ok(1.0);
    }
    let page = page::size() as u64;
    let pages = end.div_ceil(page) - offset / page;
    let resident = cachestat::resident_pages(file.as_fd(), offset, length)?;
    Ok(resident as f64 / pages as f64)
}

/// Tries the system call `cachestat`, which tells how much of a file is in the page cache without mapping it.
///
/// # Errors
/// The kernel's: `ENOSYS` where it is older than the call (Linux 6.5), `EPERM` where a filter forbids it.
pub fn try_cachestat() -> io::Result<()> {
    // A file of our own: one that is found by its path may be missing, or somebody else's, and then the error is not the call's.
    let file = memfd_create(c"forebay-cachestat", MFdFlags::MFD_CLOEXEC)?;
    cachestat::cachestat(file.as_fd(), 0, 1).map(|_| ())
}
