//! When a report was begun and by which command line, so that it can be made again.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::time::{SystemTime, UNIX_EPOCH};

/// As ISO 8601 has it, in UTC, to the second.
pub fn utc(time: SystemTime) -> String {
    let seconds = time.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    let (days, second) = (seconds / 86_400, seconds % 86_400);
    let (year, month, day) = date(days);
    let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z")
}

/// Of the Gregorian calendar, so many days after 1970-01-01. Years are counted from March on, so that the day that is not in
/// every year is the last of its own.
fn date(days: u64) -> (u64, u64, u64) {
    const DAYS_OF_400_YEARS: u64 = 146_097;
    // From 0000-03-01.
    let days = days + 719_468;
    let (era, day) = (days / DAYS_OF_400_YEARS, days % DAYS_OF_400_YEARS);
    let year = (day - day / 1460 + day / 36_524 - day / (DAYS_OF_400_YEARS - 1)) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    // Five months from March on have 153 days.
    let month = (5 * day + 2) / 153;
    let day = day - (153 * month + 2) / 5 + 1;
    let (month, later) = if month < 10 { (month + 3, 0) } else { (month - 9, 1) };
    (era * 400 + year + later, month, day)
}

/// The words of a command line as a shell takes them.
pub fn quoted(words: impl Iterator<Item = OsString>) -> String {
    words.map(|word| quoted_word(&word.into_vec())).collect::<Vec<_>>().join(" ")
}

fn quoted_word(word: &[u8]) -> String {
    let is_plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"-_./=:,@%+".contains(byte);
    match std::str::from_utf8(word) {
        Ok(text) if !text.is_empty() && word.iter().all(is_plain) => text.to_owned(),
        Ok(text) if !text.chars().any(char::is_control) => format!("'{}'", text.replace('\'', r"'\''")),
        _ => escaped_word(word),
    }
}

/// `$'…'`, where bytes that are no text can be written as numbers.
fn escaped_word(word: &[u8]) -> String {
    let mut quoted = String::from("$'");
    for chunk in word.utf8_chunks() {
        for char in chunk.valid().chars() {
            match char {
                '\'' | '\\' => quoted.extend(['\\', char]),
                char if char.is_control() => {
                    char.to_string().bytes().for_each(|byte| quoted.push_str(&octal(byte)));
                }
                char => quoted.push(char),
            }
        }
        chunk.invalid().iter().for_each(|&byte| quoted.push_str(&octal(byte)));
    }
    quoted + "'"
}

/// Three digits, after which none is taken for one more.
fn octal(byte: u8) -> String {
    format!("\\{byte:03o}")
}

#[cfg(test)]
mod tests {
    use std::process::Command;
    use std::time::Duration;

    use super::*;

    #[test]
    fn dates_are_those_of_the_calendar() {
        let told = |seconds| utc(UNIX_EPOCH + Duration::from_secs(seconds));
        // As `date -u -d @N` says.
        for (seconds, date) in [
            (0, "1970-01-01T00:00:00Z"),
            (951_782_399, "2000-02-28T23:59:59Z"),
            (951_782_400, "2000-02-29T00:00:00Z"),
            (951_868_800, "2000-03-01T00:00:00Z"),
            (1_234_567_890, "2009-02-13T23:31:30Z"),
            (1_735_689_599, "2024-12-31T23:59:59Z"),
            (4_107_542_399, "2100-02-28T23:59:59Z"),
            (4_107_542_400, "2100-03-01T00:00:00Z"),
        ] {
            assert_eq!(told(seconds), date);
        }
        assert_eq!(utc(UNIX_EPOCH - Duration::from_secs(1)), told(0));
    }

    #[test]
    fn plain_words_stay_as_they_are_and_others_are_told_apart() {
        let told = |words: &[&str]| quoted(words.iter().map(OsString::from));
        assert_eq!(told(&["forebay", "bench", "--chunk=4KiB,1MiB"]), "forebay bench --chunk=4KiB,1MiB");
        assert_eq!(told(&["a b", "", "$HOME", "it's"]), r"'a b' '' '$HOME' 'it'\''s'");
        assert_eq!(told(&["größe", "a\nb1", "a\u{85}"]), r"'größe' $'a\012b1' $'a\302\205'");
    }

    #[test]
    fn a_shell_gives_the_same_words_back() {
        let words: Vec<Vec<u8>> =
            [&b"a b"[..], b"", b"*", b"~", b"'\"\\", b"\xff'\n\x1b1\\", "大'".as_bytes(), b"!x", b"#", b"&&"]
                .map(<[u8]>::to_vec)
                .into();
        let line = quoted(words.iter().cloned().map(OsString::from_vec));
        match Command::new("bash").arg("-c").arg(format!("printf '%s\\0' {line}")).output() {
            Ok(output) => {
                let told: Vec<&[u8]> = output.stdout.split(|byte| *byte == 0).collect();
                assert_eq!(told[..told.len() - 1], words, "{line}");
            }
            Err(error) => crate::skipped::skipped(format!("bash: {error}")),
        }
    }
}
