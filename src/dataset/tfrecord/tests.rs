use std::path::PathBuf;

use proptest::prelude::*;

use super::{Corrupt, TfRecord, frame};
use crate::dataset::heard::warnings;
use crate::dataset::{DType, Dataset, DatasetError, DatasetFault};

fn record(data: &[u8]) -> Vec<u8> {
    [head(data.len() as u64).as_slice(), data, &sum(data)].concat()
}

fn head(len: u64) -> Vec<u8> {
    [&len.to_le_bytes()[..], &sum(&len.to_le_bytes())].concat()
}

fn sum(data: &[u8]) -> [u8; 4] {
    frame::masked(crc32c::crc32c(data)).to_le_bytes()
}

struct Files {
    _folder: tempfile::TempDir,
    paths: Vec<PathBuf>,
}

fn files(contents: &[Vec<u8>]) -> Files {
    let folder = tempfile::tempdir().unwrap();
    let paths = contents.iter().enumerate().map(|(i, bytes)| {
        let path = folder.path().join(format!("{i}.tfrecord"));
        std::fs::write(&path, bytes).unwrap();
        path
    });
    Files { paths: paths.collect(), _folder: folder }
}

fn open(contents: &[Vec<u8>], corrupt: Corrupt) -> Result<TfRecord, DatasetError> {
    TfRecord::open(&files(contents).paths, corrupt)
}

fn refusal(file: Vec<u8>) -> String {
    let message = open(&[file], Corrupt::Refuse).unwrap_err().to_string();
    message.split_once("0.tfrecord at ").expect("it names path and offset").1.to_owned()
}

fn ranges(dataset: &TfRecord) -> Vec<(u32, u64, u64)> {
    let one = |index| {
        let sample = dataset.sample(index).unwrap();
        let [range] = sample.ranges() else { panic!("{sample:?}") };
        let spec = &sample.tensors()[0];
        assert_eq!((&*spec.name, spec.dtype, &*spec.shape), ("record", DType::U8, &[range.len][..]));
        (range.file, range.offset, range.len)
    };
    (0..dataset.len()).map(one).collect()
}

#[test]
fn records_are_found_through_all_files() {
    let two = [record(b"one"), record(b"")].concat();
    let dataset = open(&[two, vec![], record(&[7; 1000])], Corrupt::Refuse).unwrap();
    assert_eq!(ranges(&dataset), [(0, 12, 3), (0, 31, 0), (2, 12, 1000)]);
    assert_eq!((dataset.id(2), dataset.skipped()), ("2".into(), 0));
    assert!(matches!(dataset.sample(3).unwrap_err().fault, DatasetFault::NoSample { index: 3, len: 3 }));
    assert!(TfRecord::looks_like(&record(b"one")) && TfRecord::looks_like(&head(1)));
    assert!(!TfRecord::looks_like(&record(b"one")[1..]) && !TfRecord::looks_like(b""));
}

#[test]
fn what_was_read_of_a_record_is_checked() {
    let files = files(&[record(b"123456789"), [record(b"one"), record(&vec![7; 1_000_000])].concat()]);
    let dataset = TfRecord::open(&files.paths, Corrupt::Refuse).unwrap();
    dataset.verify(0, b"123456789").unwrap();
    dataset.verify(2, &vec![7; 1_000_000]).unwrap();
    let wrong = dataset.verify(1, b"onf").unwrap_err().to_string();
    assert!(wrong.ends_with("1.tfrecord at 12: the checksum of record 1 is wrong; get the file again"), "{wrong}");
    let short = dataset.verify(1, b"on").unwrap_err().to_string();
    assert!(short.contains("record 1 has 3 bytes and not the 2 given"), "{short}");
    assert!(matches!(dataset.verify(3, b"").unwrap_err().fault, DatasetFault::NoSample { .. }));
    assert_eq!(dataset.verify_all().unwrap(), 3);
}

#[test]
fn data_that_is_damaged_is_found_by_verifying_and_only_then() {
    let mut file = [record(b"one"), record(&vec![7; 600_000]), record(b"three")].concat();
    file[19 + 12 + 599_999] ^= 1;
    let files = files(&[record(b"zero"), file]);
    let strict = TfRecord::open(&files.paths, Corrupt::Refuse).unwrap();
    let wrong = strict.verify_all().unwrap_err().to_string();
    assert!(wrong.ends_with("1.tfrecord at 31: the checksum of record 2 is wrong; get the file again"), "{wrong}");
    let lenient = TfRecord::open(&files.paths, Corrupt::Skip).unwrap();
    let (sound, heard) = warnings(|| lenient.verify_all().unwrap());
    assert_eq!((sound, lenient.len(), lenient.skipped(), heard.len()), (3, 4, 0, 1), "{heard:?}");
    assert!(heard[0].contains("1.tfrecord at 31"), "{heard:?}");
}

#[test]
fn files_that_changed_since_are_not_verified() {
    let files = files(&[record(b"one")]);
    let dataset = TfRecord::open(&files.paths, Corrupt::Refuse).unwrap();
    std::fs::write(&files.paths[0], [record(b"one"), record(b"two")].concat()).unwrap();
    assert!(matches!(dataset.verify_all().unwrap_err().fault, DatasetFault::Changed(_)));
}

