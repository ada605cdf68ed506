//! Samples that lack a field: an error that names them, left out and counted, or rows that say that they are absent. What is
//! in the archives is what these tests write into them.
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use forebay::dataset::{Concat, DType, Dataset, Mixture, OpenOptions, Subset, TarIndex, TensorSpec, WebDataset, open};
use forebay::loader::LoaderFault;
use forebay::loader::transform::{Output, Sample, Transform, TransformError};
use forebay::pack::{PackOptions, pack};
use forebay::{Batch, Error, Loader, LoaderBuilder, LoaderError, Missing, Ragged, Remainder, World};

use crate::common::folder;
use crate::common::watchdog::guarded;
use crate::heard;
use crate::transforms::Copied;

fn image(i: u64) -> Vec<u8> {
    vec![i as u8; 1 + (i as usize * 37) % 90]
}

fn label(i: u64) -> Vec<u8> {
    format!("{:03}", i * i % 1000).into_bytes()
}

/// An archive of images and labels, without the labels of some.
fn archive(path: &Path, samples: u64, lacking: &[u64]) -> PathBuf {
    let mut members = Vec::new();
    for i in 0..samples {
        members.push((format!("{i:06}.jpg"), image(i)));
        if !lacking.contains(&i) {
            members.push((format!("{i:06}.cls"), label(i)));
        }
    }
    std::fs::write(path, crate::formats::tar(&members)).unwrap();
    path.to_owned()
}

fn opened(paths: &[PathBuf]) -> Arc<dyn Dataset> {
    Arc::new(WebDataset::open(paths, TarIndex::Memory).unwrap())
}

fn builder(dataset: &Arc<dyn Dataset>, batch_size: u64) -> LoaderBuilder {
    Loader::builder(Arc::clone(dataset)).batch_size(batch_size).budget(4 << 20).workers(1)
}

/// All batches, and the error that they end with.
fn batches(builder: LoaderBuilder) -> (Vec<Batch>, Option<LoaderError>) {
    let mut loader = builder.build().unwrap();
    guarded("batches", move || {
        let (mut got, mut error) = (Vec::new(), None);
        for batch in loader.blocking() {
            match batch {
                Ok(batch) => got.push(batch),
                Err(end) => error = Some(end),
            }
        }
        (got, error)
    })
}

/// Every label lies in the row of its picture, and rows that lack one say so.
fn is_sound(batch: &Batch, lacking: &[u64], ragged: Ragged) {
    let (images, labels) = (batch.tensor("jpg").unwrap(), batch.tensor("cls").unwrap());
    let indices = batch.indices();
    assert_eq!((images.rows(), labels.rows()), (batch.len(), batch.len()));
    let offsets: Vec<usize> = labels.offsets().collect();
    assert_eq!(offsets.len(), batch.len() + 1);
    for (row, index) in indices.iter().enumerate() {
        assert_eq!(images.row(row), Some(&image(*index)[..]), "the picture of sample {index}");
        let want = (!lacking.contains(index)).then(|| label(*index));
        assert_eq!(labels.row(row), want.as_deref(), "the label of sample {index}");
        assert_eq!(labels.row_to_host(row).unwrap(), want);
        assert_eq!((labels.is_present(row), labels.row_shape(row).is_some()), (want.is_some(), want.is_some()));
        let place = &labels.host().unwrap()[offsets[row]..offsets[row + 1]];
        match (&want, ragged) {
            (Some(want), _) => assert_eq!(&place[..want.len()], want),
            (None, Ragged::Padded) => assert!(place.iter().all(|&byte| byte == 0), "{place:?}"),
            (None, _) => assert!(place.is_empty(), "{place:?}"),
        }
    }
    let present: Vec<bool> = indices.iter().map(|index| !lacking.contains(index)).collect();
    assert_eq!(labels.present().collect::<Vec<_>>(), present);
    assert!(!labels.is_present(batch.len()));
    if ragged == Ragged::Padded {
        assert_eq!(labels.shape().unwrap()[0], batch.len() as u64);
    }
}

