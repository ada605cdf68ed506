//! Block devices as sysfs describes them: from a device number to the disks that hold the bytes.

use std::fmt;
use std::fs;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

use super::text;

/// Stacks of md, dm and loop deeper than this are not followed further.
const MAX_DEPTH: usize = 8;

/// Major and minor number of a block device.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct DeviceNumber {
    /// Which driver.
    pub major: u64,
    /// Which device of that driver.
    pub minor: u64,
}

impl DeviceNumber {
    /// Splits the `st_dev` or `st_rdev` of a stat call.
    pub fn from_raw(device: u64) -> Self {
        Self { major: nix::sys::stat::major(device), minor: nix::sys::stat::minor(device) }
    }

    /// True for the numbers that the kernel invents for file systems without a block device of their own (overlay,
    /// tmpfs, btrfs, NFS).
    pub fn is_anonymous(self) -> bool {
        self.major == 0
    }
}

impl fmt::Display for DeviceNumber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.major, self.minor)
    }
}

/// What kind of disk a block device is, told by its kernel name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum DiskKind {
    /// An NVMe namespace, on PCIe or over a fabric.
    Nvme,
    /// A virtio disk of a virtual machine.
    Virtio,
    /// SCSI, SATA or USB storage.
    Scsi,
    /// Software RAID (md).
    Md,
    /// Device mapper: LVM, dm-crypt, multipath.
    DeviceMapper,
    /// A file that plays a disk.
    Loop,
    /// Memory that plays a disk (zram, brd).
    Ram,
    /// Anything else.
    Other,
}

impl DiskKind {
    fn of_name(name: &str) -> Self {
        const PREFIXES: [(&str, DiskKind); 8] = [
            ("nvme", DiskKind::Nvme),
            ("vd", DiskKind::Virtio),
            ("sd", DiskKind::Scsi),
            ("md", DiskKind::Md),
            ("dm-", DiskKind::DeviceMapper),
            ("loop", DiskKind::Loop),
            ("zram", DiskKind::Ram),
            ("ram", DiskKind::Ram),
        ];
        let found = PREFIXES.iter().find(|(prefix, _)| name.starts_with(prefix));
        found.map_or(Self::Other, |(_, kind)| *kind)
    }
}

impl fmt::Display for DiskKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Nvme => "NVMe",
            Self::Virtio => "virtio",
            Self::Scsi => "SCSI",
            Self::Md => "md RAID",
            Self::DeviceMapper => "device mapper",
            Self::Loop => "loop",
            Self::Ram => "RAM disk",
            Self::Other => "other",
        })
    }
}

/// The request queue of a disk.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Queue {
    /// The I/O scheduler in use, `none` among them.
    pub scheduler: Option<String>,
    /// Requests that the scheduler or the driver holds at once.
    pub nr_requests: Option<u64>,
    /// Largest request that the block layer makes, in KiB; larger reads are split.
    pub max_sectors_kb: Option<u64>,
    /// Whether the queue can be polled, which io_uring's IOPOLL needs.
    pub io_poll: Option<bool>,
}

/// A block device and the whole disk it lies on. Every fact but the names may be missing.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct BlockDevice {
    /// Kernel name of the device itself, such as `nvme0n1p2`.
    pub name: String,
    /// Kernel name of the whole disk, such as `nvme0n1`; the same as `name` unless that is a partition.
    pub disk: String,
    /// The disk's folder in sysfs, links resolved.
    pub sysfs: PathBuf,
    /// What the disk is.
    pub kind: DiskKind,
    /// How an NVMe controller is reached: `pcie`, `tcp`, `rdma`, `fc`, `loop`.
    pub transport: Option<String>,
    /// The model that the disk reports.
    pub model: Option<String>,
    /// Size of the disk in bytes.
    pub size: Option<u64>,
    /// Smallest unit that can be addressed, in bytes.
    pub logical_block: Option<u64>,
    /// Smallest unit that can be written without reading first, in bytes.
    pub physical_block: Option<u64>,
    /// Whether the disk spins.
    pub rotational: Option<bool>,
    /// Whether the disk is zoned (SMR, ZNS).
    pub zoned: Option<bool>,
    /// The request queue.
    pub queue: Queue,
    /// NUMA node that the disk is attached to; `None` where the kernel does not know.
    pub numa_node: Option<u32>,
    /// The file behind a loop device, as the kernel names it.
    pub backing_file: Option<PathBuf>,
    /// The devices below an md or dm device.
    pub members: Vec<BlockDevice>,
}

