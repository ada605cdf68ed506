use super::BLOCK;

/// One header block whose checksum is right.
#[derive(Debug, Clone, Copy)]
pub(super) struct Header<'a>(&'a [u8; BLOCK]);

/// Whether a file that begins so is an archive: it begins with a header.
pub(crate) fn looks_like(head: &[u8]) -> bool {
    head.first_chunk().is_some_and(|block| Header::new(block).is_some())
}

impl<'a> Header<'a> {
    /// `None` where the block's checksum is not the one it says.
    pub(super) fn new(block: &'a [u8; BLOCK]) -> Option<Self> {
        let said = number(&block[148..156]).ok()?;
        (said == sum(block) || said == signed_sum(block)).then_some(Self(block))
    }

    pub(super) fn kind(self) -> u8 {
        self.0[156]
    }

    /// Bytes of data, by the header alone.
    pub(super) fn size(self) -> Result<u64, &'static str> {
        number(&self.0[124..136])
    }

    /// Puts the name in `name`, without what a record says of it.
    pub(super) fn name_into(self, name: &mut Vec<u8>) {
        name.clear();
        name.extend_from_slice(before_nul(self.prefix()));
        if !name.is_empty() {
            name.push(b'/');
        }
        name.extend_from_slice(self.last_name());
    }

    /// The name field, which is all of the name but for long ones of ustar.
    pub(super) fn last_name(self) -> &'a [u8] {
        before_nul(&self.0[..100])
    }

    /// What a link leads to, without what a record says of it.
    pub(super) fn link_name(self) -> &'a [u8] {
        before_nul(&self.0[157..257])
    }

    /// Only ustar has one: GNU tar keeps times there, and old archives anything.
    fn prefix(self) -> &'a [u8] {
        let is_star = self.0[508..] == *b"tar\0";
        match &self.0[257..263] {
            // star keeps times in the end of it.
            b"ustar\0" if is_star => &self.0[345..476],
            b"ustar\0" => &self.0[345..500],
            _ => &[],
        }
    }
}

fn before_nul(field: &[u8]) -> &[u8] {
    field.split(|&byte| byte == 0).next().unwrap_or_default()
}

/// The sum of the block's bytes, with spaces for those that hold the sum.
fn sum(block: &[u8; BLOCK]) -> u64 {
    let of = |bytes: &[u8]| bytes.iter().map(|&byte| u32::from(byte)).sum::<u32>();
    u64::from(of(&block[..148]) + 8 * u32::from(b' ') + of(&block[156..]))
}

/// The same of bytes with a sign, as some old writers took it. Negative ones match nothing.
fn signed_sum(block: &[u8; BLOCK]) -> u64 {
    let of = |bytes: &[u8]| bytes.iter().map(|&byte| i64::from(byte as i8)).sum::<i64>();
    u64::try_from(of(&block[..148]) + 8 * i64::from(b' ') + of(&block[156..])).unwrap_or(u64::MAX)
}

/// A number: octal digits, with spaces before and a space or NUL behind, or base 256 where the first bit is set.
fn number(field: &[u8]) -> Result<u64, &'static str> {
    match field.first() {
        Some(0x80) => base_256(&field[1..]),
        Some(0xff) => Err("is negative"),
        _ => octal(field),
    }
}

fn base_256(bytes: &[u8]) -> Result<u64, &'static str> {
    let (high, low) = bytes.split_at(bytes.len().saturating_sub(8));
    let fits = high.iter().all(|&byte| byte == 0);
    let number = low.iter().fold(0_u64, |number, &byte| number << 8 | u64::from(byte));
    if fits { Ok(number) } else { Err("is more than 64 bits") }
}

fn octal(field: &[u8]) -> Result<u64, &'static str> {
    let digits = field.trim_ascii_start();
    let end = digits.iter().position(|byte| !byte.is_ascii_digit()).unwrap_or(digits.len());
    let (digits, rest) = digits.split_at(end);
    // Twelve digits of three bits fit.
    let number = digits.iter().try_fold(0_u64, |number, &digit| match digit {
        b'0'..=b'7' => Some(number << 3 | u64::from(digit - b'0')),
        _ => None,
    });
    match (number, rest.first()) {
        (Some(number), None | Some(0 | b' ')) => Ok(number),
        _ => Err("is no octal number"),
    }
}

#[cfg(test)]
mod unit {
    use super::*;

    #[test]
    fn numbers_are_octal_or_base_256_and_nothing_else() {
        for (field, number_in_it) in [
            (b"00000001750\0", Ok(1000)),
            (b"       1750 ", Ok(1000)),
            (b"777777777777", Ok(0o777_777_777_777)),
            (b"1750\0garbage", Ok(1000)),
            (b"\0\0\0\0\0\0\0\0\0\0\0\0", Ok(0)),
            (b"            ", Ok(0)),
            (b"\x80\0\0\0\0\0\0\x02\0\0\0\0", Ok(1 << 33)),
            (b"\x80\0\0\0\xff\xff\xff\xff\xff\xff\xff\xff", Ok(u64::MAX)),
            (b"\x80\0\0\x01\0\0\0\0\0\0\0\0", Err("is more than 64 bits")),
            (b"\x80\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff", Err("is more than 64 bits")),
            (b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff", Err("is negative")),
            (b"\x81\0\0\0\0\0\0\0\0\0\0\x01", Err("is no octal number")),
            (b"-0000000001\0", Err("is no octal number")),
            (b"00000001780\0", Err("is no octal number")),
            (b"0x000000010\0", Err("is no octal number")),
        ] {
            assert_eq!(number(field), number_in_it, "{:?}", field.escape_ascii().to_string());
        }
    }
}
