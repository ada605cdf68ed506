//! The transforms of these tests, and some that are wrong.
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use forebay::dataset::{DType, TensorSpec};
use forebay::loader::LoaderFault;
use forebay::loader::transform::{Map, Output, Sample, Transform, TransformError};
use forebay::{LoaderBuilder, Remainder, World};

use crate::common::folder;
use crate::common::watchdog::guarded;
use crate::stream::{Setting, all, assert_same, drained, records};

/// A transform that changes nothing.
pub fn copied(
    bytes: u64,
) -> Map<impl Fn(&Sample<'_>, &mut Output<'_, '_>) -> Result<(), TransformError> + Send + Sync> {
    Map::new([TensorSpec::new("record", DType::U8, [bytes])], |sample, output| {
        output.bytes(0).copy_from_slice(sample.bytes(0));
        Ok(())
    })
}

/// Whatever a sample is, it stays.
pub struct Copied;

impl Transform for Copied {
    fn specs(&self, input: &[TensorSpec], output: &mut Vec<TensorSpec>) -> Result<(), TransformError> {
        output.extend_from_slice(input);
        Ok(())
    }

    fn apply(&self, sample: &Sample<'_>, output: &mut Output<'_, '_>) -> Result<(), TransformError> {
        (0..sample.len()).for_each(|i| output.bytes(i).copy_from_slice(sample.bytes(i)));
        Ok(())
    }
}

/// Adds one tensor, and takes out or changes what else is there.
#[derive(Clone, Copy)]
enum Rude {
    Clears,
    Looks,
}

impl Transform for Rude {
    fn specs(&self, input: &[TensorSpec], output: &mut Vec<TensorSpec>) -> Result<(), TransformError> {
        match self {
            Self::Clears => output.clear(),
            Self::Looks if output.is_empty() => {}
            Self::Looks => return Err("the output is empty, as was told".into()),
        }
        output.push(input[0].clone());
        Ok(())
    }

    fn apply(&self, sample: &Sample<'_>, output: &mut Output<'_, '_>) -> Result<(), TransformError> {
        output.bytes(0).copy_from_slice(sample.bytes(0));
        Ok(())
    }
}

/// The list that it adds to is empty, as its documentation tells.
#[test]
fn a_transform_sees_the_tensors_of_its_own_sample_alone() {
    let folder = folder();
    let dataset = records(folder.path(), "x", 1000, 40);
    let setting = Setting::new(4);
    for rude in [Rude::Clears, Rude::Looks] {
        let mut loader = setting.builder(&dataset).map(rude).build().unwrap();
        let (got, error) = guarded("rude", move || drained(&mut loader));
        assert!(error.is_none(), "{error:?}");
        assert_same(&got, &setting.expected(&*dataset).unwrap(), "a transform that clears");
    }
}

/// Tells specs that nobody can have, or panics while it does.
struct Claims(u64, Arc<AtomicBool>);

impl Transform for Claims {
    fn specs(&self, _: &[TensorSpec], output: &mut Vec<TensorSpec>) -> Result<(), TransformError> {
        assert!(self.0 > 0, "as specs may");
        output.push(TensorSpec::new("x", DType::F64, [self.0, self.0]));
        Ok(())
    }

    fn apply(&self, _: &Sample<'_>, _: &mut Output<'_, '_>) -> Result<(), TransformError> {
        self.1.store(true, Ordering::SeqCst);
        Ok(())
    }
}

#[test]
fn a_transform_that_makes_more_than_there_is_memory_is_refused() {
    let folder = folder();
    let dataset = records(folder.path(), "x", 1000, 40);
    for size in [0, 1 << 12, 1 << 31, 1 << 32, u64::MAX] {
        let applied = Arc::new(AtomicBool::new(false));
        let claims = Claims(size, Arc::clone(&applied));
        let mut loader = Setting::new(4).builder(&dataset).map(claims).build().unwrap();
        let (got, error) = guarded("claims", move || drained(&mut loader));
        let error = error.unwrap();
        assert!(got.is_empty() && !matches!(error.fault, LoaderFault::Died(_)), "{size}: {error}");
        assert!(!applied.load(Ordering::SeqCst));
    }
}

/// Row 99: every worker draws from what the sample is, whoever has it, and none from what another drew.
#[test]
fn random_numbers_are_of_sample_epoch_and_seed_whichever_worker_draws_them() {
    let folder = folder();
    let dataset = records(folder.path(), "x", 100, 60);
    let draws = || {
        Map::new([TensorSpec::new("drawn", DType::U64, [1])], |sample, output| {
            output.slice::<u64>(0)?[0] = sample.random();
            Ok(())
        })
    };
    let drawn = |builder: LoaderBuilder| {
        let loader = builder.epochs(3).map(draws()).build().unwrap();
        let mut numbers = BTreeMap::new();
        for batch in guarded("draws", move || all(loader)) {
            for (index, row) in batch.indices.iter().zip(&batch.rows) {
                let number = u64::from_le_bytes(row[0].2[..].try_into().unwrap());
                numbers.insert((batch.epoch, *index), number);
            }
        }
        numbers
    };
    let want: BTreeMap<(u64, u64), u64> = (0..3)
        .flat_map(|epoch| (0..60).map(move |index| (epoch, index)))
        .map(|(epoch, index)| ((epoch, index), Sample::new(&[], &[], index, epoch, 7).random()))
        .collect();
    assert_eq!(want.values().collect::<BTreeSet<_>>().len(), 180, "each another");
    for (workers, prefetch) in [(0, 1), (1, 20), (2, 1), (7, 20)] {
        let builder = || Setting::new(7).builder(&dataset).workers(workers).prefetch(prefetch);
        assert_eq!(drawn(builder()), want, "{workers} workers");
        assert_eq!(drawn(builder().skip_corrupt(1)), want, "{workers} workers, skipping");
        for rank in 0..2 {
            let share = drawn(builder().world(World::new(rank, 2).unwrap()).remainder(Remainder::Uneven));
            assert!(share.len() >= 3 * 28 && share.iter().all(|(of, number)| want[of] == *number), "rank {rank}");
        }
        let mut loader = builder().map(draws()).build().unwrap();
        loader.blocking().take(5).for_each(|batch| drop(batch.unwrap()));
        let rest = drawn(builder().resume(loader.state()));
        assert!(rest.len() == 180 - 35 && rest.iter().all(|(of, number)| want[of] == *number), "resumed");
        let other = drawn(builder().seed(8));
        assert!(other.len() == 180 && other.iter().all(|(of, number)| want[of] != *number), "another seed");
    }
}
