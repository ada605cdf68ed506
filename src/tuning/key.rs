use std::fmt::{self, Write};
use std::fs::{self, File, Metadata};
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::Path;

use super::error::TuningError;
use crate::device::{Device, DeviceKind};
use crate::facts;
use crate::sys::block::{BlockDevice, DeviceNumber};
use crate::sys::mounts::Mount;
use crate::sys::statfs;

/// What settings are good for: a file system, the drive that it lies on, and where bytes go from there.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct Key {
    /// `ext4`, `xfs`; `block device` where there is none.
    pub file_system: String,
    /// Models of the disks, with their number where they are several, or their kernel names where they have none; where there is no
    /// disk what is mounted: `Samsung SSD 990 PRO 2TB`, `4 x KCD8XPUG3T20`, `vda`, `server:/share`.
    pub drive: String,
    /// `host`, or the GPU's name: `NVIDIA H200`.
    pub device: String,
}

impl Key {
    /// For what lies where `path` does and goes to `device`.
    ///
    /// # Errors
    /// [`TuningError::Path`] where `path` cannot be looked at, or is neither file nor folder nor block device.
    pub fn of(path: impl AsRef<Path>, device: &Device) -> Result<Self, TuningError> {
        let path = path.as_ref();
        let told = |error| TuningError::Path { path: path.display().to_string(), error };
        let metadata = fs::metadata(path).map_err(told)?;
        let kind = metadata.file_type();
        let (file_system, drive) = if kind.is_block_device() {
            ("block device".to_owned(), drive(DeviceNumber::from_raw(metadata.rdev()), None))
        } else if kind.is_file() || kind.is_dir() {
            let file = File::open(path).map_err(told)?;
            let (number, mount) = place(path, &metadata).map_err(told)?;
            (statfs::name(statfs::of_fd(file.as_fd())), drive(number, mount.as_ref()))
        } else {
            // Opening a FIFO would wait for its writer.
            return Err(told(io::Error::new(io::ErrorKind::InvalidInput, "neither file nor folder nor block device")));
        };
        let device = match device.kind() {
            DeviceKind::Host => "host".to_owned(),
            _ => device.name().to_owned(),
        };
        Ok(Self { file_system, drive, device })
    }

    /// The name of its file: no two keys have the same.
    pub(super) fn file_name(&self) -> String {
        let parts = [&self.file_system, &self.drive, &self.device].map(|part| escaped(part));
        format!("{}.json", parts.join(","))
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} on {} to {}", self.file_system, self.drive, self.device)
    }
}

/// The device number of what lies under a path, and its mount where that has no number of its own (btrfs, NFS, tmpfs).
fn place(path: &Path, metadata: &Metadata) -> io::Result<(DeviceNumber, Option<Mount>)> {
    let number = DeviceNumber::from_raw(metadata.dev());
    if !number.is_anonymous() {
        return Ok((number, None));
    }
    let mount = Mount::of_path(facts::proc(), &fs::canonicalize(path)?, number);
    let source = mount.as_ref().and_then(|mount| fs::metadata(&mount.source).ok());
    let source = source.filter(|source| source.file_type().is_block_device());
    Ok((source.map_or(number, |source| DeviceNumber::from_raw(source.rdev())), mount))
}

fn drive(number: DeviceNumber, mount: Option<&Mount>) -> String {
    match BlockDevice::from_number(facts::sys(), number) {
        Some(device) => models(&device),
        None => mount.map_or_else(|| format!("device {number}"), |mount| mount.source.to_string_lossy().into_owned()),
    }
}

/// Each model once, with its number.
fn models(device: &BlockDevice) -> String {
    let mut models: Vec<(&str, u32)> = Vec::new();
    for disk in device.leaves() {
        let model = disk.model.as_deref().map(str::trim).filter(|model| !model.is_empty()).unwrap_or(&disk.disk);
        match models.iter_mut().find(|(other, _)| *other == model) {
            Some((_, count)) => *count += 1,
            None => models.push((model, 1)),
        }
    }
    models.sort_unstable();
    let shown = models.iter().map(|(model, count)| match count {
        1 => (*model).to_owned(),
        count => format!("{count} x {model}"),
    });
    shown.collect::<Vec<_>>().join(" + ")
}

/// Letters, digits, `.`, `-` and `_` as they are, all else as `%` and two hexadecimal digits.
fn escaped(part: &str) -> String {
    part.bytes().fold(String::new(), |mut name, byte| {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'.' | b'-' | b'_' => name.push(byte.into()),
            other => {
                let _ = write!(name, "%{other:02x}");
            }
        }
        name
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys::fake_tree::FakeTree;

    fn key(file_system: &str, drive: &str, device: &str) -> Key {
        Key { file_system: file_system.into(), drive: drive.into(), device: device.into() }
    }

    #[test]
    fn a_file_a_folder_and_what_is_mounted_are_told_apart_by_what_they_lie_on() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("data");
        fs::write(&path, b"x").unwrap();
        let of = |path: &Path| Key::of(path, &Device::host()).unwrap();
        assert_eq!(of(&path), of(folder.path()), "a file lies where its folder does");
        assert_eq!(of(&path).device, "host");
        assert!(!of(&path).drive.is_empty() && !of(&path).file_system.is_empty());
        assert_ne!(of(Path::new("/dev/shm")), of(Path::new("/proc")));
        assert_eq!(of(Path::new("/dev/shm")).file_system, "tmpfs");
    }

    #[test]
    fn what_has_no_drive_is_refused_at_once() {
        let folder = tempfile::tempdir().unwrap();
        let fifo = folder.path().join("fifo");
        nix::unistd::mkfifo(&fifo, nix::sys::stat::Mode::S_IRUSR).unwrap();
        for path in [&*fifo, &folder.path().join("none"), Path::new("/dev/null")] {
            let error = Key::of(path, &Device::host()).unwrap_err().to_string();
            assert!(error.starts_with(&path.display().to_string()), "{error}");
        }
    }

    #[test]
    fn no_two_keys_have_the_same_file() {
        let keys = [
            key("ext4", "vda", "host"),
            key("ext4", "vda,host", "host"),
            key("ext4,vda", "host", "host"),
            key("ext4", "v/da", "host"),
            key("ext4", "v%2fda", "host"),
            key("ext4", "", "host"),
            key("..", "vda", "host"),
        ];
        let names: std::collections::HashSet<String> = keys.iter().map(Key::file_name).collect();
        assert_eq!(names.len(), keys.len(), "{names:?}");
        assert!(names.iter().all(|name| !name.contains('/')), "{names:?}");
        assert_eq!(keys[0].file_name(), "ext4,vda,host.json");
    }

    #[test]
    fn disks_of_one_model_are_counted_and_those_without_go_by_their_names() {
        let tree = FakeTree::new();
        let members = [("nvme0n1", "Fast 9000"), ("nvme1n1", "Fast 9000"), ("vda", "")];
        for (disk, model) in members {
            tree.file(&format!("devices/{disk}/device/model"), &format!("{model}  \n"));
            tree.link(&format!("devices/md0/slaves/{disk}"), &format!("devices/{disk}"));
        }
        tree.link("dev/block/9:0", "devices/md0");
        let raid = BlockDevice::from_number(tree.root(), DeviceNumber { major: 9, minor: 0 }).unwrap();
        assert_eq!(models(&raid), "2 x Fast 9000 + vda");
    }
}