impl BlockDevice {
    /// Looks a device number up under `sys` (normally `/sys`). `None` where sysfs does not know it.
    pub fn from_number(sys: &Path, number: DeviceNumber) -> Option<Self> {
        let folder = fs::canonicalize(sys.join(format!("dev/block/{number}"))).ok()?;
        Self::from_folder(sys, &folder, MAX_DEPTH)
    }

    /// The disks at the bottom of the stack: the device itself unless it is made of members.
    pub fn leaves(&self) -> Vec<&BlockDevice> {
        if self.members.is_empty() {
            return vec![self];
        }
        self.members.iter().flat_map(Self::leaves).collect()
    }

    fn from_folder(sys: &Path, folder: &Path, depth: usize) -> Option<Self> {
        let disk_folder = if folder.join("partition").exists() { folder.parent()? } else { folder };
        let disk = file_name(disk_folder)?;
        let kind = DiskKind::of_name(&disk);
        let queue = disk_folder.join("queue");
        Some(Self {
            name: file_name(folder)?,
            kind,
            transport: (kind == DiskKind::Nvme).then(|| transport(disk_folder)).flatten(),
            model: model(disk_folder),
            size: text::number(&disk_folder.join("size")).and_then(|sectors| sectors.checked_mul(512)),
            logical_block: text::number(&queue.join("logical_block_size")),
            physical_block: text::number(&queue.join("physical_block_size")),
            rotational: text::switch(&queue.join("rotational")),
            zoned: text::word(&queue.join("zoned")).map(|model| model != "none"),
            queue: Queue {
                scheduler: text::chosen(&queue.join("scheduler")),
                nr_requests: text::number(&queue.join("nr_requests")),
                max_sectors_kb: text::number(&queue.join("max_sectors_kb")),
                io_poll: text::switch(&queue.join("io_poll")),
            },
            numa_node: numa_node(sys, disk_folder),
            backing_file: backing_file(disk_folder),
            members: members(sys, disk_folder, depth),
            sysfs: disk_folder.to_path_buf(),
            disk,
        })
    }
}

/// The NVMe controllers of a disk: its parent, or several where native multipath puts the namespace under a subsystem.
pub(super) fn controllers(disk_folder: &Path) -> Vec<PathBuf> {
    let Some(parent) = disk_folder.parent() else {
        return Vec::new();
    };
    if !file_name(parent).is_some_and(|name| name.starts_with("nvme-subsys")) {
        return vec![parent.to_path_buf()];
    }
    entries(parent).into_iter().filter(|path| is_controller(path)).filter_map(|path| path.canonicalize().ok()).collect()
}

fn is_controller(path: &Path) -> bool {
    let digits = |name: String| name.strip_prefix("nvme").map(str::to_owned);
    let number = file_name(path).and_then(digits).unwrap_or_default();
    !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit())
}

fn transport(disk_folder: &Path) -> Option<String> {
    controllers(disk_folder).iter().find_map(|controller| text::word(&controller.join("transport")))
}

fn model(disk_folder: &Path) -> Option<String> {
    text::word(&disk_folder.join("device/model")).or_else(|| text::word(&disk_folder.join("device/name")))
}

fn backing_file(disk_folder: &Path) -> Option<PathBuf> {
    let mut name = fs::read(disk_folder.join("loop/backing_file")).ok()?;
    if name.last() == Some(&b'\n') {
        name.pop();
    }
    (!name.is_empty()).then(|| PathBuf::from(std::ffi::OsString::from_vec(name)))
}

/// The nearest device above the disk, itself among them, that knows its node.
fn numa_node(sys: &Path, disk_folder: &Path) -> Option<u32> {
    let sys = sys.canonicalize().ok()?;
    let above = disk_folder.ancestors().take_while(|folder| folder.starts_with(&sys));
    above.into_iter().find_map(|folder| text::numa_node(&folder.join("numa_node")))
}

fn members(sys: &Path, disk_folder: &Path, depth: usize) -> Vec<BlockDevice> {
    let Some(depth) = depth.checked_sub(1) else {
        return Vec::new();
    };
    let folders = entries(&disk_folder.join("slaves")).into_iter().filter_map(|link| link.canonicalize().ok());
    folders.filter_map(|folder| BlockDevice::from_folder(sys, &folder, depth)).collect()
}

/// Paths in a folder, in the order of their names; none where it cannot be listed.
pub(super) fn entries(folder: &Path) -> Vec<PathBuf> {
    let mut paths: Vec<PathBuf> =
        fs::read_dir(folder).map(|list| list.flatten().map(|entry| entry.path()).collect()).unwrap_or_default();
    paths.sort();
    paths
}

pub(super) fn file_name(path: &Path) -> Option<String> {
    path.file_name().map(|name| name.to_string_lossy().into_owned())
}

#[cfg(test)]
mod tests;
