//! Paths become files, and files datasets, by rules that guess nothing.
use crate::common::work::within;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use forebay::dataset::{Dataset, DatasetError, DatasetFault, Format, OpenOptions, open};

/// A safetensors file of one tensor `x`, whose rows are these bytes.
pub fn safetensors(rows: &[u8]) -> Vec<u8> {
    let header = format!(r#"{{"x":{{"dtype":"U8","shape":[{0},1],"data_offsets":[0,{0}]}}}}"#, rows.len());
    [&(header.len() as u64).to_le_bytes()[..], header.as_bytes(), rows].concat()
}

pub fn write(folder: &Path, name: impl AsRef<OsStr>, bytes: impl AsRef<[u8]>) -> PathBuf {
    let path = folder.join(name.as_ref());
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(&path, bytes).unwrap();
    path
}

fn names(dataset: &dyn Dataset) -> Vec<String> {
    let name = |path: &Path| path.file_name().unwrap().display().to_string();
    dataset.files().iter().map(|file| name(file.path())).collect()
}

pub fn opened(paths: &[impl AsRef<Path>]) -> Box<dyn Dataset> {
    open(paths, &OpenOptions::new()).unwrap()
}

pub fn refused(paths: &[impl AsRef<Path>], options: &OpenOptions) -> DatasetError {
    within(100, "a refusal", || open(paths, options).unwrap_err())
}

/// That it is refused, in words that hold all of these.
pub fn refused_with(paths: &[impl AsRef<Path>], options: &OpenOptions, words: &[&str]) {
    let error = refused(paths, options).to_string();
    assert!(words.iter().all(|word| error.contains(word)), "{error}\nlacks one of {words:?}");
    assert!(error.contains("; "), "{error}: says no remedy");
}

#[test]
fn a_folder_is_read_in_byte_order_of_its_names() {
    let folder = crate::common::folder();
    let sorted = ["10.safetensors", "2.safetensors", "B.safetensors", "a.safetensors", "ä.safetensors"];
    for name in sorted.iter().rev() {
        write(folder.path(), name, safetensors(b"ab"));
    }
    write(folder.path(), OsStr::from_bytes(b"a\xff.safetensors"), safetensors(b"c"));
    let dataset = opened(&[folder.path()]);
    let expected =
        ["10.safetensors", "2.safetensors", "B.safetensors", "a.safetensors", "a\u{fffd}.safetensors", "ä.safetensors"];
    assert_eq!(names(&dataset), expected);
    assert_eq!(dataset.len(), 11);
}

#[test]
fn a_folder_holds_more_than_its_data() {
    let folder = crate::common::folder();
    write(folder.path(), "a.safetensors", safetensors(b"a"));
    for side in [
        ".b.safetensors",
        "README.md",
        "config.json",
        "a.tar.forebay-index",
        "a.safetensors.md5",
        "lone.idx",
        "pytorch_model.bin",
        "pytorch_model.bin.index.json",
        "deeper/c.safetensors",
        "folder.safetensors/d",
    ] {
        write(folder.path(), side, b"anything");
    }
    assert_eq!(names(&opened(&[folder.path()])), ["a.safetensors"]);
    // A link is as good as the file, under its own name; the store may call it anything.
    let store = crate::common::folder();
    symlink(write(store.path(), "5f3a", safetensors(b"b")), folder.path().join("b.safetensors")).unwrap();
    assert_eq!(names(&opened(&[folder.path()])), ["a.safetensors", "b.safetensors"]);
}

#[test]
fn a_folder_of_two_formats_needs_to_be_told_which() {
    let folder = crate::common::folder();
    write(folder.path(), "a.safetensors", safetensors(b"a"));
    write(folder.path(), "b.npy", b"anything");
    refused_with(&[folder.path()], &OpenOptions::new(), &["a.safetensors", "b.npy", "--format"]);
    let dataset = open(&[folder.path()], &OpenOptions::new().format(Format::Safetensors)).unwrap();
    assert_eq!(names(&dataset), ["a.safetensors"]);

    // Files without a header count beside others only where what only they have is asked for.
    let folder = crate::common::folder();
    write(folder.path(), "a.safetensors", safetensors(b"a"));
    write(folder.path(), "a.bin", b"anything");
    refused_with(&[folder.path()], &OpenOptions::new().seq_len(1), &["a.safetensors", "a.bin"]);
    refused_with(&[folder.path()], &OpenOptions::new().record_bytes(1), &["a.safetensors", "a.bin"]);
    assert_eq!(names(&opened(&[folder.path()])), ["a.safetensors"]);
}

#[test]
fn a_folder_without_data_is_refused() {
    let folder = crate::common::folder();
    refused_with(&[folder.path()], &OpenOptions::new(), &["no files"]);
    write(folder.path(), "notes.txt", b"");
    fs::create_dir(folder.path().join("a.safetensors")).unwrap();
    refused_with(&[folder.path()], &OpenOptions::new(), &["notes.txt"]);
    write(folder.path(), "a.npy", b"");
    refused_with(&[folder.path()], &OpenOptions::new().format(Format::WebDataset), &["webdataset", "a.npy"]);
}

#[test]
fn a_shard_that_cannot_be_read_as_it_stands_is_not_left_out() {
    for (name, word) in [
        ("b.safetensors.gz", "gzip"),
        ("b.safetensors.zst", "zstd"),
        ("b.safetensors.part", "not whole"),
        ("B.Safetensors.Incomplete", "not whole"),
    ] {
        let folder = crate::common::folder();
        write(folder.path(), name, b"anything");
        // Alone, too: nobody waits for it.
        refused_with(&[folder.path()], &OpenOptions::new(), &[name, word]);
        write(folder.path(), "a.safetensors", safetensors(b"a"));
        refused_with(&[folder.path()], &OpenOptions::new(), &[name, word]);
    }
    let folder = crate::common::folder();
    write(folder.path(), "a.safetensors", safetensors(b"a"));
    write(folder.path(), "logs.tar.gz", b"anything");
    assert_eq!(names(&opened(&[folder.path()])), ["a.safetensors"], "of another kind");
}

#[test]
fn a_folder_with_a_models_index_is_read_through_it() {
    let folder = crate::common::folder();
    write(folder.path(), "m-1.safetensors", safetensors(b"abc"));
    write(folder.path(), "stray.safetensors", safetensors(b"zz"));
    let index = write(folder.path(), "m.safetensors.index.json", r#"{"weight_map":{"x":"m-1.safetensors"}}"#);
    write(folder.path(), "pytorch_model.bin.index.json", "anything");
    for path in [folder.path(), &index] {
        let dataset = opened(&[path]);
        assert_eq!((names(&dataset), dataset.len()), (vec!["m-1.safetensors".to_owned()], 3));
    }
    let beside = [index.clone(), folder.path().join("stray.safetensors")];
    refused_with(&beside, &OpenOptions::new(), &["m.safetensors.index.json", "whole model", "alone"]);
    fs::remove_file(folder.path().join("m-1.safetensors")).unwrap();
    refused_with(&[folder.path()], &OpenOptions::new(), &["m-1.safetensors"]);
    write(folder.path(), "n.safetensors.index.json", "anything");
    refused_with(&[folder.path()], &OpenOptions::new(), &["m.safetensors.index.json", "n.safetensors.index.json"]);
}

#[test]
fn a_pattern_is_its_names_and_each_must_be_there() {
    let folder = crate::common::folder();
    for (i, name) in ["s-008", "s-009", "s-010", "t-1"].iter().enumerate() {
        write(folder.path(), format!("{name}.safetensors"), safetensors(&vec![0; i + 1]));
    }
    let dataset = opened(&[folder.path().join("{s-{010..008},t-1}.safetensors")]);
    assert_eq!(names(&dataset), ["s-010.safetensors", "s-009.safetensors", "s-008.safetensors", "t-1.safetensors"]);
    assert_eq!(dataset.len(), 10);
    let error = refused(&[folder.path().join("s-{007..010}.safetensors")], &OpenOptions::new());
    assert_eq!(error.path.file_name().unwrap(), "s-007.safetensors");
    assert!(matches!(error.fault, DatasetFault::Open(_)), "{error}");
    assert!(refused(&[folder.path().join("u-{a,b")], &OpenOptions::new()).path.ends_with("u-{a,b"));
}

#[test]
fn what_is_called_like_a_pattern_comes_first() {
    let folder = crate::common::folder();
    write(folder.path(), "{a,b}.safetensors", safetensors(b"1"));
    let literal = folder.path().join("{a,b}.safetensors");
    assert_eq!(names(&opened(&[&literal])), ["{a,b}.safetensors"]);
    fs::remove_file(&literal).unwrap();
    write(folder.path(), "a.safetensors", safetensors(b"1"));
    write(folder.path(), "b.safetensors", safetensors(b"2"));
    assert_eq!(names(&opened(&[&literal])), ["a.safetensors", "b.safetensors"]);
}

#[test]
fn files_folders_and_patterns_mix_in_the_order_given() {
    let folder = crate::common::folder();
    for name in ["z", "one/b", "one/a", "two/c"] {
        write(folder.path(), format!("{name}.safetensors"), safetensors(b"1"));
    }
    let paths =
        [folder.path().join("z.safetensors"), folder.path().join("{two,one}"), folder.path().join("z.safetensors")];
    let expected = ["z", "c", "a", "b", "z"].map(|name| format!("{name}.safetensors"));
    assert_eq!(names(&opened(&paths)), expected);
}

#[test]
fn names_that_are_no_text_work_everywhere() {
    let folder = crate::common::folder();
    let inner = folder.path().join(OsStr::from_bytes(b"\xff\xfe"));
    for name in [&b"\xe4-0.safetensors"[..], b"\xe4-1.safetensors"] {
        write(&inner, OsStr::from_bytes(name), safetensors(b"1"));
    }
    let pattern = inner.join(OsStr::from_bytes(b"\xe4-{0..1}.safetensors"));
    for path in [&inner, &pattern] {
        let dataset = opened(&[path]);
        assert_eq!(dataset.len(), 2);
        assert_eq!(dataset.files()[1].path().as_os_str().as_bytes().last_chunk(), Some(b"\xe4-1.safetensors"));
    }
    fs::write(inner.join(OsStr::from_bytes(b"\xe4-1.safetensors")), b"short").unwrap();
    refused_with(&[&inner], &OpenOptions::new(), &[r"\xff\xfe/\xe4-1.safetensors"]);
    write(&inner, OsStr::from_bytes(b"\xe5.npy"), b"");
    refused_with(&[&inner], &OpenOptions::new(), &[r"\xe5.npy"]);
}

#[test]
fn what_is_no_file_is_refused_and_never_waited_for() {
    let folder = crate::common::folder();
    let fifo = folder.path().join("fifo.safetensors");
    nix::unistd::mkfifo(&fifo, nix::sys::stat::Mode::S_IRWXU).unwrap();
    let gone = folder.path().join("gone.safetensors");
    let loops = folder.path().join("loop.safetensors");
    symlink(&loops, &loops).unwrap();
    let dangling = folder.path().join("dangling.safetensors");
    symlink(&gone, &dangling).unwrap();
    let below_a_file = write(folder.path(), "plain", b"x").join("x.safetensors");
    let (null, made_up) = (PathBuf::from("/dev/null"), PathBuf::from("/proc/self/status"));
    for path in [fifo, gone, loops, dangling, below_a_file, null, made_up] {
        for options in [OpenOptions::new(), OpenOptions::new().format(Format::Safetensors)] {
            let error = refused(&[&path], &options);
            assert_eq!(error.path, path);
        }
        // As a part of a folder, too.
        if path.symlink_metadata().is_ok() && path.starts_with(folder.path()) {
            refused(&[folder.path()], &OpenOptions::new());
        }
    }
    let long = folder.path().join("x".repeat(5000));
    assert_eq!(refused(&[&long], &OpenOptions::new()).path, long);
    refused_with(&[folder.path().join("{0..9}".repeat(1000))], &OpenOptions::new(), &["names"]);
    refused_with(&[folder.path().join("{a,".repeat(1000) + &"}".repeat(1000))], &OpenOptions::new(), &["deep"]);
    let error = refused(&["{a,".repeat(40_000) + &"}".repeat(40_000)], &OpenOptions::new()).to_string();
    assert!(error.contains("more than 65536 bytes") && error.len() < 300, "{error}");
}

#[test]
fn the_work_of_opening_thousands_of_files_grows_with_their_number() {
    let folder = crate::common::folder();
    for i in 0..2000 {
        fs::write(folder.path().join(format!("{i:05}.safetensors")), safetensors(b"ab")).unwrap();
    }
    for path in [folder.path().to_owned(), folder.path().join("{00000..01999}.safetensors")] {
        let dataset = within(200, "2,000 files", || opened(&[path]));
        assert_eq!((dataset.files().len(), dataset.len()), (2000, 4000));
    }
}
