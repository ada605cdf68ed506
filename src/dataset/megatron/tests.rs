use std::fs;
use std::os::unix::fs::FileExt;
use std::path::Path;

use super::*;
use crate::dataset::error::DatasetFault;
use crate::dataset::mutants::{assert_damage_is_survived, assert_no_beginning_opens, assert_sound};
use crate::work::within;
use std::path::PathBuf;

/// An index; that of Megatron's own rules is checked in tests/formats/megatron.rs.
#[derive(Clone)]
struct Idx {
    version: u64,
    code: u8,
    lengths: Vec<i32>,
    pointers: Vec<i64>,
    boundaries: Vec<i64>,
    modes: Vec<u8>,
}

/// Sequences of tokens of `u16`, one after the other.
fn idx(lengths: &[i32], boundaries: &[i64]) -> Idx {
    let begins = |at: &mut i64, len: &i32| {
        let begin = *at;
        *at += i64::from(*len) * 2;
        Some(begin)
    };
    let pointers = lengths.iter().scan(0, begins).collect();
    Idx { version: 1, code: 8, lengths: lengths.into(), pointers, boundaries: boundaries.into(), modes: vec![] }
}

impl Idx {
    fn bytes(&self) -> Vec<u8> {
        let mut out = b"MMIDIDX\0\0".to_vec();
        out.extend(self.version.to_le_bytes());
        out.push(self.code);
        out.extend((self.lengths.len() as u64).to_le_bytes());
        out.extend((self.boundaries.len() as u64).to_le_bytes());
        self.lengths.iter().for_each(|it| out.extend(it.to_le_bytes()));
        self.pointers.iter().for_each(|it| out.extend(it.to_le_bytes()));
        self.boundaries.iter().for_each(|it| out.extend(it.to_le_bytes()));
        out.extend(&self.modes);
        out
    }

    fn written(&self, folder: &Path, name: &str, bin_len: u64) -> PathBuf {
        let path = folder.join(name).with_extension("idx");
        fs::write(&path, self.bytes()).unwrap();
        fs::File::create(path.with_extension("bin")).unwrap().set_len(bin_len).unwrap();
        path
    }

    fn opened(&self, bin_len: u64, split: Split) -> Result<Megatron, DatasetError> {
        let folder = tempfile::tempdir().unwrap();
        Megatron::open(&[self.written(folder.path(), "x", bin_len)], split)
    }

    fn refused(&self, bin_len: u64) -> DatasetError {
        let error = self.opened(bin_len, Split::Documents).expect_err("it must not open");
        let windows = self.opened(bin_len, Split::windows(1)).expect_err("nor in windows");
        assert_eq!(windows.offset, error.offset, "{windows}");
        error
    }
}

fn ranges(megatron: &Megatron, index: u64) -> Vec<(u64, u64)> {
    megatron.sample(index).unwrap().ranges().iter().map(|range| (range.offset, range.len)).collect()
}

#[test]
fn a_document_is_all_its_sequences() {
    // Documents of two sequences, of none, and of one.
    let megatron = idx(&[3, 2, 4], &[0, 2, 2, 3]).opened(18, Split::Documents).unwrap();
    assert_eq!(megatron.len(), 3);
    assert_eq!([0, 1, 2].map(|i| ranges(&megatron, i)), [vec![(0, 10)], vec![(10, 0)], vec![(10, 8)]]);
    assert_eq!(megatron.sample(0).unwrap().tensors(), [TensorSpec::new("tokens", DType::U16, [5])]);
    assert_sound(&megatron);
    let stored: Vec<_> = megatron.stored().map(Result::unwrap).collect();
    assert_eq!(stored[0].spec, TensorSpec::new("x", DType::U16, [9]));
}

#[test]
fn windows_go_over_the_ends_of_documents() {
    let megatron = idx(&[3, 2, 4], &[0, 2, 3]).opened(18, Split::windows(4)).unwrap();
    assert_eq!([0, 1].map(|i| ranges(&megatron, i)), [[(0, 10)], [(8, 10)]]);
    assert_eq!(megatron.len(), 2);
    assert_sound(&megatron);
    for (lengths, windows) in [(&[4, 0][..], None), (&[5], Some(1)), (&[0, 4, 0, 1], Some(1)), (&[], None)] {
        let boundaries = [0, lengths.len() as i64];
        let bin_len = lengths.iter().sum::<i32>() as u64 * 2;
        let opened = idx(lengths, &boundaries).opened(bin_len, Split::windows(4));
        assert_eq!(opened.as_ref().ok().map(Dataset::len), windows, "{opened:?}");
    }
}

