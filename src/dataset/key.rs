/// The key and the extension of a member's name, by the rule of webdataset 1.0.2: the folders are kept, and the last part
/// is split at its first dot. Without a dot there is no key. Nor has a name that begins with a dot one, unless its folder
/// has none in its name: there the folder, with its slash, is the key.
pub(crate) fn split(name: &[u8]) -> Option<(&[u8], &[u8])> {
    let base = name.iter().rposition(|&byte| byte == b'/').map_or(0, |slash| slash + 1);
    let dot = base + name[base..].iter().position(|&byte| byte == b'.')?;
    let (key, ext) = (&name[..dot], &name[dot + 1..]);
    if dot > base {
        return Some((key, ext));
    }
    let folder = key.strip_suffix(b"/")?;
    let last = folder.rsplit(|&byte| byte == b'/').next().unwrap_or_default();
    (!last.contains(&b'.')).then_some((key, ext))
}

/// The same of a tensor's name: the sample's, and the field's.
pub(crate) fn split_text(name: &str) -> Option<(&str, &str)> {
    let (key, _) = split(name.as_bytes())?;
    // It was cut at a dot, which is one byte of text.
    name.get(..key.len()).zip(name.get(key.len() + 1..)).filter(|(key, _)| !key.is_empty())
}

/// Whether a file is what macOS keeps beside one that has a resource fork or attributes: in tar archives and on foreign disks
/// `._x` beside `x`, and in zip archives the same in a folder `__MACOSX`.
pub(super) fn is_apple_double(name: &[u8]) -> bool {
    let mut parts = name.rsplit(|&byte| byte == b'/');
    parts.next().is_some_and(|last| last.starts_with(b"._")) || parts.any(|part| part == b"__MACOSX")
}

/// Whether webdataset keeps a member for itself: its name, or that of its outermost folder, stands between `__` and `__`.
pub(super) fn is_meta(name: &[u8]) -> bool {
    let first = name.split(|&byte| byte == b'/').next().unwrap_or_default();
    first.len() >= 4 && first.starts_with(b"__") && first.ends_with(b"__")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_split_at_the_first_dot_of_their_last_part() {
        for (name, key_and_ext) in [
            ("000000.jpg", Some(("000000", "jpg"))),
            ("train.v1/0001.seg.jpg", Some(("train.v1/0001", "seg.jpg"))),
            ("a/22.0/1.1.png", Some(("a/22.0/1", "1.png"))),
            ("./a.x", Some(("./a", "x"))),
            ("../../a.x", Some(("../../a", "x"))),
            ("/a.x", Some(("/a", "x"))),
            ("UP.JPG", Some(("UP", "JPG"))),
            ("a.", Some(("a", ""))),
            ("a..b", Some(("a", ".b"))),
            ("noext", None),
            ("a.d/noext", None),
            ("a.d/", None),
            ("", None),
            (".", None),
            (".hidden.x", None),
            ("a/.b.c", Some(("a/", "b.c"))),
            ("x.y/z/.b.c", Some(("x.y/z/", "b.c"))),
            ("a.d/.b.c", None),
            ("x/a.d/.b", None),
            ("/.b", Some(("/", "b"))),
            ("a//.b", Some(("a//", "b"))),
        ] {
            let split = split(name.as_bytes());
            assert_eq!(split, key_and_ext.map(|(key, ext)| (key.as_bytes(), ext.as_bytes())), "{name}");
        }
    }

    #[test]
    fn names_between_underscores_are_kept_for_webdataset() {
        for name in ["__index__.json__", "__a__/1.x", "____"] {
            assert!(is_meta(name.as_bytes()), "{name}");
        }
        for name in ["__index__.json", "__key.__x", "a/__b__/1.x", "___/1.x", "a__", ""] {
            assert!(!is_meta(name.as_bytes()), "{name}");
        }
    }
}
