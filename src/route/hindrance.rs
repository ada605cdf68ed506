//! What this machine lacks for reads from a drive straight into GPU memory, as far as /sys and /proc tell.
//!
//! A guess at the cause, never the verdict: whether cuFile serves a file directly is found by reading with it.

use std::path::Path;
use std::sync::OnceLock;

use crate::facts::gds::{
    DeviceNode, DriverFlavour, Iommu, IommuMode, NvidiaDriver, NvidiaFs, Obstacle, P2pDma, Platform, file_obstacle,
    obstacles,
};
use crate::facts::{self, BlockDevice, DeviceNumber, Mount};

/// Something that stands between a file and GPU memory.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Hindrance {
    /// The Windows Subsystem for Linux, which cuFile does not serve.
    #[error("this is the Windows Subsystem for Linux, which cuFile does not serve")]
    Wsl,
    /// cuFile cannot tell which disk a file lies on.
    #[error("/run/udev cannot be read, from which cuFile tells the disk under a file")]
    NoUdev,
    /// The file system or the disk under it.
    #[error("{}", of_obstacle(.0))]
    Obstacle(Obstacle),
    /// nvidia-fs is not loaded, and the kernel has no P2PDMA, which could stand in.
    #[error("nvidia-fs is not loaded, and the kernel was built without CONFIG_PCI_P2PDMA, which could stand in for it")]
    NoP2pDma,
    /// nvidia-fs is not loaded, and the kernel is older than what could stand in.
    #[error("nvidia-fs is not loaded, and the kernel {0} is older than 6.2, whose P2PDMA could stand in for it")]
    OldKernel(String),
    /// nvidia-fs is not loaded, and the driver is not one that could do without.
    #[error("nvidia-fs is not loaded, and NVIDIA's driver {0}, without which it must be the open one of 570 or later")]
    OtherDriver(String),
    /// nvidia-fs is not loaded, and cuFile was not told to do without.
    #[error("nvidia-fs is not loaded")]
    NoNvidiaFs,
    /// nvidia-fs is one that is known to be broken.
    #[error("nvidia-fs {0} is known to be broken")]
    BrokenNvidiaFs(String),
    /// nvidia-fs is loaded, and its device nodes are not there.
    #[error("nvidia-fs is loaded, and its device nodes /dev/nvidia-fs* are not in here")]
    NoNvidiaFsNodes,
    /// The IOMMU translates between devices.
    #[error("the IOMMU is on and translates, so that a drive's writes do not reach the GPU")]
    Iommu,
    /// NVIDIA's device nodes may not be opened.
    #[error("/dev/nvidiactl may not be opened by this process")]
    NoDeviceNode,
}

impl Hindrance {
    /// What to do about it, in a few words.
    pub fn fix(&self) -> &'static str {
        match self {
            Self::Wsl => "run on Linux itself, or take the route bounce",
            Self::NoUdev => "bind /run/udev into the container, read-only",
            Self::Obstacle(obstacle) => fix_of_obstacle(obstacle),
            Self::NoP2pDma | Self::OldKernel(_) | Self::OtherDriver(_) => {
                "load nvidia-fs (`modprobe nvidia_fs`, package nvidia-gds)"
            }
            Self::NoNvidiaFs => {
                "load nvidia-fs (`modprobe nvidia_fs`), or set use_pci_p2pdma in cufile.json where CUDA is 12.8 or later"
            }
            Self::BrokenNvidiaFs(_) => "install nvidia-fs 2.25.7 or later",
            Self::NoNvidiaFsNodes => "pass /dev/nvidia-fs* into the container",
            Self::Iommu => "switch it off, or to passthrough (`iommu=pt` on the kernel's command line)",
            Self::NoDeviceNode => "pass the GPU into the container, or join the group that owns the node",
        }
    }

    /// Everything that is seen, the most likely cause first. `path` must be absolute.
    pub(super) fn of_file(path: &Path) -> Vec<Self> {
        static MACHINE: OnceLock<Machine> = OnceLock::new();
        let machine = MACHINE.get_or_init(Machine::read);
        let stopped = |obstacle: &Obstacle| !machine.nvidia_fs || !obstacle.is_passed_by_nvidia_fs();
        let obstacles = file_obstacle(path).into_iter().chain(obstacles_of(path));
        let of_file = obstacles.filter(stopped).map(Self::Obstacle);
        machine.before.iter().cloned().chain(of_file).chain(machine.after.iter().cloned()).collect()
    }
}

/// What holds for every file, read once: some of it is dear to find out.
struct Machine {
    /// nvidia-fs is loaded.
    nvidia_fs: bool,
    /// More likely than what is wrong with a file.
    before: Vec<Hindrance>,
    after: Vec<Hindrance>,
}

impl Machine {
    fn read() -> Self {
        let (sys, proc, root) = (facts::sys(), facts::proc(), facts::root());
        let (mut before, mut after) = (Vec::new(), Vec::new());
        let platform = Platform::read(proc, root);
        if platform.wsl {
            before.push(Hindrance::Wsl);
        }
        if !platform.udev {
            before.push(Hindrance::NoUdev);
        }
        let driver = NvidiaDriver::read(sys, proc, root);
        if driver.as_ref().is_some_and(|driver| driver.control == DeviceNode::Denied) {
            before.push(Hindrance::NoDeviceNode);
        }
        let nvidia_fs = NvidiaFs::read(sys, proc, root);
        match &nvidia_fs {
            Some(module) if module.is_broken() => {
                let version = module.version.as_ref().map_or_else(String::new, ToString::to_string);
                after.push(Hindrance::BrokenNvidiaFs(version));
            }
            Some(module) if !module.nodes => after.push(Hindrance::NoNvidiaFsNodes),
            Some(_) => {}
            None => after.push(without_nvidia_fs(&P2pDma::read(sys, proc, root), driver.as_ref())),
        }
        if Iommu::read(sys, proc).is_some_and(|iommu| iommu.mode == Some(IommuMode::Translating)) {
            after.push(Hindrance::Iommu);
        }
        Self { nvidia_fs: nvidia_fs.is_some(), before, after }
    }
}

