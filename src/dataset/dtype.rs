use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// The type of a tensor's elements. The names are those of the safetensors format.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "&'static str")]
#[non_exhaustive]
pub enum DType {
    /// A truth value in one byte, 0 or 1.
    Bool,
    /// A float of 4 bits, two to a byte (OCP MX, E2M1).
    F4,
    /// A float of 6 bits with 2 of exponent and 3 of mantissa (OCP MX).
    F6E2M3,
    /// A float of 6 bits with 3 of exponent and 2 of mantissa (OCP MX).
    F6E3M2,
    /// An unsigned byte.
    U8,
    /// A signed byte.
    I8,
    /// A float of 8 bits with 5 of exponent and 2 of mantissa.
    F8E5M2,
    /// A float of 8 bits with 4 of exponent and 3 of mantissa.
    F8E4M3,
    /// A power of two in 8 bits: the scale of a block (OCP MX).
    F8E8M0,
    /// [`F8E4M3`](Self::F8E4M3) without infinities and a negative zero.
    F8E4M3Fnuz,
    /// [`F8E5M2`](Self::F8E5M2) without infinities and a negative zero.
    F8E5M2Fnuz,
    /// A signed integer of 16 bits.
    I16,
    /// An unsigned integer of 16 bits.
    U16,
    /// A float of 16 bits (IEEE 754 half precision).
    F16,
    /// A float of 16 bits with the exponent of one of 32.
    BF16,
    /// A signed integer of 32 bits.
    I32,
    /// An unsigned integer of 32 bits.
    U32,
    /// A float of 32 bits.
    F32,
    /// A complex number of two floats of 32 bits.
    C64,
    /// A float of 64 bits.
    F64,
    /// A signed integer of 64 bits.
    I64,
    /// An unsigned integer of 64 bits.
    U64,
}

use DType::*;

impl DType {
    const ALL: [(DType, &'static str, u32); 22] = [
        (Bool, "BOOL", 8),
        (F4, "F4", 4),
        (F6E2M3, "F6_E2M3", 6),
        (F6E3M2, "F6_E3M2", 6),
        (U8, "U8", 8),
        (I8, "I8", 8),
        (F8E5M2, "F8_E5M2", 8),
        (F8E4M3, "F8_E4M3", 8),
        (F8E8M0, "F8_E8M0", 8),
        (F8E4M3Fnuz, "F8_E4M3FNUZ", 8),
        (F8E5M2Fnuz, "F8_E5M2FNUZ", 8),
        (I16, "I16", 16),
        (U16, "U16", 16),
        (F16, "F16", 16),
        (BF16, "BF16", 16),
        (I32, "I32", 32),
        (U32, "U32", 32),
        (F32, "F32", 32),
        (C64, "C64", 64),
        (F64, "F64", 64),
        (I64, "I64", 64),
        (U64, "U64", 64),
    ];

    /// What numpy and PyTorch call them, where that is another name.
    const OTHERS: [(DType, &'static str); 18] = [
        (U8, "uint8"),
        (I8, "int8"),
        (F8E5M2, "float8_e5m2"),
        (F8E4M3, "float8_e4m3fn"),
        (F8E8M0, "float8_e8m0fnu"),
        (F8E4M3Fnuz, "float8_e4m3fnuz"),
        (F8E5M2Fnuz, "float8_e5m2fnuz"),
        (I16, "int16"),
        (U16, "uint16"),
        (F16, "float16"),
        (BF16, "bfloat16"),
        (I32, "int32"),
        (U32, "uint32"),
        (F32, "float32"),
        (C64, "complex64"),
        (F64, "float64"),
        (I64, "int64"),
        (U64, "uint64"),
    ];

    /// Every type, the narrowest first.
    pub fn all() -> impl Iterator<Item = DType> {
        Self::ALL.into_iter().map(|(dtype, ..)| dtype)
    }

    /// The name that safetensors files give it, such as `BF16`.
    pub fn name(self) -> &'static str {
        Self::ALL[self as usize].1
    }

    /// Bits of one element.
    pub fn bits(self) -> u32 {
        Self::ALL[self as usize].2
    }

    /// What the safetensors crate calls by another type; `None` of one that came after this was written.
    pub(crate) fn of_safetensors(theirs: safetensors::Dtype) -> Option<Self> {
        use safetensors::Dtype as Theirs;
        Some(match theirs {
            Theirs::BOOL => Bool,
            Theirs::F4 => F4,
            Theirs::F6_E2M3 => F6E2M3,
            Theirs::F6_E3M2 => F6E3M2,
            Theirs::U8 => U8,
            Theirs::I8 => I8,
            Theirs::F8_E5M2 => F8E5M2,
            Theirs::F8_E4M3 => F8E4M3,
            Theirs::F8_E8M0 => F8E8M0,
            Theirs::F8_E4M3FNUZ => F8E4M3Fnuz,
            Theirs::F8_E5M2FNUZ => F8E5M2Fnuz,
            Theirs::I16 => I16,
            Theirs::U16 => U16,
            Theirs::F16 => F16,
            Theirs::BF16 => BF16,
            Theirs::I32 => I32,
            Theirs::U32 => U32,
            Theirs::F32 => F32,
            Theirs::C64 => C64,
            Theirs::F64 => F64,
            Theirs::I64 => I64,
            Theirs::U64 => U64,
            _ => return None,
        })
    }

    /// Bytes of so many elements; `None` where they do not fill whole bytes or are more than a `u64` counts.
    pub fn bytes(self, elements: u64) -> Option<u64> {
        let bits = u128::from(elements) * u128::from(self.bits());
        (bits % 8 == 0).then_some(bits / 8).and_then(|bytes| u64::try_from(bytes).ok())
    }
}

impl fmt::Display for DType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl From<DType> for &'static str {
    fn from(dtype: DType) -> Self {
        dtype.name()
    }
}

