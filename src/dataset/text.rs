//! Names in archives are bytes; people are shown text.

use std::borrow::Cow;
use std::fmt::Write as _;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// The text that these bytes are, with `\xNN` for each byte that is none. Text that has `\xNN` itself is shown with `\x5c`
/// for that backslash, so that no two names are shown alike: texts made here are names of samples and fields, too.
pub(crate) fn text(bytes: &[u8]) -> Cow<'_, str> {
    match std::str::from_utf8(bytes) {
        Ok(text) if !bytes.windows(4).any(is_shown_byte) => return Cow::Borrowed(text),
        _ => {}
    }
    let mut shown = String::with_capacity(bytes.len() + 16);
    for chunk in bytes.utf8_chunks() {
        let mut rest = chunk.valid();
        while let Some(at) = rest.as_bytes().windows(4).position(is_shown_byte) {
            let (before, from) = rest.split_at(at);
            shown.push_str(before);
            shown.push_str("\\x5c");
            rest = from.strip_prefix('\\').unwrap_or_default();
        }
        shown.push_str(rest);
        for byte in chunk.invalid() {
            let _ = write!(shown, "\\x{byte:02x}");
        }
    }
    Cow::Owned(shown)
}

/// A message on one line, whose middle is left out where it is long: names, which messages hold, may be as long as a file.
pub(crate) fn brief(what: String) -> String {
    const BEGINNING: usize = 500;
    const END: usize = 250;
    let beginning = what.char_indices().nth(BEGINNING).map(|(at, _)| at);
    let end = what.char_indices().rev().nth(END).map(|(at, _)| at);
    match (beginning, end) {
        (Some(beginning), Some(end)) if beginning < end => one_line(format!("{}…{}", &what[..beginning], &what[end..])),
        _ => one_line(what),
    }
}

/// With what would break the line, or steer a terminal, escaped.
fn one_line(text: String) -> String {
    if !text.contains(char::is_control) {
        return text;
    }
    let mut line = String::with_capacity(text.len() + 16);
    for char in text.chars() {
        match char.is_control() {
            true => line.extend(char.escape_default()),
            false => line.push(char),
        }
    }
    line
}

/// A path as text, as this crate shows it in messages and JSON: a byte that is none is `\xNN`, and two paths are never
/// shown alike.
pub fn shown(path: &Path) -> Cow<'_, str> {
    text(path.as_os_str().as_bytes())
}

fn is_shown_byte(bytes: &[u8]) -> bool {
    matches!(bytes, [b'\\', b'x', high, low] if high.is_ascii_hexdigit() && low.is_ascii_hexdigit())
}

/// The same for messages: on one line, and cut where it is long.
pub(crate) fn in_message(bytes: &[u8]) -> String {
    const MOST: usize = 200;
    let mut shown = String::new();
    for (i, char) in text(bytes).chars().enumerate() {
        if i == MOST {
            shown.push('…');
            break;
        }
        match char.is_control() {
            true => shown.extend(char.escape_default()),
            false => shown.push(char),
        }
    }
    shown
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The way back, by the rule alone.
    fn bytes_of(shown: &str) -> Vec<u8> {
        let mut bytes = Vec::new();
        let mut rest = shown.as_bytes();
        while let [first, more @ ..] = rest {
            if let [_, b'x', high, low, more @ ..] = rest
                && is_shown_byte(&rest[..4])
            {
                let digits = [*high, *low];
                bytes.push(u8::from_str_radix(str::from_utf8(&digits).unwrap(), 16).unwrap());
                rest = more;
            } else {
                bytes.push(*first);
                rest = more;
            }
        }
        bytes
    }

    proptest! {
        #[test]
        fn no_two_names_are_shown_alike(
            pieces in prop::collection::vec(prop::sample::select(vec![&b"\\"[..], b"x", b"5", b"c", b"f", b"\xff", b"\xc3", "\u{e4}".as_bytes()]), 0..14)
        ) {
            let name = pieces.concat();
            let shown = text(&name);
            prop_assert_eq!(bytes_of(&shown), &name[..], "{}", shown);
        }
    }

    #[test]
    fn bytes_that_are_no_text_are_shown_as_numbers() {
        assert_eq!(text("größe".as_bytes()), "größe");
        assert!(matches!(text(b"plain"), Cow::Borrowed("plain")));
        assert_eq!(text(b"a\xffb\xe4.c"), "a\\xffb\\xe4.c");
        assert_eq!(text(b"a\\xffb\\xg"), "a\\x5cxffb\\xg");
        assert_eq!(in_message(b"a\nb\xff"), "a\\nb\\xff");
        assert_eq!(in_message(&[b'n'; 1000]).chars().count(), 201);
    }
}
