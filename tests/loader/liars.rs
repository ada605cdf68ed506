//! Datasets and transforms of somebody's own that are wrong, or panic: an error that says so, never a hang, never other
//! bytes.
use std::sync::Arc;

use forebay::dataset::{
    Checksums, DType, Dataset, DatasetError, FileRange, SampleSpec, TarIndex, TensorSpec, WebDataset,
};
use forebay::loader::LoaderFault;
use forebay::{Error, LoaderError, Remainder, Shuffle, World};

use crate::common::watchdog::guarded;
use crate::common::work::within;
use crate::common::{data, folder};
use crate::datasets::{Told, push};
use crate::stream::{Setting, assert_same, drained, records};

const LEN: u64 = 40_000;

/// Forty samples of a thousand bytes, of which number 21 is told by `lie`.
fn lying(
    lie: impl Fn(&mut SampleSpec) -> Result<(), DatasetError> + Send + Sync + 'static,
) -> (tempfile::TempDir, Arc<dyn Dataset>) {
    let folder = folder();
    let path = folder.path().join("x.bin");
    data::write_dense(&path, 1, LEN).unwrap();
    let dataset = Told::shared(&[path], 40, move |index, sample| {
        if index == 21 {
            return lie(sample);
        }
        push(sample, 0, index * 1000, 1000);
        Ok(())
    });
    (folder, dataset)
}

/// What a loader of such a dataset ends with, behind the five batches before it.
fn told(what: &str, dataset: &Arc<dyn Dataset>) -> LoaderError {
    let mut errors = Vec::new();
    for workers in [0, 2] {
        let setting = Setting { shuffle: Shuffle::None, ..Setting::new(4) };
        let mut loader = setting.builder(dataset).workers(workers).build().unwrap();
        let (got, error) = guarded(what, move || drained(&mut loader));
        let error = error.unwrap_or_else(|| panic!("{what}: no error"));
        assert_eq!(got.len(), 5, "{what}: {error}");
        assert_eq!(got[4].rows[3][0].2, data::bytes(1, 19_000, 1000), "{what}");
        assert!(!error.to_string().contains('\n'), "{what}: {error}");
        errors.push(error);
    }
    errors.pop().unwrap()
}

fn range(file: u32, offset: u64, len: u64) -> FileRange {
    FileRange { file, offset, len }
}

#[test]
fn a_dataset_that_gives_other_places_than_there_are_is_told_so() {
    type Lie = fn(&mut SampleSpec);
    let lies: [(&str, Lie); 11] = [
        ("fewer bytes than the shape", |sample| {
            sample.push(TensorSpec::new("x", DType::U8, [1000]), [range(0, 0, 999)])
        }),
        ("more bytes than the shape", |sample| {
            sample.push(TensorSpec::new("x", DType::U8, [1000]), [range(0, 0, 1001)])
        }),
        ("no place", |sample| sample.push(TensorSpec::new("x", DType::U8, [1000]), [])),
        ("a file that is none", |sample| sample.push(TensorSpec::new("x", DType::U8, [9]), [range(1, 0, 9)])),
        ("the last file there can be", |sample| {
            sample.push(TensorSpec::new("x", DType::U8, [9]), [range(u32::MAX, 0, 9)])
        }),
        ("past the end", |sample| push(sample, 0, LEN - 10, 11)),
        ("far past the end", |sample| push(sample, 0, 1 << 40, 10)),
        ("past the end of numbers", |sample| push(sample, 0, u64::MAX - 5, 10)),
        ("more than there is memory", |sample| push(sample, 0, 0, 1 << 50)),
        ("all the numbers there are", |sample| push(sample, 0, 0, u64::MAX)),
        ("half a byte", |sample| sample.push(TensorSpec::new("x", DType::F4, [3]), [range(0, 0, 2)])),
    ];
    for (what, lie) in lies {
        let (_folder, dataset) = lying(move |sample| {
            lie(sample);
            Ok(())
        });
        let error = told(what, &dataset);
        assert!(!matches!(error.fault, LoaderFault::Died(_)), "{what}: {error}");
        assert_eq!(error.batch, 5, "{what}: {error}");
    }
}

/// Two tensors that together are more than numbers count.
#[test]
fn tensors_that_are_more_than_numbers_count_are_refused() {
    let folder = folder();
    let path = folder.path().join("x.bin");
    data::write_dense(&path, 1, LEN).unwrap();
    let dataset = Told::shared(&[path], 40, |index, sample| {
        let len = if index == 21 { u64::MAX } else { 1 };
        for (name, len) in [("x", len), ("y", len), ("z", 1)] {
            sample.push(TensorSpec::new(name, DType::U8, [len]), [range(0, 0, len)]);
        }
        Ok(())
    });
    // Of a batch that has this sample alone, too, where the first tensor ends where numbers do.
    for batch_size in [1, 4] {
        let setting = Setting { shuffle: Shuffle::None, ..Setting::new(batch_size) };
        let mut loader = setting.builder(&dataset).build().unwrap();
        let (_, error) = guarded("too many", move || drained(&mut loader));
        let error = error.unwrap();
        assert!(matches!(error.fault, LoaderFault::Fields { .. }), "{error}");
        assert_eq!(error.batch, 21 / batch_size, "{error}");
    }
}

/// The error names the sample, and what the panic said.
#[test]
fn a_dataset_that_panics_is_an_error_of_its_sample() {
    let (_folder, dataset) = lying(|_| panic!("as a dataset may"));
    let error = told("panics", &dataset);
    assert_eq!((error.sample.as_deref(), error.batch), (Some("sample-21"), 5), "{error}");
    assert!(error.to_string().contains("as a dataset may"), "{error}");
}

