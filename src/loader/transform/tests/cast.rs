use half::{bf16, f16};
use proptest::prelude::*;

use super::super::Cast;
use super::*;
use crate::dataset::DType;

const NUMBERS: [DType; 12] = [
    DType::U8,
    DType::I8,
    DType::U16,
    DType::I16,
    DType::F16,
    DType::BF16,
    DType::U32,
    DType::I32,
    DType::F32,
    DType::U64,
    DType::I64,
    DType::F64,
];

/// Any number, as wide as they come.
#[derive(Clone, Copy, Debug)]
enum Wide {
    Integer(i128),
    Float(f64),
}

/// A half by its definition: sign, 5 or 8 bits of exponent, 10 or 7 of fraction.
fn half_value(bits: u16, exponent_bits: u32) -> f64 {
    let fraction_bits = 15 - exponent_bits;
    let sign = if bits >> 15 == 1 { -1.0 } else { 1.0 };
    let exponent = i32::from((bits >> fraction_bits) & ((1 << exponent_bits) - 1));
    let fraction = f64::from(bits & ((1 << fraction_bits) - 1)) / f64::from(1_u32 << fraction_bits);
    let bias = (1 << (exponent_bits - 1)) - 1;
    let size = match exponent {
        0 => fraction * 2_f64.powi(1 - bias),
        _ if exponent == (1 << exponent_bits) - 1 && fraction == 0.0 => f64::INFINITY,
        _ if exponent == (1 << exponent_bits) - 1 => f64::NAN,
        _ => (1.0 + fraction) * 2_f64.powi(exponent - bias),
    };
    sign * size
}

/// The half nearest to `value`, of two the one with an even last bit; found by trying all.
fn nearest_half(value: f64, exponent_bits: u32) -> Option<u16> {
    if value.is_nan() {
        return None;
    }
    // What rounds beyond the largest is infinite: as if the next exponent still held numbers.
    let largest = half_value(0x7fff & !((1 << (15 - exponent_bits)) - 1) as u16, exponent_bits);
    assert!(largest.is_infinite());
    let infinity = ((1_u16 << exponent_bits) - 1) << (15 - exponent_bits);
    let finite = |bits: u16| match bits == infinity {
        true => 2_f64.powi(1 << (exponent_bits - 1)),
        false => half_value(bits, exponent_bits),
    };
    let size = value.abs();
    let (mut low, mut high) = (0, infinity);
    while high - low > 1 {
        let middle = low + (high - low) / 2;
        if finite(middle) <= size { low = middle } else { high = middle }
    }
    let (below, above) = (size - finite(low), finite(high) - size);
    let bits = if below < above || (below == above && low % 2 == 0) { low } else { high };
    Some(bits | if value.is_sign_negative() { 0x8000 } else { 0 })
}

fn read(dtype: DType, bytes: &[u8]) -> Wide {
    let (mut raw, len) = ([0; 8], bytes.len());
    raw[..len].copy_from_slice(bytes);
    let raw = u64::from_le_bytes(raw);
    match dtype {
        DType::F16 => Wide::Float(half_value(raw as u16, 5)),
        DType::BF16 => Wide::Float(half_value(raw as u16, 8)),
        DType::F32 => Wide::Float(f64::from(f32::from_bits(raw as u32))),
        DType::F64 => Wide::Float(f64::from_bits(raw)),
        DType::I8 | DType::I16 | DType::I32 | DType::I64 => {
            let unused = 64 - 8 * len as u32;
            Wide::Integer(i128::from((raw << unused) as i64 >> unused))
        }
        _ => Wide::Integer(i128::from(raw)),
    }
}

/// The rules as they are told, one number at a time. `None` of any NaN.
fn told(number: Wide, to: DType) -> Option<Vec<u8>> {
    let single = match number {
        Wide::Integer(integer) => integer as f32,
        Wide::Float(float) => float as f32,
    };
    let double = match number {
        Wide::Integer(integer) => integer as f64,
        Wide::Float(float) => float,
    };
    match to {
        DType::F16 => return Some(nearest_half(f64::from(single), 5)?.to_le_bytes().to_vec()),
        DType::BF16 => return Some(nearest_half(f64::from(single), 8)?.to_le_bytes().to_vec()),
        DType::F32 => return (!single.is_nan()).then(|| single.to_le_bytes().to_vec()),
        DType::F64 => return (!double.is_nan()).then(|| double.to_le_bytes().to_vec()),
        _ => {}
    }
    let len = (to.bits() / 8) as usize;
    let integer = match number {
        Wide::Integer(integer) => integer,
        Wide::Float(float) => {
            let signed = matches!(to, DType::I8 | DType::I16 | DType::I32 | DType::I64);
            let (least, most) = match signed {
                true => (-(1_i128 << (to.bits() - 1)), (1_i128 << (to.bits() - 1)) - 1),
                false => (0, (1_i128 << to.bits()) - 1),
            };
            if float.is_nan() { 0 } else { (float.trunc() as i128).clamp(least, most) }
        }
    };
    Some(integer.to_le_bytes()[..len].to_vec())
}

fn is_nan(dtype: DType, bytes: &[u8]) -> bool {
    matches!(read(dtype, bytes), Wide::Float(float) if float.is_nan())
}

