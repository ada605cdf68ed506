//! Real file systems, made and unmounted by the tests themselves. All of it needs root; a `Skip` says what is missing.
//!
//! A mount outlives a test that was killed, so each lies in a folder that names the process that made it, and the
//! first fixture of every later run takes away what dead processes left behind.
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Once;
use std::sync::atomic::{AtomicU32, Ordering};

use super::{Skip, is_root};

/// A mounted file system; dropping it unmounts it and removes its image.
#[derive(Debug)]
pub struct Mounted {
    pub kind: &'static str,
    /// Where files go: on or below the mount point.
    pub dir: PathBuf,
    mount_point: PathBuf,
    /// What this one stands on (the ext4 below an overlay); unmounted after it.
    below: Option<Box<Mounted>>,
    work: Work,
}

impl Drop for Mounted {
    fn drop(&mut self) {
        unmount(&self.mount_point);
        self.below.take();
    }
}

/// ext4 on a loop device with the default 512-byte sectors.
pub fn ext4() -> Result<Mounted, Skip> {
    on_loop("ext4", &["mkfs.ext4", "-b", "4096"], 512)
}

/// ext4 on a loop device with 4096-byte sectors: direct reads aligned to 512 bytes are refused there.
pub fn ext4_4k_sectors() -> Result<Mounted, Skip> {
    on_loop("ext4 on 4096-byte sectors", &["mkfs.ext4", "-b", "4096"], 4096)
}

/// ext4 that keeps tiny files inside the inode, where no direct I/O is possible.
pub fn ext4_inline_data() -> Result<Mounted, Skip> {
    on_loop("ext4 with inline_data", &["mkfs.ext4", "-b", "4096", "-I", "256", "-O", "inline_data"], 512)
}

pub fn xfs() -> Result<Mounted, Skip> {
    on_loop("xfs", &["mkfs.xfs"], 512)
}

pub fn btrfs() -> Result<Mounted, Skip> {
    on_loop("btrfs", &["mkfs.btrfs"], 512)
}

/// squashfs, which cannot be written to, with `files`: names and bytes.
pub fn squashfs(files: &[(&str, &[u8])]) -> Result<Mounted, Skip> {
    read_only("squashfs", files, |from, image| {
        let mut make = Command::new("mksquashfs");
        make.arg(from).arg(image).args(["-quiet", "-no-progress"]);
        make
    })
}

/// erofs, which cannot be written to, with `files`: names and bytes.
pub fn erofs(files: &[(&str, &[u8])]) -> Result<Mounted, Skip> {
    read_only("erofs", files, |from, image| {
        let mut make = Command::new("mkfs.erofs");
        make.arg("--quiet").arg(image).arg(from);
        make
    })
}

fn read_only(
    kind: &'static str,
    files: &[(&str, &[u8])],
    make: impl Fn(&Path, &Path) -> Command,
) -> Result<Mounted, Skip> {
    let work = Work::new(kind)?;
    let (point, from, image) = (work.subdir("mnt")?, work.subdir("from")?, work.dir.join("image"));
    for (name, bytes) in files {
        fs::write(from.join(name), bytes).map_err(|e| Skip::because(format!("{kind}: {name}: {e}")))?;
    }
    run(&mut make(&from, &image))?;
    mount(&["-t", kind, "-o", "loop,ro"], &image, &point)?;
    Ok(Mounted { kind, dir: point.clone(), mount_point: point, below: None, work })
}

/// btrfs that compresses all it is given.
pub fn btrfs_compressed() -> Result<Mounted, Skip> {
    on_loop_with("btrfs with compress-force", &["mkfs.btrfs"], 512, &["-o", "compress-force=zstd"])
}

/// btrfs that keeps files of up to 2 KiB in its metadata.
pub fn btrfs_inline() -> Result<Mounted, Skip> {
    on_loop_with("btrfs with max_inline", &["mkfs.btrfs"], 512, &["-o", "max_inline=2048"])
}

pub fn tmpfs() -> Result<Mounted, Skip> {
    let work = Work::new("tmpfs")?;
    let point = work.subdir("mnt")?;
    mount(&["-t", "tmpfs", "-o", "size=256m"], "tmpfs", &point)?;
    Ok(Mounted { kind: "tmpfs", dir: point.clone(), mount_point: point, below: None, work })
}

