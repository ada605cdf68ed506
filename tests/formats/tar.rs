//! Archives as GNU tar and Python's tarfile write them, against what these say is in them.
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use forebay::dataset::{Dataset, TarIndex, WebDataset};

use crate::common::python::Python;
use crate::common::{Skip, folder};
use crate::{bytes, or_skip};

/// The text of a name, with `\xNN` for what is none.
fn text(name: &[u8]) -> String {
    let chunk = |chunk: std::str::Utf8Chunk<'_>| {
        let invalid: String = chunk.invalid().iter().map(|byte| format!("\\x{byte:02x}")).collect();
        format!("{}{invalid}", chunk.valid())
    };
    name.utf8_chunks().map(chunk).collect()
}

/// All members by name, with the place of their data.
fn places(archive: &Path) -> BTreeMap<String, (u64, u64)> {
    let dataset = WebDataset::open(&[archive.to_owned()], TarIndex::Memory).unwrap();
    let stored = dataset.stored().map(Result::unwrap);
    stored.map(|tensor| (tensor.spec.name.to_string(), (tensor.range.offset, tensor.range.len))).collect()
}

/// The same as tarfile has it, of the members that have a key.
const LIST: &str = r#"
import sys, tarfile, os
for info in tarfile.open(sys.argv[1]):
    if info.isreg():
        print(os.fsencode(info.name).hex(), info.offset_data, info.size)
"#;

fn listed_by_python(python: &Python, archive: &Path) -> BTreeMap<String, (u64, u64)> {
    let script = LIST.replace("sys.argv[1]", &format!("{:?}", archive.to_str().unwrap()));
    let printed = python.run(archive.parent().unwrap(), &script);
    let member = |line: &str| {
        let [name, offset, size] = line.split(' ').collect::<Vec<_>>()[..] else { panic!("{line}") };
        let name: Vec<u8> = (0..name.len() / 2).map(|i| u8::from_str_radix(&name[2 * i..][..2], 16).unwrap()).collect();
        (text(&name), (offset.parse().unwrap(), size.parse().unwrap()))
    };
    printed.lines().map(member).collect()
}

/// Names of every length at which a format stores them in another way, and of bytes that are no text.
const WRITE: &str = r#"
import io, os, tarfile
names = ["a.jpg", "d/b.seg.png", "n" * 95 + ".x", "n" * 96 + ".x", "n" * 97 + ".x", "n" * 98 + ".x", "p" * 155 + "/" + "n" * 95 + ".y",
         "p" * 60 + "/" + "q" * 60 + "/k.z", "l" * 300 + "/k.z", "größe/ä.bild", os.fsdecode(b"\xff\xfe/k\xe4.x"), "ü" * 120 + ".x"]
formats = dict(ustar=tarfile.USTAR_FORMAT, gnu=tarfile.GNU_FORMAT, pax=tarfile.PAX_FORMAT)
for label, format in formats.items():
    with tarfile.open(label + ".tar", "w", format=format, encoding="utf-8", errors="surrogateescape") as tar:
        written = 0
        # The first member is one with a header of its own before it, where the format has such.
        for name in reversed(names):
            info = tarfile.TarInfo(name)
            info.mtime = 1700000000.25
            info.size = len(name) * 7
            try:
                info.tobuf(format, "utf-8", "surrogateescape")
            except (ValueError, UnicodeEncodeError):
                continue
            tar.addfile(info, io.BytesIO(b"7 bytes" * len(name)))
            link = tarfile.TarInfo("link%d.x" % written)
            link.type, link.linkname = [(tarfile.SYMTYPE, "t" * 150), (tarfile.LNKTYPE, "a.jpg")][written % 2]
            if format != tarfile.USTAR_FORMAT or link.type == tarfile.LNKTYPE:
                tar.addfile(link)
            written += 1
    print(label, written)
"#;

#[test]
fn archives_of_python_are_read_as_python_reads_them() {
    let python = or_skip!(Python::with(&["tarfile"]));
    let folder = folder();
    let written = python.run(folder.path(), WRITE);
    assert_eq!(written.lines().count(), 3);
    for line in written.lines() {
        let (label, count) = line.split_once(' ').unwrap();
        let count: usize = count.parse().unwrap();
        assert!(count >= if label == "ustar" { 8 } else { 12 }, "{line}");
        let archive = folder.path().join(format!("{label}.tar"));
        let found = places(&archive);
        assert_eq!(found, listed_by_python(&python, &archive), "{label}");
        assert_eq!(found.len(), count);
    }
}