fn check(from: DType, to: DType, bytes: &[u8]) {
    let width = (from.bits() / 8) as usize;
    let bytes = &bytes[..bytes.len() / width * width];
    let count = (bytes.len() / width) as u64;
    let done = run(&Cast::to(to), &[(TensorSpec::new("x", from, [count]), bytes)]).unwrap();
    let (spec, cast) = &done[0];
    assert_eq!(*spec, TensorSpec::new("x", to, [count]));
    for (number, cast) in bytes.chunks(width).zip(cast.chunks((to.bits() / 8) as usize)) {
        match (from == to, told(read(from, number), to)) {
            (true, _) => assert_eq!(cast, number),
            (_, Some(told)) => assert_eq!(cast, told, "{number:?} of {from} as {to}"),
            (_, None) => assert!(is_nan(to, cast), "{number:?} of {from} as {to}: {cast:?}"),
        }
    }
}

#[test]
fn every_half_becomes_every_other_type_by_the_rules() {
    let all: Vec<u8> = (0..=u16::MAX).flat_map(u16::to_le_bytes).collect();
    for from in [DType::F16, DType::BF16, DType::U16, DType::I16] {
        for to in NUMBERS {
            check(from, to, &all);
        }
    }
}

/// Numbers at the borders of every type, and those next to them.
#[test]
fn borders_of_every_type_are_cast_by_the_rules() {
    let mut doubles =
        vec![0.0, 0.5, 1.5, 65504.0, 65519.99, 65520.0, 5.96e-8, 2.98e-8, 1e-45, 1e40, f64::NAN, f64::INFINITY];
    for power in [7, 8, 15, 16, 24, 31, 32, 53, 63, 64] {
        let border = 2_f64.powi(power);
        doubles.extend([border, border.next_down(), border.next_up(), border - 1.0, border + 1.0, border - 0.5]);
    }
    doubles.extend(doubles.clone().iter().map(|x| -x));
    let singles: Vec<f32> = doubles.iter().map(|x| *x as f32).collect();
    let integers: Vec<u64> = doubles.iter().map(|x| *x as i64 as u64).chain((0..64).map(|i| 1 << i)).collect();
    for to in NUMBERS {
        check(DType::F64, to, &bytes_of(&doubles));
        check(DType::F32, to, &bytes_of(&singles));
        for from in [DType::U64, DType::I64, DType::U32, DType::I32, DType::U8, DType::I8] {
            check(from, to, &bytes_of(&integers));
        }
    }
}

proptest! {
    #[test]
    fn any_bytes_are_cast_by_the_rules(
        from in prop::sample::select(&NUMBERS[..]),
        to in prop::sample::select(&NUMBERS[..]),
        bytes in prop::collection::vec(any::<u8>(), 0..100),
    ) {
        check(from, to, &bytes);
    }
}

#[test]
fn halves_are_those_of_the_crate_that_others_use() {
    let cast = |to| run(&Cast::to(to), &[(TensorSpec::new("x", DType::F32, [1]), &1.1_f32.to_le_bytes())]).unwrap();
    assert_eq!(values_of::<f16>(&cast(DType::F16)[0].1), [f16::from_f32(1.1)]);
    assert_eq!(values_of::<bf16>(&cast(DType::BF16)[0].1), [bf16::from_f32(1.1)]);
}

#[test]
fn truth_values_are_the_bytes_they_are_and_others_pass() {
    let sample: [(TensorSpec, &[u8]); 2] =
        [(TensorSpec::new("mask", DType::Bool, [2]), &[0, 1]), (TensorSpec::new("other", DType::F8E4M3, [2]), &[7, 9])];
    let done = run(&Cast::to(DType::I16).fields(["mask"]), &sample).unwrap();
    assert_eq!(done[0], (TensorSpec::new("mask", DType::I16, [2]), vec![0, 0, 1, 0]));
    assert_eq!(done[1], (sample[1].0.clone(), vec![7, 9]));
}

#[test]
fn what_makes_no_sense_is_refused_before_anything_is_read() {
    let number = [TensorSpec::new("x", DType::F32, [2])];
    assert_refused(&Cast::to(DType::Bool), &number, &["BOOL"]);
    assert_refused(&Cast::to(DType::F4), &number, &["F4"]);
    assert_refused(&Cast::to(DType::U8).fields(["y"]), &number, &["called y", "x"]);
    let complex = [TensorSpec::new("z", DType::C64, [2, 3])];
    assert_refused(&Cast::to(DType::F32), &complex, &["z", "C64", "[2, 3]"]);
}

#[test]
fn wrong_lengths_and_rows_of_others_are_errors() {
    let cast = Cast::to(DType::U16);
    let spec = TensorSpec::new("x", DType::U8, [3]);
    let error = run(&cast, &[(spec.clone(), &[1, 2])]).unwrap_err();
    assert!(matches!(fault(error), TransformFault::Length { len: 2, .. }));
    let specs = [spec];
    let sample = Sample::new(&specs, &[&[1, 2, 3]], 0, 0, 0);
    let apply = |spec: TensorSpec, row: &mut [u8]| {
        fault(cast.apply(&sample, &mut Output::new(&[spec], &mut [row])).unwrap_err())
    };
    let short = apply(TensorSpec::new("x", DType::U16, [3]), &mut [0; 5]);
    assert!(matches!(short, TransformFault::Length { len: 5, .. }), "{short}");
    let other = apply(TensorSpec::new("x", DType::I16, [3]), &mut [0; 6]);
    assert!(matches!(other, TransformFault::Refused { .. }), "{other}");
    let none = fault(cast.apply(&sample, &mut Output::new(&[], &mut [])).unwrap_err());
    assert!(matches!(none, TransformFault::NoTensor { index: 0, count: 0 }), "{none}");
}
