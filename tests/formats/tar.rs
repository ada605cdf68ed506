//! Archives as GNU tar and Python's tarfile write them, against what these say is in them.
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use forebay::dataset::{self, Dataset, OpenOptions, TarIndex, WebDataset};

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

/// The same as tarfile has it, of the members that have a key: a link is the file that it leads to.
const LIST: &str = r#"
import sys, tarfile, os
archive = tarfile.open(sys.argv[1])
for info in archive:
    try:
        file = archive.getmember(info.linkname) if info.islnk() or info.issym() else info
    except KeyError:
        continue
    if file.isreg():
        print(os.fsencode(info.name).hex(), file.offset_data, file.size)
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
        // Of the links, every other leads to a file.
        assert_eq!(found.len(), count + count / 2);
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
    contents.insert("./z_hard.jpg".to_owned(), contents["./a.jpg"].clone());
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

/// Every file below a folder that can be read, by the name that GNU tar stores it under; links are followed.
fn files_below(folder: &Path, name: &str) -> BTreeMap<String, Vec<u8>> {
    let mut files = BTreeMap::new();
    for entry in fs::read_dir(folder).unwrap() {
        let entry = entry.unwrap();
        let name = format!("{name}/{}", text(entry.file_name().as_bytes()));
        match entry.file_type().unwrap().is_dir() {
            true => files.extend(files_below(&entry.path(), &name)),
            // What leads nowhere, in a circle or to a folder is no file.
            false => files.extend(fs::read(entry.path()).ok().map(|bytes| (name, bytes))),
        }
    }
    files
}

fn held(dataset: &dyn Dataset) -> BTreeMap<String, Vec<u8>> {
    let fields = |index| bytes::of(dataset, index).into_iter().map(move |(ext, data)| (index, ext, data));
    let all = (0..dataset.len()).flat_map(fields);
    all.map(|(index, ext, data)| (format!("{}.{ext}", dataset.id(index)), data)).collect()
}

/// Links of every kind: to files before and behind, beside, above and below, in chains, with long names, of links; and some
/// that lead to nothing, out, in a circle and to a folder.
fn linked(inside: &Path, long: usize) {
    use std::os::unix::fs::symlink;
    let far = format!("far/{}.x", "n".repeat(long));
    for (name, content) in [("m.jpg", "the middle"), ("zz.jpg", "the last"), ("sub/deep/s.x", "deep"), (&far, "far")] {
        fs::create_dir_all(inside.join(name).parent().unwrap()).unwrap();
        fs::write(inside.join(name), content).unwrap();
    }
    let hard = |from: &str, to: &str| fs::hard_link(inside.join(from), inside.join(to)).unwrap();
    hard("m.jpg", "n_hard.jpg");
    hard("m.jpg", "sub/hard.jpg");
    hard(&far, "z_hard.x");
    for (target, link) in [
        ("m.jpg", "b_sym.jpg"),
        ("zz.jpg", "a_later.jpg"),
        ("./sub/../sub//deep/s.x", "c_odd.x"),
        ("../m.jpg", "sub/up.jpg"),
        ("../../m.jpg", "sub/deep/up.jpg"),
        ("deep/s.x", "sub/down.x"),
        ("b_sym.jpg", "d_chain.jpg"),
        ("d_chain.jpg", "e_chain.jpg"),
        ("n_hard.jpg", "f_hard.jpg"),
        (&far, "g_long.x"),
    ] {
        symlink(target, inside.join(link)).unwrap();
    }
    hard("e_chain.jpg", "q_hard_of_link.jpg");
    for (target, link) in [
        ("nothing.x", "h_nothing.x"),
        ("../outside.x", "i_out.x"),
        ("/etc/hostname.x", "j_root.x"),
        ("l_circle.x", "k_circle.x"),
        ("k_circle.x", "l_circle.x"),
        ("o_self.x", "o_self.x"),
        ("sub", "p_folder.x"),
    ] {
        symlink(target, inside.join(link)).unwrap();
    }
}

#[test]
fn links_hold_what_they_lead_to_where_gnu_tar_extracts_them() {
    for (format, long) in [("v7", 60), ("ustar", 80), ("oldgnu", 200), ("gnu", 200), ("posix", 200)] {
        for input in [&["."][..], &["./far", "./zz.jpg", "."]] {
            let folder = folder();
            fs::create_dir(folder.path().join("in")).unwrap();
            linked(&folder.path().join("in"), long);
            let archive = folder.path().join("a.tar");
            let format = format!("--format={format}");
            let create = [&[&format, "--sort=name", "-cf", "a.tar", "-C", "in"], input].concat();
            or_skip!(gnu_tar(folder.path(), &create));
            fs::create_dir(folder.path().join("out")).unwrap();
            or_skip!(gnu_tar(folder.path(), &["-xf", "a.tar", "-C", "out"]));
            let expected = files_below(&folder.path().join("out"), ".");
            assert_eq!(expected.len(), 18, "{format} {input:?}");
            for index in [TarIndex::Memory, TarIndex::Beside, TarIndex::Beside] {
                let dataset = WebDataset::open(&[&archive], index).unwrap();
                assert_eq!(held(&dataset), expected, "{format} {input:?}");
            }
            let denied = OpenOptions::new().deny_dangling_links(true);
            let said = dataset::open(&[&archive], &denied).unwrap_err().to_string();
            assert!(said.contains("leads to no file in its archive; write the archive again with --deref"), "{said}");
            for index in [true, false] {
                let sound = folder.path().join("sound.tar");
                let create = [&[&format, "--sort=name", "-cf", "sound.tar", "-C", "in"], &["./m.jpg", "./sub"][..]];
                or_skip!(gnu_tar(folder.path(), &create.concat()));
                let dataset = dataset::open(&[&sound], &denied.clone().keep_index(index)).unwrap();
                assert_eq!(held(&*dataset)["./sub/up.jpg"], b"the middle");
            }
        }
    }
}