#[test]
fn sequences_may_lie_anywhere_but_then_only_documents_are_told() {
    // The second sequence lies before the first, the third behind that.
    let scattered = Idx { pointers: vec![4, 0, 10, 4], ..idx(&[3, 2, 1, 1], &[0, 2, 4, 4]) };
    let megatron = scattered.opened(12, Split::Documents).unwrap();
    let found = [0, 1, 2].map(|i| ranges(&megatron, i));
    assert_eq!(found, [vec![(4, 6), (0, 4)], vec![(10, 2), (4, 2)], vec![]]);
    assert_sound(&megatron);
    let in_turn = Idx { pointers: vec![4, 10, 0], ..idx(&[3, 1, 2], &[0, 2, 3]) };
    let megatron = in_turn.opened(12, Split::Documents).unwrap();
    assert_eq!(ranges(&megatron, 0), [(4, 8)], "what is adjacent is one range");
    let error = scattered.opened(12, Split::windows(1)).unwrap_err();
    assert!(matches!(error.fault, DatasetFault::Unsupported { .. }), "{error}");
    assert_eq!(error.offset, Some(34 + 4 * 4 + 8), "{error}");
}

#[test]
fn an_index_and_a_bin_that_do_not_belong_together_are_refused() {
    let sound = idx(&[3, 2, 4], &[0, 2, 3]);
    let longer = sound.refused(20);
    assert!(longer.to_string().contains("2 bytes follow") && longer.to_string().contains("x.idx"), "{longer}");
    let shorter = sound.refused(16);
    assert!(shorter.to_string().contains("sequence 2 of 4 tokens at 10") && shorter.to_string().contains("x.bin"));
}

#[test]
fn tables_that_break_the_rules_are_refused_where_they_do() {
    let sound = idx(&[3, 2, 4], &[0, 2, 3]);
    let (lengths, pointers, boundaries) = (34, 34 + 12, 34 + 36);
    for (broken, offset) in [
        (Idx { version: 2, ..sound.clone() }, 9),
        (Idx { code: 0, ..sound.clone() }, 17),
        (Idx { code: 9, ..sound.clone() }, 17),
        (Idx { lengths: vec![3, -1, 4], ..sound.clone() }, lengths + 4),
        (Idx { lengths: vec![3, i32::MAX, 4], ..sound.clone() }, pointers + 8),
        (Idx { pointers: vec![0, -2, 10], ..sound.clone() }, pointers + 8),
        (Idx { pointers: vec![0, i64::MAX, 10], ..sound.clone() }, pointers + 8),
        (Idx { pointers: vec![0, 7, 10], ..sound.clone() }, pointers + 8),
        (Idx { boundaries: vec![], ..sound.clone() }, 26),
        (Idx { boundaries: vec![1, 3], ..sound.clone() }, boundaries),
        (Idx { boundaries: vec![0, 2], ..sound.clone() }, boundaries + 8),
        (Idx { boundaries: vec![0, 2, 1, 3], ..sound.clone() }, boundaries + 16),
        (Idx { boundaries: vec![0, 4, 3], ..sound.clone() }, boundaries + 8),
        (Idx { boundaries: vec![0, -1, 3], ..sound.clone() }, boundaries + 8),
        (Idx { modes: vec![0], ..sound.clone() }, 34 + 36 + 24),
    ] {
        assert_eq!(broken.refused(18).offset, Some(offset), "{}", broken.refused(18));
    }
    assert!(Idx { modes: vec![0, 1, 0], ..sound }.opened(18, Split::Documents).is_ok());
}

#[test]
fn tables_may_not_claim_more_than_there_is() {
    let sound = idx(&[3, 2, 4], &[0, 2, 3]).bytes();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x.idx");
    fs::write(path.with_extension("bin"), [0; 18]).unwrap();
    for at in [18, 26] {
        for claimed in [1 << 32, 1 << 62, u64::MAX] {
            let mut bytes = sound.clone();
            bytes[at..at + 8].copy_from_slice(&claimed.to_le_bytes());
            fs::write(&path, bytes).unwrap();
            let error = Megatron::open(std::slice::from_ref(&path), Split::Documents).unwrap_err();
            assert!(matches!(error.fault, DatasetFault::Truncated { .. }), "{error}");
        }
    }
    fs::write(&path, b"TNTIDX\0\0 and more").unwrap();
    let error = Megatron::open(std::slice::from_ref(&path), Split::Documents).unwrap_err();
    assert!(matches!(error.fault, DatasetFault::Unsupported { .. }), "{error}");
    assert!(looks_like(&sound) && !looks_like(b"TNTIDX\0\0") && !looks_like(b"MMIDIDX\0"));
}

