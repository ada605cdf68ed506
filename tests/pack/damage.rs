//! Damage that a checksum of the input shows: a pack finds it wherever a read does, and leaves nothing behind. What is
//! damaged say Python's zipfile and a CRC that is worked out bit by bit here.
use std::fs;
use std::path::Path;
use std::sync::Arc;

use forebay::dataset::{
    self, Checksums, DType, DataFile, Dataset, DatasetError, Fingerprint, OpenOptions, SampleSpec, StoredTensors,
    open_stored,
};
use forebay::pack::{PackError, PackOptions, Packed, pack, pack_tensors};
use forebay::{Carrier, Loader};

use crate::common::python::Python;
use crate::common::{Rng, folder};
use crate::made::{Made, sample, tensor, uniform};
use crate::{or_skip, oracle};

fn open(path: &Path) -> Result<Arc<dyn Dataset>, String> {
    dataset::open(&[path], &OpenOptions::new()).map(Arc::from).map_err(|error| error.to_string())
}

/// An epoch on one rank, as `forebay read` has it.
fn read(path: &Path) -> Result<u64, String> {
    let mut loader = Loader::builder(open(path)?)
        .batch_size(3)
        .workers(0)
        .budget(1 << 20)
        .build()
        .map_err(|error| error.to_string())?;
    let mut samples = 0;
    for batch in loader.blocking() {
        samples += batch.map_err(|error| error.to_string())?.len() as u64;
    }
    Ok(samples)
}

fn small_carrier() -> Carrier {
    Carrier::builder().budget(1 << 20).build().unwrap()
}

/// As `forebay pack` does it. Where it fails, nothing is there afterwards.
fn packed(carrier: &Carrier, path: &Path, options: PackOptions) -> Result<Packed, String> {
    let out = folder();
    let to = out.path().join("out");
    let stored = open_stored(&[path], &OpenOptions::new()).map_err(|error| error.to_string())?;
    let options = options.with(carrier);
    let packed = match stored.samples {
        Some(_) => pack(&stored.dataset, &to, &options),
        None => pack_tensors(&stored.dataset, stored.dataset.stored(), &to, &options),
    };
    assert_eq!(to.exists(), packed.is_ok(), "files of a pack that failed");
    packed.map_err(|error| error.to_string())
}

/// Each byte that `step` leaves of the file is changed; which of those files are damaged, `damaged` tells.
fn agree(sound: &[u8], name: &str, step: usize, damaged: impl Fn(usize, &[u8]) -> bool) {
    let folder = folder();
    let path = folder.path().join(name);
    fs::write(&path, sound).unwrap();
    let carrier = small_carrier();
    let samples = read(&path).unwrap();
    assert!(samples > 0 && packed(&carrier, &path, PackOptions::new()).unwrap().samples == samples);
    let mut found = 0;
    for at in (0..sound.len()).step_by(step) {
        let mut bytes = sound.to_vec();
        bytes[at] ^= 1 << (at % 8);
        fs::write(&path, &bytes).unwrap();
        let (read, packed) = (read(&path), packed(&carrier, &path, PackOptions::new().shard_bytes(700)));
        assert_eq!(read.is_err(), packed.is_err(), "byte {at}: {read:?}, {packed:?}");
        if damaged(at, &bytes) {
            let errors = [read.unwrap_err(), packed.unwrap_err()];
            assert!(errors.iter().all(|said| said.contains(name) && said.contains(" at ")), "{errors:?}");
            found += 1;
        }
    }
    assert!(found > 40, "{found}");
}

/// By the polynomial of CRC-32C.
fn crc32c(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(!0_u32, |crc, &byte| {
        (0..8).fold(crc ^ u32::from(byte), |crc, _| crc >> 1 ^ if crc & 1 == 1 { 0x82f6_3b78 } else { 0 })
    })
}

fn masked(bytes: &[u8]) -> [u8; 4] {
    crc32c(bytes).rotate_right(15).wrapping_add(0xa282_ead8).to_le_bytes()
}

fn tfrecord(payloads: &[Vec<u8>]) -> Vec<u8> {
    let frame = |payload: &Vec<u8>| {
        let len = (payload.len() as u64).to_le_bytes();
        [&len[..], &masked(&len), payload, &masked(payload)].concat()
    };
    payloads.iter().flat_map(frame).collect()
}

