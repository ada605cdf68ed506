//! What stands between files and GPU memory: file systems and disks that cuFile does not read directly.

use std::path::Path;

use super::block::{BlockDevice, DiskKind};
use super::mounts::Mount;
use super::statx;
use super::text;

/// A reason why cuFile cannot read a file directly.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Obstacle {
    /// A file system that keeps no blocks on a disk of its own, or that cuFile does not know: its type.
    FileSystem(String),
    /// A file system over a network, read directly only by adapters with RDMA and the vendor's support: its type.
    Network(String),
    /// ext4 that is not in the mode `data=ordered`: the mode.
    Ext4Mode(String),
    /// A disk encrypted by the kernel, whose bytes only the CPU can read: its name.
    Encrypted(String),
    /// A volume of the device mapper (LVM, multipath), which cuFile is not known to read through: its name.
    DeviceMapper(String),
    /// A disk that is not NVMe: its name and what it is.
    NotNvme(String, DiskKind),
    /// Software RAID: its name and level. The kernel's P2PDMA does not pass it, nvidia-fs does for the levels it knows.
    Raid(String, String),
    /// An NVMe disk over a fabric: its name and the fabric. The kernel's P2PDMA does not pass it, nvidia-fs does where
    /// the fabric is RDMA.
    Fabric(String, String),
    /// An NVMe disk under the driver's own multipath: its name. The kernel's P2PDMA does not pass it.
    Multipath(String),
    /// A file with an attribute that cuFile refuses: `encrypted`, `compressed`, `append-only` or `immutable`.
    Attribute(&'static str),
}

impl Obstacle {
    /// Whether only the kernel's P2PDMA stops here, while nvidia-fs may pass.
    pub fn is_passed_by_nvidia_fs(&self) -> bool {
        matches!(self, Self::Raid(..) | Self::Fabric(..) | Self::Multipath(_))
    }
}

/// What stands between the files of a mount and GPU memory, by the mount and by the disks under it; empty where nothing
/// is seen. `proc` is normally `/proc`.
pub fn obstacles(proc: &Path, mount: Option<&Mount>, device: Option<&BlockDevice>) -> Vec<Obstacle> {
    let mut obstacles: Vec<Obstacle> = mount.and_then(|mount| of_mount(proc, mount, device)).into_iter().collect();
    if let Some(device) = device {
        of_device(device, &mut obstacles);
    }
    obstacles
}

/// What stands in the way in the file itself, which must not be encrypted, compressed, append-only or immutable (`lsattr`
/// shows that). Nothing is found where the kernel does not tell.
pub fn file_obstacle(path: &Path) -> Option<Obstacle> {
    refused(statx::attributes(path)).map(Obstacle::Attribute)
}

/// By the bits of `STATX_ATTR_`.
fn refused(attributes: u64) -> Option<&'static str> {
    const NAMES: [(u64, &str); 4] =
        [(0x800, "encrypted"), (0x4, "compressed"), (0x20, "append-only"), (0x10, "immutable")];
    NAMES.into_iter().find(|(bit, _)| attributes & bit != 0).map(|(_, name)| name)
}

const NETWORK: [&str; 8] = ["nfs", "nfs4", "lustre", "gpfs", "beegfs", "wekafs", "ceph", "cifs"];

fn of_mount(proc: &Path, mount: &Mount, device: Option<&BlockDevice>) -> Option<Obstacle> {
    match mount.kind.as_str() {
        "xfs" => None,
        "ext4" => {
            let mode = ext4_mode(proc, mount, device)?;
            (mode != "ordered").then_some(Obstacle::Ext4Mode(mode))
        }
        kind if NETWORK.contains(&kind) => Some(Obstacle::Network(kind.to_owned())),
        kind => Some(Obstacle::FileSystem(kind.to_owned())),
    }
}