#[test]
fn a_missing_field_is_an_error_that_names_sample_shard_and_field() {
    let folder = folder();
    // One of a batch, all of a batch, all of the first one, and the last of all.
    let some: [&[u64]; 4] = [&[21], &[16, 17, 18, 19, 20, 21, 22, 23], &[0, 1, 2, 3, 4, 5, 6, 7], &[63]];
    for (case, lacking) in some.into_iter().enumerate() {
        let path = archive(&folder.path().join(format!("{case}.tar")), 64, lacking);
        let dataset = opened(std::slice::from_ref(&path));
        for ragged in [Ragged::Packed, Ragged::Padded] {
            for transformed in [false, true] {
                let builder = builder(&dataset, 8).ragged(ragged);
                let builder = if transformed { builder.map(Copied) } else { builder };
                let (got, error) = batches(builder);
                let error = error.unwrap_or_else(|| panic!("{lacking:?}: {} batches and no error", got.len()));
                let said = error.to_string();
                assert_eq!(error.sample, Some(format!("{:06}", lacking[0])), "{said}");
                assert_eq!((got.len() as u64, error.batch), (lacking[0] / 8, lacking[0] / 8), "{said}");
                let count = format!("which {} of 64 samples have", 64 - lacking.len());
                for part in [path.to_str().unwrap(), " at ", "cls", &count] {
                    assert!(said.contains(part), "no {part}: {said}");
                }
                assert!(matches!(error.fault, LoaderFault::Dataset(_)), "{said}");
                got.iter().for_each(|batch| is_sound(batch, &[], ragged));
            }
        }
    }
}

#[test]
fn where_absence_is_allowed_rows_keep_their_place_and_say_that_they_are_absent() {
    let folder = folder();
    let lacking = [0, 1, 2, 3, 4, 5, 6, 7, 21, 40, 63];
    let dataset = opened(&[archive(&folder.path().join("x.tar"), 64, &lacking)]);
    for ragged in [Ragged::Packed, Ragged::Padded] {
        for transformed in [false, true] {
            let builder = builder(&dataset, 8).ragged(ragged).missing(Missing::Allow).epochs(2);
            let builder = if transformed { builder.map(Copied) } else { builder };
            let (got, error) = batches(builder);
            assert!(error.is_none(), "{error:?}");
            assert_eq!(got.len(), 16);
            got.iter().for_each(|batch| is_sound(batch, &lacking, ragged));
        }
    }
}

#[test]
fn samples_that_lack_a_field_are_left_out_counted_and_warned_of_once() {
    heard::listen();
    let folder = folder();
    let lacking: BTreeSet<u64> = [0, 1, 2, 3, 4, 5, 21, 40, 41, 59].into();
    let list: Vec<u64> = lacking.iter().copied().collect();
    let path = archive(&folder.path().join("left-out.tar"), 60, &list);
    let dataset = opened(std::slice::from_ref(&path));
    for (batch_size, (rank, size)) in [(3, (0, 1)), (8, (0, 1)), (7, (2, 7)), (4, (6, 7)), (64, (0, 1))] {
        let what = format!("batches of {batch_size}, rank {rank} of {size}");
        let made = || {
            let world = World::new(rank, size).unwrap();
            builder(&dataset, batch_size).world(world).remainder(Remainder::Pad).epochs(2)
        };
        // What comes where nothing is left out, without those.
        let (whole, _) = batches(made().missing(Missing::Allow));
        let mut want = Vec::new();
        for batch in &whole {
            let real = batch.len() - batch.padded() as usize;
            let kept = |rows: std::ops::Range<usize>| {
                rows.map(|row| batch.indices()[row]).filter(|index| !lacking.contains(index)).collect::<Vec<u64>>()
            };
            let (first, repeated) = (kept(0..real), kept(real..batch.len()));
            if !first.is_empty() || !repeated.is_empty() {
                want.push((batch.epoch(), batch.number(), repeated.len() as u64, [first, repeated].concat()));
            }
        }
        let times = whole.iter().flat_map(|batch| batch.indices()).filter(|index| lacking.contains(index)).count();
        drop(whole);
        let place = |batch: &Batch| (batch.epoch(), batch.number(), batch.padded(), batch.indices().to_vec());
        let mut loader = made().missing(Missing::Skip).build().unwrap();
        let monitor = loader.monitor();
        let (got, states) = guarded(&what, move || {
            let (mut got, mut states) = (Vec::new(), vec![loader.state()]);
            for batch in loader.blocking() {
                let batch = batch.unwrap();
                is_sound(&batch, &[], Ragged::Packed);
                got.push(place(&batch));
                states.push(batch.state());
            }
            (got, states)
        });
        assert_eq!(got, want, "{what}");
        let stats = monitor.stats();
        assert_eq!((stats.missing, stats.skipped), (times as u64, 0), "{what}");
        // Wherever it is resumed the same comes behind it.
        for (given, state) in states.into_iter().enumerate() {
            let (rest, error) = batches(made().missing(Missing::Skip).resume(state));
            assert!(error.is_none(), "{what}: {error:?}");
            assert_eq!(rest.iter().map(place).collect::<Vec<_>>(), want[given..], "{what}, resumed behind {given}");
        }
    }
    let (got, _) = batches(builder(&dataset, 8).missing(Missing::Skip).seed(1234));
    assert_eq!(got.iter().map(Batch::len).sum::<usize>(), 50);
    let once = archive(&folder.path().join("warned-once.tar"), 60, &list);
    batches(builder(&opened(std::slice::from_ref(&once)), 8).missing(Missing::Skip).epochs(3));
    let warnings = heard::warnings(once.to_str().unwrap());
    assert_eq!(warnings.len(), 1, "{warnings:?}");
    assert!(warnings[0].contains("sample 000000") && warnings[0].contains("cls"), "{warnings:?}");
}