fn obstacles_of(path: &Path) -> Vec<Obstacle> {
    use std::os::unix::fs::{FileTypeExt, MetadataExt};
    let (sys, proc) = (facts::sys(), facts::proc());
    let Ok(metadata) = std::fs::metadata(path) else { return Vec::new() };
    if metadata.file_type().is_block_device() {
        let device = BlockDevice::from_number(sys, DeviceNumber::from_raw(metadata.rdev()));
        return obstacles(proc, None, device.as_ref());
    }
    let number = DeviceNumber::from_raw(metadata.dev());
    let mount = Mount::of_path(proc, path, number);
    obstacles(proc, mount.as_ref(), BlockDevice::from_number(sys, number).as_ref())
}

/// What keeps the kernel's P2PDMA from standing in for nvidia-fs.
fn without_nvidia_fs(kernel: &P2pDma, driver: Option<&NvidiaDriver>) -> Hindrance {
    if let Some(version) = kernel.kernel.as_ref().filter(|version| !version.is_at_least(&P2pDma::OLDEST_KERNEL)) {
        return Hindrance::OldKernel(version.to_string());
    }
    if kernel.built_in == Some(false) {
        return Hindrance::NoP2pDma;
    }
    match driver {
        Some(driver) if driver.flavour == Some(DriverFlavour::Proprietary) => {
            Hindrance::OtherDriver("is the proprietary one".into())
        }
        Some(NvidiaDriver { version: Some(version), .. }) if version.major() < P2pDma::OLDEST_DRIVER => {
            Hindrance::OtherDriver(format!("is of version {version}"))
        }
        _ => Hindrance::NoNvidiaFs,
    }
}

fn of_obstacle(obstacle: &Obstacle) -> String {
    match obstacle {
        Obstacle::FileSystem(kind) => format!("the file lies on {kind}, which cuFile does not read directly"),
        Obstacle::Network(kind) => format!("the file lies on {kind}, which takes an adapter with RDMA"),
        Obstacle::Ext4Mode(mode) => format!("the file lies on ext4 with data={mode}, and cuFile needs data=ordered"),
        Obstacle::Encrypted(disk) => format!("the disk {disk} is encrypted, so that only the CPU can read it"),
        Obstacle::DeviceMapper(disk) => format!("the disk {disk} is a volume of the device mapper"),
        Obstacle::NotNvme(disk, kind) => format!("the disk {disk} is {kind} and not NVMe"),
        Obstacle::Raid(disk, level) => {
            format!("the disk {disk} is software RAID ({level}), which P2PDMA does not pass")
        }
        Obstacle::Fabric(disk, fabric) => format!("the disk {disk} is reached by {fabric}, which P2PDMA does not pass"),
        Obstacle::Attribute(attribute) => format!("the file is {attribute}, which cuFile refuses"),
        Obstacle::Multipath(disk) => format!("the disk {disk} is under NVMe multipath, which P2PDMA does not pass"),
    }
}

fn fix_of_obstacle(obstacle: &Obstacle) -> &'static str {
    match obstacle {
        Obstacle::Ext4Mode(_) => "mount it with data=ordered",
        Obstacle::Network(_) => "use the vendor's client with RDMA, or copy the data to a local NVMe drive",
        Obstacle::Raid(..) | Obstacle::Fabric(..) => "load nvidia-fs, which passes it, or use a single local drive",
        Obstacle::Attribute(_) => "take the attribute away (`chattr`), or copy the file",
        Obstacle::Multipath(_) => "switch it off (nvme_core.multipath=N), or load nvidia-fs",
        _ => "copy the data to ext4 or xfs on a local NVMe drive",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts::gds::Version;

    fn kernel(version: &str, built_in: Option<bool>) -> P2pDma {
        let mut kernel = P2pDma::read(Path::new("/nowhere"), Path::new("/nowhere"), Path::new("/nowhere"));
        kernel.kernel = Version::parse(version);
        kernel.built_in = built_in;
        kernel
    }

    #[test]
    fn the_first_thing_that_keeps_p2pdma_from_standing_in_is_named() {
        assert_eq!(without_nvidia_fs(&kernel("5.15.0", None), None), Hindrance::OldKernel("5.15.0".into()));
        assert_eq!(without_nvidia_fs(&kernel("6.8.0", Some(false)), None), Hindrance::NoP2pDma);
        assert_eq!(without_nvidia_fs(&kernel("6.8.0", Some(true)), None), Hindrance::NoNvidiaFs);
    }

    #[test]
    fn a_file_in_memory_is_named_by_its_file_system() {
        let shared = Path::new("/dev/shm");
        if !shared.is_dir() {
            crate::skipped::skipped("no /dev/shm");
            return;
        }
        let file = tempfile::NamedTempFile::new_in(shared).unwrap();
        let found = Hindrance::of_file(file.path());
        assert!(found.contains(&Hindrance::Obstacle(Obstacle::FileSystem("tmpfs".into()))), "{found:?}");
        for hindrance in found {
            assert!(!hindrance.to_string().is_empty() && !hindrance.fix().is_empty());
        }
    }
}
