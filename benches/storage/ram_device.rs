//! A RAM block device: zram, formatted ext4, with one file of incompressible bytes or what its user writes there.
//!
//! It reads at several GB/s and so shows the CPU cost that a slow disk hides. The device is given back when the guard
//! is dropped. A run that was killed leaves its device behind: the next one knows it by its label, and by the lock that
//! nobody holds any more, and resets it.

use std::fs::{self, File};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::process::{self, Command};
use std::thread;
use std::time::Duration;

use nix::fcntl::{Flock, FlockArg};

use crate::random;

/// Incompressible, so that a read copies whole pages and unpacks nothing.
pub const FILE_LEN: u64 = 2 << 30;
/// Begins the mount point's name and the file system's label (at most 16 bytes with the process id).
const PREFIX: &str = "forebay-";

/// The mounted device; dropping it unmounts and resets.
#[derive(Debug)]
pub struct RamDevice {
    zram: Zram,
    mount_point: PathBuf,
}

impl RamDevice {
    /// A device with one file; `Err` says why it cannot be had here.
    #[allow(dead_code)]
    pub fn new() -> Result<Self, String> {
        let device = Self::with_room(FILE_LEN)?;
        let told = |e| format!("{}: {e}", device.file().display());
        let mut file = File::create(device.file()).map_err(told)?;
        random::fill(&mut file, FILE_LEN).map_err(told)?;
        Ok(device)
    }

    /// A device with room for so many bytes in files; `Err` says why it cannot be had here.
    pub fn with_room(room: u64) -> Result<Self, String> {
        // The owner of this entry is our effective user.
        if fs::metadata("/proc/self").map_or(true, |entry| entry.uid() != 0) {
            return Err("not root".into());
        }
        if !Path::new("/sys/class/zram-control").exists() {
            return Err("no zram in this kernel".into());
        }
        take_over_stale();
        let needed = room * 5 / 4;
        if available_memory().is_some_and(|free| free < needed + (2 << 30)) {
            return Err(format!("less than {} MiB of memory available", (needed + (2 << 30)) >> 20));
        }
        // With what ext4 takes for itself.
        let zram = Zram::claim(room + (1 << 30))?;
        let name = format!("{PREFIX}{}", process::id());
        // No journal and no lazy initialisation: neither may write while we measure.
        run(Command::new("mkfs.ext4")
            .args(["-q", "-F", "-m", "0", "-O", "^has_journal", "-E", "lazy_itable_init=0,nodiscard", "-L", &name])
            .arg(zram.path()))?;
        let mount_point = std::env::temp_dir().join(name);
        fs::create_dir_all(&mount_point).map_err(|e| format!("{}: {e}", mount_point.display()))?;
        // From here on `Drop` undoes what was done, also when filling fails.
        let device = Self { zram, mount_point };
        run(Command::new("mount").arg("-o").arg("noatime").arg(device.zram.path()).arg(&device.mount_point))?;
        Ok(device)
    }

    /// Where it is mounted.
    #[allow(dead_code)]
    pub fn dir(&self) -> &Path {
        &self.mount_point
    }

    /// The file of [`FILE_LEN`] bytes.
    #[allow(dead_code)]
    pub fn file(&self) -> PathBuf {
        self.mount_point.join("data.bin")
    }
}

impl Drop for RamDevice {
    fn drop(&mut self) {
        unmount(&self.mount_point);
    }
}

/// A zram device of ours; dropping it resets it, and removes it where we had it added.
#[derive(Debug)]
struct Zram {
    number: u32,
    added: bool,
    /// Held as long as we live, however we end; an open device cannot be reset.
    lock: Option<Flock<File>>,
}

impl Zram {
    /// Takes a free device or has one added.
    fn claim(len: u64) -> Result<Self, String> {
        for number in existing() {
            if set_len(number, len).is_ok() {
                let lock = lock(&device(number));
                return Ok(Self { number, added: false, lock });
            }
        }
        let told = |e: &dyn std::fmt::Display| format!("no free zram device, and none could be added: {e}");
        // Reading this file adds a device and answers its number.
        let number = fs::read_to_string("/sys/class/zram-control/hot_add").map_err(|e| told(&e))?;
        let number = number.trim().parse().map_err(|e| told(&e))?;
        let mut zram = Self { number, added: true, lock: None };
        set_len(number, len).map_err(|e| told(&e))?;
        zram.lock = lock(&device(number));
        Ok(zram)
    }