/// The mode in which ext4 keeps its journal. The mount table names it only where it is not the usual one; the driver's
/// own list is complete. `None` where neither names it: `ordered` is what ext4 does unless told otherwise.
fn ext4_mode(proc: &Path, mount: &Mount, device: Option<&BlockDevice>) -> Option<String> {
    let table = mount.options.to_string_lossy();
    let in_table = table.split(',').find_map(|option| option.strip_prefix("data="));
    in_table.map(str::to_owned).or_else(|| {
        let options = text::text(&proc.join("fs/ext4").join(&device?.name).join("options"))?;
        options.lines().find_map(|option| option.strip_prefix("data=")).map(str::to_owned)
    })
}

fn of_device(device: &BlockDevice, obstacles: &mut Vec<Obstacle>) {
    let name = || device.disk.clone();
    let fabric = device.transport.as_deref().filter(|transport| *transport != "pcie");
    match device.kind {
        DiskKind::Nvme => {
            obstacles.extend(fabric.map(|fabric| Obstacle::Fabric(name(), fabric.to_owned())));
            obstacles.extend(is_multipath(device).then(|| Obstacle::Multipath(name())));
        }
        DiskKind::Md => {
            let level = text::word(&device.sysfs.join("md/level")).unwrap_or_else(|| "unknown level".to_owned());
            obstacles.push(Obstacle::Raid(name(), level));
        }
        DiskKind::DeviceMapper if is_encrypted(device) => obstacles.push(Obstacle::Encrypted(name())),
        DiskKind::DeviceMapper => obstacles.push(Obstacle::DeviceMapper(name())),
        kind => obstacles.push(Obstacle::NotNvme(name(), kind)),
    }
    for member in &device.members {
        of_device(member, obstacles);
    }
}

/// Under multipath the disk belongs to the subsystem, else to its controller.
fn is_multipath(device: &BlockDevice) -> bool {
    let parent = device.sysfs.parent().and_then(Path::file_name);
    parent.is_some_and(|name| name.as_encoded_bytes().starts_with(b"nvme-subsys"))
}

