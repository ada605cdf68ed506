//! Samples of different shapes and fields: packed with offsets, or padded with zeros and nothing else.
use std::path::Path;
use std::sync::Arc;

use forebay::dataset::{DType, Dataset, TensorSpec};
use forebay::loader::LoaderFault;
use forebay::{Batch, Ragged, Shuffle};

use crate::common::folder;
use crate::common::watchdog::guarded;
use crate::made::{Made, Sample, sample, tensor, uniform, varying};
use crate::stream::{self, Setting, all, assert_same, drained};
use crate::transforms::Copied;

fn made(folder: &Path, samples: &[Sample]) -> Arc<dyn Dataset> {
    Arc::new(Made::new(folder, samples))
}

/// Offsets begin at 0, never fall, and delimit the rows; padding is zeros; rows are aligned for their type.
fn is_sound(batch: &Batch, ragged: Ragged) {
    for field in batch.tensors() {
        let (offsets, host): (Vec<usize>, _) = (field.offsets().collect(), field.host().unwrap());
        assert_eq!((offsets.len(), field.rows()), (batch.len() + 1, batch.len()));
        assert_eq!((offsets[0], offsets[batch.len()]), (0, host.len()));
        assert!(field.row(batch.len()).is_none() && field.row_shape(batch.len()).is_none());
        for row in 0..batch.len() {
            let place = &host[offsets[row]..offsets[row + 1]];
            assert_eq!(field.row(row).is_some(), field.row_shape(row).is_some());
            let bytes = field.row(row).unwrap_or_default();
            let (mine, padding) = place.split_at(bytes.len());
            assert!(mine == bytes && padding.iter().all(|&byte| byte == 0), "padding that is not zeros");
            let asked = field.row_shape(row).map_or(Some(0), |shape| shape.bytes(field.dtype()));
            assert_eq!(asked, Some(bytes.len() as u64));
            if ragged == Ragged::Packed {
                assert!(padding.is_empty(), "packed rows have no padding");
            }
        }
        if let Some(shape) = field.shape() {
            assert_eq!((shape[0], shape.bytes(field.dtype())), (batch.len() as u64, Some(host.len() as u64)));
        }
        if ragged == Ragged::Padded {
            assert!(field.shape().is_some(), "padded rows are one tensor");
        }
        assert!(host.is_empty() || (host.as_ptr() as usize).is_multiple_of(256));
    }
}

/// Through memory that other batches have lain in before, with and without a transform.
#[test]
fn rows_are_packed_or_padded_and_hold_their_bytes() {
    let folder = folder();
    for (name, samples) in [("varying", varying(150, 3000)), ("uniform", uniform(60)), ("tiny", varying(90, 3))] {
        let dataset = made(folder.path(), &samples);
        for ragged in [Ragged::Packed, Ragged::Padded] {
            for (transformed, batch_size) in [(false, 1), (false, 7), (true, 7), (false, 200)] {
                let what = format!("{name}, {ragged:?}, transformed {transformed}, batches of {batch_size}");
                let setting = Setting { epochs: 3, ..Setting::new(batch_size) };
                let builder = setting.builder(&dataset).ragged(ragged).budget(2 << 20);
                let builder = if transformed { builder.map(Copied) } else { builder };
                let mut loader = builder.build().unwrap();
                let got = guarded(&what, move || {
                    let batches = loader.blocking().map(|batch| {
                        let batch = batch.unwrap();
                        is_sound(&batch, ragged);
                        stream::taken(&batch)
                    });
                    batches.collect::<Vec<_>>()
                });
                assert_same(&got, &setting.expected(&*dataset).unwrap(), &what);
            }
        }
    }
}