#[test]
fn a_wrong_length_is_refused_with_its_place() {
    let mut file = [record(b"one"), record(b"two"), record(b"three")].concat();
    file[19] ^= 1;
    let said =
        "19: the checksum of the length of record 1 of this file is wrong; get the file again, or skip what is corrupt";
    assert_eq!(refusal(file), said);
    let mut first = record(b"one");
    first[9] ^= 1;
    assert!(
        refusal(first).starts_with("0: the checksum of the first length is wrong: the file is damaged, or no TFRecord")
    );
    for len in [1 << 31, 1 << 62, 1 << 63, u64::MAX] {
        let said = refusal([record(b"one"), head(len)].concat());
        let missing = format!("19: the data of record 1 of this file needs {len} bytes more than the file has; ");
        assert!(said.starts_with(&missing), "{said}");
    }
}

/// Refused, it names what is cut; skipped, all records before the cut are there.
#[test]
fn a_file_cut_at_any_byte_is_refused_or_skipped_from_there() {
    let whole = [record(b"one"), record(b""), record(b"three")].concat();
    let ends = [0, 19, 35, 56];
    for cut in 0..whole.len() {
        let before = ends.iter().filter(|&&end| end <= cut).count() - 1;
        let is_between = ends.contains(&cut);
        let file = whole[..cut].to_vec();
        let strict = open(std::slice::from_ref(&file), Corrupt::Refuse);
        assert_eq!(strict.is_ok(), is_between, "cut at {cut}");
        if let Err(error) = strict {
            assert_eq!(error.offset, Some(ends[before] as u64));
            let into = cut - ends[before];
            let cut_in = match (into, [3, 0, 5][before]) {
                (..8, _) => "the length of record",
                (..12, _) => "the length's checksum of record",
                (_, data) if into < 12 + data => "the data of record",
                _ => "the data's checksum of record",
            };
            assert!(error.to_string().contains(&format!("{cut_in} {before} of this file needs ")), "{cut}: {error}");
        }
        let (lenient, heard) = warnings(|| open(&[file], Corrupt::Skip).unwrap());
        assert_eq!((lenient.len(), lenient.skipped()), (before as u64, u64::from(!is_between)), "cut at {cut}");
        assert_eq!(heard.len(), usize::from(!is_between), "{heard:?}");
    }
}

#[test]
fn skipping_goes_on_with_the_next_file_and_counts() {
    let mut damaged = [record(b"one"), record(b"two"), record(b"three")].concat();
    damaged[19 + 8] ^= 1;
    let contents = [damaged, record(b"next"), record(b"cut")[..17].to_vec()];
    let (dataset, heard) = warnings(|| open(&contents, Corrupt::Skip).unwrap());
    assert_eq!((ranges(&dataset), dataset.skipped()), (vec![(0, 12, 3), (1, 12, 4)], 2));
    drop(heard);
}

#[test]
fn compressed_files_are_refused_by_name_also_where_corrupt_ones_are_skipped() {
    for (magic, by) in [(&b"\x1f\x8b\x08"[..], "gzip"), (b"\x78\x9c", "zlib"), (b"\x28\xb5\x2f\xfd", "zstd")] {
        let file = [magic, &[0x5a; 100]].concat();
        for corrupt in [Corrupt::Refuse, Corrupt::Skip] {
            let refused = open(std::slice::from_ref(&file), corrupt).unwrap_err();
            assert!(refused.to_string().contains(&format!("at 0: it is compressed with {by}; ")), "{refused}");
        }
    }
}

/// Its length begins as a pickle does.
#[test]
fn a_damaged_record_of_640_bytes_is_skipped_and_not_taken_for_a_pickle() {
    let mut file = record(&[7; 640]);
    file[8] ^= 1;
    let files = files(&[file]);
    let (lenient, said) = warnings(|| TfRecord::open(&files.paths, Corrupt::Skip).unwrap());
    assert_eq!((lenient.len(), lenient.skipped()), (0, 1));
    assert!(said[0].contains("the checksum of the first length is wrong"), "{said:?}");
    assert!(TfRecord::open(&files.paths, Corrupt::Refuse).is_err());
}

proptest! {
    #![proptest_config(ProptestConfig { cases: crate::effort::of(250, 1000), ..ProptestConfig::default() })]

    /// Whatever is done to a file: no panic, no record that is not all in it, and none but sound ones pass the check.
    #[test]
    fn no_mutation_makes_a_record_outside_the_file(
        lens in prop::collection::vec(0..40_usize, 1..6),
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>(), 0..4_u8), 0..6),
        length in prop::option::of((any::<prop::sample::Index>(), any::<u64>())),
    ) {
        let mut file: Vec<u8> = lens.iter().flat_map(|&len| record(&vec![len as u8; len])).collect();
        for (place, byte, kind) in changes {
            let at = place.index(file.len());
            match kind {
                0 => file[at] = byte,
                1 => file[at] ^= 1 << (byte % 8),
                2 => file.insert(at, byte),
                _ => { file.truncate(at.max(1)); }
            }
        }
        if let Some((place, length)) = length {
            let at = place.index(file.len());
            file.splice(at..(at + 12).min(file.len()), head(length));
        }
        let size = file.len() as u64;
        let files = files(&[file]);
        let lenient = TfRecord::open(&files.paths, Corrupt::Skip).unwrap();
        for (_, offset, len) in ranges(&lenient) {
            prop_assert!(offset.checked_add(len).is_some_and(|end| end + 4 <= size));
        }
        let (sound, _) = warnings(|| lenient.verify_all().unwrap());
        prop_assert!(sound <= lenient.len());
        if let Ok(strict) = TfRecord::open(&files.paths, Corrupt::Refuse) {
            prop_assert_eq!(strict.len(), lenient.len());
        }
    }
}