/// Sizes that octal digits cannot hold: in base 256 and in a pax header.
#[test]
fn members_of_more_than_8_gib_are_read_as_python_reads_them() {
    let python = or_skip!(Python::with(&["tarfile"]));
    let folder = folder();
    python.run(
        folder.path(),
        r#"
import tarfile
for label, format in dict(gnu=tarfile.GNU_FORMAT, pax=tarfile.PAX_FORMAT).items():
    with open(label + ".tar", "wb") as file:
        for name, size in [("big.bin", (9 << 30) + 1), ("small.bin", 3), ("big2.bin", 1 << 33)]:
            info = tarfile.TarInfo(name)
            info.size = size
            file.write(info.tobuf(format, "utf-8", "strict"))
            file.seek((size + 511) // 512 * 512, 1)
        file.truncate(file.tell() + 1024)
"#,
    );
    for label in ["gnu", "pax"] {
        let archive = folder.path().join(format!("{label}.tar"));
        let found = places(&archive);
        assert_eq!(found, listed_by_python(&python, &archive), "{label}");
        let sizes: Vec<u64> = found.values().map(|place| place.1).collect();
        assert_eq!(sizes, [(9 << 30) + 1, 1 << 33, 3], "{label}");
    }
}

fn gnu_tar(folder: &Path, arguments: &[&str]) -> Result<(), Skip> {
    let version = Command::new("tar").arg("--version").output();
    match version {
        Ok(output) if output.stdout.starts_with(b"tar (GNU tar)") => {}
        _ => return Err(Skip::because("there is no GNU tar")),
    }
    let done = Command::new("tar").args(arguments).current_dir(folder).stderr(Stdio::piped()).output().unwrap();
    assert!(done.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&done.stderr));
    Ok(())
}

/// Files of many names, sizes and kinds, with those that a member's name and data are to be found under.
fn tree(folder: &Path, longest: usize) -> BTreeMap<String, Vec<u8>> {
    let names: Vec<Vec<u8>> = vec![
        b"a.jpg".to_vec(),
        b"b/c.seg.png".to_vec(),
        b"b/\xff\xe4.x".to_vec(),
        "größe.x".into(),
        [&[b'n'; 85][..], b".x"].concat(),
        [&[b'p'; 60][..], b"/", &[b'q'; 60], b"/", &[b'n'; 90], b".x"].concat(),
        [&[b'l'; 200][..], b"/", &[b'm'; 200], b".x"].concat(),
    ];
    let mut contents = BTreeMap::new();
    for (i, name) in names.iter().filter(|name| name.len() <= longest).enumerate() {
        let path = folder.join("in").join(OsStr::from_bytes(name));
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        let content: Vec<u8> = (0..i * 511).map(|byte| (byte * 31 + i) as u8).collect();
        fs::write(&path, &content).unwrap();
        contents.insert(format!("./{}", text(name)), content);
    }
    let inside = folder.join("in");
    std::os::unix::fs::symlink("../../outside", inside.join("link.x")).unwrap();
    std::os::unix::fs::symlink("t".repeat(if longest > 300 { 300 } else { 80 }), inside.join("long_link.x")).unwrap();
    fs::hard_link(inside.join("a.jpg"), inside.join("z_hard.jpg")).unwrap();
    contents
}

#[test]
fn archives_of_gnu_tar_hold_what_the_files_hold() {
    for (format, longest) in [("v7", 90), ("ustar", 240), ("oldgnu", 500), ("gnu", 500), ("posix", 500)] {
        let folder = folder();
        let contents = tree(folder.path(), longest);
        let archive: PathBuf = folder.path().join("a.tar");
        let format = format!("--format={format}");
        or_skip!(gnu_tar(folder.path(), &[&format, "--sort=name", "-cf", "a.tar", "-C", "in", "."]));
        let dataset = WebDataset::open(&[archive], TarIndex::Memory).unwrap();
        let mut found = BTreeMap::new();
        for index in 0..dataset.len() {
            for (ext, bytes) in bytes::of(&dataset, index) {
                found.insert(format!("{}.{ext}", dataset.id(index)), bytes);
            }
        }
        assert_eq!(found, contents, "{format}");
    }
}

#[test]
fn sparse_members_of_gnu_tar_are_refused_by_name() {
    let forms: [&[&str]; 4] = [
        &["--format=gnu"],
        &["--format=posix", "--sparse-version=0.0"],
        &["--format=posix", "--sparse-version=0.1"],
        &["--format=posix", "--sparse-version=1.0"],
    ];
    for form in forms {
        let folder = folder();
        let holes = fs::File::create(folder.path().join("holes.bin")).unwrap();
        std::os::unix::fs::FileExt::write_all_at(&holes, b"twelve bytes", 1 << 20).unwrap();
        or_skip!(gnu_tar(folder.path(), &[form, &["-S", "-cf", "a.tar", "holes.bin"]].concat()));
        let refused = WebDataset::open(&[folder.path().join("a.tar")], TarIndex::Memory).unwrap_err().to_string();
        let said = "member holes.bin is sparse; write the archive again without --sparse";
        assert!(refused.ends_with(said), "{form:?}: {refused}");
    }
}

#[test]
fn compressed_archives_are_refused_with_what_to_do() {
    let folder = folder();
    fs::write(folder.path().join("a.x"), "1").unwrap();
    or_skip!(gnu_tar(folder.path(), &["-czf", "a.tar", "a.x"]));
    let refused = WebDataset::open(&[folder.path().join("a.tar")], TarIndex::Memory).unwrap_err().to_string();
    assert!(refused.contains("a.tar at 0: it is compressed with gzip; decompress it first"), "{refused}");
}
