//! What one path is and lies on. Makes no file and writes nothing.

use std::fs::{self, FileType, Metadata};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

use forebay::facts::{self, BlockDevice, DeviceNumber, Mount};

use crate::byte_count::shown;

use super::disk;
use super::finding::Finding;

/// How many names of a folder are looked at to find a file that stands for the others.
const SAMPLE_LIMIT: usize = 10_000;
/// Loop devices whose files lie on loop devices are not followed further.
const MAX_LOOPS: usize = 4;

/// A path that exists, and what stat says of it.
#[derive(Debug)]
pub struct Subject {
    /// As given, for people.
    pub name: String,
    metadata: Metadata,
    /// Absolute, with links resolved.
    resolved: PathBuf,
}

impl Subject {
    /// # Errors
    /// The kernel's, where the path leads nowhere or may not be looked at.
    pub fn new(path: &Path) -> io::Result<Self> {
        let metadata = fs::metadata(path)?;
        let resolved = path.canonicalize()?;
        Ok(Self { name: path.to_string_lossy().into_owned(), metadata, resolved })
    }

    /// What kind of file it is.
    pub fn kind(&self) -> Finding {
        const KIND: &str = "path";
        let size = shown(self.metadata.len());
        match kind_name(self.metadata.file_type()) {
            "regular file" => Finding::yes(KIND, &self.name, format!("a regular file of {size}")),
            "directory" => Finding::yes(KIND, &self.name, "a directory"),
            "block device" => Finding::yes(KIND, &self.name, "a block device"),
            other => {
                let reason = format!("a {other}; forebay reads regular files and block devices");
                Finding::no(KIND, &self.name, reason, "name a file, a folder of files or a block device")
            }
        }
    }

    /// A file whose reads tell what reads here are like: the path itself, or for a folder the first file in it that
    /// has bytes. `None` where there is no such file.
    pub fn sample(&self) -> Option<PathBuf> {
        let kind = self.metadata.file_type();
        if kind.is_file() || kind.is_block_device() {
            return Some(self.resolved.clone());
        }
        if !kind.is_dir() {
            return None;
        }
        let entries = fs::read_dir(&self.resolved).ok()?.take(SAMPLE_LIMIT).flatten();
        let mut files = entries.filter(|entry| {
            let metadata = entry.metadata();
            metadata.is_ok_and(|file| file.is_file() && file.len() > 0 && file.dev() == self.metadata.dev())
        });
        files.next().map(|entry| entry.path())
    }

    /// Whether reads end up in files at all, so that the other findings make sense.
    pub fn is_readable_kind(&self) -> bool {
        let kind = self.metadata.file_type();
        kind.is_file() || kind.is_dir() || kind.is_block_device()
    }

    pub fn is_dir(&self) -> bool {
        self.metadata.is_dir()
    }

    /// The file system, its mount and the disks under it.
    pub fn storage(&self, sys: &Path, proc: &Path) -> Vec<Finding> {
        let (mount, number) = self.place(proc);
        let mut findings = Vec::new();
        if !self.metadata.file_type().is_block_device() {
            findings.push(self.filesystem(mount.as_ref()));
        }
        findings.extend(self.disks(sys, number));
        findings
    }

    /// The mount and the block device it lies on, as far as they are shown.
    pub fn lies_on(&self, sys: &Path, proc: &Path) -> (Option<Mount>, Option<BlockDevice>) {
        let (mount, number) = self.place(proc);
        (mount, BlockDevice::from_number(sys, number))
    }

    /// A block device lies on itself, whatever file system holds its node.
    fn place(&self, proc: &Path) -> (Option<Mount>, DeviceNumber) {
        if self.metadata.file_type().is_block_device() {
            return (None, DeviceNumber::from_raw(self.metadata.rdev()));
        }
        let number = DeviceNumber::from_raw(self.metadata.dev());
        let mount = Mount::of_path(proc, &self.resolved, number);
        let source = mount.as_ref().filter(|_| number.is_anonymous()).and_then(source_number);
        (mount, source.unwrap_or(number))
    }

    fn filesystem(&self, mount: Option<&Mount>) -> Finding {
        const KIND: &str = "filesystem";
        let Some(mount) = mount else {
            return Finding::note(KIND, &self.name, "the kernel does not show its mount");
        };
        let place = format!("{}, {} mounted on {}", mount.kind, mount.source.display(), mount.point.display());
        match mount.kind.as_str() {
            "tmpfs" | "ramfs" => Finding::note(KIND, &self.name, format!("{place}: memory, not a disk")),
            "overlay" => {
                let reason = format!("{place}: its files lie on other file systems, which are not shown from here");
                Finding::note(KIND, &self.name, reason)
                    .fix("name a path on the disk itself, such as a bind mount or volume")
            }
            kind if kind.starts_with("fuse") => {
                let reason = format!("{place}: a process answers its reads, which costs CPU and copies");
                Finding::note(KIND, &self.name, reason).fix("copy the data to a local ext4 or xfs")
            }
            kind if NETWORK.contains(&kind) => Finding::note(KIND, &self.name, format!("{place}: over the network")),
            _ => Finding::yes(KIND, &self.name, place),
        }
    }

    fn disks(&self, sys: &Path, number: DeviceNumber) -> Vec<Finding> {
        let nodes = facts::numa_nodes(sys);
        let mut findings = Vec::new();
        let mut next = Some(number);
        for _ in 0..MAX_LOOPS {
            let Some(number) = next else { break };
            let Some(device) = BlockDevice::from_number(sys, number) else {
                let reason = match number.is_anonymous() {
                    true => "no block device of its own under this file system".to_owned(),
                    false => format!("/sys does not show device {number}"),
                };
                findings.push(Finding::note("block_device", &self.name, reason));
                break;
            };
            findings.extend(disk::findings(&device, &nodes));
            let backing = device.backing_file.as_ref().and_then(|file| fs::metadata(file).ok());
            next = backing.map(|file| DeviceNumber::from_raw(file.dev()));
        }
        findings
    }
}

const NETWORK: [&str; 9] = ["nfs", "nfs4", "cifs", "smb3", "ceph", "lustre", "gpfs", "beegfs", "9p"];

/// The device that a file system with an invented number names as its source, as btrfs does.
fn source_number(mount: &Mount) -> Option<DeviceNumber> {
    if !mount.source.as_bytes().starts_with(b"/dev/") {
        return None;
    }
    let source = fs::metadata(&mount.source).ok()?;
    source.file_type().is_block_device().then(|| DeviceNumber::from_raw(source.rdev()))
}

fn kind_name(kind: FileType) -> &'static str {
    match kind {
        kind if kind.is_file() => "regular file",
        kind if kind.is_dir() => "directory",
        kind if kind.is_block_device() => "block device",
        kind if kind.is_char_device() => "character device",
        kind if kind.is_fifo() => "FIFO",
        kind if kind.is_socket() => "socket",
        _ => "file of unknown kind",
    }
}
