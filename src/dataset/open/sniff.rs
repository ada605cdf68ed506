//! What a file is by its first bytes. All tests are in one table, the surest first.

use super::foreign::{self, Foreign};
use super::format::Format;

/// As much of the file as is looked at: a tar header.
pub(super) const HEAD: usize = 512;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Content {
    Format(Format),
    /// Known, but of a kind that no samples are read from.
    Foreign(Foreign),
    /// Its first bytes say nothing, as those of a file without a header.
    Unknown,
}

/// Whether it is, by the first bytes and the length of the file.
type IsIt = fn(&[u8], u64) -> bool;

/// By chance, bytes that mean nothing pass for one of these
/// once in 2^32 files or less.
const TESTS: [(Format, IsIt); 9] = [
    (Format::Npy, |head, _| head.starts_with(b"\x93NUMPY")),
    (Format::Npz, |head, _| {
        foreign::first_member(head).is_some_and(|name| name.ends_with(b".npy")) || is_empty_zip(head)
    }),
    (Format::Megatron, |head, _| head.starts_with(b"MMIDIDX\0\0")),
    (Format::Parquet, |head, _| head.starts_with(b"PAR1")),
    (Format::Arrow, |head, _| head.starts_with(b"ARROW1\0\0")),
    (Format::WebDataset, |head, _| is_tar(head)),
    (Format::TfRecord, |head, _| is_tfrecord(head)),
    (Format::Safetensors, crate::dataset::safetensors::looks_like),
    (Format::Tokens, |head, _| is_llm_c(head)),
];

pub(super) fn content(head: &[u8], len: u64) -> Content {
    match TESTS.iter().find(|(_, is_it)| is_it(head, len)) {
        Some((format, _)) => Content::Format(*format),
        None => foreign::of(head).map_or(Content::Unknown, Content::Foreign),
    }
}

/// A zip archive that ends where it begins, as numpy saves no arrays.
fn is_empty_zip(head: &[u8]) -> bool {
    head.starts_with(b"PK\x05\x06")
}

/// Its header's checksum is right: the sum of its bytes, with blanks in place of itself.
fn is_tar(head: &[u8]) -> bool {
    let Some(header) = head.first_chunk::<512>() else { return false };
    let (said, _) = header[148..156].split_at(7);
    let digits = said.iter().copied().skip_while(|byte| *byte == b' ').take_while(|byte| (b'0'..=b'7').contains(byte));
    let said = digits.fold(0_u64, |number, digit| number * 8 + u64::from(digit - b'0'));
    let sum: u64 = header.iter().map(|byte| u64::from(*byte)).sum();
    let own: u64 = header[148..156].iter().map(|byte| u64::from(*byte)).sum();
    header[0] != 0 && said == sum - own + 8 * u64::from(b' ')
}

/// The checksum of the first record's length is right.
fn is_tfrecord(head: &[u8]) -> bool {
    let (Some(length), Some(masked)) = (head.get(..8), head.get(8..12)) else { return false };
    let sum = crc32c::crc32c(length);
    masked == (sum.rotate_right(15).wrapping_add(0xa282_ead8)).to_le_bytes()
}

/// The header of llm.c's tokens: a number for each of its vocabularies, then the version.
fn is_llm_c(head: &[u8]) -> bool {
    [20_240_520_u32, 20_240_801]
        .iter()
        .any(|magic| head.starts_with(&[magic.to_le_bytes(), 1_u32.to_le_bytes()].concat()))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn checksums_tell_tfrecord_from_what_only_looks_so() {
        // The check value of CRC-32C, masked: 0xc78ab0e5 for "123456789".
        assert_eq!(crc32c::crc32c(b"123456789").rotate_right(15).wrapping_add(0xa282_ead8), 0xc78a_b0e5);
        let mut record = 5_u64.to_le_bytes().to_vec();
        let sum = crc32c::crc32c(&record).rotate_right(15).wrapping_add(0xa282_ead8);
        record.extend(sum.to_le_bytes());
        assert_eq!(content(&record, 21), Content::Format(Format::TfRecord));
        record[0] ^= 1;
        assert_eq!(content(&record, 21), Content::Unknown);
    }

    #[test]
    fn no_bytes_and_zeros_say_nothing() {
        assert_eq!(content(&[], 0), Content::Unknown);
        for len in [1, 8, 12, 100, 512] {
            assert_eq!(content(&vec![0; len], 1 << 20), Content::Unknown, "{len}");
        }
    }

    proptest! {
        #[test]
        fn bytes_without_meaning_are_of_no_format(head in prop::collection::vec(any::<u8>(), 0..512)) {
            prop_assert!(!matches!(content(&head, 1 << 30), Content::Format(_)));
        }

        /// Tokens of 16 bits with a vocabulary of 50257.
        #[test]
        fn tokens_are_of_no_other_format(tokens in prop::collection::vec(0_u16..50257, 0..256)) {
            let head: Vec<u8> = tokens.iter().flat_map(|token| token.to_le_bytes()).collect();
            prop_assert!(!matches!(content(&head, 1 << 30), Content::Format(_)));
        }
    }
}