/// Merged from three shards, the boundaries are those of each, one after the other.
#[test]
fn pairs_go_on_from_one_to_the_next_whichever_file_is_given() {
    let folder = tempfile::tempdir().unwrap();
    let shards = [(&[1, 2][..], &[0, 1, 2][..]), (&[3], &[0, 1]), (&[4, 5], &[0, 2])];
    let mut paths: Vec<PathBuf> = Vec::new();
    for (i, (lengths, boundaries)) in shards.iter().enumerate() {
        let len = lengths.iter().sum::<i32>() as u64 * 2;
        let idx = idx(lengths, boundaries).written(folder.path(), &i.to_string(), len);
        paths.extend([idx.with_extension("bin"), idx]);
    }
    let both = Megatron::open(&paths, Split::Documents).unwrap();
    assert_eq!((both.len(), both.files().len()), (4, 3));
    let lengths: Vec<u64> = (0..4).map(|i| both.sample(i).unwrap().tensors()[0].shape[0]).collect();
    assert_eq!(lengths, [1, 2, 3, 9]);
    assert_sound(&both);
    paths.retain(|path| path.extension().unwrap() == "bin");
    let bins = Megatron::open(&paths, Split::Documents).unwrap();
    assert_eq!(bins.fingerprint(), both.fingerprint());

    let other = Idx { code: 1, pointers: vec![0], ..idx(&[2], &[0, 1]) }.written(folder.path(), "other", 2);
    let error = Megatron::open(&[paths[0].clone(), other.clone()], Split::Documents).unwrap_err();
    assert_eq!(error.path, other);
    fs::remove_file(other.with_extension("bin")).unwrap();
    let error = Megatron::open(std::slice::from_ref(&other), Split::Documents).unwrap_err();
    assert_eq!(error.path, other.with_extension("bin"), "the file that is missing");
}

#[test]
fn another_index_is_another_dataset() {
    let folder = tempfile::tempdir().unwrap();
    let path = idx(&[3, 2], &[0, 1, 2]).written(folder.path(), "x", 10);
    let open = || Megatron::open(std::slice::from_ref(&path), Split::Documents).unwrap().fingerprint();
    let before = open();
    fs::write(&path, idx(&[2, 3], &[0, 1, 2]).bytes()).unwrap();
    assert_ne!(before, open());
}

/// Documents past 2^32 bytes, and ones whose number of bytes does not fit into 32 bits.
#[test]
fn tokens_beyond_4_gib_are_found() {
    let billion = 1_000_000_000;
    let long = idx(&[billion, billion, billion, 5], &[0, 3, 4]);
    let bin_len = 6_000_000_010;
    let documents = long.opened(bin_len, Split::Documents).unwrap();
    assert_eq!(ranges(&documents, 1), [(6_000_000_000, 10)]);
    assert_eq!(ranges(&documents, 0), [(0, 6_000_000_000)]);
    assert_sound(&documents);
    let windows = long.opened(bin_len, Split::windows(4)).unwrap();
    assert_eq!(windows.len(), 3_000_000_004 / 4);
    assert_eq!(ranges(&windows, 750_000_000), [(6_000_000_000, 10)]);
    assert_sound(&windows);
}

#[test]
fn blocks_of_a_table_follow_one_another() {
    let lengths: Vec<i32> = (0..200_000).map(|i| i % 3).collect();
    let boundaries: Vec<i64> = (0..=200_000).collect();
    let megatron = idx(&lengths, &boundaries).opened(lengths.iter().sum::<i32>() as u64 * 2, Split::Documents).unwrap();
    let mut at = 0;
    for (i, &tokens) in lengths.iter().enumerate() {
        let range = megatron.sample(i as u64).unwrap().ranges()[0];
        assert_eq!((range.offset, range.len), (at, tokens as u64 * 2));
        at += range.len;
    }
}

