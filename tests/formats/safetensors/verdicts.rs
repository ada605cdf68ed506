//! What the safetensors crate 0.8 accepts and refuses, pinned.
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

use forebay::dataset::{DType, Dataset, Safetensors};

use super::{agree, folder};
use crate::common::weights::{entry, file};

fn header(entries: &[String]) -> String {
    format!("{{{}}}", entries.join(","))
}

#[test]
fn what_the_crate_accepts_is_accepted() {
    let (_folder, path) = folder();
    let f32s = entry("a", "F32", &[2], 0, 8);
    let empties = header(&[
        entry("none", "F32", &[0], 0, 0),
        entry("flat", "F32", &[0, 5], 0, 0),
        entry("scalar", "F32", &[], 0, 4),
        entry("middle", "I64", &[3, 0, 2], 4, 4),
        entry("last", "U8", &[1], 4, 5),
    ]);
    let odd = header(&[entry("a", "U8", &[3], 0, 3)]);
    assert_eq!(odd.len() % 2, 1);
    let cases: [(&str, Vec<u8>, usize); 19] = [
        ("odd header length", file(&odd, b"abc"), 1),
        (
            "U8[3] before F32[2]",
            file(header(&[entry("a", "U8", &[3], 0, 3), entry("b", "F32", &[2], 3, 11)]), b"abcdefghijk"),
            2,
        ),
        ("nothing in them", file(empties, b"12345"), 5),
        ("another order", file(header(&[entry("z", "U8", &[1], 2, 3), entry("a", "U8", &[2], 0, 2)]), b"123"), 2),
        ("a name with dots", file(header(&[entry("../x", "U8", &[1], 0, 1)]), b"1"), 1),
        ("a name with a slash", file(header(&[entry("/etc/passwd", "U8", &[1], 0, 1)]), b"1"), 1),
        ("a name of no letters", file(header(&[entry("", "U8", &[1], 0, 1)]), b"1"), 1),
        ("a name of others' letters", file(header(&[entry("größe-重み", "U8", &[1], 0, 1)]), b"1"), 1),
        ("leading space", file(format!(" {}", header(std::slice::from_ref(&f32s))), b"12345678"), 1),
        ("leading lines", file(format!("\n\t\r{}", header(std::slice::from_ref(&f32s))), b"12345678"), 1),
        ("padded with spaces", file(format!("{}    ", header(std::slice::from_ref(&f32s))), b"12345678"), 1),
        ("padded with lines", file(format!("{}\n\n\n", header(std::slice::from_ref(&f32s))), b"12345678"), 1),
        ("no tensors", file("{}", b""), 0),
        ("metadata alone", file(r#"{"__metadata__":{"format":"pt"}}"#, b""), 0),
        ("metadata of null", file(r#"{"__metadata__":null}"#, b""), 0),
        ("F4[4]", file(header(&[entry("a", "F4", &[4], 0, 2)]), b"12"), 1),
        ("F8_E8M0", file(header(&[entry("a", "F8_E8M0", &[3], 0, 3)]), b"123"), 1),
        ("twice the same", file(header(&[f32s.clone(), f32s.clone()]), b"12345678"), 1),
        (
            "more than a tensor needs",
            file(r#"{"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1],"x":{"y":[1.5]}}}"#, b"1"),
            1,
        ),
    ];
    for (what, bytes, tensors) in cases {
        match agree(&path, &bytes) {
            Ok(seen) => assert_eq!(seen.len(), tensors, "{what}"),
            Err(error) => panic!("{what}: {error}"),
        }
    }
}

#[test]
fn every_type_is_read_at_its_size() {
    let (_folder, path) = folder();
    let (mut entries, mut at) = (Vec::new(), 0);
    for dtype in DType::all() {
        // The fewest that fill whole bytes of all: four.
        let len = dtype.bytes(4).unwrap();
        entries.push(entry(dtype.name(), dtype.name(), &[2, 2], at, at + len));
        at += len;
    }
    let data: Vec<u8> = (0..at).map(|i| i as u8).collect();
    assert_eq!(agree(&path, &file(header(&entries), &data)).unwrap().len(), 22);
}

#[test]
fn what_the_crate_refuses_is_refused_with_its_place_and_what_is_wrong() {
    let (_folder, path) = folder();
    let one =
        |name, dtype, shape: &[u64], from, to, data: &[u8]| file(header(&[entry(name, dtype, shape, from, to)]), data);
    let two = |a: (u64, u64), b: (u64, u64), data: &[u8]| {
        let shape = |(from, to): (u64, u64)| [to.wrapping_sub(from)];
        let [a, b] = [("a", a), ("b", b)].map(|(name, at)| entry(name, "U8", &shape(at), at.0, at.1));
        file(header(&[a, b]), data)
    };
    let sound = header(&[entry("w", "U8", &[4], 0, 4)]);
    let end = 8 + sound.len();
    let raw = |text: &str| file(text, b"1234");
    let length = |length: u64, rest: &[u8]| [&length.to_le_bytes()[..], rest].concat();
    let cases: Vec<(Vec<u8>, usize, Vec<&str>)> = vec![
        (file(&sound, b"12345"), end + 4, vec!["1 bytes follow that belong to no tensor"]),
        (file(&sound, &[&b"1234"[..], &[0; 4096]].concat()), end + 4, vec!["4096 bytes follow"]),
        (file(&sound, b"123"), end, vec!["needs 1 bytes more than the file has", "cut short"]),
        (one("w", "U8", &[8192], 0, 8192, &[0; 4096]), 0, vec!["needs 4096 bytes more"]),
        (file(format!("{sound}\0\0"), b"1234"), 8 + sound.len(), vec!["NUL", "pads with spaces"]),
        (
            raw(&header(&[entry("w", "U8", &[4], 0, 4), entry("w", "U8", &[2], 0, 2)])),
            8,
            vec!["there are two tensors called \"w\""],
        ),
        (
            file(
                header(&[entry("w", "U8", &[2], 0, 2), entry("v", "U8", &[2], 2, 4), entry("w", "U8", &[2], 4, 6)]),
                b"123456",
            ),
            8,
            vec!["there are two tensors called \"w\""],
        ),
        (two((0, 3), (2, 5), b"12345"), 8, vec!["\"a\"", "\"b\"", "share bytes"]),
        (two((0, 3), (0, 3), b"123"), 8, vec!["\"a\"", "\"b\"", "share bytes"]),
        (two((0, 9), (2, 5), b"123456789"), 8, vec!["\"a\"", "\"b\"", "share bytes"]),
        (one("w", "U8", &[4], 16, 20, &[0; 20]), 8, vec!["16 bytes of data before tensor \"w\" belong to no tensor"]),
        (two((0, 2), (4, 6), b"123456"), 8, vec!["2 bytes of data before tensor \"b\" belong to no tensor"]),
        (two((0, 2), (6, 4), b"123456"), 8, vec!["tensor \"b\" ends at 4", "begins at 6"]),
        (one("w", "F32", &[1000, 1000], 0, 4, b"1234"), 8, vec!["\"w\"", "4000000 bytes", "has 4"]),
        (one("w", "F32", &[1], 0, 8, b"12345678"), 8, vec!["\"w\"", "takes 4 bytes", "has 8"]),
        (one("w", "F32", &[1 << 32, 1 << 32], 0, 4, b"1234"), 8, vec!["\"w\"", "more bytes than can be counted"]),
        (one("w", "F64", &[1 << 61], 0, 4, b"1234"), 8, vec!["\"w\"", "more bytes than can be counted"]),
        (one("w", "U8", &[u64::MAX], 0, u64::MAX, b"1234"), 8, vec!["\"w\"", "more bytes than can be counted"]),
        (one("w", "U8", &[1 << 33, 1 << 33, 0], 0, 0, b""), 8, vec!["\"w\"", "more bytes than can be counted"]),
        (one("w", "F4", &[3], 0, 2, b"12"), 8, vec!["\"w\"", "F4 [3] does not fill whole bytes"]),
        (one("w", "Q9", &[4], 0, 4, b"1234"), 8, vec!["\"w\"", "Q9"]),
        (one("w", "f32", &[1], 0, 4, b"1234"), 8, vec!["\"w\"", "f32"]),
        (length(1 << 63, b"{}"), 0, vec!["9223372036854775808 bytes"]),
        (length(u64::MAX, b"{}"), 0, vec!["18446744073709551615 bytes"]),
        (length(100_000_001, b"{}"), 0, vec!["100000001 bytes", "more than 100000000"]),
        (length(100_000_000, b"{}"), 8, vec!["the header needs 99999998 bytes more than the file has"]),
        (length(u64::from(u32::MAX), b"{\"a\":{"), 0, vec!["4294967295 bytes"]),
        (length(0, b"{}"), 8, vec!["header"]),
        (Vec::new(), 0, vec!["the length of the header needs 8 bytes more"]),
        (b"1234567".to_vec(), 0, vec!["the length of the header needs 1 bytes more"]),
        (raw("[]  "), 8, vec!["does not begin with {"]),
        (raw("{\"w\":"), 8, vec!["EOF"]),
        (raw("{\"w\":3}"), 8, vec!["\"w\""]),
        (raw("\u{feff}{}"), 8, vec!["does not begin with {"]),
        (file(b"{\"\xff\":{}}", b""), 8, vec!["header"]),
        (file(r#"{"__metadata__":{"step":3}}"#, b""), 8, vec!["__metadata__", "string"]),
        (file(r#"{"__metadata__":[]}"#, b""), 8, vec!["__metadata__"]),
        (file(r#"{"__metadata__":{},"__metadata__":{}}"#, b""), 8, vec!["__metadata__"]),
        (raw(r#"{"w":{"dtype":"U8","shape":[4.0],"data_offsets":[0,4]}}"#), 8, vec!["\"w\"", "4.0"]),
        (raw(r#"{"w":{"dtype":"U8","shape":[4],"data_offsets":[0.5,4]}}"#), 8, vec!["\"w\"", "0.5"]),
        (raw(r#"{"w":{"dtype":"U8","shape":[-4],"data_offsets":[0,4]}}"#), 8, vec!["\"w\"", "-4"]),
        (raw(r#"{"w":{"dtype":"U8","shape":[4],"data_offsets":[-1,4]}}"#), 8, vec!["\"w\"", "-1"]),
        (raw(r#"{"w":{"dtype":"U8","shape":[4],"data_offsets":[0,4,8]}}"#), 8, vec!["\"w\""]),
        (raw(r#"{"w":{"dtype":"U8","shape":[18446744073709551616],"data_offsets":[0,4]}}"#), 8, vec!["\"w\""]),
        (raw(r#"{"w":{"dtype":"U8","shape":[4]}}"#), 8, vec!["\"w\"", "data_offsets"]),
        (raw(r#"{"w":{"dtype":"U8","dtype":"U8","shape":[4],"data_offsets":[0,4]}}"#), 8, vec!["\"w\"", "dtype"]),
        (raw(&format!("{sound}x")), 8, vec!["trailing"]),
        (raw(&format!("{sound}{{}}")), 8, vec!["trailing"]),
    ];
    for (bytes, offset, words) in cases {
        let shown = String::from_utf8_lossy(&bytes[..bytes.len().min(120)]).into_owned();
        match agree(&path, &bytes) {
            Ok(seen) => panic!("{shown}: {seen:?}"),
            Err(said) => {
                for word in words {
                    assert!(said.contains(word), "{shown}: {said:?} lacks {word:?}");
                }
                if offset > 0 {
                    assert!(said.contains(&format!(" at {offset}: ")), "{shown}: not at {offset}: {said}");
                }
            }
        }
    }
}

/// One of two places where we are stricter. The crate takes the later of two, and if that one alone fits the data, it does not
/// even notice.
#[test]
fn two_tensors_of_one_name_are_refused_even_where_the_crate_takes_the_later() {
    let (_folder, path) = folder();
    for (first, second) in [("U8", "I8"), ("F32", "U8")] {
        let entries = [entry("w", first, &[4], 0, if first == "F32" { 16 } else { 4 }), entry("w", second, &[4], 0, 4)];
        let bytes = file(header(&entries), b"1234");
        assert_eq!(crate::common::weights::oracle(&bytes).unwrap().len(), 1);
        std::fs::write(&path, bytes).unwrap();
        let said = Safetensors::open(&[&path]).unwrap_err().to_string();
        assert!(said.contains("there are two tensors called \"w\""), "{said}");
    }
}

/// The other place.
#[test]
fn shapes_of_more_dimensions_than_anybody_has_use_for_are_refused() {
    let (_folder, path) = folder();
    let of = |dims: usize| file(header(&[entry("w", "U8", &vec![1; dims], 0, 1)]), b"1");
    assert_eq!(agree(&path, &of(1024)).unwrap()[0].2.len(), 1024);
    assert!(crate::common::weights::oracle(&of(1025)).is_ok());
    std::fs::write(&path, of(1025)).unwrap();
    let said = Safetensors::open(&[&path]).unwrap_err().to_string();
    assert!(said.contains("\"w\"") && said.contains("more than 1024 dimensions"), "{said}");
}

#[test]
fn other_formats_under_the_name_are_called_by_theirs() {
    let (_folder, path) = folder();
    let rest = [0x5a; 600];
    let foreign: [(&[u8], &str); 6] = [
        (b"PK\x03\x04\x00\x00\x08\x08", "zip"),
        (b"\x80\x02\x8a\x0al\xfc\x9cF", "pickle"),
        (b"\x80\x04\x95\x00\x00\x00\x00\x00\x01", "pickle"),
        (b"GGUF\x03\x00\x00\x00", "GGUF"),
        (b"\x89HDF\r\n\x1a\n", "HDF5"),
        (b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 3\n", "Git LFS"),
    ];
    for (magic, name) in foreign {
        let said = agree(&path, &[magic, &rest].concat()).unwrap_err();
        assert!(said.contains(name), "{said}");
    }
}

#[test]
fn a_file_cut_at_any_byte_is_refused() {
    let (_folder, path) = folder();
    let entries = [entry("a", "F32", &[2, 2], 0, 16), entry("b", "U8", &[3], 16, 19), entry("c", "F4", &[0], 19, 19)];
    let whole = file(header(&entries), &[7; 19]);
    agree(&path, &whole).unwrap();
    for len in 0..whole.len() {
        let said = agree(&path, &whole[..len]).unwrap_err();
        assert!(said.contains("more than the file has"), "cut at {len}: {said}");
    }
}

#[test]
fn names_of_files_are_bytes() {
    let folder = crate::common::folder();
    for name in [&b"a\xff\xfeb.safetensors"[..], b"two\nlines.safetensors", b" ", b"-"] {
        let path = folder.path().join(OsStr::from_bytes(name));
        std::fs::write(&path, file(header(&[entry("w", "U8", &[2], 0, 2)]), b"12")).unwrap();
        assert_eq!(Safetensors::open(&[&path]).unwrap().files()[0].path(), path);
        std::fs::write(&path, b"short").unwrap();
        assert_eq!(Safetensors::open(&[&path]).unwrap_err().path, path);
    }
}

#[test]
fn what_is_no_file_is_refused_and_not_waited_for() {
    let folder = crate::common::folder();
    let fifo = folder.path().join("fifo.safetensors");
    nix::unistd::mkfifo(&fifo, nix::sys::stat::Mode::S_IRWXU).unwrap();
    let missing = folder.path().join("missing");
    let paths = [
        fifo.as_path(),
        folder.path(),
        "/dev/null".as_ref(),
        "/proc/kmsg".as_ref(),
        "/proc/self/maps".as_ref(),
        &missing,
    ];
    for path in paths {
        let path = path.to_owned();
        let error = crate::common::watchdog::guarded("open", move || {
            Safetensors::open(&[&path]).map(drop).map_err(|e| (path, e))
        });
        let (path, error) = error.unwrap_err();
        assert_eq!(error.path, path, "{error}");
        assert!(error.to_string().starts_with(&path.display().to_string()), "{error}");
    }
}