/// Names in another order, twice in a sample, or in some samples only; and a sample of nothing.
#[test]
fn fields_are_told_by_name_whatever_their_order() {
    let folder = folder();
    let of = |i: u64, names: &[&str]| {
        let tensors = names.iter().zip(0..).map(|(name, k)| tensor(name, DType::U8, &[1 + (i + k) % 5], 100 * i + k));
        sample(i, tensors.collect::<Vec<_>>())
    };
    let kinds: [&[&str]; 6] = [&["a", "b"], &["b", "a"], &["a"], &[], &["c", "b", "a"], &["a", "a", "b", "a"]];
    let samples: Vec<Sample> = (0..60).map(|i| of(i, kinds[(i * i % 7 % 6) as usize])).collect();
    let dataset = made(folder.path(), &samples);
    for ragged in [Ragged::Packed, Ragged::Padded] {
        for transformed in [false, true] {
            let setting = Setting::new(8);
            let builder = setting.builder(&dataset).ragged(ragged);
            let builder = if transformed { builder.map(Copied) } else { builder };
            let mut loader = builder.build().unwrap();
            let batches: Vec<Batch> = guarded("fields", move || loader.blocking().map(Result::unwrap).collect());
            let got: Vec<_> = batches.iter().map(stream::taken).collect();
            assert_same(&got, &setting.expected(&*dataset).unwrap(), &format!("{ragged:?}"));
            for batch in &batches {
                is_sound(batch, ragged);
                let first = |name: &str| batch.tensors().position(|tensor| tensor.name() == name);
                if let Some(at) = first("a") {
                    let by_name = batch.tensor("a").unwrap().host().unwrap().as_ptr();
                    assert_eq!(
                        by_name,
                        batch.tensors().nth(at).unwrap().host().unwrap().as_ptr(),
                        "the first of a name"
                    );
                }
                assert!(batch.tensor("d").is_none());
            }
        }
    }
}

#[test]
fn samples_of_no_bytes_and_of_no_tensors_come_as_they_are() {
    let folder = folder();
    let empty = |i: u64| sample(i, [tensor("x", DType::I32, &[0, 3], 0)]);
    let nothing = |i: u64| sample(i, []);
    let one = |i: u64| sample(i, [tensor("x", DType::I32, &[1, 3], i)]);
    let kinds: [(&str, Vec<Sample>); 4] = [
        ("no bytes", (0..10).map(empty).collect()),
        ("no tensors", (0..10).map(nothing).collect()),
        ("a batch of no bytes", (0..12).map(|i| if (4..8).contains(&i) { empty(i) } else { one(i) }).collect()),
        ("all of it", (0..30).map(|i| [empty, nothing, one][(i % 3) as usize](i)).collect()),
    ];
    for (what, samples) in kinds {
        let dataset = made(folder.path(), &samples);
        for ragged in [Ragged::Packed, Ragged::Padded] {
            for transformed in [false, true] {
                for shuffle in [Shuffle::None, Shuffle::Full] {
                    let setting = Setting { shuffle, ..Setting::new(4) };
                    let builder = setting.builder(&dataset).ragged(ragged);
                    let builder = if transformed { builder.map(Copied) } else { builder };
                    let mut loader = builder.build().unwrap();
                    let (got, error) = guarded(what, move || drained(&mut loader));
                    assert!(error.is_none(), "{what}: {error:?}");
                    assert_same(&got, &setting.expected(&*dataset).unwrap(), what);
                }
            }
        }
    }
}

#[test]
fn a_batch_may_be_larger_than_the_dataset() {
    let folder = folder();
    let dataset = made(folder.path(), &varying(13, 500));
    for batch_size in [13, 14, 1 << 20, u64::MAX] {
        let setting = Setting { epochs: 3, ..Setting::new(batch_size) };
        let got = all(setting.builder(&dataset).build().unwrap());
        assert_eq!(got.len(), 3);
        assert_same(&got, &setting.expected(&*dataset).unwrap(), "one batch an epoch");
    }
}