#[test]
fn no_beginning_of_an_index_opens() {
    let with_bin = |paths: &[PathBuf], split| {
        fs::write(paths[0].with_extension("bin"), [0; 18]).unwrap();
        Megatron::open(paths, split)
    };
    let sound = idx(&[3, 2, 4], &[0, 2, 3]).bytes();
    assert_no_beginning_opens(&sound, "x.idx", |paths| with_bin(paths, Split::Documents));
    assert_no_beginning_opens(&sound, "x.idx", |paths| with_bin(paths, Split::windows(2)));
}

#[test]
fn no_beginning_of_a_bin_opens() {
    let index = idx(&[3, 2, 4], &[0, 2, 3]).bytes();
    assert_no_beginning_opens(&[0; 18], "x.bin", |paths| {
        fs::write(paths[0].with_extension("idx"), &index).unwrap();
        let opened = Megatron::open(paths, Split::Documents);
        // The index is to blame as much as the file that was cut.
        opened.map_err(|error| DatasetError { path: paths[0].clone(), ..error })
    });
}

#[test]
fn damaged_indices_are_refused_or_sound() {
    let scattered = Idx { pointers: vec![4, 0, 10], ..idx(&[3, 2, 4], &[0, 2, 3]) };
    let sound = [idx(&[3, 2, 4], &[0, 2, 3]).bytes(), scattered.bytes(), idx(&[9], &[0, 1]).bytes()];
    for split in [Split::Documents, Split::windows(4)] {
        assert_damage_is_survived(&sound, "x.idx", 2000, |paths| {
            fs::write(paths[0].with_extension("bin"), [0; 18]).unwrap();
            let opened = Megatron::open(paths, split);
            opened.map_err(|error| DatasetError { path: paths[0].clone(), ..error })
        });
    }
}

/// A few hundred steps for each sequence at most. Tests mostly are not optimised, and count fewer.
#[test]
fn the_work_of_opening_a_large_index_grows_with_its_length() {
    let count: u32 = if cfg!(debug_assertions) { 1_000_000 } else { 10_000_000 };
    let lengths = vec![100; count as usize];
    let boundaries: Vec<i64> = (0..=i64::from(count)).collect();
    let folder = tempfile::tempdir().unwrap();
    let path = idx(&lengths, &boundaries).written(folder.path(), "x", u64::from(count) * 200);
    for split in [Split::Documents, Split::windows(1024)] {
        let megatron =
            within(count / 5000, "a large index", || Megatron::open(std::slice::from_ref(&path), split).unwrap());
        eprintln!("{count} sequences of {split:?}: {} samples", megatron.len());
    }
}

/// Holes read as sequences and documents of nothing: neither their walk nor their table may go on to the end.
#[test]
fn indices_of_nothing_are_refused_soon_and_a_few_million_empty_documents_are_not() {
    const MANY: u64 = 1 << 31;
    let folder = tempfile::tempdir().unwrap();
    let idx = folder.path().join("x.idx");
    fs::write(folder.path().join("x.bin"), [0; 20]).unwrap();
    for (sequences, boundaries) in [(MANY, 2), (0, MANY), (MANY, MANY)] {
        let mut head = b"MMIDIDX\0\0".to_vec();
        head.extend(1_u64.to_le_bytes());
        head.push(8);
        head.extend([sequences, boundaries].map(u64::to_le_bytes).as_flattened());
        let file = fs::File::create(&idx).unwrap();
        let len = 34 + sequences * 12 + boundaries * 8;
        file.set_len(len).unwrap();
        file.write_all_at(&head, 0).unwrap();
        file.write_all_at(&sequences.to_le_bytes(), len - 8).unwrap();
        for split in [Split::Documents, Split::windows(1)] {
            let error =
                within(500, "an index of nothing", || Megatron::open(std::slice::from_ref(&idx), split).unwrap_err());
            // A machine may have no room for so long a table either.
            let said = error.to_string();
            assert!(["are empty", "not fit into memory"].iter().any(|it| said.contains(it)), "{said}");
            assert!(error.offset.is_some_and(|at| at < len), "{error}");
        }
    }
    let sparse = self::idx(&[10], &[&vec![0; 1 << 20][..], &[1]].concat());
    assert_eq!(sparse.opened(20, Split::Documents).unwrap().len(), 1 << 20);
}
