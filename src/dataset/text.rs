//! Names in archives are bytes; people are shown text.

use std::borrow::Cow;
use std::fmt::Write as _;

/// The text that these bytes are, with `\xNN` for each byte that is none.
pub(crate) fn text(bytes: &[u8]) -> Cow<'_, str> {
    if let Ok(text) = std::str::from_utf8(bytes) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(bytes.len() + 16);
    for chunk in bytes.utf8_chunks() {
        shown.push_str(chunk.valid());
        for byte in chunk.invalid() {
            let _ = write!(shown, "\\x{byte:02x}");
        }
    }
    Cow::Owned(shown)
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
    use super::*;

    #[test]
    fn bytes_that_are_no_text_are_shown_as_numbers() {
        assert_eq!(text("größe".as_bytes()), "größe");
        assert!(matches!(text(b"plain"), Cow::Borrowed("plain")));
        assert_eq!(text(b"a\xffb\xe4.c"), "a\\xffb\\xe4.c");
        assert_eq!(in_message(b"a\nb\xff"), "a\\nb\\xff");
        assert_eq!(in_message(&[b'n'; 1000]).chars().count(), 201);
    }
}