/// What is in the list already belongs to others.
#[test]
fn a_dataset_that_takes_out_what_others_put_in_harms_none_of_them() {
    let (_folder, dataset) = lying(|sample| {
        sample.clear();
        push(sample, 0, 21_000, 1000);
        Ok(())
    });
    for shuffle in [Shuffle::None, Shuffle::Full] {
        let setting = Setting { shuffle, ..Setting::new(4) };
        let mut loader = setting.builder(&dataset).build().unwrap();
        let (got, error) = guarded("clears", move || drained(&mut loader));
        assert!(error.is_none(), "{error:?}");
        assert_same(&got, &setting.expected(&*dataset).unwrap(), "a dataset that clears");
    }
}

/// Batches before it come, whatever the dataset's own error is.
#[test]
fn an_error_of_the_dataset_names_its_sample() {
    let (_folder, dataset) = lying(|_| Err(DatasetError::no_sample(21, 20)));
    let error = told("refuses", &dataset);
    assert!(matches!(error.fault, LoaderFault::Dataset(_)), "{error}");
    assert_eq!((error.sample.as_deref(), error.batch), (Some("sample-21"), 5), "{error}");
}

/// Checks what was read, and panics at one.
#[derive(Debug)]
struct Checks(Arc<dyn Dataset>);

impl Dataset for Checks {
    fn len(&self) -> u64 {
        self.0.len()
    }

    fn files(&self) -> &[forebay::dataset::DataFile] {
        self.0.files()
    }

    fn locate(&self, index: u64, sample: &mut SampleSpec) -> Result<(), DatasetError> {
        self.0.locate(index, sample)
    }

    fn fingerprint(&self) -> forebay::dataset::Fingerprint {
        self.0.fingerprint()
    }

    fn checksums(&self) -> Checksums {
        Checksums::Samples
    }

    fn check(&self, index: u64, _: &[&[u8]]) -> Result<(), DatasetError> {
        assert!(index != 21, "as a check may");
        Ok(())
    }
}

#[test]
fn a_check_that_panics_is_an_error_of_its_sample() {
    let folder = folder();
    let dataset: Arc<dyn Dataset> = Arc::new(Checks(records(folder.path(), "x", 1000, 40)));
    let setting = Setting { shuffle: Shuffle::None, ..Setting::new(4) };
    for workers in [0, 2] {
        let mut loader = setting.builder(&dataset).workers(workers).build().unwrap();
        let (got, error) = guarded("checks", move || drained(&mut loader));
        let error = error.unwrap();
        assert_same(&got, &setting.expected(&*dataset).unwrap()[..5], "before it");
        assert_eq!((error.sample.as_deref(), error.batch), (Some("21"), 5), "{error}");
        assert!(error.to_string().contains("as a check may"), "{error}");
    }
}

/// Row 122: at once, and when the loader is built.
#[test]
fn nothing_to_give_is_an_error_within_a_second() {
    let folder = folder();
    let path = folder.path().join("x.bin");
    std::fs::write(&path, [1; 99]).unwrap();
    let empty = Told::shared(&[&path], 0, |index, _| Err(DatasetError::no_sample(index, 0)));
    let archive = folder.path().join("empty.tar");
    std::fs::write(&archive, crate::formats::tar(&[])).unwrap();
    let archive: Arc<dyn Dataset> = Arc::new(WebDataset::open(&[archive], TarIndex::Memory).unwrap());
    let three = crate::stream::open_records(&[&path], 33);
    assert_eq!(three.len(), 3);
    let world = |rank, size| World::new(rank, size).unwrap();
    let one = Setting::new(4);
    let cases = [
        ("no samples", one, &empty),
        ("no members", one, &archive),
        ("no share of the rest", Setting { world: world(3, 4), remainder: Remainder::Uneven, ..one }, &three),
        ("nothing left of it", Setting { world: world(0, 4), remainder: Remainder::Drop, ..one }, &three),
        ("no full batch", Setting { drop_last: true, ..one }, &three),
        ("no samples of a batch", Setting { batch_size: 0, ..one }, &three),
    ];
    for (what, setting, dataset) in cases {
        for endless in [false, true] {
            let builder = setting.builder(dataset);
            let builder = if endless { builder.endless() } else { builder };
            let error = within(100, what, || builder.build().map(|_| ()).unwrap_err());
            let is_empty = dataset.is_empty();
            assert!(matches!(error, Error::Dataset(_)) == is_empty, "{what}: {error}");
            assert!(matches!(error, Error::Sampler(_)) != is_empty, "{what}: {error}");
        }
    }
}

/// Ids of archives are any bytes.
#[test]
fn an_id_of_several_lines_is_told_on_one() {
    let folder = folder();
    let path = folder.path().join("x.tar");
    let members = (0..9).map(|i| (format!("a\nb{i}.x"), vec![i]));
    std::fs::write(&path, crate::formats::tar(&members.collect::<Vec<_>>())).unwrap();
    let dataset: Arc<dyn Dataset> = Arc::new(WebDataset::open(&[path], TarIndex::Memory).unwrap());
    let refuses = forebay::loader::transform::Map::new([TensorSpec::new("x", DType::U8, [1])], |sample, _| {
        if sample.index() == 4 { Err("no".into()) } else { Ok(()) }
    });
    let mut loader = Setting::new(3).builder(&dataset).map(refuses).build().unwrap();
    let error = guarded("ids", move || drained(&mut loader)).1.unwrap();
    assert_eq!(error.sample.as_deref(), Some("a\nb4"));
    assert!(!error.to_string().contains('\n'), "{error}");
}
