//! Numbers as programs have them, and the types of tensors that hold them.
#![forbid(unsafe_code)]

use std::borrow::Cow;
use std::fmt;

use crate::dataset::DType;

// Tensors are little-endian; a view of their bytes as numbers of another order would be wrong, and say nothing.
const _: () = assert!(cfg!(target_endian = "little"), "forebay views tensors as they lie, which is little-endian");

mod sealed {
    pub trait Sealed {}
}

/// A type of Rust's whose values are the elements of tensors of one [`DType`], bit for bit.
///
/// Bytes of tensors may be viewed as these. What has no such type (`BOOL`, `F16`, `BF16` and what is narrower) is taken as
/// bytes.
///
/// Sealed: no other types can have it.
pub trait Element: sealed::Sealed + bytemuck::Pod + fmt::Debug + PartialEq + Send + Sync {
    /// The type of tensors with such elements.
    const DTYPE: DType;
}

macro_rules! elements {
    ($($rust:ty: $dtype:ident),*) => {
        $(
            impl sealed::Sealed for $rust {}

            impl Element for $rust {
                const DTYPE: DType = DType::$dtype;
            }
        )*
    };
}

elements!(u8: U8, i8: I8, u16: U16, i16: I16, u32: U32, i32: I32, u64: U64, i64: I64, f32: F32, f64: F64);

/// These bytes as numbers: as they lie where they are aligned, copied where not. `None` where the last number is cut off.
pub(crate) fn numbers<T: Element>(bytes: &[u8]) -> Option<Cow<'_, [T]>> {
    if !bytes.len().is_multiple_of(size_of::<T>()) {
        return None;
    }
    Some(match bytemuck::try_cast_slice(bytes) {
        Ok(numbers) => Cow::Borrowed(numbers),
        Err(_) => Cow::Owned(bytes.chunks_exact(size_of::<T>()).map(bytemuck::pod_read_unaligned).collect()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_element_is_as_wide_as_its_dtype() {
        fn check<T: Element>() {
            assert_eq!(size_of::<T>() * 8, T::DTYPE.bits() as usize, "{}", T::DTYPE);
            let name = std::any::type_name::<T>().to_uppercase();
            assert_eq!(name, T::DTYPE.name());
        }
        check::<u8>();
        check::<i8>();
        check::<u16>();
        check::<i16>();
        check::<u32>();
        check::<i32>();
        check::<u64>();
        check::<i64>();
        check::<f32>();
        check::<f64>();
    }

    #[test]
    fn numbers_are_the_same_wherever_they_begin_and_copied_only_where_they_must_be() {
        let values: Vec<u32> = (0..9).map(|i| 0x0102_0304_u32.wrapping_mul(i)).collect();
        let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
        let mut memory = vec![0; bytes.len() + 16];
        for at in 0..8 {
            memory[at..at + bytes.len()].copy_from_slice(&bytes);
            let there = &memory[at..at + bytes.len()];
            let numbers = numbers::<u32>(there).unwrap();
            assert_eq!(numbers, values);
            assert_eq!(matches!(numbers, Cow::Borrowed(_)), there.as_ptr().addr().is_multiple_of(4));
        }
        assert_eq!(numbers::<u32>(&bytes[..7]), None);
        assert_eq!(numbers::<u32>(&[]).unwrap(), &[0_u32; 0][..]);
    }
}
