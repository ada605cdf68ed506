//! Whether cuFile reads files of this file system on these disks directly.

use std::path::Path;

use forebay::facts::gds::{Obstacle, file_obstacle, obstacles};
use forebay::facts::{BlockDevice, DiskKind, Mount};

use crate::doctor::finding::Finding;

use super::Ways;

const KIND: &str = "direct_storage";
const LOCAL: &str = "put the data on a local NVMe drive with ext4 or xfs, or use --route bounce";

impl Ways<'_> {
    pub(super) fn storage(&self, path: &Path, mount: Option<&Mount>, device: Option<&BlockDevice>) -> Vec<Finding> {
        let name = path.to_string_lossy();
        let mut found = obstacles(self.roots.proc, mount, device);
        found.extend(file_obstacle(path));
        if !found.is_empty() {
            return found.iter().map(|obstacle| self.obstacle(&name, obstacle)).collect();
        }
        let nvme = device.filter(|device| device.kind == DiskKind::Nvme);
        let (Some(disk), Some(mount)) = (nvme, mount) else {
            let reason = "it is not shown what file system and disk it lies on, so only a direct read can tell";
            return vec![Finding::note(KIND, name, reason)];
        };
        vec![Finding::yes(KIND, name, format!("{} on {}: a kind that cuFile reads directly", mount.kind, disk.disk))]
    }

    fn obstacle(&self, name: &str, obstacle: &Obstacle) -> Finding {
        let (reason, fix) = words(obstacle);
        match obstacle.is_passed_by_nvidia_fs() && self.nvidia_fs_works() {
            true => Finding::note(KIND, name, format!("{reason}; nvidia-fs is loaded and may pass it")),
            false => Finding::no(KIND, name, reason, fix),
        }
    }
}

fn words(obstacle: &Obstacle) -> (String, &'static str) {
    const WITH_NVIDIA_FS: &str = "load nvidia-fs, or use --route bounce";
    match obstacle {
        Obstacle::FileSystem(kind) if kind == "overlay" => {
            let fix = "name a path on the disk itself: a bind mount or a volume; or use --route bounce";
            ("cuFile does not read files of overlay directly".to_owned(), fix)
        }
        Obstacle::FileSystem(kind) if kind == "tmpfs" || kind == "ramfs" => (
            format!("{kind} is memory: there is no disk to read from"),
            "use --route cached, which is the fastest here",
        ),
        Obstacle::FileSystem(kind) => (format!("cuFile does not read files of {kind} directly"), LOCAL),
        Obstacle::Network(kind) => {
            let reason = format!("{kind} is read directly only over RDMA, by adapters and servers made for it");
            (reason, "set up GPUDirect Storage for it as its vendor says, or use --route bounce")
        }
        Obstacle::Ext4Mode(mode) => {
            let fix = "mount it with data=ordered, which is what ext4 does unless told otherwise";
            (format!("ext4 with data={mode}: cuFile reads only data=ordered directly"), fix)
        }
        Obstacle::Encrypted(disk) => (format!("{disk} is encrypted by the kernel: only the CPU can read it"), LOCAL),
        Obstacle::DeviceMapper(disk) => {
            (format!("{disk} is a volume of the device mapper, through which cuFile is not known to read"), LOCAL)
        }
        Obstacle::NotNvme(disk, kind) => (format!("{disk} is {kind}, not NVMe: it cannot send to a GPU"), LOCAL),
        Obstacle::Raid(disk, level) => {
            (format!("{disk} is software RAID ({level}), which P2PDMA does not pass"), WITH_NVIDIA_FS)
        }
        Obstacle::Fabric(disk, fabric) => {
            (format!("{disk} is NVMe over {fabric}, which P2PDMA does not pass"), WITH_NVIDIA_FS)
        }
        Obstacle::Multipath(disk) => {
            let fix = "`options nvme_core multipath=N` in /etc/modprobe.d and boot again; or load nvidia-fs";
            (format!("{disk} is under the NVMe driver's multipath, which P2PDMA does not pass"), fix)
        }
        Obstacle::Attribute(what) => {
            (format!("the file is {what}, and cuFile refuses such"), "copy it to a plain file, or use --route bounce")
        }
        _ => ("something stands in the way that this report has no words for".to_owned(), LOCAL),
    }
}

#[cfg(test)]
mod tests;
