//! The files that are read: records of bytes that do not compress, and the same records as members of tar archives.

use std::fs::{self, File};
use std::io::{BufWriter, Read, Write};
use std::path::{Path, PathBuf};

use nix::sys::statvfs::statvfs;

use crate::random;

/// Bytes of a record: 150 KiB, as a photograph for training.
pub const RECORD: u64 = 153_600;
/// The least size that holds whole records and whole MiB, in bytes.
pub const UNIT: u64 = 75 << 20;
/// As many as let four workers have two each.
const SHARDS: u64 = 8;
const BLOCK: usize = 512;

/// The files in one place.
#[derive(Debug)]
pub struct Data {
    pub records: PathBuf,
    /// Tar archives; empty where no case reads them.
    pub shards: Vec<PathBuf>,
    /// Bytes of the records.
    pub bytes: u64,
}

impl Data {
    /// Writes what is not there yet. `size` is a multiple of [`UNIT`].
    pub fn make(dir: &Path, size: u64, with_shards: bool) -> Result<Self, String> {
        let told = |path: &Path, error: &dyn std::fmt::Display| format!("{}: {error}", path.display());
        let folder = dir.join(format!("forebay-bench-loader-{}", size / UNIT));
        let records = folder.join("records.bin");
        let shards: Vec<PathBuf> = (0..SHARDS).map(|i| folder.join(format!("shard-{i:06}.tar"))).collect();
        fs::create_dir_all(&folder).map_err(|e| told(&folder, &e))?;
        let whole = |path: &Path| path.exists();
        let missing = u64::from(!whole(&records)) + u64::from(with_shards && !shards.iter().all(|path| whole(path)));
        let space = statvfs(dir).map_err(|e| told(dir, &e))?;
        let (free, needed) = (space.blocks_available() * space.fragment_size(), missing * (size + (64 << 20)));
        if free < needed {
            return Err(format!("{}: {} MiB free, {} MiB needed", dir.display(), free >> 20, needed >> 20));
        }
        if !whole(&records) {
            written(&records, |file| random::fill(file, size)).map_err(|e| told(&records, &e))?;
        }
        for (i, shard) in shards.iter().enumerate().filter(|(_, path)| with_shards && !whole(path)) {
            let (count, i) = (size / RECORD, i as u64);
            let members = i * count / SHARDS..(i + 1) * count / SHARDS;
            written(shard, |file| archive(file, &records, members)).map_err(|e| told(shard, &e))?;
        }
        Ok(Self { records, shards: if with_shards { shards } else { Vec::new() }, bytes: size })
    }
}

/// Under another name until whole, so that a killed run leaves no file that looks whole.
fn written(path: &Path, write: impl FnOnce(&mut File) -> std::io::Result<()>) -> std::io::Result<()> {
    let part = path.with_extension("part");
    write(&mut File::create(&part)?)?;
    fs::rename(&part, path)
}

/// Records `members` of the file as members of an archive.
fn archive(file: &mut File, records: &Path, members: std::ops::Range<u64>) -> std::io::Result<()> {
    let mut source = File::open(records)?;
    std::io::Seek::seek(&mut source, std::io::SeekFrom::Start(members.start * RECORD))?;
    let mut out = BufWriter::with_capacity(1 << 20, file);
    // Whole blocks, so that nothing need be padded.
    let mut record = vec![0; RECORD as usize];
    for member in members {
        source.read_exact(&mut record)?;
        out.write_all(&header(&format!("{member:08}.bin"), RECORD))?;
        out.write_all(&record)?;
    }
    out.write_all(&[0; 2 * BLOCK])?;
    out.into_inner().map_err(std::io::IntoInnerError::into_error)?.sync_all()
}

/// A ustar header.
fn header(name: &str, size: u64) -> [u8; BLOCK] {
    let mut block = [0; BLOCK];
    let mut put = |at: usize, text: &[u8]| block[at..at + text.len()].copy_from_slice(text);
    put(0, name.as_bytes());
    put(100, b"0000644\x000001750\x000001750\0");
    put(124, format!("{size:011o}\0").as_bytes());
    put(136, b"14512543340\0        0");
    put(257, b"ustar\x0000user");
    let sum: u32 = block.iter().map(|&byte| u32::from(byte)).sum();
    block[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
    block
}
