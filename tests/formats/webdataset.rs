//! Shards that webdataset writes and reads, against what it finds in them.
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use forebay::dataset::{Dataset, TarIndex, WebDataset};

use crate::common::folder;
use crate::common::python::Python;
use crate::common::work::within;
use crate::{bytes, or_skip};

type Sample = (String, Vec<(String, Vec<u8>)>);

/// Every sample that webdataset yields of these shards: a line for its key, and one for each field.
const READ: &str = r#"
import warnings
warnings.simplefilter("ignore")
import webdataset
for sample in webdataset.WebDataset(SHARDS, shardshuffle=False, empty_check=False):
    print("key", sample["__key__"])
    for field, data in sample.items():
        if not field.startswith("__"):
            print("field", field.encode().hex() or "-", data.hex())
"#;

fn read_by_webdataset(python: &Python, folder: &Path, shards: &[PathBuf]) -> Vec<Sample> {
    let unhex = |hex: &str| -> Vec<u8> {
        (0..hex.len() / 2).map(|i| u8::from_str_radix(&hex[2 * i..][..2], 16).unwrap()).collect()
    };
    let mut samples: Vec<Sample> = Vec::new();
    for line in python.run(folder, &READ.replace("SHARDS", &format!("{shards:?}"))).lines() {
        match line.split_once(' ').unwrap() {
            ("key", key) => samples.push((key.to_owned(), Vec::new())),
            (_, field) => {
                let (name, data) = field.split_once(' ').unwrap();
                let name = String::from_utf8(unhex(name.trim_matches('-'))).unwrap();
                samples.last_mut().unwrap().1.push((name, unhex(data)));
            }
        }
    }
    samples
}

/// The same as we find it. webdataset's reader makes extensions small.
fn read_by_us(shards: &[PathBuf], index: TarIndex) -> Vec<Sample> {
    let dataset = WebDataset::open(shards, index).unwrap();
    let fields =
        |sample| bytes::of(&dataset, sample).into_iter().map(|(name, data)| (name.to_lowercase(), data)).collect();
    (0..dataset.len()).map(|sample| (dataset.id(sample).into_owned(), fields(sample))).collect()
}

fn shards(folder: &Path, names: &[&str]) -> Vec<PathBuf> {
    names.iter().map(|name| folder.join(name)).collect()
}

#[test]
fn shards_that_webdataset_wrote_hold_what_it_reads() {
    let python = or_skip!(Python::with(&["webdataset"]));
    let folder = folder();
    python.run(
        folder.path(),
        r#"
import webdataset
for shard in range(2):
    with webdataset.TarWriter("shard-%d.tar" % shard) as out:
        for i in range(30):
            key = "%s/%06d" % ("train.v1" if i % 2 else "n" * 120, 100 * shard + i)
            out.write({"__key__": key, "cls": i, "seg.png": bytes([i]) * 700, "JPG": b"x" * (512 * (i % 3)), "json": {"i": i}})
"#,
    );
    let shards = shards(folder.path(), &["shard-0.tar", "shard-1.tar"]);
    let theirs = read_by_webdataset(&python, folder.path(), &shards);
    assert_eq!(theirs.len(), 60);
    assert_eq!(read_by_us(&shards, TarIndex::Memory), theirs);
    assert_eq!(read_by_us(&shards, TarIndex::Beside), theirs, "the index is made");
    assert!(folder.path().join("shard-1.tar.forebay-index").exists());
    assert_eq!(read_by_us(&shards, TarIndex::Beside), theirs, "and read");
}

/// Names of every form: which of them have a key, and which one.
#[test]
fn keys_are_those_of_webdataset() {
    let python = or_skip!(Python::with(&["webdataset"]));
    let folder = folder();
    python.run(
        folder.path(),
        r#"
import io, itertools, tarfile
parts = ["", ".", "..", "a", "a.b", ".a", "a.b.c", "UP.JPG", "a.", ".a.", "a..b", "__m__", "__m__.x", "m__"]
names = set(parts) | {"/".join(names) for n in (2, 3) for names in itertools.product(parts, repeat=n)}
with tarfile.open("a.tar", "w", format=tarfile.PAX_FORMAT) as tar:
    for i, name in enumerate(sorted(names)):
        if name.endswith("/"):
            continue
        info = tarfile.TarInfo(name)
        info.size = 4
        # A member between two of one key would split a sample of theirs.
        tar.addfile(info, io.BytesIO(b"%04d" % i))
"#,
    );
    let shards = shards(folder.path(), &["a.tar"]);
    let mut theirs: BTreeMap<String, Vec<(String, Vec<u8>)>> = BTreeMap::new();
    for (key, fields) in read_by_webdataset(&python, folder.path(), &shards) {
        theirs.entry(key).or_default().extend(fields);
    }
    let ours: BTreeMap<_, _> = read_by_us(&shards, TarIndex::Memory).into_iter().collect();
    assert!(theirs.len() > 500, "{}", theirs.len());
    assert_eq!(ours, theirs);
}

/// webdataset yields four halves of these two samples.
#[test]
fn samples_whose_members_are_interleaved_are_whole_here() {
    let python = or_skip!(Python::with(&["webdataset"]));
    let folder = folder();
    python.run(
        folder.path(),
        r#"
import io, tarfile
with tarfile.open("a.tar", "w") as tar:
    for name in ["000000.a", "000001.a", "000000.b", "000001.b"]:
        info = tarfile.TarInfo(name)
        info.size = len(name)
        tar.addfile(info, io.BytesIO(name.encode()))
"#,
    );
    let shards = shards(folder.path(), &["a.tar"]);
    let theirs = read_by_webdataset(&python, folder.path(), &shards);
    let ours = read_by_us(&shards, TarIndex::Memory);
    assert_eq!((theirs.len(), ours.len()), (4, 2));
    for (i, (key, fields)) in ours.into_iter().enumerate() {
        assert_eq!(key, format!("00000{i}"));
        assert_eq!(fields, [theirs[i].1[0].clone(), theirs[i + 2].1[0].clone()]);
    }
}

#[test]
fn the_work_of_opening_two_thousand_shards_grows_with_their_number() {
    let folder = folder();
    let mut archive = vec![0; 2048];
    let mut header = [0; 512];
    header[..3].copy_from_slice(b"a.x");
    header[124..136].copy_from_slice(b"00000000001\0");
    header[148..156].fill(b' ');
    header[156] = b'0';
    let sum: u32 = header.iter().map(|&byte: &u8| u32::from(byte)).sum();
    header[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
    archive[..512].copy_from_slice(&header);
    let names: Vec<String> = (0..2000).map(|i| format!("shard-{i:06}.tar")).collect();
    let shards: Vec<PathBuf> = names.iter().map(|name| folder.path().join(name)).collect();
    for shard in &shards {
        std::fs::write(shard, &archive).unwrap();
    }
    for index in [TarIndex::Memory, TarIndex::Beside, TarIndex::Beside] {
        // That it takes no second is the benchmark's to show.
        let dataset = within(400, "2,000 shards", || WebDataset::open(&shards, index).unwrap());
        assert_eq!((dataset.len(), &*dataset.id(1999)), (2000, "shard-001999.tar/a"));
    }
}
