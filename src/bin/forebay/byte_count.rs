//! Numbers of bytes on the command line and in text for people.

use std::str::FromStr;

const UNITS: [(&str, u32); 4] = [("TiB", 40), ("GiB", 30), ("MiB", 20), ("KiB", 10)];

/// A number of bytes as the command line takes it: `4096`, `64KiB`, `2GiB`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ByteCount(pub u64);

impl FromStr for ByteCount {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let suffixed = UNITS.iter().find_map(|(unit, shift)| Some((text.strip_suffix(unit)?, *shift)));
        let (digits, shift) = suffixed.unwrap_or((text, 0));
        if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
            return Err("a number of bytes is decimal digits, then nothing or KiB, MiB, GiB or TiB".to_owned());
        }
        let number = digits.parse::<u64>().ok().and_then(|number| number.checked_mul(1 << shift));
        number.map(Self).ok_or_else(|| "larger than 2^64 - 1 bytes".to_owned())
    }
}

/// For people: the largest unit that fits, one decimal where the number is not whole.
pub fn shown(bytes: u64) -> String {
    let fitting = UNITS.iter().find(|(_, shift)| bytes >> shift > 0);
    match fitting {
        None => format!("{bytes} bytes"),
        Some((unit, shift)) if bytes.is_multiple_of(1 << shift) => format!("{} {unit}", bytes >> shift),
        Some((unit, shift)) => format!("{:.1} {unit}", bytes as f64 / (1_u64 << shift) as f64),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_and_suffixed_numbers() {
        for (text, bytes) in
            [("0", 0), ("4096", 4096), ("1KiB", 1 << 10), ("3MiB", 3 << 20), ("2GiB", 2 << 30), ("1TiB", 1 << 40)]
        {
            assert_eq!(text.parse(), Ok(ByteCount(bytes)), "{text}");
        }
        assert_eq!(u64::MAX.to_string().parse(), Ok(ByteCount(u64::MAX)));
    }

    #[test]
    fn anything_else_is_refused() {
        for text in [
            "",
            "KiB",
            "-1",
            "+1",
            "1.5KiB",
            "1 KiB",
            "1kib",
            "1KB",
            "0x10",
            "1_000",
            "18446744073709551616",
            "16777216TiB",
        ] {
            assert!(text.parse::<ByteCount>().is_err(), "{text}");
        }
    }

    #[test]
    fn shown_for_people() {
        for (bytes, text) in [(0, "0 bytes"), (1023, "1023 bytes"), (1 << 20, "1 MiB"), (3 << 19, "1.5 MiB")] {
            assert_eq!(shown(bytes), text);
        }
    }
}