/// As where a README lies in an archive: it is a sample with a field that no other has.
#[test]
fn an_epoch_of_which_every_sample_is_left_out_is_an_error() {
    let folder = folder();
    let path = folder.path().join("x.tar");
    let members = (0..9).map(|i| (format!("{i}.jpg"), vec![i])).chain([("README.txt".into(), vec![1])]);
    std::fs::write(&path, crate::formats::tar(&members.collect::<Vec<_>>())).unwrap();
    let dataset = opened(&[path]);
    let (got, error) = batches(builder(&dataset, 4));
    let error = error.unwrap().to_string();
    assert!(got.is_empty() && error.contains("txt, which 1 of 10 samples have"), "{error}");
    for epochs in [Some(1), None] {
        let builder = builder(&dataset, 4).missing(Missing::Skip);
        let builder = if epochs.is_none() { builder.endless() } else { builder };
        let (got, error) = batches(builder);
        let error = error.unwrap();
        assert!(got.is_empty() && matches!(error.fault, LoaderFault::AllSkipped { .. }), "{error}");
        assert!(error.to_string().contains("all 10 samples"), "{error}");
    }
}

/// Fields that only some of a dataset's parts have.
#[test]
fn datasets_made_of_others_have_the_fields_of_all_their_parts() {
    let folder = folder();
    let whole = opened(&[archive(&folder.path().join("whole.tar"), 20, &[])]);
    let bare = opened(&[archive(&folder.path().join("bare.tar"), 20, &(0..20).collect::<Vec<_>>())]);
    let both = vec![Arc::clone(&bare), Arc::clone(&whole)];
    let concat: Arc<dyn Dataset> = Arc::new(Concat::new(both.clone()).unwrap());
    let weighted = |weights: [f64; 2]| -> Arc<dyn Dataset> {
        Arc::new(Mixture::new(both.iter().cloned().zip(weights).collect(), 40).unwrap())
    };
    for (what, dataset) in [("concat", &concat), ("mixture", &weighted([1.0, 1.0]))] {
        let (got, error) = batches(builder(dataset, 4));
        let error = error.unwrap();
        assert_eq!((got.len(), error.sample.as_deref()), (0, Some("0/000000")), "{what}: {error}");
        let (got, error) = batches(builder(dataset, 4).missing(Missing::Allow));
        assert!(error.is_none(), "{what}: {error:?}");
        for batch in &got {
            let labels = batch.tensor("cls").unwrap_or_else(|| panic!("{what}: a batch without labels"));
            let ids: Vec<String> = batch.ids().map(|id| id.into_owned()).collect();
            let has = ids.iter().map(|id| id.starts_with("1/"));
            assert_eq!(labels.present().collect::<Vec<_>>(), has.collect::<Vec<_>>(), "{what}");
        }
        let (got, _) = batches(builder(dataset, 4).missing(Missing::Skip));
        assert_eq!(got.iter().map(Batch::len).sum::<usize>(), 20, "{what}");
    }
    // Where no sample is of the other, nothing is missing.
    let (got, error) = batches(builder(&weighted([1.0, 0.0]), 4));
    assert!(error.is_none() && got.iter().all(|batch| batch.tensor("cls").is_none()), "{error:?}");
    let some = opened(&[archive(&folder.path().join("some.tar"), 20, &[3, 4])]);
    let picked: Arc<dyn Dataset> = Arc::new(Subset::new(Arc::clone(&some), vec![9, 0, 19]).unwrap());
    let (got, error) = batches(builder(&picked, 2));
    assert!(error.is_none() && got.len() == 2, "{error:?}");
    let slice: Arc<dyn Dataset> = Arc::new(Subset::slice(some, 0..20, 3).unwrap());
    assert_eq!(batches(builder(&slice, 2)).1.unwrap().sample.as_deref(), Some("000003"));
}

