//! Version numbers of kernels and drivers.

use std::fmt;

/// A version of dotted numbers, such as `570.86.15`; shown as it was written.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Version {
    text: String,
    numbers: Vec<u32>,
}

impl Version {
    /// The dotted numbers that `text` begins with: `6.8.0-45-generic` is 6.8.0. `None` where it begins with no number.
    pub fn parse(text: &str) -> Option<Self> {
        let end = text.find(|sign: char| sign != '.' && !sign.is_ascii_digit()).unwrap_or(text.len());
        let text = text.get(..end)?.trim_end_matches('.');
        let numbers: Option<Vec<u32>> = text.split('.').map(|number| number.parse().ok()).collect();
        Some(Self { text: text.to_owned(), numbers: numbers? })
    }

    /// The first number.
    pub fn major(&self) -> u32 {
        self.numbers.first().copied().unwrap_or_default()
    }

    /// How many numbers it has: 2 of `2.25`, 3 of `2.25.6`.
    pub fn precision(&self) -> usize {
        self.numbers.len()
    }

    /// Whether this is `numbers` or newer. Numbers that this version does not have count as 0.
    pub fn is_at_least(&self, numbers: &[u32]) -> bool {
        self.numbers.as_slice() >= numbers || is_zero_extended(&self.numbers, numbers)
    }
}

/// 6.2 is not older than 6.2.0.
fn is_zero_extended(short: &[u32], long: &[u32]) -> bool {
    long.strip_prefix(short).is_some_and(|rest| rest.iter().all(|number| *number == 0))
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

#[cfg(test)]
mod tests {
    use super::Version;

    #[test]
    fn what_a_version_is() {
        for (text, expected) in [
            ("570.86.15", Some("570.86.15")),
            ("535.104.05 Sat", Some("535.104.05")),
            ("6.8.0-45-generic", Some("6.8.0")),
            ("6.18.44-fc", Some("6.18.44")),
            ("2.25", Some("2.25")),
            ("7.", Some("7")),
            ("", None),
            ("v2", None),
            (".5", None),
            ("1..2", None),
            ("99999999999", None),
        ] {
            assert_eq!(Version::parse(text).map(|version| version.to_string()).as_deref(), expected, "{text}");
        }
    }

    #[test]
    fn versions_are_compared_by_number() {
        let at_least = |text: &str, numbers: &[u32]| Version::parse(text).unwrap().is_at_least(numbers);
        assert!(at_least("6.10", &[6, 2]) && at_least("6.2", &[6, 2]) && at_least("6.2", &[6, 2, 0]));
        assert!(!at_least("6.1.99", &[6, 2]) && !at_least("2.28", &[2, 28, 4]) && !at_least("5.15", &[6, 2]));
    }
}