/// A name that no type has.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "no dtype is called {0:?}; give one of BOOL, U8, I8, F8_E4M3, U16, I16, F16, BF16, U32, I32, F32, U64, I64, F64 and their like, or numpy's name, such as uint16"
)]
pub struct UnknownDType(pub String);

/// In upper or lower case, its name in safetensors files or numpy's: `U16`, `uint16`.
impl FromStr for DType {
    type Err = UnknownDType;

    fn from_str(name: &str) -> Result<Self, UnknownDType> {
        let names = Self::ALL.into_iter().map(|(dtype, known, _)| (dtype, known)).chain(Self::OTHERS);
        let mut named = names.filter(|(_, known)| known.eq_ignore_ascii_case(name));
        named.next().map(|(dtype, _)| dtype).ok_or_else(|| UnknownDType(name.to_owned()))
    }
}

impl TryFrom<String> for DType {
    type Error = UnknownDType;

    fn try_from(name: String) -> Result<Self, UnknownDType> {
        name.parse()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_in_the_order_of_the_enum_and_names_lead_back() {
        for (i, dtype) in DType::all().enumerate() {
            assert_eq!(dtype as usize, i);
            assert_eq!(dtype.name().to_lowercase().parse(), Ok(dtype));
        }
        assert!("Q9".parse::<DType>().is_err());
    }

    #[test]
    fn names_of_numpy_lead_to_types_of_their_width_and_no_two_to_one() {
        let mut seen = std::collections::HashSet::new();
        for (dtype, name) in DType::OTHERS {
            assert_eq!(name.to_uppercase().parse(), Ok(dtype), "{name}");
            let bits: String =
                name.chars().skip_while(|c| !c.is_ascii_digit()).take_while(char::is_ascii_digit).collect();
            assert_eq!(bits.parse(), Ok(dtype.bits()), "{name}");
            assert!(seen.insert(dtype), "{name}");
            assert_eq!(dtype.name().starts_with('U'), name.starts_with('u'), "{name}");
            assert_eq!(dtype.name().contains('I'), name.contains("int") && !name.starts_with('u'), "{name}");
        }
        assert!(["uint", "float", "uint24", ""].iter().all(|name| name.parse::<DType>().is_err()));
    }

    /// The oracle: the safetensors crate.
    #[test]
    fn names_and_sizes_are_those_of_safetensors() {
        for dtype in DType::all() {
            let theirs: safetensors::Dtype = serde_json::from_str(&format!("{:?}", dtype.name())).unwrap();
            assert_eq!(theirs.bitsize(), dtype.bits() as usize, "{dtype}");
            assert_eq!(DType::of_safetensors(theirs), Some(dtype));
        }
    }

    #[test]
    fn elements_that_do_not_fill_bytes_have_no_length() {
        assert_eq!(F4.bytes(3), None);
        assert_eq!(F4.bytes(4), Some(2));
        assert_eq!(F6E2M3.bytes(4), Some(3));
        assert_eq!(F64.bytes(u64::MAX), None);
        assert_eq!(BF16.bytes(0), Some(0));
    }
}
