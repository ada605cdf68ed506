//! Reads the small text files of /sys and /proc. A file that is missing, unreadable or garbage is `None`.

use std::fs::File;
use std::io::Read;
use std::path::Path;

/// Longest attribute that is read. The kernel's own limit for a sysfs attribute is one page; /proc/self/status and
/// /proc/meminfo are a few KiB.
const LIMIT: u64 = 64 << 10;

/// The whole file with white space at both ends removed. Bytes that are not UTF-8 are replaced.
pub(crate) fn text(path: &Path) -> Option<String> {
    bounded(path, LIMIT)
}

/// As [`text`], for files that may be long.
pub(crate) fn bounded(path: &Path, limit: u64) -> Option<String> {
    let mut bytes = Vec::new();
    File::open(path).ok()?.take(limit).read_to_end(&mut bytes).ok()?;
    Some(String::from_utf8_lossy(&bytes).trim().to_owned())
}

/// The file's text, or `None` if it is empty.
pub(crate) fn word(path: &Path) -> Option<String> {
    text(path).filter(|word| !word.is_empty())
}

/// The file as one unsigned decimal number.
pub(crate) fn number(path: &Path) -> Option<u64> {
    text(path)?.parse().ok()
}

/// The file as a switch: `0` or `1`.
pub(crate) fn switch(path: &Path) -> Option<bool> {
    match text(path)?.as_str() {
        "0" => Some(false),
        "1" => Some(true),
        _ => None,
    }
}

/// The word in brackets of a choice such as `always [madvise] never`; a lone word stands for itself.
pub(crate) fn chosen(path: &Path) -> Option<String> {
    let text = word(path)?;
    let bracketed = text.split_whitespace().find_map(|word| word.strip_prefix('[')?.strip_suffix(']'));
    let alone = || (text.split_whitespace().count() == 1).then_some(text.as_str());
    bracketed.or_else(alone).filter(|choice| !choice.is_empty()).map(str::to_owned)
}

/// A NUMA node as the kernel writes it: -1 (unknown) and garbage are `None`.
pub(crate) fn numa_node(path: &Path) -> Option<u32> {
    text(path)?.parse().ok()
}

/// The byte order mark that JSON begins with, which no reader of JSON takes.
pub(crate) fn byte_order_mark(head: &[u8]) -> Option<&'static str> {
    match head {
        [0xef, 0xbb, 0xbf, ..] => Some("it begins with a byte order mark of UTF-8"),
        [0xff, 0xfe, ..] | [0xfe, 0xff, ..] => Some("it begins with a byte order mark of UTF-16"),
        _ => None,
    }
}

/// What to do about a [byte order mark](byte_order_mark).
pub(crate) const WITHOUT_MARK: &str = "save it as UTF-8 without a byte order mark";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys::fake_tree::FakeTree;

    #[test]
    fn garbage_is_none() {
        let tree = FakeTree::new();
        tree.bytes("garbage", b"\xff\xfe\0nonsense");
        tree.file("empty", "");
        tree.dir("folder");
        for name in ["garbage", "empty", "folder", "missing"] {
            let path = tree.path(name);
            assert_eq!(number(&path), None, "{name}");
            assert_eq!(switch(&path), None, "{name}");
            assert_eq!(numa_node(&path), None, "{name}");
        }
        assert_eq!(word(&tree.path("empty")), None);
        assert_eq!(text(&tree.path("folder")), None);
    }

    #[test]
    fn choices() {
        let tree = FakeTree::new();
        for (text, expected) in [
            ("always [madvise] never\n", Some("madvise")),
            ("[none] mq-deadline kyber", Some("none")),
            ("none\n", Some("none")),
            ("always never", None),
            ("[]", None),
            ("", None),
        ] {
            tree.file("choice", text);
            assert_eq!(chosen(&tree.path("choice")).as_deref(), expected, "{text:?}");
        }
    }

    #[test]
    fn an_unknown_node_is_none() {
        let tree = FakeTree::new();
        tree.file("unknown", "-1\n");
        tree.file("known", "3\n");
        assert_eq!(numa_node(&tree.path("unknown")), None);
        assert_eq!(numa_node(&tree.path("known")), Some(3));
    }
}
