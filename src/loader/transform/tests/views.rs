use std::borrow::Cow;
use std::collections::HashSet;

use proptest::prelude::*;

use super::*;
use crate::dataset::DType;

#[test]
fn a_view_is_refused_by_number_type_and_length() {
    let specs = [TensorSpec::new("x", DType::U16, [2]), TensorSpec::new("y", DType::F16, [1])];
    let sample = Sample::new(&specs, &[&[1, 0, 2], &[0, 0]], 0, 0, 0);
    assert_eq!(
        fault(sample.slice::<u16>(0).unwrap_err()).to_string(),
        "x of U16 [2] comes in 3 bytes; give as many as its type and shape say"
    );
    assert!(matches!(
        fault(sample.slice::<u16>(1).unwrap_err()),
        TransformFault::OtherType { asked: DType::U16, present: DType::F16, .. }
    ));
    assert!(matches!(fault(sample.slice::<u16>(2).unwrap_err()), TransformFault::NoTensor { index: 2, count: 2 }));
    // Bytes there are none of.
    let sample = Sample::new(&specs, &[&[1, 0, 2, 0]], 0, 0, 0);
    assert_eq!(sample.slice::<u16>(0).unwrap(), &[1_u16, 2][..]);
    assert!(matches!(fault(sample.slice::<u8>(1).unwrap_err()), TransformFault::NoTensor { index: 1, count: 1 }));
    assert_eq!(sample.named("y"), None);
}

#[test]
fn rows_are_refused_by_number_type_length_and_alignment() {
    let specs = [TensorSpec::new("x", DType::U32, [2])];
    let mut memory = [0_u64; 3];
    let memory: &mut [u8] = bytemuck::cast_slice_mut(&mut memory);
    let mut slice = |from: usize, to: usize| {
        let mut rows = [&mut memory[from..to]];
        Output::new(&specs, &mut rows).slice::<u32>(0).map(|row| row.fill(7)).map_err(fault)
    };
    assert_eq!(slice(4, 12), Ok(()));
    assert!(matches!(slice(0, 7), Err(TransformFault::Length { len: 7, .. })));
    assert!(matches!(slice(1, 9), Err(TransformFault::Misaligned { .. })));
    assert_eq!(memory[..13], [0, 0, 0, 0, 7, 0, 0, 0, 7, 0, 0, 0, 0]);
    let mut rows = [&mut memory[..8]];
    let mut output = Output::new(&specs, &mut rows);
    assert!(matches!(fault(output.slice::<i32>(0).unwrap_err()), TransformFault::OtherType { .. }));
    assert!(matches!(fault(output.slice::<u32>(1).unwrap_err()), TransformFault::NoTensor { index: 1, count: 1 }));
    assert_eq!(output.rows().map(|row| row.len()).collect::<Vec<_>>(), [8]);
}

#[test]
fn tensors_of_no_elements_are_viewed_as_none() {
    let specs = [TensorSpec::new("x", DType::F64, [0, 3])];
    let sample = Sample::new(&specs, &[&[]], 0, 0, 0);
    assert_eq!(sample.slice::<f64>(0).unwrap().len(), 0);
    assert_eq!(sample.bytes(0), b"");
    let mut rows: [&mut [u8]; 1] = [&mut []];
    assert_eq!(Output::new(&specs, &mut rows).slice::<f64>(0).unwrap().len(), 0);
}

proptest! {
    #[test]
    fn a_view_is_what_was_written_wherever_it_begins(values in prop::collection::vec(any::<u64>(), 0..20), at in 0_usize..16) {
        let specs = [TensorSpec::new("x", DType::U64, [values.len() as u64])];
        let memory = [vec![0xff; at], bytes_of(&values)].concat();
        let there = &memory[at..];
        let fields = [there];
        let view = Sample::new(&specs, &fields, 0, 0, 0).slice::<u64>(0).unwrap();
        prop_assert_eq!(&view[..], &values);
        let aligned = there.as_ptr().addr().is_multiple_of(align_of::<u64>());
        prop_assert!(values.is_empty() || matches!(view, Cow::Borrowed(_)) == aligned);
    }
}

/// Rows 98 and 99 of what others were told: the same numbers in every epoch, or in every worker.
#[test]
fn random_numbers_differ_between_samples_epochs_and_seeds_and_are_the_same_again() {
    let draw = |index, epoch, seed| Sample::new(&[], &[], index, epoch, seed).random();
    let mut seen = HashSet::new();
    for seed in 0..8 {
        for epoch in 0..8 {
            for index in 0..512 {
                let drawn = draw(index, epoch, seed);
                assert!(seen.insert(drawn), "{seed} {epoch} {index}");
                assert_eq!(drawn, draw(index, epoch, seed));
            }
        }
    }
    // Each bit is set about as often as not: within six standard deviations of 32,768 draws.
    for bit in 0..64 {
        let set = seen.iter().filter(|drawn| *drawn >> bit & 1 == 1).count() as f64;
        let half = seen.len() as f64 / 2.0;
        assert!((set - half).abs() < 6.0 * (seen.len() as f64 / 4.0).sqrt(), "bit {bit}: {set} of {}", seen.len());
    }
}

#[test]
fn debug_shows_no_payload() {
    let specs = [TensorSpec::new("x", DType::U8, [4])];
    let shown = format!("{:?}", Sample::new(&specs, &[&[250, 251, 252, 253]], 3, 2, 1));
    assert!(shown.contains("index: 3") && !shown.contains("251"), "{shown}");
}
