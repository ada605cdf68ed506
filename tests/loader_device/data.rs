//! Datasets of every kind, and what is in them by plain reads.
use std::path::{Path, PathBuf};
use std::sync::Arc;

use forebay::dataset::{self, DType, Dataset, OpenOptions};

use crate::common::{Rng, data, folder};

/// A dataset, and the bytes of its files as `std::fs` reads them.
#[derive(Debug)]
pub struct Data {
    _dir: tempfile::TempDir,
    pub name: &'static str,
    pub dataset: Arc<dyn Dataset>,
    files: Vec<Vec<u8>>,
}

impl Data {
    fn of(dir: tempfile::TempDir, name: &'static str, paths: &[PathBuf], options: &OpenOptions) -> Data {
        let dataset: Arc<dyn Dataset> = dataset::open(paths, options).unwrap().into();
        let files = dataset.files().iter().map(|file| std::fs::read(file.path()).unwrap()).collect();
        let data = Data { _dir: dir, name, dataset, files };
        data.cool();
        data
    }

    /// So that nothing is in the page cache.
    pub fn cool(&self) {
        self.dataset.files().iter().for_each(|file| data::drop_cache(file.path()).unwrap());
    }

    pub fn paths(&self) -> Vec<&Path> {
        self.dataset.files().iter().map(|file| file.path()).collect()
    }

    /// The tensors of a sample: name, and bytes.
    pub fn sample(&self, index: u64) -> Vec<(String, Vec<u8>)> {
        let sample = self.dataset.sample(index).unwrap();
        let bytes = |range: &dataset::FileRange| {
            self.files[range.file as usize][range.offset as usize..][..range.len as usize].to_vec()
        };
        sample.fields().map(|(spec, ranges)| (spec.name.to_string(), ranges.iter().flat_map(bytes).collect())).collect()
    }

    /// Bytes of a sample in its files.
    pub fn bytes_of(&self, index: u64) -> u64 {
        self.dataset.sample(index).unwrap().ranges().iter().map(|range| range.len).sum()
    }
}

/// Bytes that are those of no other place.
fn noise(seed: u64, len: usize) -> Vec<u8> {
    data::bytes(seed, 0, len as u64)
}

fn write(dir: &tempfile::TempDir, name: &str, bytes: &[u8]) -> PathBuf {
    let path = dir.path().join(name);
    std::fs::write(&path, bytes).unwrap();
    std::fs::File::open(&path).unwrap().sync_all().unwrap();
    path
}

/// `count` records of `bytes` bytes in two files.
pub fn records(name: &'static str, bytes: usize, count: usize) -> Data {
    let dir = folder();
    let first = count / 3;
    let paths =
        [write(&dir, "a.bin", &noise(1, bytes * first)), write(&dir, "b.bin", &noise(2, bytes * (count - first)))];
    Data::of(dir, name, &paths, &OpenOptions::new().record_bytes(bytes as u64))
}

/// A record of two blocks in each of so many files.
pub fn many_files(count: u64) -> Data {
    let dir = folder();
    let paths: Vec<PathBuf> = (0..count).map(|i| write(&dir, &format!("{i:03}.bin"), &noise(i, 8192))).collect();
    Data::of(dir, "many files", &paths, &OpenOptions::new().record_bytes(8192))
}

/// Rows that cuFile can read to their places itself.
pub fn aligned() -> Data {
    records("aligned", 8192, 90)
}

/// Rows that begin and end anywhere.
pub fn odd() -> Data {
    records("odd", 3001, 130)
}

pub fn large() -> Data {
    records("large", 300_001, 23)
}

/// Windows of tokens, which share one with each neighbour.
pub fn tokens() -> Data {
    let dir = folder();
    let path = write(&dir, "tokens.bin", &noise(3, 2 * 40_001));
    Data::of(dir, "tokens", &[path], &OpenOptions::new().dtype(DType::U16).seq_len(500))
}

