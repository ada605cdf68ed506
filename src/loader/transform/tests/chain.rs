use std::collections::HashSet;
use std::sync::Mutex;
use std::thread;

use proptest::prelude::*;

use super::super::{Cast, Chain, Map, ShiftTokens, ToFloat};
use super::*;
use crate::dataset::DType;

fn passes() -> impl Transform {
    Cast::to(DType::U8).fields([""; 0])
}

/// The oracle: one transform, then the other.
fn one_by_one(first: &dyn Transform, second: &dyn Transform, sample: &[(TensorSpec, &[u8])]) -> Done {
    let between = run(first, sample).unwrap();
    let between: Vec<(TensorSpec, &[u8])> = between.iter().map(|(spec, bytes)| (spec.clone(), &bytes[..])).collect();
    run(second, &between).unwrap()
}

proptest! {
    #[test]
    fn a_chain_is_one_after_the_other(lens in prop::collection::vec(0_usize..70, 0..20), byte in any::<u8>()) {
        let chain = Chain::new(Cast::to(DType::I16), ToFloat::new().scale(0.5).mean([3.0]));
        let memory: Vec<Vec<u8>> = lens.iter().map(|len| (0..*len).map(|i| byte.wrapping_mul(i as u8)).collect()).collect();
        let sample: Vec<(TensorSpec, &[u8])> = memory
            .iter()
            .enumerate()
            .map(|(i, bytes)| (TensorSpec::new(i.to_string(), DType::U8, [bytes.len() as u64]), &bytes[..]))
            .collect();
        prop_assert_eq!(run(&chain, &sample).unwrap(), one_by_one(&chain_first(), &chain_second(), &sample));
    }
}

fn chain_first() -> impl Transform {
    Cast::to(DType::I16)
}

fn chain_second() -> impl Transform {
    ToFloat::new().scale(0.5).mean([3.0])
}

#[test]
fn what_is_between_two_transforms_is_aligned_and_used_again() {
    let places = Mutex::new(HashSet::new());
    let sees = Map::new([], |sample, _| {
        assert_eq!(sample.slice::<f64>(0)?.len(), 3);
        let places_now: Vec<usize> = (0..sample.len()).map(|i| sample.bytes(i).as_ptr().addr()).collect();
        assert!(places_now.iter().all(|place| place % 64 == 0), "{places_now:?}");
        assert!(places_now.windows(2).all(|pair| pair[0] < pair[1]));
        places.lock().unwrap().insert(places_now);
        Ok(())
    });
    let specs = [TensorSpec::new("x", DType::F64, [3]), TensorSpec::new("y", DType::U8, [1])];
    let fills = Map::new(specs.clone(), |_, output| {
        output.slice::<f64>(0)?.fill(1.0);
        output.bytes(1).fill(1);
        Ok(())
    });
    let chain = Chain::new(fills, &sees);
    for _ in 0..100 {
        run(&chain, &[]).unwrap();
    }
    assert_eq!(places.lock().unwrap().len(), 1);
}

#[test]
fn a_small_sample_after_a_large_one_sees_only_its_own() {
    let chain = Chain::new(passes(), passes());
    for len in [1000_usize, 3, 0, 2000, 64, 65] {
        let bytes: Vec<u8> = (0..len).map(|i| (i * 7) as u8).collect();
        let done = run(&chain, &[(TensorSpec::new("x", DType::U8, [len as u64]), &bytes)]).unwrap();
        assert_eq!(done[0].1, bytes);
    }
}

#[test]
fn every_transform_of_a_chain_draws_numbers_of_its_own_and_the_same_on_every_thread() {
    let draws = || {
        Map::new([TensorSpec::new("x", DType::U64, [3])], |sample, output| {
            let before = if sample.is_empty() { vec![0; 2] } else { sample.slice::<u64>(0)?[1..].to_vec() };
            output.bytes(0).copy_from_slice(&bytes_of(&[before[0], before[1], sample.random()]));
            Ok(())
        })
    };
    let left = Chain::new(Chain::new(draws(), draws()), draws());
    let right = Chain::new(draws(), Chain::new(draws(), draws()));
    for chain in [&left as &dyn Transform, &right] {
        let drawn = |index| values_of::<u64>(&run_as(chain, &[], index, 1, 9).unwrap()[0].1);
        let mut seen = HashSet::new();
        let alone: Vec<Vec<u64>> = (0..64).map(drawn).collect();
        assert!(alone.iter().flatten().all(|number| seen.insert(*number)));
        thread::scope(|scope| {
            let threads: Vec<_> =
                (0..4).map(|_| scope.spawn(|| (0..64).rev().map(drawn).collect::<Vec<_>>())).collect();
            for thread in threads {
                assert!(thread.join().unwrap().iter().rev().eq(&alone));
            }
        });
    }
}

#[test]
fn what_the_second_cannot_take_is_refused_before_anything_is_read() {
    let chain = Chain::new(Cast::to(DType::F32), ShiftTokens::new());
    assert_refused(&chain, &[TensorSpec::new("tokens", DType::U16, [5])], &["tokens", "F32", "U16"]);
}

#[test]
fn more_than_memory_holds_between_two_transforms_is_an_error() {
    for len in [u64::MAX, 1 << 62, (1 << 46) + 1] {
        let vast = Map::new([TensorSpec::new("x", DType::U8, [len])], |_, _| Ok(()));
        let chain = Chain::new(vast, Map::new([], |_, _| Ok(())));
        let error = run(&chain, &[]).unwrap_err();
        assert!(matches!(fault(error), TransformFault::Refused { .. }), "{len}");
    }
}
