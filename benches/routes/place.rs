//! The file that is read: a given one, or one of our own, written once and kept.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use nix::sys::statfs::{TMPFS_MAGIC, statfs};
use nix::sys::statvfs::statvfs;

use crate::args::Args;
use crate::cache;
use crate::contender::Contender;
use crate::ram_device::RamDevice;
use crate::random::Random;

#[derive(Debug)]
pub struct Place {
    pub file: PathBuf,
    pub len: u64,
    /// What it lies on, in a few words.
    pub on: String,
    /// The page cache is all there is: nothing is read from a drive.
    pub in_memory: bool,
    _ram: Option<RamDevice>,
}

impl Place {
    pub fn new(args: &Args) -> Result<Self, String> {
        match (&args.path, args.ram) {
            (Some(path), _) => Self::of_file(path.clone(), None),
            (None, true) => {
                let ram = RamDevice::new()?;
                Self::of_file(ram.file(), Some(ram))
            }
            (None, false) => Self::of_file(own_file(&args.dir, args.size)?, None),
        }
    }

    fn of_file(file: PathBuf, ram: Option<RamDevice>) -> Result<Self, String> {
        let told = |error: &dyn std::fmt::Display| format!("{}: {error}", file.display());
        let len = fs::metadata(&file).map_err(|e| told(&e))?.len();
        let in_memory = statfs(&file).map_err(|e| told(&e))?.filesystem_type() == TMPFS_MAGIC;
        let on = match (&ram, in_memory) {
            (Some(_), _) => "a RAM block device",
            (None, true) => "tmpfs, which is memory and no storage",
            (None, false) => "the file system there",
        };
        Ok(Self { on: on.into(), file, len, in_memory, _ram: ram })
    }

    /// Empties or fills the page cache, as the contender wants it.
    pub fn prepare(&self, contender: Contender) -> Result<(), String> {
        match contender {
            Contender::Copy => Ok(()),
            _ if self.in_memory => Ok(()),
            _ if contender.is_warm() => cache::warm_file(&self.file),
            _ => cache::drop_file(&self.file),
        }
    }
}

/// The file of `len` bytes in `dir`, written first where it is not there yet.
fn own_file(dir: &Path, len: u64) -> Result<PathBuf, String> {
    let told = |path: &Path, error: &dyn std::fmt::Display| format!("{}: {error}", path.display());
    let len = len.next_multiple_of(BLOCK as u64);
    let path = dir.join(format!("forebay-bench-routes-{}m.bin", len >> 20));
    if is_whole(&path, len) {
        return Ok(path);
    }
    fs::create_dir_all(dir).map_err(|e| told(dir, &e))?;
    let space = statvfs(dir).map_err(|e| told(dir, &e))?;
    let free = space.blocks_available() * space.fragment_size();
    if free < len + (1 << 30) {
        return Err(format!("{}: {} MiB free, {} MiB needed", dir.display(), free >> 20, (len >> 20) + 1024));
    }
    eprintln!("writing {} MiB to {}", len >> 20, path.display());
    // Under another name until whole, so that a killed run leaves no file that looks whole.
    let part = path.with_extension("part");
    write_blocks(&part, len).map_err(|e| told(&part, &e))?;
    fs::rename(&part, &path).map_err(|e| told(&path, &e))?;
    Ok(path)
}

const BLOCK: usize = 1 << 20;
/// Each begins with its own offset: bytes that landed in a wrong place say where they are from.
const PAGE: usize = 4096;

fn write_blocks(path: &Path, len: u64) -> io::Result<()> {
    let mut file = File::create(path)?;
    let mut block = vec![0; BLOCK];
    for offset in (0..len).step_by(BLOCK) {
        fill(&mut block, offset);
        file.write_all(&block)?;
    }
    file.sync_all()
}

/// Bytes that do not compress.
fn fill(block: &mut [u8], offset: u64) {
    for (page, offset) in block.chunks_exact_mut(PAGE).zip((offset..).step_by(PAGE)) {
        let mut random = Random::new(offset);
        for word in page.chunks_exact_mut(8) {
            word.copy_from_slice(&random.next().to_le_bytes());
        }
        page[..8].copy_from_slice(&offset.to_le_bytes());
    }
}

fn is_whole(path: &Path, len: u64) -> bool {
    let mut first = vec![0; PAGE];
    let mut expected = vec![0; PAGE];
    fill(&mut expected, 0);
    let read = File::open(path).and_then(|mut file| {
        file.read_exact(&mut first)?;
        file.metadata()
    });
    read.is_ok_and(|meta| meta.len() == len) && first == expected
}