/// Members of any length, some of none, and samples that lack one of the fields.
pub fn tar() -> Data {
    let dir = folder();
    let mut rng = Rng::new(5);
    let mut paths = Vec::new();
    for shard in 0..3 {
        let mut archive = Vec::new();
        for i in 0..20_u64 {
            let key = shard * 20 + i;
            let image = noise(key, rng.below(if i % 7 == 0 { 40_000 } else { 3000 }) as usize);
            member(&mut archive, &format!("{key:05}.jpg"), &image);
            if i % 5 != 3 {
                member(&mut archive, &format!("{key:05}.txt"), &noise(1000 + key, rng.below(9) as usize));
            }
            member(&mut archive, &format!("{key:05}.cls"), &noise(2000 + key, 1));
        }
        archive.extend([0; 1024]);
        paths.push(write(&dir, &format!("shard-{shard}.tar"), &archive));
    }
    Data::of(dir, "tar", &paths, &OpenOptions::new())
}

/// Members of 1 KiB, and each tenth of 1 MiB.
pub fn turns() -> Data {
    let dir = folder();
    let mut archive = Vec::new();
    for i in 0..60 {
        member(&mut archive, &format!("{i:02}.bin"), &noise(i, if i % 10 == 9 { 1 << 20 } else { 1 << 10 }));
    }
    archive.extend([0; 1024]);
    let path = write(&dir, "turns.tar", &archive);
    Data::of(dir, "turns", &[path], &OpenOptions::new())
}

/// By POSIX.1-1988's ustar header, and GNU tar's octal numbers.
fn member(archive: &mut Vec<u8>, name: &str, bytes: &[u8]) {
    let mut header = [0_u8; 512];
    header[..name.len()].copy_from_slice(name.as_bytes());
    header[100..108].copy_from_slice(b"0000644\0");
    header[108..124].copy_from_slice(b"0000000\x000000000\0");
    header[124..136].copy_from_slice(format!("{:011o}\0", bytes.len()).as_bytes());
    header[136..148].copy_from_slice(b"00000000000\0");
    header[148..156].fill(b' ');
    header[156] = b'0';
    header[257..265].copy_from_slice(b"ustar\x0000");
    let sum: u32 = header.iter().map(|&byte| u32::from(byte)).sum();
    header[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
    archive.extend(header);
    archive.extend(bytes);
    archive.resize(archive.len().next_multiple_of(512), 0);
}

/// Records with checksums, which the processor looks at.
pub fn tfrecord() -> Data {
    tfrecord_with_corrupt_ones(&[])
}

/// Some of them with a checksum that is not theirs.
pub fn tfrecord_with_corrupt_ones(corrupt: &[u64]) -> Data {
    let dir = folder();
    let mut rng = Rng::new(9);
    let mut paths = Vec::new();
    for shard in 0..2 {
        let mut file = Vec::new();
        for i in 0..40 {
            let record = noise(shard * 40 + i, rng.below(5000) as usize);
            let length = (record.len() as u64).to_le_bytes();
            file.extend(length);
            file.extend(masked(&length));
            file.extend(&record);
            let sum = masked(&record);
            let is_corrupt = corrupt.contains(&(shard * 40 + i));
            file.extend(if is_corrupt { sum.map(|byte| !byte) } else { sum });
        }
        paths.push(write(&dir, &format!("{shard}.tfrecord"), &file));
    }
    Data::of(dir, "tfrecord", &paths, &OpenOptions::new())
}

/// As TensorFlow masks a CRC-32C.
fn masked(bytes: &[u8]) -> [u8; 4] {
    crc32c::crc32c(bytes).rotate_right(15).wrapping_add(0xa282_ead8).to_le_bytes()
}

pub fn all() -> Vec<Data> {
    vec![aligned(), odd(), large(), tokens(), tar(), tfrecord()]
}