/// Python looks for a symbolic link's target in all of the archive, and for a hard link's in what is before it.
#[test]
fn of_members_of_one_name_links_lead_to_the_one_that_python_reads() {
    let python = or_skip!(Python::with(&["tarfile"]));
    let folder = folder();
    let printed = python.run(
        folder.path(),
        r#"
import io, tarfile
with tarfile.open("a.tar", "w") as tar:
    def add(name, data=None, link=None, kind=None):
        info = tarfile.TarInfo(name)
        if data is not None:
            info.size = len(data)
        else:
            info.type, info.linkname = kind, link
        tar.addfile(info, io.BytesIO(data) if data is not None else None)
    add("blob", b"first")
    add("a.hard", link="blob", kind=tarfile.LNKTYPE)
    add("a.soft", link="blob", kind=tarfile.SYMTYPE)
    add("blob", b"the second")
    add("b.hard", link="./blob", kind=tarfile.LNKTYPE)
    add("b.soft", link="./blob", kind=tarfile.SYMTYPE)
with tarfile.open("a.tar") as tar:
    for info in tar:
        if info.name != "blob":
            info.linkname = info.linkname.removeprefix("./")
            print("./" * 0 + info.name, tar.extractfile(info).read().decode())
"#,
    );
    let expected = printed.lines().map(|line| line.split_once(' ').unwrap());
    let expected = expected.map(|(name, data)| (name.to_owned(), data.as_bytes().to_vec())).collect();
    let dataset = WebDataset::open(&[folder.path().join("a.tar")], TarIndex::Memory).unwrap();
    assert_eq!(held(&dataset), expected);
}

#[test]
fn joined_archives_hold_what_gnu_tar_extracts_with_ignore_zeros() {
    for factor in ["1", "20", "22", "23", "64", "2048"] {
        let folder = folder();
        for (name, file) in [("a.tar", "1.x"), ("b.tar", "2.x"), ("c.tar", "3.x")] {
            fs::write(folder.path().join(file), name.repeat(100)).unwrap();
            or_skip!(gnu_tar(folder.path(), &["-b", factor, "-cf", name, file]));
        }
        let parts = ["a.tar", "b.tar", "c.tar"].map(|name| fs::read(folder.path().join(name)).unwrap());
        let joined = folder.path().join("joined.tar");
        fs::write(&joined, parts.concat()).unwrap();
        fs::create_dir(folder.path().join("out")).unwrap();
        or_skip!(gnu_tar(folder.path(), &["--ignore-zeros", "-xf", "joined.tar", "-C", "out"]));
        let expected = files_below(&folder.path().join("out"), "");
        assert_eq!(expected.len(), 3);
        let dataset = WebDataset::open(&[&joined], TarIndex::Memory).unwrap();
        let found = held(&dataset).into_iter().map(|(name, data)| (format!("/{name}"), data)).collect();
        assert_eq!(expected, found, "{factor}");
        // The header of the second is damaged: what is behind it is not lost in silence.
        let mut damaged = parts.concat();
        let at = parts[0].len();
        damaged[at + 3] ^= 1;
        fs::write(&joined, damaged).unwrap();
        let said = WebDataset::open(&[&joined], TarIndex::Memory).unwrap_err().to_string();
        assert!(said.contains(&format!("joined.tar at {at}: what is behind the end")), "{said}");
    }
}

/// What macOS's tar puts beside files with attributes, of which webdataset makes samples in a folder.
#[test]
fn apple_doubles_are_no_samples() {
    let folder = folder();
    let names = ["d/1.jpg", "d/._1.jpg", "._2.jpg", "2.jpg", "__MACOSX/d/._1.jpg", "__MACOSX/3.jpg"];
    for name in names {
        fs::create_dir_all(folder.path().join("in").join(name).parent().unwrap()).unwrap();
        fs::write(folder.path().join("in").join(name), name).unwrap();
    }
    or_skip!(gnu_tar(folder.path(), &[&["-cf", "a.tar", "-C", "in"], &names[..]].concat()));
    let dataset = WebDataset::open(&[folder.path().join("a.tar")], TarIndex::Memory).unwrap();
    assert_eq!(held(&dataset).into_keys().collect::<Vec<_>>(), ["2.jpg", "d/1.jpg"]);
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
