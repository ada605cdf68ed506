use proptest::prelude::*;

use super::super::ShiftTokens;
use super::*;
use crate::dataset::DType;

fn shifted(transform: &ShiftTokens, dtype: DType, count: u64, bytes: &[u8]) -> Result<Done, TransformError> {
    run(transform, &[(TensorSpec::new("tokens", dtype, [count]), bytes)])
}

proptest! {
    #[test]
    fn targets_are_the_inputs_one_later(tokens in prop::collection::vec(0_u64..256, 1..40), wide in any::<bool>()) {
        let count = tokens.len() as u64;
        let dtype = if wide { DType::I64 } else { DType::U32 };
        let transform = ShiftTokens::new().dtype(dtype);
        // The low bytes of a token are the token in any type.
        for from in [DType::U8, DType::U16, DType::U32, DType::I32, DType::I64] {
            let width = (from.bits() / 8) as usize;
            let bytes: Vec<u8> = tokens.iter().flat_map(|token| token.to_le_bytes().into_iter().take(width)).collect();
            let done = shifted(&transform, from, count, &bytes).unwrap();
            let specs: Vec<TensorSpec> = done.iter().map(|(spec, _)| spec.clone()).collect();
            prop_assert_eq!(specs, ["inputs", "targets"].map(|name| TensorSpec::new(name, dtype, [count - 1])));
            let values = |i: usize| -> Vec<u64> {
                done[i].1.chunks((dtype.bits() / 8) as usize).map(|token| {
                    token.iter().rev().fold(0, |value, byte| value << 8 | u64::from(*byte))
                }).collect()
            };
            prop_assert_eq!(values(0), &tokens[..tokens.len() - 1]);
            prop_assert_eq!(values(1), &tokens[1..]);
        }
    }
}

#[test]
fn a_token_that_does_not_fit_is_an_error_wherever_it_stands() {
    for at in 0..4 {
        let mut tokens = [5_i32, 6, 7, 8];
        tokens[at] = -1;
        let said = shifted(&ShiftTokens::new(), DType::I32, 4, &bytes_of(&tokens)).unwrap_err().to_string();
        assert_eq!(said, format!("token {at} of tokens is -1, which U32 does not hold; ask for I64, or mend the data"));
        let done = shifted(&ShiftTokens::new().dtype(DType::I64), DType::I32, 4, &bytes_of(&tokens)).unwrap();
        let signed = tokens.map(i64::from);
        assert_eq!(values_of::<i64>(&done[0].1), signed[..3]);
        assert_eq!(values_of::<i64>(&done[1].1), signed[1..]);
    }
    let large = [1_i64 << 32, 0];
    assert!(shifted(&ShiftTokens::new(), DType::I64, 2, &bytes_of(&large)).is_err());
    let largest = [u32::MAX, 0];
    let done = shifted(&ShiftTokens::new().dtype(DType::I64), DType::U32, 2, &bytes_of(&largest)).unwrap();
    assert_eq!(values_of::<i64>(&done[0].1), [i64::from(u32::MAX)]);
}

#[test]
fn a_window_of_one_token_has_nothing_to_say() {
    let done = shifted(&ShiftTokens::new(), DType::U16, 1, &[7, 0]).unwrap();
    assert!(done.iter().all(|(spec, bytes)| spec.shape[..] == [0] && bytes.is_empty()));
}

#[test]
fn other_tensors_pass_behind_the_two() {
    let sample: [(TensorSpec, &[u8]); 3] = [
        (TensorSpec::new("mask", DType::Bool, [3]), &[1, 0, 1]),
        (TensorSpec::new("text", DType::U8, [3]), &[1, 2, 3]),
        (TensorSpec::new("id", DType::U8, []), &[9]),
    ];
    let done = run(&ShiftTokens::new().field("text"), &sample).unwrap();
    let names: Vec<&str> = done.iter().map(|(spec, _)| &*spec.name).collect();
    assert_eq!(names, ["inputs", "targets", "mask", "id"]);
    assert_eq!(done[2].1, [1, 0, 1]);
    assert_eq!(done[3].1, [9]);
}

#[test]
fn what_is_no_window_of_tokens_is_refused_before_anything_is_read() {
    let tokens = |dtype, shape: &[u64]| [TensorSpec::new("tokens", dtype, shape.to_vec())];
    let shift = ShiftTokens::new();
    assert_refused(&shift, &tokens(DType::F32, &[5]), &["tokens", "F32", "U16"]);
    assert_refused(&shift, &tokens(DType::U64, &[5]), &["U64"]);
    assert_refused(&shift, &tokens(DType::U16, &[0]), &["[0]"]);
    assert_refused(&shift, &tokens(DType::U16, &[2, 3]), &["[2, 3]", "one dimension"]);
    assert_refused(&shift, &[], &["called tokens", "none"]);
    assert_refused(&shift, &[TensorSpec::new("text", DType::U16, [5])], &["called tokens", "text"]);
    assert_refused(&shift.clone().dtype(DType::U16), &tokens(DType::U16, &[5]), &["U16", "I64"]);
    let two = [TensorSpec::new("tokens", DType::U16, [5]), TensorSpec::new("inputs", DType::U8, [1])];
    assert_refused(&shift, &two, &["inputs"]);
}

#[test]
fn a_window_of_another_length_than_its_shape_is_an_error() {
    for len in [0, 1, 5, 7] {
        let error = shifted(&ShiftTokens::new(), DType::U16, 3, &vec![0; len]).unwrap_err();
        assert!(matches!(fault(error), TransformFault::Length { .. }), "{len}");
    }
}
