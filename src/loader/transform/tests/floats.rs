use half::{bf16, f16};
use proptest::prelude::*;

use super::super::{Channels, ToFloat};
use super::*;
use crate::dataset::{DType, Shape};

fn floats(done: &Done) -> Vec<f32> {
    values_of(&done[0].1)
}

/// A setting for one or for each channel.
fn at(values: &[f32], channel: usize) -> f32 {
    if values.len() == 1 { values[0] } else { values[channel] }
}

proptest! {
    /// The oracle: the formula, element by element, its channel found by its number.
    #[test]
    fn each_element_is_normalised_by_its_channel(
        dims in prop::collection::vec(0_u64..9, 1..4),
        first in any::<bool>(),
        one_mean in any::<bool>(),
        one_std in any::<bool>(),
        scale in -4_f32..4.0,
        seed in any::<u64>(),
    ) {
        let shape = Shape::new(&dims);
        let count = shape.elements().unwrap() as usize;
        let channels = if first { dims[0] } else { dims[dims.len() - 1] } as usize;
        let drawn = |i: usize, from: u64| (super::super::random::mixed(seed ^ (from + i as u64)) % 1000) as f32;
        let settings = |one: bool, from| -> Vec<f32> {
            (0..if one { 1 } else { channels.max(1) }).map(|i| drawn(i, from) / 7.0 + 0.1).collect()
        };
        let (mean, std) = (settings(one_mean, 10_000), settings(one_std, 20_000));
        prop_assume!(channels > 0 || (mean.len() == 1 && std.len() == 1));
        let values: Vec<u8> = (0..count).map(|i| drawn(i, 0) as u8).collect();
        let to_float = ToFloat::new().scale(scale).mean(mean.clone()).std(std.clone());
        let to_float = to_float.channels(if first { Channels::First } else { Channels::Last });
        let done = run(&to_float, &[(TensorSpec::new("x", DType::U8, shape.clone()), &values)]).unwrap();
        prop_assert_eq!(&done[0].0, &TensorSpec::new("x", DType::F32, shape));
        let inner: usize = dims[1..].iter().product::<u64>() as usize;
        let expected: Vec<f32> = (0..count)
            .map(|i| {
                let channel = if first { i / inner } else { i % channels };
                (f32::from(values[i]) * scale - at(&mean, channel)) / at(&std, channel)
            })
            .collect();
        prop_assert_eq!(floats(&done), expected);
    }
}

#[test]
fn numbers_of_every_type_become_the_float_they_are() {
    fn check<T: bytemuck::Pod>(dtype: DType, values: &[T], floats_: &[f32]) {
        let sample = (TensorSpec::new("x", dtype, [values.len() as u64]), &bytes_of(values)[..]);
        assert_eq!(floats(&run(&ToFloat::new(), &[sample]).unwrap()), floats_, "{dtype}");
    }
    check(DType::Bool, &[0_u8, 1], &[0.0, 1.0]);
    check(DType::U8, &[0_u8, 255], &[0.0, 255.0]);
    check(DType::I8, &[-128_i8, 127], &[-128.0, 127.0]);
    check(DType::U16, &[65535_u16], &[65535.0]);
    check(DType::I16, &[-32768_i16], &[-32768.0]);
    check(DType::U32, &[u32::MAX], &[4294967296.0]);
    check(DType::I32, &[i32::MIN], &[-2147483648.0]);
    check(DType::U64, &[u64::MAX], &[18446744073709551616.0]);
    check(DType::I64, &[i64::MIN], &[-9223372036854775808.0]);
    check(DType::F16, &[f16::from_f32(0.5), f16::MAX], &[0.5, 65504.0]);
    check(DType::BF16, &[bf16::from_f32(-0.25)], &[-0.25]);
    check(DType::F32, &[f32::MIN_POSITIVE, f32::INFINITY], &[f32::MIN_POSITIVE, f32::INFINITY]);
    check(DType::F64, &[1e300_f64, 0.1], &[f32::INFINITY, 0.1]);
}

/// In `F32` both numbers would be 16777216, and their difference from the mean 0.
#[test]
fn wide_integers_lose_nothing_before_they_are_shifted() {
    let values = [16_777_217_i32, 16_777_216];
    let to_float = ToFloat::new().mean([16_777_216.0]);
    let done = run(&to_float, &[(TensorSpec::new("x", DType::I32, [2]), &bytes_of(&values))]).unwrap();
    assert_eq!(floats(&done), [1.0, 0.0]);
}

#[test]
fn only_the_named_are_converted_and_a_name_that_none_has_is_refused() {
    let sample: [(TensorSpec, &[u8]); 2] =
        [(TensorSpec::new("label", DType::I64, []), &[7; 8]), (TensorSpec::new("x", DType::U8, [2]), &[3, 4])];
    let done = run(&ToFloat::new().fields(["x"]), &sample).unwrap();
    assert_eq!(done[0], (sample[0].0.clone(), vec![7; 8]));
    assert_eq!(values_of::<f32>(&done[1].1), [3.0, 4.0]);
    let specs = sample.map(|(spec, _)| spec);
    assert_refused(&ToFloat::new().fields(["X"]), &specs, &["called X", "label, x"]);
}

#[test]
fn what_does_not_fit_is_refused_before_anything_is_read() {
    let picture = [TensorSpec::new("image", DType::U8, [8, 9, 3])];
    let three = || ToFloat::new().mean([0.1, 0.2, 0.3]);
    assert!(three().specs(&picture, &mut Vec::new()).is_ok());
    assert_refused(&three().channels(Channels::First), &picture, &["image", "[8, 9, 3]", "first", "channels"]);
    assert_refused(&three(), &[TensorSpec::new("gray", DType::U8, [8, 9])], &["gray", "[8, 9]", "last"]);
    assert_refused(&three(), &[TensorSpec::new("scalar", DType::U8, [])], &["scalar"]);
    assert_refused(&three().std([1.0, 2.0]), &picture, &["3 means", "2 standard"]);
    assert_refused(&ToFloat::new().std([1.0, 0.0, 2.0]), &picture, &["0 is given"]);
    assert_refused(&ToFloat::new().std([f32::NAN]), &picture, &["NaN"]);
    assert_refused(&ToFloat::new().mean([f32::INFINITY]), &picture, &["finite"]);
    assert_refused(&ToFloat::new().scale(f32::NAN), &picture, &["finite"]);
    assert_refused(&ToFloat::new().mean([]), &picture, &["0 means"]);
    assert_refused(&ToFloat::new().mean([]).std([]), &picture, &["0 means"]);
    assert_refused(&ToFloat::new(), &[TensorSpec::new("z", DType::C64, [1])], &["z", "C64"]);
}

#[test]
fn a_sample_of_another_length_than_its_shape_is_an_error() {
    let error = run(&ToFloat::new(), &[(TensorSpec::new("x", DType::U16, [2]), &[1, 2, 3])]).unwrap_err();
    assert!(matches!(fault(error), TransformFault::Length { len: 3, .. }));
}