#[test]
fn one_field_of_two_types_is_an_error_that_names_it() {
    let folder = folder();
    let of = |i: u64| sample(i, [tensor("x", if i == 21 { DType::I16 } else { DType::U8 }, &[2], i)]);
    let dataset = made(folder.path(), &(0..40).map(of).collect::<Vec<_>>());
    let setting = Setting { shuffle: Shuffle::None, ..Setting::new(4) };
    for transformed in [false, true] {
        let builder = setting.builder(&dataset);
        let builder = if transformed { builder.map(Copied) } else { builder };
        let mut loader = builder.build().unwrap();
        let (got, error) = guarded("types", move || drained(&mut loader));
        let error = error.unwrap();
        let said = error.to_string();
        assert!(matches!(error.fault, LoaderFault::Fields { .. }) && error.batch == 5, "{said}");
        assert!(said.contains("field x") && said.contains("I16") && said.contains("U8"), "{said}");
        assert_same(&got, &setting.expected(&*dataset).unwrap()[..5], "before it");
    }
}

/// Other dimensions than the first cannot be padded.
#[test]
fn rows_that_cannot_be_padded_are_an_error_that_says_how_they_differ() {
    let folder = folder();
    let cases: [(&[u64], &[u64]); 4] = [(&[2, 3], &[2, 4]), (&[2], &[2, 1]), (&[], &[3]), (&[4], &[])];
    for (usual, other) in cases {
        let of = |i: u64| sample(i, [tensor("x", DType::U8, if i == 21 { other } else { usual }, i)]);
        let dataset = made(folder.path(), &(0..40).map(of).collect::<Vec<_>>());
        let setting = Setting { shuffle: Shuffle::None, ..Setting::new(4) };
        let mut loader = setting.builder(&dataset).ragged(Ragged::Padded).build().unwrap();
        let (got, error) = guarded("padded", move || drained(&mut loader));
        let error = error.unwrap();
        assert!(matches!(error.fault, LoaderFault::Fields { .. }) && error.batch == 5, "{error}");
        assert_eq!(got.len(), 5);
        assert_eq!(all(setting.builder(&dataset).build().unwrap()).len(), 10, "packed they may be");
    }
}

/// Rows that a transform makes longer or shorter, padded: what it does not fill is zeros, whatever lay there.
#[test]
fn padding_behind_a_transform_is_zeros() {
    struct Doubled;
    impl forebay::loader::transform::Transform for Doubled {
        fn specs(
            &self,
            input: &[TensorSpec],
            output: &mut Vec<TensorSpec>,
        ) -> Result<(), forebay::loader::transform::TransformError> {
            output.push(TensorSpec::new("x", DType::U8, [2 * input[0].shape[0]]));
            Ok(())
        }

        fn apply(
            &self,
            sample: &forebay::loader::transform::Sample<'_>,
            output: &mut forebay::loader::transform::Output<'_, '_>,
        ) -> Result<(), forebay::loader::transform::TransformError> {
            let (to, from) = (output.bytes(0), sample.bytes(0));
            assert_eq!(to.len(), 2 * from.len(), "as long as was told, not as the row");
            to[..from.len()].copy_from_slice(from);
            to[from.len()..].copy_from_slice(from);
            Ok(())
        }
    }
    let folder = folder();
    let lens: Vec<u64> = (0..200).map(|i| i * 7919 % 4001).collect();
    let dataset = crate::datasets::lengths(folder.path(), &lens);
    let setting = Setting { epochs: 2, ..Setting::new(8) };
    let mut loader = setting.builder(&dataset).map(Doubled).ragged(Ragged::Padded).budget(1 << 20).build().unwrap();
    guarded("doubled", move || {
        for batch in loader.blocking() {
            let batch = batch.unwrap();
            is_sound(&batch, Ragged::Padded);
            for (row, &index) in batch.indices().iter().enumerate() {
                let once = stream::sample(&*dataset, index).remove(0).2;
                assert!(batch.tensor("x").unwrap().row(row).unwrap() == [once.clone(), once].concat());
            }
        }
    });
}