/// Whether each frame is whole and has its checksums.
fn is_sound_tfrecord(mut bytes: &[u8]) -> bool {
    while !bytes.is_empty() {
        let Some((head, rest)) = bytes.split_at_checked(12) else { return false };
        let len = u64::from_le_bytes(head[..8].try_into().unwrap());
        let Some((payload, rest)) = rest.split_at_checked(len.min(1 << 30) as usize) else { return false };
        let Some((sum, rest)) = rest.split_at_checked(4) else { return false };
        if masked(&head[..8]) != head[8..] || masked(payload) != sum {
            return false;
        }
        bytes = rest;
    }
    true
}

#[test]
fn tfrecords_that_a_checksum_says_are_damaged_are_neither_read_nor_packed() {
    let mut rng = Rng::new(1);
    // One without data, whose checksum counts, too; then alike ones, which become rows, and then others.
    for lens in [vec![0, 1, 30, 0, 200, 77], vec![64; 8]] {
        let payloads: Vec<Vec<u8>> = lens.iter().map(|&len| (0..len).map(|_| rng.below(256) as u8).collect()).collect();
        agree(&tfrecord(&payloads), "x.tfrecord", 3, |_, bytes| !is_sound_tfrecord(bytes));
    }
}

/// The archives, and for each the places at which a changed byte makes `testzip` or numpy fail.
const DAMAGE: &str = r#"
import io, zipfile, numpy as np
rng = np.random.default_rng(5)
x, y = rng.integers(0, 256, (37, 9), "u1"), rng.random(37).astype("<f4")
np.savez("rows.npz", x=x, y=y)
np.savez("one.npz", x=x)
for name in ["rows.npz", "one.npz"]:
    sound, bad = open(name, "rb").read(), []
    for at in range(len(sound)):
        data = bytearray(sound)
        data[at] ^= 1 << (at % 8)
        try:
            with zipfile.ZipFile(io.BytesIO(data)) as archive:
                if archive.testzip() is not None:
                    bad.append(at)
        except Exception:
            bad.append(at)
    print(name, *bad)
"#;

#[test]
fn archives_that_zipfile_says_are_damaged_are_neither_read_nor_packed() {
    let python = or_skip!(Python::with(&["numpy"]));
    let folder = folder();
    for line in python.run(folder.path(), DAMAGE).lines() {
        let (name, bad) = line.split_once(' ').unwrap();
        let bad: Vec<usize> = bad.split(' ').map(|at| at.parse().unwrap()).collect();
        let sound = fs::read(folder.path().join(name)).unwrap();
        agree(&sound, "x.npz", 5, |at, _| bad.contains(&at));
    }
}

/// Arrays that share no first dimension are packed as they are, and so is a scalar.
#[test]
fn arrays_that_are_no_samples_are_checked_while_they_are_packed() {
    let python = or_skip!(Python::with(&["numpy"]));
    let folder = folder();
    python.run(
        folder.path(),
        "import numpy as np\nnp.savez('x.npz', a=np.arange(3, dtype='u1'), b=np.arange(200.0), s=np.float64(1.5), e=np.zeros((0, 3)))",
    );
    let path = folder.path().join("x.npz");
    let carrier = small_carrier();
    let sound = fs::read(&path).unwrap();
    assert_eq!(packed(&carrier, &path, PackOptions::new()).unwrap().tensors, 4);
    for stored in open_stored(&[&path], &OpenOptions::new()).unwrap().dataset.stored() {
        let stored = stored.unwrap();
        let mut bytes = sound.clone();
        match (stored.range.offset as usize, stored.range.len) {
            // A space at the end of the header, which means as much as this.
            (data, 0) => bytes[data - 2] = b'\t',
            (data, _) => bytes[data] ^= 4,
        }
        fs::write(&path, bytes).unwrap();
        let said = packed(&carrier, &path, PackOptions::new()).unwrap_err();
        assert!(said.contains(&format!("array {} does not match its CRC-32", stored.spec.name)), "{said}");
    }
}