/// Packed samples are tensors by themselves: no row can move, and what is missing is so when they are read again.
#[test]
fn what_is_packed_lacks_the_same_fields() {
    let folder = folder();
    let source = opened(&[archive(&folder.path().join("x.tar"), 20, &[3, 11])]);
    let out = folder.path().join("packed");
    pack(&source, &out, &PackOptions::new().shard_bytes(400)).unwrap();
    let packed: Arc<dyn Dataset> = open(&[out], &OpenOptions::new()).unwrap().into();
    assert!(packed.files().len() > 1);
    let (_, error) = batches(builder(&packed, 4));
    assert_eq!(error.unwrap().sample.as_deref(), Some("000003"));
    for ragged in [Ragged::Packed, Ragged::Padded] {
        let (got, error) = batches(builder(&packed, 4).missing(Missing::Allow).ragged(ragged));
        assert!(error.is_none() && got.len() == 5, "{error:?}");
        got.iter().for_each(|batch| is_sound(batch, &[3, 11], ragged));
    }
}

/// Makes of every sample the tensor `out`, but not of those whose picture has fewer bytes than this.
struct Sometimes(u64);

impl Transform for Sometimes {
    fn specs(&self, input: &[TensorSpec], output: &mut Vec<TensorSpec>) -> Result<(), TransformError> {
        let image = input.iter().find(|spec| &*spec.name == "jpg").ok_or("there is no picture")?;
        output.push(TensorSpec::new("jpg", DType::U8, image.shape.clone()));
        if image.shape[0] >= self.0 {
            output.push(TensorSpec::new("out", DType::U8, [1]));
        }
        Ok(())
    }

    fn apply(&self, sample: &Sample<'_>, output: &mut Output<'_, '_>) -> Result<(), TransformError> {
        output.bytes(0).copy_from_slice(sample.named("jpg").unwrap_or_default());
        if output.len() > 1 {
            output.bytes(1)[0] = sample.index() as u8;
        }
        Ok(())
    }
}

#[test]
fn what_a_transform_does_not_make_of_a_sample_is_missing_too() {
    let folder = folder();
    let dataset = opened(&[archive(&folder.path().join("x.tar"), 30, &[])]);
    let short: Vec<u64> = (0..30).filter(|&i| (image(i).len() as u64) < 40).collect();
    assert!(short.len() > 3 && short.len() < 20, "{short:?}");
    let (_, error) = batches(builder(&dataset, 4).map(Sometimes(40)));
    let error = error.unwrap();
    assert!(matches!(error.fault, LoaderFault::Transform { .. }) && error.to_string().contains("out"), "{error}");
    let (got, error) = batches(builder(&dataset, 30).map(Sometimes(40)).missing(Missing::Allow));
    assert!(error.is_none(), "{error:?}");
    let out = got[0].tensor("out").unwrap();
    for (row, &index) in got[0].indices().iter().enumerate() {
        let want = (!short.contains(&index)).then(|| vec![index as u8]);
        assert_eq!(out.row(row), want.as_deref(), "sample {index}");
    }
}

/// Takes what has bytes, and keeps that it was asked of something else.
struct Careful(Arc<std::sync::atomic::AtomicBool>);

impl Transform for Careful {
    fn specs(&self, input: &[TensorSpec], output: &mut Vec<TensorSpec>) -> Result<(), TransformError> {
        if input.iter().any(|spec| spec.bytes() == Some(0)) {
            self.0.store(true, std::sync::atomic::Ordering::Relaxed);
        }
        output.extend_from_slice(input);
        Ok(())
    }

    fn apply(&self, sample: &Sample<'_>, output: &mut Output<'_, '_>) -> Result<(), TransformError> {
        (0..sample.len()).for_each(|i| output.bytes(i).copy_from_slice(sample.bytes(i)));
        Ok(())
    }
}

#[test]
fn a_transform_is_asked_of_samples_that_there_are() {
    let folder = folder();
    let dataset = opened(&[archive(&folder.path().join("x.tar"), 12, &[0, 7])]);
    let asked = Arc::default();
    let (got, error) = batches(builder(&dataset, 4).map(Careful(Arc::clone(&asked))).missing(Missing::Allow));
    assert!(error.is_none() && !asked.load(std::sync::atomic::Ordering::Relaxed), "{error:?}");
    got.iter().for_each(|batch| is_sound(batch, &[0, 7], Ragged::Packed));
}