fn is_encrypted(device: &BlockDevice) -> bool {
    text::word(&device.sysfs.join("dm/uuid")).is_some_and(|uuid| uuid.starts_with("CRYPT-"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys::block::DeviceNumber;
    use crate::sys::fake_tree::FakeTree;

    const NVME: &str = "devices/pci0000:80/0000:80:01.0/0000:81:00.0/nvme/nvme0/nvme0n1";

    /// What stands before the device at `folder`, whose number is 259:0, in a made-up /sys.
    fn of_folder(sys: &FakeTree, folder: &str) -> Vec<Obstacle> {
        sys.dir(folder);
        sys.link("dev/block/259:0", folder);
        let device = BlockDevice::from_number(sys.root(), DeviceNumber { major: 259, minor: 0 }).unwrap();
        obstacles(sys.root(), None, Some(&device))
    }

    fn of_file_system(kind: &str, options: &str, driver: &str) -> Vec<Obstacle> {
        let (sys, proc) = (FakeTree::new(), FakeTree::new());
        sys.dir(NVME);
        sys.link("dev/block/259:0", NVME);
        proc.file("fs/ext4/nvme0n1/options", driver);
        proc.file("self/mountinfo", &format!("30 21 259:0 / /data rw - {kind} /dev/nvme0n1 {options}\n"));
        let number = DeviceNumber { major: 259, minor: 0 };
        let mount = Mount::of_path(proc.root(), Path::new("/data"), number);
        obstacles(proc.root(), mount.as_ref(), BlockDevice::from_number(sys.root(), number).as_ref())
    }

    #[test]
    fn nothing_stands_before_ext4_and_xfs_on_nvme() {
        assert_eq!(of_file_system("xfs", "rw", ""), []);
        assert_eq!(of_file_system("ext4", "rw", ""), []);
        assert_eq!(of_file_system("ext4", "rw", "rw\ndata=ordered\n"), []);
        assert_eq!(of_file_system("ext4", "rw,data=ordered", "data=journal\n"), []);
    }

    #[test]
    fn ext4_of_another_mode_and_other_file_systems() {
        assert_eq!(of_file_system("ext4", "rw", "rw\ndata=journal\n"), [Obstacle::Ext4Mode("journal".into())]);
        assert_eq!(of_file_system("ext4", "rw,data=writeback", ""), [Obstacle::Ext4Mode("writeback".into())]);
        for kind in ["overlay", "tmpfs", "btrfs", "zfs", "fuse.sshfs"] {
            assert_eq!(of_file_system(kind, "rw", ""), [Obstacle::FileSystem(kind.into())]);
        }
        assert_eq!(of_file_system("nfs4", "rw", ""), [Obstacle::Network("nfs4".into())]);
    }

    #[test]
    fn disks_that_are_not_nvme() {
        let sys = FakeTree::new();
        assert_eq!(of_folder(&sys, "devices/virtual/vdb"), [Obstacle::NotNvme("vdb".into(), DiskKind::Virtio)]);
    }

    #[test]
    fn a_fabric_and_multipath() {
        let sys = FakeTree::new();
        sys.file("devices/virtual/nvme-fabrics/ctl/nvme3/transport", "rdma\n");
        let fabric = of_folder(&sys, "devices/virtual/nvme-fabrics/ctl/nvme3/nvme3n1");
        assert_eq!(fabric, [Obstacle::Fabric("nvme3n1".into(), "rdma".into())]);
        let multipath = of_folder(&FakeTree::new(), "devices/virtual/nvme-subsystem/nvme-subsys0/nvme0n1");
        assert_eq!(multipath, [Obstacle::Multipath("nvme0n1".into())]);
        assert!(fabric.iter().chain(&multipath).all(Obstacle::is_passed_by_nvidia_fs));
    }

    #[test]
    fn stacks_are_followed_to_their_disks() {
        let sys = FakeTree::new();
        let (md, dm) = ("devices/virtual/block/md0", "devices/virtual/block/dm-0");
        sys.file(&format!("{md}/md/level"), "raid0\n");
        sys.dir(NVME);
        sys.dir("devices/pci0000:00/ata1/sda");
        sys.link(&format!("{md}/slaves/nvme0n1"), NVME);
        sys.link(&format!("{md}/slaves/sda"), "devices/pci0000:00/ata1/sda");
        sys.file(&format!("{dm}/dm/uuid"), "CRYPT-LUKS2-0123-data\n");
        sys.link(&format!("{dm}/slaves/md0"), md);
        let expected = [
            Obstacle::Encrypted("dm-0".into()),
            Obstacle::Raid("md0".into(), "raid0".into()),
            Obstacle::NotNvme("sda".into(), DiskKind::Scsi),
        ];
        assert_eq!(of_folder(&sys, dm), expected);
        assert_eq!(expected.map(|obstacle| obstacle.is_passed_by_nvidia_fs()), [false, true, false]);
    }

    #[test]
    fn volumes_of_the_device_mapper() {
        let sys = FakeTree::new();
        sys.file("devices/virtual/block/dm-1/dm/uuid", "LVM-abc\n");
        assert_eq!(of_folder(&sys, "devices/virtual/block/dm-1"), [Obstacle::DeviceMapper("dm-1".into())]);
    }

    #[test]
    fn attributes_that_are_refused() {
        for (bits, expected) in [
            (0, None),
            (0x4, Some("compressed")),
            (0x810, Some("encrypted")),
            (0x20, Some("append-only")),
            (0x40, None),
        ] {
            assert_eq!(refused(bits), expected, "{bits:#x}");
        }
    }

    #[test]
    fn an_immutable_file_is_found() {
        let folder = FakeTree::new();
        folder.file("data", "bytes");
        let path = folder.path("data");
        assert_eq!(file_obstacle(&path), None);
        let set = |flag: &str| std::process::Command::new("chattr").arg(flag).arg(&path).output();
        if !set("+i").is_ok_and(|answer| answer.status.success()) {
            crate::skipped::skipped("chattr +i is not allowed here");
            return;
        }
        let found = file_obstacle(&path);
        assert!(set("-i").unwrap().status.success());
        assert_eq!(found, Some(Obstacle::Attribute("immutable")));
    }
}