/// Over more than one file, and with what is made of datasets.
#[test]
fn datasets_made_of_others_check_what_those_do() {
    let (source, out) = (folder(), folder());
    let mut bytes = tfrecord(&[vec![1; 50], vec![2; 50], vec![3; 50]]);
    fs::write(source.path().join("sound.tfrecord"), &bytes).unwrap();
    *bytes.last_mut().unwrap() ^= 1;
    fs::write(source.path().join("wrong.tfrecord"), &bytes).unwrap();
    let [sound, wrong] = ["sound", "wrong"].map(|name| open(&source.path().join(format!("{name}.tfrecord"))).unwrap());
    let joined: Arc<dyn Dataset> =
        Arc::new(dataset::Concat::new(vec![Arc::clone(&sound), Arc::clone(&wrong), sound]).unwrap());
    let error = pack(&joined, &out.path().join("all"), &PackOptions::new()).unwrap_err().to_string();
    assert!(error.contains("wrong.tfrecord at 144: the checksum of record 2"), "{error}");
    let picked = |indices: Vec<u64>| dataset::Subset::new(Arc::clone(&joined), indices).unwrap();
    pack(&picked(vec![8, 4, 0, 3]), &out.path().join("some"), &PackOptions::new()).unwrap();
    pack(&picked(vec![8, 5, 0]), &out.path().join("other"), &PackOptions::new()).unwrap_err();
}

/// A dataset of somebody's own, which can only check whole samples.
#[derive(Debug)]
struct Summed {
    made: Made,
    wrong: Option<u64>,
}

impl Dataset for Summed {
    fn len(&self) -> u64 {
        self.made.len()
    }

    fn files(&self) -> &[DataFile] {
        self.made.files()
    }

    fn locate(&self, index: u64, sample: &mut SampleSpec) -> Result<(), DatasetError> {
        self.made.locate(index, sample)
    }

    fn fingerprint(&self) -> Fingerprint {
        self.made.fingerprint()
    }

    fn id(&self, index: u64) -> std::borrow::Cow<'_, str> {
        self.made.id(index)
    }

    fn checksums(&self) -> Checksums {
        Checksums::Samples
    }

    fn check(&self, index: u64, fields: &[&[u8]]) -> Result<(), DatasetError> {
        let spec = self.made.sample(index)?;
        let held: Vec<usize> = fields.iter().map(|field| field.len()).collect();
        let said: Vec<usize> = spec.tensors().iter().map(|tensor| tensor.bytes().unwrap() as usize).collect();
        assert_eq!(held, said, "sample {index}");
        let first = spec.ranges().iter().find(|range| range.len > 0).unwrap();
        let file = fs::read(self.files()[first.file as usize].path()).unwrap();
        let byte = fields.iter().find_map(|field| field.first()).unwrap();
        assert_eq!(file[first.offset as usize], *byte, "sample {index}");
        match self.wrong {
            Some(wrong) if wrong == index => {
                Err(DatasetError::malformed("one.data", 0, "its sum is wrong", "get it again"))
            }
            _ => Ok(()),
        }
    }

    fn stored(&self) -> StoredTensors<'_> {
        self.made.stored()
    }
}

#[test]
fn samples_that_can_only_be_checked_whole_are_checked_before_anything_is_published() {
    let (source, out) = (folder(), folder());
    let unlike: Vec<_> =
        (0..20).map(|i| sample(i, [tensor("x", DType::U8, &[i + 1], i), tensor("y", DType::F32, &[2], i)])).collect();
    for (kind, samples) in [("alike", uniform(20)), ("unlike", unlike)] {
        for wrong in [None, Some(0), Some(7), Some(19)] {
            let made = Summed { made: Made::new(source.path(), &samples), wrong };
            let to = out.path().join(format!("{kind}-{wrong:?}"));
            match (pack(&made, &to, &PackOptions::new().shard_bytes(500)), wrong) {
                (Ok(packed), None) => oracle::check(&packed, &to),
                (Err(PackError::Dataset(error)), Some(_)) => {
                    assert!(error.to_string().contains("its sum is wrong") && !to.exists(), "{error}");
                }
                (other, _) => panic!("{kind} {wrong:?}: {other:?}"),
            }
        }
    }
}
