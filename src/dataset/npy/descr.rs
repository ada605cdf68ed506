//! numpy's names of types.

use super::super::dtype::DType;

/// Why a type is not read: what it is, and what to do.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct NotRead {
    pub(super) what: &'static str,
    pub(super) fix: &'static str,
}

/// The type that numpy writes as `descr`, such as `<f4`: order of bytes, kind, and bytes of an element.
pub(super) fn dtype(descr: &str) -> Result<DType, NotRead> {
    let (order, kind) = match descr.chars().next() {
        Some(order @ ('<' | '>' | '|' | '=')) => (order, &descr[1..]),
        _ => ('=', descr),
    };
    let dtype = match kind {
        "b1" => DType::Bool,
        "u1" => DType::U8,
        "i1" => DType::I8,
        "u2" => DType::U16,
        "i2" => DType::I16,
        "f2" => DType::F16,
        "u4" => DType::U32,
        "i4" => DType::I32,
        "f4" => DType::F32,
        "c8" => DType::C64,
        "u8" => DType::U64,
        "i8" => DType::I64,
        "f8" => DType::F64,
        _ => return Err(other(kind)),
    };
    match order {
        '<' => Ok(dtype),
        _ if dtype.bits() == 8 => Ok(dtype),
        '>' => Err(NotRead {
            what: "its bytes lie in big-endian order",
            fix: "save it in little-endian order: array.astype(array.dtype.newbyteorder('<'))",
        }),
        _ => {
            Err(NotRead { what: "it does not say in which order its bytes lie", fix: "write it again with numpy.save" })
        }
    }
}

/// Whether elements are texts or Python's objects, of which no tensor can be made.
pub(super) fn holds_no_numbers(descr: &str) -> bool {
    let kind = descr.trim_start_matches(['<', '>', '|', '=']);
    matches!(kind.chars().next(), Some('O' | 'S' | 'a' | 'U' | 'T'))
}

fn other(kind: &str) -> NotRead {
    let (what, fix) = match kind.chars().next() {
        Some('O') => {
            ("its elements are pickled Python objects, which are never unpickled", "save numbers: array.astype('<f4')")
        }
        Some('S' | 'a' | 'U' | 'T') => ("its elements are texts", "save tokens or bytes: array.view('u1')"),
        Some('M' | 'm') => ("its elements are times", "save numbers: array.view('<i8')"),
        Some('V') => void(kind),
        Some('c') => ("its elements are complex numbers that are not of 64 bits", "save array.astype('<c8')"),
        Some('f') if kind == "f1" => {
            // numpy itself cannot load what it has saved so.
            ("its elements are floats of 8 bits, whose kind numpy does not tell", "save their bits: array.view('u1')")
        }
        Some('f') => ("its elements are floats of neither 16, 32 nor 64 bits", "save array.astype('<f8')"),
        _ => ("numpy writes no such type", "write it again with numpy.save"),
    };
    NotRead { what, fix }
}

/// Types of other libraries, for which numpy tells no more than how many bytes an element has.
fn void(kind: &str) -> (&'static str, &'static str) {
    match kind {
        "V1" => (
            "its elements are of a type of 8 bits that numpy has no name for, such as float8 or int4 of ml_dtypes",
            "save their bits: array.view('u1')",
        ),
        "V2" => (
            "its elements are of a type of 16 bits that numpy has no name for, such as bfloat16 of ml_dtypes",
            "save their bits, array.view('<u2'), or where they are bfloat16, array.astype('<f4')",
        ),
        "V4" => {
            ("its elements are of a type of 32 bits that numpy has no name for", "save their bits: array.view('<u4')")
        }
        "V8" => {
            ("its elements are of a type of 64 bits that numpy has no name for", "save their bits: array.view('<u8')")
        }
        _ => ("its elements are of a type that numpy has no name for", "save their bytes: array.view('u1')"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_of_one_byte_have_no_order_and_others_must_be_little_endian() {
        for descr in ["|b1", "|u1", "|i1", "<u1", ">i1", "=b1", "u1"] {
            assert_eq!(dtype(descr).unwrap().bits(), 8, "{descr}");
        }
        for kind in ["u2", "i2", "f2", "u4", "i4", "f4", "c8", "u8", "i8", "f8"] {
            let bits = dtype(&format!("<{kind}")).unwrap().bits();
            assert_eq!(bits.to_string(), (kind[1..].parse::<u32>().unwrap() * 8).to_string());
            for order in [">", "=", "|", ""] {
                assert!(dtype(&format!("{order}{kind}")).is_err(), "{order}{kind}");
            }
        }
        assert!(dtype(">f4").unwrap_err().what.contains("big-endian"));
    }

    #[test]
    fn what_is_no_number_of_ours_is_not_read() {
        for descr in [
            "|O", "|O8", "<f1", "|V1", "|S5", "<U5", "<M8[ns]", "<m8", "|V2", "<c16", "<f16", "<f4,<f4", "<f4 ",
            "<f04", "(2,)<f4", "", "<", "<é", "é", "?", "|?", "<f", "<u3", "<i16", "<b1x",
        ] {
            assert!(dtype(descr).is_err(), "{descr}");
        }
        assert!(dtype("|O").unwrap_err().what.contains("never unpickled"));
    }
}
