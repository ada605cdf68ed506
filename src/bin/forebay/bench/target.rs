//! What is read: the file that was named, or one of our own that has no name, so that nothing is ever left of it.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileExt, FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use nix::libc;
use nix::sys::statvfs::fstatvfs;

use super::bytes::{self, BLOCK};
use crate::failure::{Failure, fix_of_write};

/// Bytes written at once.
const PIECE: u64 = 4 << 20;
/// Fewer say nothing of a drive.
const LEAST: u64 = 16 << 20;

pub struct Target {
    /// Held open: one of our own is gone with the last handle, however we end.
    pub file: File,
    /// Where others open it.
    pub path: PathBuf,
    /// What people call it.
    pub name: String,
    pub len: u64,
    /// Of our own bytes.
    pub seed: Option<u64>,
}

impl Target {
    /// The file, or block device, that was named.
    pub fn named(path: &Path) -> Result<Self, Failure> {
        let told =
            |error: io::Error| Failure::Error(format!("{}: {error}; name a file or a block device", path.display()));
        // Before it is opened, which waits for a writer where it is a FIFO.
        let kind = std::fs::metadata(path).map_err(told)?.file_type();
        if !kind.is_file() && !kind.is_block_device() {
            return Err(Failure::Error(format!(
                "{}: is neither a file nor a block device; name one, or a folder where one can be made",
                path.display()
            )));
        }
        let file = File::open(path).map_err(told)?;
        let len = io::Seek::seek(&mut &file, io::SeekFrom::End(0)).map_err(told)?;
        if len < BLOCK as u64 {
            return Err(Failure::Error(format!(
                "{}: has {len} bytes, which says nothing of a drive; name a larger file",
                path.display()
            )));
        }
        let path = path.canonicalize().map_err(told)?;
        Ok(Self { file, name: path.display().to_string(), path, len, seed: None })
    }

    /// A file in `folder` that has no name: of `size` bytes, or of as many as its space and `time` allow. `interrupted`
    /// ends the writing.
    pub fn own(
        folder: &Path,
        size: Option<u64>,
        time: Duration,
        interrupted: &dyn Fn() -> bool,
        progress: &dyn Fn(u64, u64),
    ) -> Result<Self, Failure> {
        const USUAL: u64 = 1 << 30;
        let told = |what: &str, error: io::Error| {
            let fix = fix_of_write(&error, "name a file to read, or a directory where one can be written");
            Failure::Error(format!("{}: {what}: {error}; {fix}", folder.display()))
        };
        let file = nameless(folder).map_err(|error| told("no file can be made", error))?;
        let path = path_of(&file).ok_or_else(|| {
            let fix = "mount procfs on /proc, or name a file to read";
            Failure::Error(format!(
                "{}: a file without a name is opened by /proc, which has none; {fix}",
                folder.display()
            ))
        })?;
        let space = fstatvfs(&file).map_err(|error| told("its space is not told", error.into()))?;
        let free = space.blocks_available() * space.fragment_size();
        let wanted = size.unwrap_or(USUAL.min(free / 4)) / PIECE * PIECE;
        if wanted < LEAST || wanted > free {
            return Err(Failure::Error(format!(
                "{}: {} free, and {} to be written (at least {}); free some space, name a file, or give --size",
                folder.display(),
                crate::byte_count::shown(free),
                crate::byte_count::shown(wanted),
                crate::byte_count::shown(LEAST),
            )));
        }
        let seed = u64::from(std::process::id()) << 32
            | u64::from(std::time::UNIX_EPOCH.elapsed().map_or(0, |t| t.subsec_nanos()));
        let mut piece = vec![0; PIECE as usize];
        let (start, mut len) = (Instant::now(), 0);
        while len < wanted {
            if interrupted() {
                return Err(Failure::Interrupted);
            }
            bytes::fill(&mut piece, seed, len / BLOCK as u64);
            file.write_all_at(&piece, len).map_err(|error| told("cannot be written to", error))?;
            len += PIECE;
            progress(len, wanted);
            // So that the time is the drive's, and not the page cache's.
            if len.is_multiple_of(16 * PIECE) {
                file.sync_data().map_err(|error| told("cannot be written to", error))?;
            }
            if size.is_none() && len >= LEAST && start.elapsed() > time {
                break;
            }
        }
        file.sync_all().map_err(|error| told("cannot be written to", error))?;
        let name = format!("a file of our own in {}", folder.canonicalize().unwrap_or(folder.to_owned()).display());
        Ok(Self { file, path, name, len, seed: Some(seed) })
    }
}

/// Where others open a file that we hold open; `None` where procfs is not mounted, or shows none of our processes.
///
/// Our number is taken from procfs itself: in a PID namespace that is not that of the mount it differs from the one that we
/// know ourselves by, which is another process's there.
fn path_of(file: &File) -> Option<PathBuf> {
    let number = std::fs::read_link("/proc/self").ok()?;
    let path = Path::new("/proc").join(number).join("fd").join(file.as_raw_fd().to_string());
    let (there, here) = (std::fs::metadata(&path).ok()?, file.metadata().ok()?);
    ((there.dev(), there.ino()) == (here.dev(), here.ino())).then_some(path)
}

/// A file without a name.
///
/// Where the file system has none (FAT, many of FUSE's, older ones of the network's), one whose name is taken away at once: the
/// kernel has no other way to a file on a drive, and what `memfd_create` gives is none. Whoever is killed in that instant, with
/// a signal that cannot be held off, leaves an empty file: its name says whose it was, and that it may be deleted. Some file
/// systems give an open file that is deleted a hidden name until it is closed, which the kernel does however we end.
fn nameless(folder: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).mode(0o600);
    match options.clone().custom_flags(libc::O_TMPFILE).open(folder) {
        Err(error)
            if matches!(error.raw_os_error(), Some(libc::EOPNOTSUPP | libc::EISDIR | libc::ENOENT))
                && folder.is_dir() =>
        {
            let now = std::time::UNIX_EPOCH.elapsed().map_or(0, |now| now.as_nanos());
            let path = folder.join(format!(".forebay-bench-{}-{now}.may-be-deleted", std::process::id()));
            let file = options.create_new(true).open(&path)?;
            std::fs::remove_file(&path)?;
            Ok(file)
        }
        opened => opened,
    }
}
