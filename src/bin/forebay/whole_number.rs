//! Whole numbers on the command line, each with its range.

use std::ops::RangeInclusive;

/// A parser for a whole number in this range. What refuses a number tells the range, whichever end it is beyond.
pub fn within<T: TryFrom<u64>>(
    range: RangeInclusive<u64>,
) -> impl Fn(&str) -> Result<T, String> + Clone + Send + Sync + 'static {
    move |text| {
        let number = text.parse().ok().filter(|number| range.contains(number));
        let number = number.and_then(|number| T::try_from(number).ok());
        number.ok_or_else(|| format!("a whole number from {} to {}", range.start(), range.end()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_beyond_either_end_are_refused_with_the_range() {
        let parse = within::<u16>(1..=1024);
        assert_eq!([parse("1"), parse("1024")], [Ok(1), Ok(1024)]);
        for text in ["0", "1025", "-1", "18446744073709551616", "", "1.5", "1KiB"] {
            assert_eq!(parse(text), Err("a whole number from 1 to 1024".to_owned()), "{text}");
        }
        assert_eq!(within::<u64>(0..=u64::MAX)("18446744073709551615"), Ok(u64::MAX));
    }
}
