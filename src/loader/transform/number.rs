//! Elements of every type that is a number, converted as Rust's `as` does it.

use half::{bf16, f16};

/// `as` from one type to the other.
pub(super) trait As<To> {
    fn as_(self) -> To;
}

/// To halves by way of `f32`, twice rounded to the nearest, ties to even: straight from `f64`, processors differ in the
/// last bit.
macro_rules! as_each {
    ($from:ty => $($to:ty),*) => {
        $(
            impl As<$to> for $from {
                fn as_(self) -> $to {
                    self as $to
                }
            }
        )*

        impl As<f16> for $from {
            fn as_(self) -> f16 {
                f16::from_f32(self as f32)
            }
        }

        impl As<bf16> for $from {
            fn as_(self) -> bf16 {
                bf16::from_f32(self as f32)
            }
        }
    };
}

/// Every half is a `f32`.
macro_rules! half_as_each {
    ($from:ty => $($to:ty),*) => {
        $(
            impl As<$to> for $from {
                fn as_(self) -> $to {
                    As::as_(self.to_f32())
                }
            }
        )*
    };
}

macro_rules! from_each {
    ($($from:ty),*) => {
        $(as_each!($from => u8, i8, u16, i16, u32, i32, u64, i64, f32, f64);)*
    };
}

from_each!(u8, i8, u16, i16, u32, i32, u64, i64, f32, f64);
half_as_each!(f16 => u8, i8, u16, i16, u32, i32, u64, i64, f32, f64, bf16);
half_as_each!(bf16 => u8, i8, u16, i16, u32, i32, u64, i64, f32, f64, f16);

macro_rules! as_itself {
    ($($half:ty),*) => {
        $(
            impl As<$half> for $half {
                fn as_(self) -> $half {
                    self
                }
            }
        )*
    };
}

as_itself!(f16, bf16);

/// Runs `$do` with `$T` the type whose values are elements of `$dtype`, or `$other` where they are no numbers.
macro_rules! with_number {
    ($dtype:expr, $T:ident => $do:expr, else $other:expr) => {
        match $dtype {
            // One byte, 0 or 1.
            $crate::dataset::DType::Bool | $crate::dataset::DType::U8 => {
                type $T = u8;
                $do
            }
            $crate::dataset::DType::I8 => {
                type $T = i8;
                $do
            }
            $crate::dataset::DType::U16 => {
                type $T = u16;
                $do
            }
            $crate::dataset::DType::I16 => {
                type $T = i16;
                $do
            }
            $crate::dataset::DType::F16 => {
                type $T = ::half::f16;
                $do
            }
            $crate::dataset::DType::BF16 => {
                type $T = ::half::bf16;
                $do
            }
            $crate::dataset::DType::U32 => {
                type $T = u32;
                $do
            }
            $crate::dataset::DType::I32 => {
                type $T = i32;
                $do
            }
            $crate::dataset::DType::F32 => {
                type $T = f32;
                $do
            }
            $crate::dataset::DType::U64 => {
                type $T = u64;
                $do
            }
            $crate::dataset::DType::I64 => {
                type $T = i64;
                $do
            }
            $crate::dataset::DType::F64 => {
                type $T = f64;
                $do
            }
            _ => $other,
        }
    };
}

pub(super) use with_number;

/// Whether elements of that type are numbers to [`with_number`].
pub(super) fn is_number(dtype: crate::dataset::DType) -> bool {
    with_number!(dtype, T => size_of::<T>() > 0, else false)
}

/// The elements of these bytes, which may begin anywhere.
pub(super) fn elements<T: bytemuck::Pod>(bytes: &[u8]) -> impl ExactSizeIterator<Item = T> {
    bytes.chunks_exact(size_of::<T>()).map(bytemuck::pod_read_unaligned)
}

/// The places of elements in this memory, which may begin anywhere.
pub(super) fn places<T: bytemuck::Pod>(memory: &mut [u8]) -> impl ExactSizeIterator<Item = &mut [u8]> {
    memory.chunks_exact_mut(size_of::<T>())
}

/// Writes an element to its place.
pub(super) fn put<T: bytemuck::Pod>(place: &mut [u8], element: T) {
    place.copy_from_slice(bytemuck::bytes_of(&element));
}
