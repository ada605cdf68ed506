//! The corpus: every file that breaks a rule is refused, and every sound one opens, in no time; and nothing that is done
//! to any of them makes a panic.
use std::path::{Path, PathBuf};
use std::sync::Arc;

use forebay::Loader;
use forebay::dataset::{self, Dataset, OpenOptions};
use forebay::pack::{PackOptions, pack};
use proptest::prelude::*;
use proptest::sample::Index;

use crate::common::work::within;
use crate::common::{self, effort};

fn folder(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/formats/corpus").join(name)
}

/// All but the second files of pairs.
fn files(name: &str) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder(name)).unwrap().map(|entry| entry.unwrap().path());
    let mut files: Vec<PathBuf> = entries.filter(|path| path.extension().is_none_or(|ext| ext != "bin")).collect();
    files.sort();
    files
}

fn open(path: &Path) -> Result<Box<dyn Dataset>, forebay::dataset::DatasetError> {
    within(100, &path.display().to_string(), || dataset::open(&[path], &OpenOptions::new()))
}

#[test]
fn files_that_break_a_rule_are_refused_with_path_and_reason() {
    let refused = files("refused");
    assert!(refused.len() > 60, "{}", refused.len());
    for path in refused {
        let error = open(&path).map(|it| it.len()).expect_err(&path.display().to_string());
        let said = error.to_string();
        // Of a pair, either file may be the one to blame.
        assert!(said.starts_with(path.with_extension("").to_str().unwrap()), "{said}");
        assert!(said.contains("; ") && !said.contains('\n'), "{said}");
    }
}

#[test]
fn sound_files_that_look_odd_open() {
    for path in files("accepted") {
        let opened = open(&path).unwrap_or_else(|error| panic!("{error}"));
        for index in 0..opened.len() {
            let sample = opened.sample(index).unwrap();
            for (spec, ranges) in sample.fields() {
                assert_eq!(spec.bytes(), Some(ranges.iter().map(|range| range.len).sum()), "{}", path.display());
            }
        }
    }
}

/// What their checksums show, which opening does not look at.
#[test]
fn files_whose_data_is_damaged_open_and_are_neither_read_nor_packed() {
    let damaged = files("damaged");
    assert!(damaged.len() > 3, "{}", damaged.len());
    for path in damaged {
        let dataset: Arc<dyn Dataset> = open(&path).unwrap_or_else(|error| panic!("{error}")).into();
        let mut loader = Loader::builder(Arc::clone(&dataset)).budget(1 << 20).build().unwrap();
        let read = loader.blocking().find_map(Result::err).expect("a damaged file is read").to_string();
        let out = common::folder();
        let packed = pack(&dataset, &out.path().join("out"), &PackOptions::new()).unwrap_err().to_string();
        for said in [read, packed] {
            assert!(said.starts_with(&format!("{} at ", path.display())), "{said}");
        }
        assert!(!out.path().join("out").exists());
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: effort::of(500, 4000), failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn damage_to_any_of_them_is_an_error_or_sound(
        file: Index,
        edits in prop::collection::vec((any::<Index>(), prop_oneof![
            prop::collection::vec(any::<u8>(), 1..9),
            prop::sample::select(vec![u64::MAX, 1 << 63, 1 << 32, 0x7fff_ffff, 0]).prop_map(|n| n.to_le_bytes().to_vec()),
        ]), 1..4),
        cut in prop::option::of(any::<Index>()),
    ) {
        let all: Vec<PathBuf> = ["accepted", "damaged", "refused"].into_iter().flat_map(files).collect();
        let path = &all[file.index(all.len())];
        let mut bytes = std::fs::read(path).unwrap();
        for (at, new) in edits.iter().filter(|_| !bytes.is_empty()).map(|(at, new)| (at.index(bytes.len()), new)).collect::<Vec<_>>() {
            for (byte, new) in bytes[at..].iter_mut().zip(new) {
                *byte = *new;
            }
        }
        if let Some(cut) = cut.filter(|_| !bytes.is_empty()) {
            bytes.truncate(cut.index(bytes.len()));
        }
        let home = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        let damaged = home.path().join(path.file_name().unwrap());
        std::fs::write(&damaged, bytes).unwrap();
        let tokens = path.with_extension("bin");
        if tokens.exists() {
            std::fs::copy(tokens, damaged.with_extension("bin")).unwrap();
        }
        if let Ok(opened) = open(&damaged) {
            for index in (0..opened.len()).take(20) {
                for range in opened.sample(index).unwrap().ranges() {
                    let file = &opened.files()[range.file as usize];
                    prop_assert!(range.offset.checked_add(range.len).is_some_and(|end| end <= file.len()));
                }
            }
        }
    }
}