/// Overlay whose layers all lie on an ext4 of its own.
pub fn overlay() -> Result<Mounted, Skip> {
    let below = ext4()?;
    let work = Work::new("overlay")?;
    let point = work.subdir("mnt")?;
    let layer = |name: &str| -> Result<String, Skip> {
        let dir = below.dir.join(name);
        fs::create_dir(&dir).map_err(|e| Skip::because(format!("overlay: {}: {e}", dir.display())))?;
        Ok(dir.display().to_string())
    };
    let options = format!("lowerdir={},upperdir={},workdir={}", layer("lower")?, layer("upper")?, layer("work")?);
    mount(&["-t", "overlay", "-o", &options], "overlay", &point)?;
    Ok(Mounted { kind: "overlay", dir: point.clone(), mount_point: point, below: Some(Box::new(below)), work })
}

/// A read-only overlay of another file system's folder.
pub fn overlay_over(lower: &Path) -> Result<Mounted, Skip> {
    let work = Work::new("overlay")?;
    let (point, empty) = (work.subdir("mnt")?, work.subdir("empty")?);
    let options = format!("ro,lowerdir={}:{}", lower.display(), empty.display());
    mount(&["-t", "overlay", "-o", &options], "overlay", &point)?;
    Ok(Mounted { kind: "overlay", dir: point.clone(), mount_point: point, below: None, work })
}

/// A folder seen through FUSE, where no file can be made without a name.
pub fn bindfs() -> Result<Mounted, Skip> {
    let work = Work::new("bindfs")?;
    let (point, below) = (work.subdir("mnt")?, work.subdir("below")?);
    run(Command::new("bindfs").arg(&below).arg(&point))?;
    Ok(Mounted { kind: "bindfs", dir: point.clone(), mount_point: point, below: None, work })
}

/// A loop device and the file behind it, without a file system.
#[derive(Debug)]
pub struct LoopDevice {
    pub device: PathBuf,
    pub image: PathBuf,
    _work: Work,
}

impl LoopDevice {
    /// Over a new file of `len` bytes.
    pub fn new(len: u64, sector: u32) -> Result<LoopDevice, Skip> {
        let work = Work::new("loop device")?;
        let (device, image) = attach(&work, "loop device", len, sector)?;
        Ok(LoopDevice { device: device.into(), image, _work: work })
    }

    /// Cuts the file behind the device, which the device then has, as a drive does that loses its end.
    pub fn shrink_to(&self, len: u64) {
        fs::File::options().write(true).open(&self.image).and_then(|file| file.set_len(len)).unwrap();
        run(Command::new("losetup").arg("-c").arg(&self.device)).unwrap();
    }
}

fn attach(work: &Work, kind: &str, len: u64, sector: u32) -> Result<(String, PathBuf), Skip> {
    let image = work.dir.join("image");
    let file = fs::File::create(&image).and_then(|file| file.set_len(len));
    file.map_err(|e| Skip::because(format!("{kind}: cannot make {}: {e}", image.display())))?;
    let mut losetup = Command::new("losetup");
    losetup.args(["--find", "--show", "--sector-size", &sector.to_string()]).arg(&image);
    Ok((run(&mut losetup)?.trim().to_owned(), image))
}

fn on_loop(kind: &'static str, mkfs: &[&str], sector: u32) -> Result<Mounted, Skip> {
    on_loop_with(kind, mkfs, sector, &[])
}

fn on_loop_with(kind: &'static str, mkfs: &[&str], sector: u32, options: &[&str]) -> Result<Mounted, Skip> {
    let work = Work::new(kind)?;
    let point = work.subdir("mnt")?;
    let (device, _) = attach(&work, kind, 1 << 30, sector)?;
    run(Command::new(mkfs[0]).args(&mkfs[1..]).arg("-q").args(quick(mkfs[0])).arg(&device))?;
    mount(options, &device, &point)?;
    Ok(Mounted { kind, dir: point.clone(), mount_point: point, below: None, work })
}

