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
            return Err(
                "a number of bytes is whole, and its suffix none, KiB, MiB, GiB or TiB, such as 64KiB".to_owned()
            );
        }
        let number = digits.parse::<u64>().ok().and_then(|number| number.checked_mul(1 << shift));
        number.map(Self).ok_or_else(|| "larger than 2^64 - 1 bytes".to_owned())
    }
}

/// For people: the largest unit that fits, one decimal where the number is not whole.
pub fn shown(bytes: u64) -> String {
    let fitting = UNITS.iter().find(|(_, shift)| bytes >> shift > 0);
    match fitting {
        None if bytes == 1 => "1 byte".to_owned(),
        None => format!("{bytes} bytes"),
        Some((unit, shift)) if bytes.is_multiple_of(1 << shift) => format!("{} {unit}", bytes >> shift),
        Some((unit, shift)) => format!("{:.1} {unit}", bytes as f64 / (1_u64 << shift) as f64),
    }
}

/// For people: a rate in the unit that keeps it from being nothing, of 1000 each as drives and links are sold by.
pub fn rate(bytes_per_second: f64) -> String {
    const RATES: [(&str, f64); 3] = [("GB/s", 1e9), ("MB/s", 1e6), ("KB/s", 1e3)];
    match RATES.into_iter().find(|(_, unit)| bytes_per_second >= *unit) {
        Some((name, unit)) => format!("{:.2} {name}", bytes_per_second / unit),
        None => format!("{bytes_per_second:.0} B/s"),
    }
}

/// `1 file`, `2 files`.
pub fn counted(number: u64, what: &str) -> String {
    format!("{number} {what}{}", if number == 1 { "" } else { "s" })
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
        for (bytes, text) in
            [(0, "0 bytes"), (1, "1 byte"), (1023, "1023 bytes"), (1 << 20, "1 MiB"), (3 << 19, "1.5 MiB")]
        {
            assert_eq!(shown(bytes), text);
        }
        for (bytes, text) in
            [(0.0, "0 B/s"), (999.0, "999 B/s"), (1e3, "1.00 KB/s"), (2.5e6, "2.50 MB/s"), (14.2e9, "14.20 GB/s")]
        {
            assert_eq!(rate(bytes), text);
        }
        assert_eq!([0, 1, 2].map(|n| counted(n, "file")), ["0 files", "1 file", "2 files"]);
    }
}
