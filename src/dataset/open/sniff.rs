//! What a file is by its first bytes. All tests are in one table, the surest first.

use super::format::Format;
use crate::dataset::foreign::{self, Foreign};
use crate::dataset::{TfRecord, WebDataset, megatron, npy, npz, safetensors, tokens};

/// As much of the file as is looked at: a tar header.
pub(crate) const HEAD: usize = 512;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Content {
    Format(Format),
    /// Known, but of a kind that no samples are read from.
    Foreign(Foreign),
    /// Its first bytes say nothing, as those of a file without a header.
    Unknown,
}

/// Whether it is, by the first bytes and the length of the file.
type IsIt = fn(&[u8], u64) -> bool;

/// By chance, bytes that mean nothing pass for one of these once in 2^32 files or less.
const TESTS: [(Format, IsIt); 9] = [
    (Format::Npy, |head, _| npy::looks_like(head)),
    // Zip archives hold other things more often.
    (Format::Npz, |head, _| npz::looks_like(head) && foreign::of(head).is_none()),
    (Format::Megatron, |head, _| megatron::looks_like(head)),
    (Format::Parquet, |head, _| head.starts_with(b"PAR1")),
    (Format::Arrow, |head, _| head.starts_with(b"ARROW1\0\0")),
    (Format::WebDataset, |head, _| WebDataset::looks_like(head)),
    (Format::TfRecord, |head, _| TfRecord::looks_like(head)),
    (Format::Safetensors, safetensors::looks_like),
    (Format::Tokens, |head, _| tokens::looks_like(head)),
];

pub(crate) fn content(head: &[u8], len: u64) -> Content {
    match TESTS.iter().find(|(_, is_it)| is_it(head, len)) {
        Some((format, _)) => Content::Format(*format),
        None => foreign::of(head).map_or(Content::Unknown, Content::Foreign),
    }
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
