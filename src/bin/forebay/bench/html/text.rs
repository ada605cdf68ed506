//! Text from outside inside markup.

/// Nothing in it is markup any more. Control characters, which no page may hold, are shown as what they are not.
pub fn escaped(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for char in text.chars() {
        match char {
            '&' => safe.push_str("&amp;"),
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '"' => safe.push_str("&quot;"),
            '\'' => safe.push_str("&#39;"),
            '\n' | '\t' => safe.push(' '),
            char if char.is_control() || matches!(char, '\u{FFFE}' | '\u{FFFF}') => safe.push('\u{FFFD}'),
            char => safe.push(char),
        }
    }
    safe
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_text_is_markup() {
        assert_eq!(escaped("<a b='c' d=\"e\">&amp;"), "&lt;a b=&#39;c&#39; d=&quot;e&quot;&gt;&amp;amp;");
        assert_eq!(escaped("a\nb\u{1b}[31m\u{0}"), "a b\u{FFFD}[31m\u{FFFD}");
        assert_eq!(escaped("größe 大"), "größe 大");
    }
}