/// What a dataset does not tell of cannot be a column of every batch.
#[test]
fn a_field_that_the_dataset_does_not_list_is_an_error_that_says_what_to_implement() {
    let folder = folder();
    let path = folder.path().join("x.bin");
    std::fs::write(&path, [7; 100]).unwrap();
    let dataset = crate::datasets::Told::shared(&[&path], 20, |index, sample| {
        crate::datasets::push(sample, 0, index, 1);
        if index == 9 {
            let range = forebay::dataset::FileRange { file: 0, offset: 50, len: 1 };
            sample.push(TensorSpec::new("y", DType::U8, [1]), [range]);
        }
        Ok(())
    });
    let (got, error) = batches(builder(&dataset, 4));
    let error = error.unwrap();
    assert_eq!((got.len(), error.sample.as_deref()), (2, Some("sample-9")), "{error}");
    assert!(error.to_string().contains("field y") && error.to_string().contains("Dataset::fields"), "{error}");
    let _ = Error::from(error);
}

/// A member that nobody meant to be there makes a field that all other samples lack. They are not what is wrong.
#[test]
fn of_a_field_that_few_samples_have_the_first_that_has_it_is_named() {
    let folder = folder();
    let path = folder.path().join("stray.tar");
    let pictures = (0..9).map(|i| (format!("{i}.jpg"), vec![i]));
    let members: Vec<_> = pictures.clone().chain([("6.txt".into(), b"!".to_vec())]).collect();
    let stray = |members: &[(String, Vec<u8>)]| {
        std::fs::write(&path, crate::formats::tar(members)).unwrap();
        batches(builder(&opened(std::slice::from_ref(&path)), 4)).1.unwrap()
    };
    let error = stray(&members);
    // Each member has a header and a block of data before it.
    let place = format!("the first of them 6 ({} at {})", path.display(), 9 * 1024 + 512);
    let said = error.to_string();
    for part in ["no field txt, which 1 of 9 samples have", &place, "remove it there", "--missing allow"] {
        assert!(said.contains(part), "no {part}: {said}");
    }
    assert!(!said.contains("skip or allow") && error.sample.as_deref() == Some("0"), "{said}");
    let said = stray(&pictures.chain([("README.md".into(), b"#".to_vec())]).collect::<Vec<_>>()).to_string();
    assert!(said.contains("no field md, which 1 of 10 samples have, the first of them README ("), "{said}");
}

#[test]
fn fields_that_differ_only_in_letter_case_are_named_beside_each_other() {
    let folder = folder();
    let path = folder.path().join("case.tar");
    let members: Vec<_> = ["0.jpg", "1.JPG", "2.jpg"].map(|name| (name.to_owned(), vec![1])).into();
    std::fs::write(&path, crate::formats::tar(&members)).unwrap();
    let dataset = opened(std::slice::from_ref(&path));
    let said = batches(builder(&dataset, 4)).1.unwrap().to_string();
    for part in ["no field JPG, which 1 of 3 samples have", "it has jpg, whose name differs only in letter case"] {
        assert!(said.contains(part), "no {part}: {said}");
    }
    let said = batches(builder(&dataset, 4).missing(Missing::Skip)).1.unwrap().to_string();
    assert!(said.contains(path.to_str().unwrap()), "{said}");
    let plain = opened(&[archive(&folder.path().join("plain.tar"), 4, &[1])]);
    assert!(!batches(builder(&plain, 4)).1.unwrap().to_string().contains("letter case"));
}

#[test]
fn where_most_samples_are_left_out_one_warning_says_so() {
    let folder = folder();
    for (name, lacking, warned) in [("most.tar", 7, 1), ("half.tar", 5, 0)] {
        let path = archive(&folder.path().join(name), 10, &(0..lacking).collect::<Vec<_>>());
        batches(builder(&opened(std::slice::from_ref(&path)), 4).missing(Missing::Skip).epochs(3));
        let path = path.to_str().unwrap();
        let warnings: Vec<_> = heard::warnings(path).into_iter().filter(|said| said.contains("most samples")).collect();
        assert_eq!(warnings.len(), warned, "{warnings:?}");
        for said in warnings {
            assert!(said.contains("7 of 10") && said.contains("field cls"), "{said}");
        }
    }
}