    fn path(&self) -> PathBuf {
        device(self.number)
    }
}

impl Drop for Zram {
    fn drop(&mut self) {
        self.lock = None;
        reset(self.number);
        if self.added {
            let _ = fs::write("/sys/class/zram-control/hot_remove", self.number.to_string());
        }
    }
}

fn device(number: u32) -> PathBuf {
    PathBuf::from(format!("/dev/zram{number}"))
}

/// The lock on a device, unless another process has it.
fn lock(device: &Path) -> Option<Flock<File>> {
    Flock::lock(File::open(device).ok()?, FlockArg::LockExclusiveNonblock).ok()
}

/// Sizing a device claims it: the kernel answers EBUSY where it has a size already.
fn set_len(number: u32, len: u64) -> std::io::Result<()> {
    fs::write(format!("/sys/block/zram{number}/disksize"), len.to_string())
}

fn reset(number: u32) {
    // EBUSY for a moment after the unmount.
    for _ in 0..50 {
        if fs::write(format!("/sys/block/zram{number}/reset"), "1").is_ok() {
            return;
        }
        thread::sleep(Duration::from_millis(100));
    }
    eprintln!(
        "warning: /dev/zram{number} is still in use and keeps its memory; free it: zramctl --reset /dev/zram{number}"
    );
}

fn unmount(mount_point: &Path) {
    for _ in 0..50 {
        if !is_mounted(mount_point) {
            let _ = fs::remove_dir(mount_point);
            return;
        }
        if !Command::new("umount").arg(mount_point).output().is_ok_and(|o| o.status.success()) {
            thread::sleep(Duration::from_millis(100));
        }
    }
    eprintln!("warning: {} is still mounted", mount_point.display());
}

fn is_mounted(mount_point: &Path) -> bool {
    mounts().iter().any(|(_, at)| at == mount_point)
}

/// Device and mount point of everything mounted. Ours hold no character that /proc/mounts escapes.
fn mounts() -> Vec<(String, PathBuf)> {
    let text = fs::read_to_string("/proc/mounts").unwrap_or_default();
    text.lines()
        .filter_map(|line| line.split_once(' '))
        .filter_map(|(device, rest)| Some((device.to_owned(), PathBuf::from(rest.split_once(' ')?.0))))
        .collect()
}

fn existing() -> Vec<u32> {
    let Ok(entries) = fs::read_dir("/sys/block") else {
        return Vec::new();
    };
    let mut numbers: Vec<u32> =
        entries.flatten().filter_map(|entry| entry.file_name().to_str()?.strip_prefix("zram")?.parse().ok()).collect();
    numbers.sort_unstable();
    numbers
}

/// Resets the devices of runs whose process has ended. A device without our label is somebody else's: left alone.
fn take_over_stale() {
    for number in existing() {
        let path = format!("/dev/zram{number}");
        let Some(owner) = label(Path::new(&path)).and_then(|l| l.strip_prefix(PREFIX)?.parse::<u32>().ok()) else {
            continue;
        };
        if lock(Path::new(&path)).is_none() {
            continue;
        }
        eprintln!("note: {path} was left by process {owner}, which has ended: taken over");
        for (device, at) in mounts() {
            if device == path {
                unmount(&at);
            }
        }
        reset(number);
    }
}

/// The label in an ext4 superblock.
fn label(device: &Path) -> Option<String> {
    let mut superblock = [0; 1024];
    File::open(device).ok()?.read_exact_at(&mut superblock, 1024).ok()?;
    if superblock[56..58] != [0x53, 0xef] {
        return None;
    }
    Some(String::from_utf8_lossy(&superblock[120..136]).trim_end_matches('\0').to_owned())
}

fn available_memory() -> Option<u64> {
    let text = fs::read_to_string("/proc/meminfo").ok()?;
    let kib = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    Some(kib.trim().strip_suffix(" kB")?.trim().parse::<u64>().ok()? << 10)
}

fn run(command: &mut Command) -> Result<(), String> {
    let name = command.get_program().to_string_lossy().into_owned();
    let output = command.output().map_err(|e| format!("{name}: {e}"))?;
    match output.status.success() {
        true => Ok(()),
        false => Err(format!("{name}: {}", String::from_utf8_lossy(&output.stderr).trim())),
    }
}
