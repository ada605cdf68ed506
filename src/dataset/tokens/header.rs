//! What stands before the tokens in files that llm.c reads.

use super::super::dtype::DType;
use super::super::error::{DatasetError, DatasetFault};
use super::super::source::Source;

/// 256 numbers of 32 bits, of which three have a meaning.
const LEN: u64 = 1024;
const FIX: &str = "write it again with llm.c's scripts";

/// The tokens of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Tokens {
    pub(super) dtype: DType,
    pub(super) count: u64,
    /// Where they begin.
    pub(super) offset: u64,
}

/// Whether a file that begins so has a header of llm.c's.
pub(crate) fn looks_like(head: &[u8]) -> bool {
    head.first_chunk::<4>().is_some_and(|magic| kind(u32::from_le_bytes(*magic)).is_some())
}

/// Version and type of the tokens of the files that begin so; no type where they are no tokens.
fn kind(magic: u32) -> Option<(u32, Option<DType>)> {
    match magic {
        // GPT-2
        20_240_520 => Some((1, Some(DType::U16))),
        // Llama 3
        20_240_801 => Some((7, Some(DType::U32))),
        // Questions with several answers
        20_240_522 => Some((1, None)),
        _ => None,
    }
}

/// The tokens of a file that has a header, `None` where it has none.
pub(super) fn read(source: &Source) -> Result<Option<Tokens>, DatasetError> {
    let mut head = [0; LEN as usize];
    let len = source.read_up_to(0, &mut head)?;
    let head = &head[..len];
    if !looks_like(head) {
        return Ok(None);
    }
    source.check_range(0, LEN, "llm.c's header")?;
    let number = |i: usize| head.get(i * 4..).and_then(<[u8]>::first_chunk).map_or(0, |it| u32::from_le_bytes(*it));
    let Some((version, dtype)) = kind(number(0)) else {
        return Ok(None);
    };
    if number(1) != version {
        let what = format!("version {} of llm.c's files is not known", number(1));
        return Err(source.unsupported(4, what, "give a file of version 1 (GPT-2) or 7 (Llama 3)"));
    }
    let Some(dtype) = dtype else {
        return Err(source.unsupported(
            0,
            "this file of llm.c's is for evaluation, and no run of tokens",
            "leave it out",
        ));
    };
    // It counts with 31 bits.
    let count = u64::from(number(2));
    if i32::try_from(number(2)).is_err() {
        return Err(source.malformed(8, "the header's number of tokens is negative", FIX));
    }
    let bytes = dtype.bytes(count).unwrap_or(u64::MAX);
    let has = source.len() - LEN;
    if has < bytes {
        let what = format!("the {count} tokens that the header tells of");
        return Err(source.fault(LEN, DatasetFault::Truncated { what, missing: bytes - has }));
    }
    if has > bytes {
        let what = format!("{} bytes follow the {count} tokens that the header tells of", has - bytes);
        return Err(source.malformed(LEN + bytes, what, FIX));
    }
    Ok(Some(Tokens { dtype, count, offset: LEN }))
}
