//! Files that were sound until something happened to them, and what must hold of any that still opens.

use std::path::{Path, PathBuf};

use proptest::prelude::*;
use proptest::sample::Index;
use proptest::test_runner::TestRunner;

use crate::effort;
use crate::work::within;

use super::error::{DatasetError, DatasetFault};
use super::interface::Dataset;
use super::spec::FileRange;

/// One thing that happens to a file.
#[derive(Clone, Debug)]
enum Edit {
    Flip(Index, u8),
    Set(Index, u8),
    Insert(Index, Vec<u8>),
    Delete(Index, usize),
    /// So many bytes from one place are put before another.
    Duplicate(Index, usize, Index),
    /// A number of so many bytes that code is likely to get wrong, written over what is there.
    Number(Index, usize, u64),
    /// The same as digits.
    Digits(Index, &'static str),
    Cut(Index),
    /// Bytes behind the end.
    Append(Vec<u8>),
    /// The file once more behind itself and so many zeros, as `cat` joins files.
    Join(usize),
}

/// One to five edits.
fn edits() -> impl Strategy<Value = Vec<Edit>> {
    let at = any::<Index>;
    let number = prop_oneof![
        prop::sample::select(vec![0, 1, 2, 0x7fff, 0xfff8, 0xffff, 0x7fff_ffff, 0xffff_fff0, 0xffff_ffff]),
        prop::sample::select(vec![1 << 31, 1 << 32, 1 << 33, 1 << 63, i64::MAX as u64, u64::MAX, u64::MAX - 1]),
        0..300_u64,
        any::<u64>(),
    ];
    let digits = ["0", "-1", "2L", "8589934592", "9223372036854775807", "18446744073709551616", "(5)", "True", ">f4"];
    let edit = prop_oneof![
        (at(), 0..8_u8).prop_map(|(at, bit)| Edit::Flip(at, bit)),
        (at(), any::<u8>()).prop_map(|(at, byte)| Edit::Set(at, byte)),
        (at(), prop::collection::vec(any::<u8>(), 1..20)).prop_map(|(at, bytes)| Edit::Insert(at, bytes)),
        (at(), 1..40_usize).prop_map(|(at, len)| Edit::Delete(at, len)),
        (at(), 1..100_usize, at()).prop_map(|(from, len, to)| Edit::Duplicate(from, len, to)),
        (at(), prop::sample::select(vec![2, 4, 8]), number).prop_map(|(at, width, n)| Edit::Number(at, width, n)),
        (at(), prop::sample::select(digits.to_vec())).prop_map(|(at, digits)| Edit::Digits(at, digits)),
        at().prop_map(Edit::Cut),
        prop::collection::vec(any::<u8>(), 1..600).prop_map(Edit::Append),
        (0..3_usize, 0..600_usize).prop_map(|(blocks, more)| Edit::Join(blocks * 512 + more * (blocks % 2))),
    ];
    prop::collection::vec(edit, 1..=5)
}

/// What the edits make of a file.
fn edited(sound: &[u8], edits: &[Edit]) -> Vec<u8> {
    let mut bytes = sound.to_vec();
    for edit in edits {
        let len = bytes.len();
        let over = |bytes: &mut Vec<u8>, at: &Index, what: &[u8]| {
            let at = at.index(len);
            let end = (at + what.len()).min(len);
            bytes[at..end].copy_from_slice(&what[..end - at]);
        };
        match edit {
            _ if bytes.is_empty() => break,
            Edit::Flip(at, bit) => bytes[at.index(len)] ^= 1 << bit,
            Edit::Set(at, byte) => over(&mut bytes, at, &[*byte]),
            Edit::Insert(at, new) => drop(bytes.splice(at.index(len)..at.index(len), new.iter().copied())),
            Edit::Delete(at, count) => drop(bytes.drain(at.index(len)..(at.index(len) + count).min(len))),
            Edit::Duplicate(from, count, to) => {
                let piece = bytes[from.index(len)..(from.index(len) + count).min(len)].to_vec();
                bytes.splice(to.index(len)..to.index(len), piece);
            }
            Edit::Number(at, width, number) => over(&mut bytes, at, &number.to_le_bytes()[..*width]),
            Edit::Digits(at, digits) => over(&mut bytes, at, digits.as_bytes()),
            Edit::Cut(at) => bytes.truncate(at.index(len)),
            Edit::Append(junk) => bytes.extend_from_slice(junk),
            Edit::Join(zeros) if len < 1 << 20 => {
                let again = bytes.clone();
                bytes.resize(len + zeros, 0);
                bytes.extend(again);
            }
            Edit::Join(_) => {}
        }
    }
    bytes
}

/// What must hold of every dataset that opens: the places of its samples lie in its files, and hold what is said.
pub(crate) fn assert_sound(dataset: &dyn Dataset) {
    let len = dataset.len();
    let inside = |range: &FileRange| {
        let file = &dataset.files()[range.file as usize];
        assert!(range.offset.checked_add(range.len).unwrap() <= file.len(), "{range:?} is not in {file:?}");
    };
    let some = (0..len.min(40)).chain(len.saturating_sub(40)..len).chain([len / 2, len / 3].map(|i| i.min(len)));
    for index in some.filter(|&index| index < len) {
        let sample = dataset.sample(index).unwrap();
        for (spec, ranges) in sample.fields() {
            ranges.iter().for_each(inside);
            assert_eq!(spec.bytes(), Some(ranges.iter().map(|range| range.len).sum()), "{spec:?}");
        }
    }
    for index in [len, len.saturating_add(1), u64::MAX] {
        let refused = dataset.sample(index).expect_err("there is no such sample");
        assert!(matches!(refused.fault, DatasetFault::NoSample { .. }));
    }
    for stored in dataset.stored().take(100) {
        let stored = stored.unwrap();
        inside(&stored.range);
        assert_eq!(stored.spec.bytes(), Some(stored.range.len), "{stored:?}");
    }
    assert_eq!(dataset.fingerprint(), dataset.fingerprint());
}

/// Damages files of one kind in so many ways, or a quarter as many by default: each is refused, or opens as something sound,
/// for little work.
pub(crate) fn assert_damage_is_survived<D: Dataset>(
    sound: &[Vec<u8>],
    name: &str,
    cases: u32,
    open: impl Fn(&[PathBuf]) -> Result<D, DatasetError>,
) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(name);
    let cases = effort::of(cases / 4, cases);
    let config = ProptestConfig { cases, failure_persistence: None, ..ProptestConfig::default() };
    let damaged = (prop::sample::select(sound.to_vec()), edits()).prop_map(|(sound, edits)| edited(&sound, &edits));
    let ran = TestRunner::new(config).run(&damaged, |bytes| {
        std::fs::write(&path, &bytes).unwrap();
        match within(100, name, || open(std::slice::from_ref(&path))) {
            Ok(dataset) => assert_sound(&dataset),
            Err(error) => assert_names_file(&error, &path),
        }
        Ok(())
    });
    ran.unwrap_or_else(|failed| panic!("{failed}"));
}

/// Writes each beginning of `sound` to a file called `name` and opens it: none may open.
pub(crate) fn assert_no_beginning_opens<D>(
    sound: &[u8],
    name: &str,
    open: impl Fn(&[PathBuf]) -> Result<D, DatasetError>,
) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(name);
    for len in 0..sound.len() {
        std::fs::write(&path, &sound[..len]).unwrap();
        match open(std::slice::from_ref(&path)) {
            Ok(_) => panic!("{name} opened though only {len} of its {} bytes were there", sound.len()),
            Err(error) => assert_names_file(&error, &path),
        }
    }
    std::fs::write(&path, sound).unwrap();
    assert!(open(&[path]).is_ok(), "{name} opens whole");
}

/// An error is one line that tells the file, and ends with what to do.
fn assert_names_file(error: &DatasetError, path: &Path) {
    let said = error.to_string();
    assert!(error.path == path || error.path.as_os_str().is_empty(), "{said}");
    assert!(!said.contains('\n') && said.contains("; "), "{said}");
}