/// Flags that keep mkfs and the first mount from writing more than they must.
fn quick(mkfs: &str) -> &'static [&'static str] {
    match mkfs {
        "mkfs.ext4" => &["-E", "nodiscard,lazy_itable_init=1,lazy_journal_init=1", "-J", "size=4"],
        "mkfs.xfs" => &["-K"],
        _ => &["--nodiscard"],
    }
}

/// A folder for one fixture beside the build's other test files; dropping it takes away all that hangs on it.
#[derive(Debug)]
pub(super) struct Work {
    pub(super) dir: PathBuf,
}

impl Work {
    pub(super) fn new(kind: &str) -> Result<Work, Skip> {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        static SWEEP: Once = Once::new();
        if !is_root() {
            return Err(Skip::because(format!("{kind}: mounting needs root")));
        }
        SWEEP.call_once(sweep);
        let n = NEXT.fetch_add(1, Ordering::Relaxed);
        let dir = home().join(format!("{PREFIX}{}-{n}", std::process::id()));
        // A folder of this name is left from a process whose number has come round again.
        clear(&dir);
        fs::create_dir_all(&dir).map_err(|e| Skip::because(format!("{kind}: {}: {e}", dir.display())))?;
        Ok(Work { dir })
    }

    pub(super) fn subdir(&self, name: &str) -> Result<PathBuf, Skip> {
        let dir = self.dir.join(name);
        fs::create_dir(&dir).map_err(|e| Skip::because(format!("{}: {e}", dir.display())))?;
        Ok(dir)
    }
}

impl Drop for Work {
    fn drop(&mut self) {
        clear(&self.dir);
    }
}

const PREFIX: &str = "forebay-fixture-";

/// Beside the build, so on a real file system, where images may be sparse and files opened for direct I/O.
fn home() -> PathBuf {
    PathBuf::from(env!("CARGO_TARGET_TMPDIR"))
}

/// Takes away what killed test processes left behind.
fn sweep() {
    for entry in fs::read_dir(home()).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let pid = name.to_str().and_then(|name| name.strip_prefix(PREFIX)).and_then(|rest| rest.split('-').next());
        if pid.is_some_and(|pid| !Path::new("/proc").join(pid).exists()) {
            clear(&entry.path());
        }
    }
}

/// Unmounts what is mounted in a fixture's folder and removes the folder. A folder that still holds a mount is
/// left alone: removing it would remove files of the mounted file system.
fn clear(dir: &Path) {
    if !dir.exists() {
        return;
    }
    // The last mounted first: an overlay before what it stands on.
    mounts_below(dir).iter().rev().for_each(|point| unmount(point));
    let image = dir.join("image");
    if image.exists() {
        let devices = run(Command::new("losetup").arg("--noheadings").args(["-O", "NAME", "-j"]).arg(&image));
        for device in devices.unwrap_or_default().split_whitespace() {
            // Where the unmount was lazy, the kernel detaches the device with its last user.
            let _ = run(Command::new("losetup").arg("-d").arg(device));
        }
    }
    if mounts_below(dir).is_empty() {
        let _ = fs::remove_dir_all(dir);
    }
}

fn mounts_below(dir: &Path) -> Vec<PathBuf> {
    let table = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    let points = table.lines().filter_map(|line| line.split(' ').nth(4));
    points.map(PathBuf::from).filter(|point| point.starts_with(dir)).collect()
}

fn mount(options: &[&str], what: impl AsRef<OsStr>, point: &Path) -> Result<(), Skip> {
    run(Command::new("mount").args(options).arg(what).arg(point)).map(drop)
}

/// Unmounts, lazily if a descriptor is still open somewhere (a test that failed may have left one).
pub(super) fn unmount(point: &Path) {
    if run(Command::new("umount").arg(point)).is_err() {
        let _ = run(Command::new("umount").args(["--force", "--lazy"]).arg(point));
    }
}

/// Runs a command to its end; what went wrong comes back as the reason to skip.
fn run(command: &mut Command) -> Result<String, Skip> {
    let name = command.get_program().to_string_lossy().into_owned();
    let output = command.stdin(Stdio::null()).output().map_err(|e| Skip::because(format!("{name}: {e}")))?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    let said = said.lines().next().unwrap_or_default();
    Err(Skip::because(format!("{name}: {}: {said}", output.status)))
}
