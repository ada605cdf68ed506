/// Bytes of a length and its checksum.
pub(super) const HEAD: usize = 12;
/// Bytes of the checksum behind the data.
pub(super) const TAIL: usize = 4;

/// The length of the record that begins so; `None` where its checksum is wrong.
pub(super) fn length(head: &[u8; HEAD]) -> Option<u64> {
    let (length, sum) = head.split_first_chunk::<8>()?;
    (masked(crc32c::crc32c(length)).to_le_bytes() == sum).then(|| u64::from_le_bytes(*length))
}

/// A CRC-32C as it is kept, so that a checksum of data which holds checksums is a good one.
pub(super) fn masked(crc: u32) -> u32 {
    crc.rotate_right(15).wrapping_add(0xa282_ead8)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checksums_are_those_of_the_check_value() {
        let crc = crc32c::crc32c(b"123456789");
        assert_eq!((crc, masked(crc)), (0xe306_9283, 0xc78a_b0e5));
    }
}
