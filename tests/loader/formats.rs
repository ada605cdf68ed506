//! A small dataset of every format, of several files of which some hold nothing or less than others.
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock};

use forebay::dataset::{self, Corrupt, DType, Dataset, Megatron, OpenOptions, Split, TarIndex, TfRecord, WebDataset};
use forebay::pack::{PackOptions, pack};

use crate::common::data;
use crate::faults::write_tfrecords;
use crate::made::{Made, uniform, varying};

pub type Named = (&'static str, Arc<dyn Dataset>);

/// One of every format, made once and left behind with the build.
pub static DATASETS: LazyLock<(tempfile::TempDir, Vec<Named>)> = LazyLock::new(|| {
    let folder = crate::common::folder();
    let datasets = all(folder.path());
    (folder, datasets)
});

/// Each with its name.
fn all(folder: &Path) -> Vec<(&'static str, Arc<dyn Dataset>)> {
    vec![
        ("npy", npy(folder)),
        ("npz", npz(folder)),
        ("safetensors", safetensors(folder, "rows", true)),
        ("safetensors of samples that differ", safetensors(folder, "samples", false)),
        ("records", records(folder)),
        ("tokens", tokens(folder)),
        ("megatron documents", megatron(folder, "documents", Split::Documents)),
        ("megatron windows", megatron(folder, "windows", Split::Windows { seq_len: 17, stride: 5 })),
        ("webdataset", webdataset(folder)),
        ("tfrecord", tfrecord(folder)),
        ("scattered", Arc::new(Made::new(&made(folder, "scattered"), &varying(70, 700)))),
    ]
}

fn made(folder: &Path, name: &str) -> PathBuf {
    let folder = folder.join(name);
    fs::create_dir(&folder).unwrap();
    folder
}

fn open(paths: &[PathBuf], options: OpenOptions) -> Arc<dyn Dataset> {
    dataset::open(paths, &options).unwrap().into()
}

/// An array of numpy's of that many rows of 3 numbers of 16 bits.
pub fn array(rows: u64, seed: u64) -> Vec<u8> {
    let dict = format!("{{'descr': '<u2', 'fortran_order': False, 'shape': ({rows}, 3), }}");
    let header = format!("{dict:<117}\n");
    [b"\x93NUMPY\x01\0", &118_u16.to_le_bytes()[..], header.as_bytes(), &data::bytes(seed, 0, rows * 6)].concat()
}

fn npy(folder: &Path) -> Arc<dyn Dataset> {
    let folder = made(folder, "npy");
    let paths: Vec<PathBuf> = (0..3).map(|i| folder.join(format!("{i}.npy"))).collect();
    for (path, rows) in paths.iter().zip([41, 0, 23]) {
        fs::write(path, array(rows, rows)).unwrap();
    }
    open(&paths, OpenOptions::new())
}

fn npz(folder: &Path) -> Arc<dyn Dataset> {
    let path = folder.join("two.npz");
    fs::write(&path, zipped(&[("x.npy", array(37, 1)), ("y.npy", array(37, 2))])).unwrap();
    open(&[path], OpenOptions::new())
}

/// An archive of at most 255 arrays, members as they are.
pub fn zipped(members: &[(&str, Vec<u8>)]) -> Vec<u8> {
    let (mut archive, mut directory) = (Vec::new(), Vec::new());
    for (name, data) in members {
        let fields: Vec<u8> = [
            &[20, 0, 0, 0, 0, 0, 0, 0, 0, 0][..],
            &crc32fast::hash(data).to_le_bytes(),
            &(data.len() as u32).to_le_bytes(),
            &(data.len() as u32).to_le_bytes(),
            &(name.len() as u16).to_le_bytes(),
            &[0, 0],
        ]
        .concat();
        let place = archive.len() as u32;
        directory.extend([&b"PK\x01\x02\x14\0"[..], &fields, &[0; 10], &place.to_le_bytes(), name.as_bytes()].concat());
        archive.extend([&b"PK\x03\x04"[..], &fields, name.as_bytes(), data].concat());
    }
    let (start, len) = ((archive.len() as u32).to_le_bytes(), (directory.len() as u32).to_le_bytes());
    let count = [members.len() as u8, 0];
    let end = [&b"PK\x05\x06\0\0\0\0"[..], &count, &count, &len, &start, &[0, 0]].concat();
    [archive, directory, end].concat()
}

/// Shards of a few samples each.
fn safetensors(folder: &Path, name: &str, alike: bool) -> Arc<dyn Dataset> {
    let (source, out) = (made(folder, &format!("{name}-source")), folder.join(name));
    let samples = if alike { uniform(45) } else { varying(45, 900) };
    pack(&Made::new(&source, &samples), &out, &PackOptions::new().shard_bytes(1500)).unwrap();
    let dataset = open(&[out], OpenOptions::new());
    assert!(dataset.files().len() > 1, "{name}: one shard only");
    dataset
}

fn records(folder: &Path) -> Arc<dyn Dataset> {
    let paths: Vec<PathBuf> = (0..3).map(|i| folder.join(format!("{i}.records"))).collect();
    for (path, (seed, count)) in paths.iter().zip([(1, 30), (2, 1), (3, 33)]) {
        data::write_dense(path, seed, 1001 * count).unwrap();
    }
    crate::stream::open_records(&paths, 1001)
}

fn tokens(folder: &Path) -> Arc<dyn Dataset> {
    let path = folder.join("tokens.bin");
    data::write_dense(&path, 9, 2 * 1500).unwrap();
    open(&[path], OpenOptions::new().format(dataset::Format::Tokens).dtype(DType::U16).seq_len(25))
}

fn megatron(folder: &Path, name: &str, split: Split) -> Arc<dyn Dataset> {
    let path = folder.join(format!("{name}.bin"));
    let lens: Vec<u64> = (0..30).map(|i| i * 7 % 13).collect();
    data::write_dense(&path, 4, 2 * lens.iter().sum::<u64>()).unwrap();
    let mut index = b"MMIDIDX\0\0".to_vec();
    let mut add = |numbers: &mut dyn Iterator<Item = u64>, bytes: usize| {
        numbers.for_each(|number| index.extend_from_slice(&number.to_le_bytes()[..bytes]));
    };
    let starts: Vec<u64> = (0..lens.len()).map(|i| 2 * lens[..i].iter().sum::<u64>()).collect();
    add(&mut [1].into_iter(), 8);
    add(&mut [8].into_iter(), 1);
    add(&mut [30, 31].into_iter(), 8);
    add(&mut lens.iter().copied(), 4);
    add(&mut starts.into_iter(), 8);
    add(&mut (0..=30), 8);
    fs::write(path.with_extension("idx"), index).unwrap();
    Arc::new(Megatron::open(&[path], split).unwrap())
}

/// A tar archive of these members.
pub fn tar(members: &[(String, Vec<u8>)]) -> Vec<u8> {
    let mut archive = Vec::new();
    for (name, bytes) in members {
        let mut header = [0; 512];
        header[..name.len()].copy_from_slice(name.as_bytes());
        header[100..107].copy_from_slice(b"0000644");
        header[124..135].copy_from_slice(format!("{:011o}", bytes.len()).as_bytes());
        header[148..156].fill(b' ');
        header[156] = b'0';
        header[257..265].copy_from_slice(b"ustar\x0000");
        let sum: u64 = header.iter().map(|byte| u64::from(*byte)).sum();
        header[148..155].copy_from_slice(format!("{sum:06o}\0").as_bytes());
        archive.extend(header);
        archive.extend_from_slice(bytes);
        archive.resize(archive.len().next_multiple_of(512), 0);
    }
    archive.resize(archive.len() + 1024, 0);
    archive
}

/// Three shards, the second of which holds nothing.
fn webdataset(folder: &Path) -> Arc<dyn Dataset> {
    let paths: Vec<PathBuf> = (0..3).map(|i| folder.join(format!("shard-{i:06}.tar"))).collect();
    for (path, keys) in paths.iter().zip([0..31, 0..0, 31..60]) {
        let members = keys.flat_map(|key: u64| {
            let mut members = vec![
                (format!("{key:06}.bin"), data::bytes(key, 0, key * 31)),
                (format!("{key:06}.cls"), vec![key as u8]),
            ];
            if key.is_multiple_of(4) {
                members.push((format!("{key:06}.json"), b"{}".to_vec()));
            }
            members
        });
        fs::write(path, tar(&members.collect::<Vec<_>>())).unwrap();
    }
    Arc::new(WebDataset::open(&paths, TarIndex::Memory).unwrap())
}

fn tfrecord(folder: &Path) -> Arc<dyn Dataset> {
    let paths: Vec<PathBuf> = (0..3).map(|i| folder.join(format!("{i}.tfrecord"))).collect();
    for (path, count) in paths.iter().zip([20_u64, 0, 35]) {
        write_tfrecords(path, &(0..count).map(|i| i * 97 % 1500).collect::<Vec<_>>());
    }
    Arc::new(TfRecord::open(&paths, Corrupt::Refuse).unwrap())
}
