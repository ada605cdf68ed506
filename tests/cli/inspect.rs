//! `forebay inspect`: the tensors in files, for programs and for people.
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use serde_json::{Value, json};

use crate::common::folder;
use crate::run::{Answer, NPY, forebay, run, write};

fn safetensors(header: &str, data: &[u8]) -> Vec<u8> {
    [&(header.len() as u64).to_le_bytes()[..], header.as_bytes(), data].concat()
}

const MODEL: &str = r#"{"b":{"dtype":"F32","shape":[2,1],"data_offsets":[2,10]},"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]},"s":{"dtype":"BF16","shape":[],"data_offsets":[10,12]}}"#;

fn lines(answer: &Answer) -> Vec<Value> {
    assert_eq!((answer.code, answer.stderr.as_str()), (Some(0), ""));
    let text = std::str::from_utf8(&answer.stdout).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn inspect(paths: &[&Path]) -> Vec<Value> {
    lines(&Answer::of(forebay().args(["inspect", "--json"]).args(paths)))
}

/// Each line's bytes, read where it says that they are.
fn bytes_of(line: &Value) -> Vec<u8> {
    let number = |name: &str| line[name].as_u64().unwrap() as usize;
    let file = fs::read(line["file"].as_str().unwrap()).unwrap();
    file[number("offset")..number("offset") + number("length")].to_vec()
}

#[test]
fn a_line_says_what_a_tensor_is_and_where_its_bytes_are() {
    let folder = folder();
    let path = write(folder.path(), "model.safetensors", &safetensors(MODEL, b"AABBBBBBBBSS"));
    let lines = inspect(&[&path]);
    let data = 8 + MODEL.len();
    let line = |name, dtype, shape: &[u64], offset, length: u64| {
        json!({
            "name": name, "dtype": dtype, "shape": shape, "file": path.to_str(), "offset": data + offset, "length": length,
        })
    };
    assert_eq!(
        lines,
        [
            line("a", "U8", &[2], 0, 2),
            line("b", "F32", &[2, 1], 2, 8),
            line("s", "BF16", &[], 10, 2),
            json!({"summary": {"format": "safetensors", "samples": null, "tensors": 3, "files": 1, "bytes": 12}}),
        ]
    );
    let bytes: Vec<_> = lines[..3].iter().map(bytes_of).collect();
    assert_eq!(bytes, [&b"AA"[..], b"BBBBBBBB", b"SS"]);
}

#[test]
fn tensors_that_share_their_first_dimension_are_samples() {
    let folder = folder();
    let rows = r#"{"x":{"dtype":"U8","shape":[3,2],"data_offsets":[0,6]},"y":{"dtype":"U8","shape":[3],"data_offsets":[6,9]}}"#;
    for name in ["0", "1"] {
        write(folder.path(), format!("{name}.safetensors"), &safetensors(rows, b"xxxxxxyyy"));
    }
    let lines = inspect(&[folder.path()]);
    let expected = json!({"format": "safetensors", "samples": 6, "tensors": 4, "files": 2, "bytes": 18});
    assert_eq!(lines[4]["summary"], expected);
    assert_eq!(inspect(&[&folder.path().join("{1..0}.safetensors")])[4]["summary"], expected);
}

#[test]
fn people_are_shown_the_same() {
    let folder = folder();
    let path = write(folder.path(), "model.safetensors", &safetensors(MODEL, b"AABBBBBBBBSS"));
    let answer = run([OsStr::new("inspect"), path.as_os_str()]);
    assert_eq!((answer.code, answer.stderr.as_str()), (Some(0), ""));
    let text = String::from_utf8(answer.stdout).unwrap();
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines.len(), 5, "{text}");
    assert_eq!(lines[0], path.to_str().unwrap());
    assert!(["F32", "[2, 1]", "8 bytes", "b"].iter().all(|word| lines[2].contains(word)), "{text}");
    assert!(lines[4].contains("3 tensors of 12 bytes in 1 file; no samples"), "{text}");
}

#[test]
fn odd_names_stay_one_line_each_and_bytes_that_are_no_text_are_shown() {
    let folder = folder();
    let header = r#"{"a\nb\u001b[31m":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},"größe":{"dtype":"U8","shape":[1],"data_offsets":[1,2]}}"#;
    let path = folder.path().join(OsStr::from_bytes(b"caf\xe9\n.safetensors"));
    fs::write(&path, safetensors(header, b"12")).unwrap();
    let lines = inspect(&[&path]);
    assert_eq!((&lines[0]["name"], &lines[1]["name"]), (&json!("a\nb\u{1b}[31m"), &json!("größe")));
    let shown = lines[0]["file"].as_str().unwrap();
    assert!(shown.ends_with("caf\\xe9\n.safetensors"), "{shown}");

    let text = run([OsStr::new("inspect"), path.as_os_str()]).stdout;
    let text = String::from_utf8(text).unwrap();
    assert_eq!(text.lines().count(), 4, "{text}");
    assert!(text.contains(r"a\nb\u{1b}[31m") && text.contains(r"caf\xe9\n.safetensors"), "{text}");
}

#[test]
fn what_cannot_be_read_is_exit_1_and_one_line_with_path_and_offset() {
    let folder = folder();
    let cut = write(folder.path(), "cut.safetensors", &safetensors(MODEL, b"AABBBB"));
    let gzip = write(folder.path(), "x.tar", b"\x1f\x8b\x08\x00rest");
    let unknown = write(folder.path(), "unknown", b"who knows");
    let fifo = folder.path().join("fifo");
    nix::unistd::mkfifo(&fifo, nix::sys::stat::Mode::S_IRWXU).unwrap();
    let gone = folder.path().join("gone-{0..1}.tar");
    for (path, word) in [
        (&cut, " at "),
        (&gzip, "gzip"),
        (&unknown, "--format"),
        (&fifo, "FIFO"),
        (&gone, "gone-0.tar"),
        (&folder.path().to_owned(), "x.tar"),
    ] {
        for json in [&["--json"][..], &[]] {
            let answer = Answer::of(forebay().arg("inspect").args(json).arg(path));
            let error = answer.error(1);
            assert!(error.contains(word) && error.contains("; "), "{error}");
        }
    }
    let forced = Answer::of(forebay().args(["inspect", "--format", "safetensors"]).arg(&gzip));
    assert!(forced.error(1).contains("x.tar at "), "{}", forced.stderr);
    let of_no_use =
        Answer::of(forebay().args(["inspect", "--record-bytes", "1KiB", "--format", "safetensors"]).arg(&cut));
    assert!(of_no_use.error(1).contains("record_bytes"), "{}", of_no_use.stderr);
}

#[test]
fn a_command_line_that_makes_no_sense_is_exit_2() {
    for args in [
        &["inspect"][..],
        &["inspect", "x", "--format", "csv"],
        &["inspect", "x", "--format", "NPY"],
        &["inspect", "x", "--record-bytes", "0"],
        &["inspect", "x", "--record-bytes", "-1"],
        &["inspect", "x", "--seq-len", "0"],
        &["inspect", "x", "--seq-len", "1.5"],
        &["inspect", "x", "--dtype", "Q9"],
        &["inspect", "x", "--hash"],
    ] {
        run(args).error(2);
    }
    assert!(run(["inspect", "x", "--format", "csv"]).error(2).contains("safetensors"));
}

#[test]
fn a_closed_stdout_is_no_mistake_and_a_full_one_is() {
    let folder = folder();
    let path = write(folder.path(), "model.safetensors", &safetensors(MODEL, b"AABBBBBBBBSS"));
    let full = fs::File::options().write(true).open("/dev/full").unwrap();
    let answer = Answer::of(forebay().arg("inspect").arg(&path).stdout(full));
    assert!(answer.error(1).contains("stdout"), "{}", answer.stderr);
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let answer = Answer::of(forebay().arg("inspect").arg(&path).stdout(writer));
    assert_eq!((answer.code, answer.stderr.as_str()), (Some(0), ""));
}

#[test]
fn flags_say_what_files_without_a_header_are_and_totals_pass_32_bits() {
    const TOKENS: u64 = 1_500_000_000;
    let folder = folder();
    for name in ["0.bin", "1.bin", "2.bin"] {
        fs::File::create(folder.path().join(name)).unwrap().set_len(2 * TOKENS).unwrap();
    }
    let summary = |flags: &[&str]| {
        let lines = lines(&Answer::of(forebay().args(["inspect", "--json"]).args(flags).arg(folder.path())));
        lines.last().unwrap()["summary"].clone()
    };
    let windows = 3 * ((TOKENS - 1) / 1024);
    let of =
        |format, samples| json!({"format": format, "samples": samples, "tensors": 3, "files": 3, "bytes": 6 * TOKENS});
    assert_eq!(summary(&["--seq-len", "1024"]), of("tokens", json!(windows)));
    assert_eq!(summary(&["--format", "tokens"]), of("tokens", json!(null)));
    let records = ["--record-bytes", "6000", "--dtype", "f32", "--format", "records"];
    assert_eq!(summary(&records), of("records", json!(TOKENS / 1000)));
}

/// An archive of arrays without a compressor: members as they are.
fn npz(arrays: &[(&str, &[u8])]) -> Vec<u8> {
    let (mut archive, mut directory) = (Vec::new(), Vec::new());
    for (name, data) in arrays {
        let fields: Vec<u8> = [
            &[20, 0, 0, 0, 0, 0, 0, 0, 0, 0][..],
            &crc32fast::hash(data).to_le_bytes(),
            &(data.len() as u32).to_le_bytes(),
            &(data.len() as u32).to_le_bytes(),
            &(name.len() as u16).to_le_bytes(),
            &[0, 0],
        ]
        .concat();
        let place = archive.len() as u32;
        directory.extend([&b"PK\x01\x02\x14\0"[..], &fields, &[0; 10], &place.to_le_bytes(), name.as_bytes()].concat());
        archive.extend([&b"PK\x03\x04"[..], &fields, name.as_bytes(), data].concat());
    }
    let (number, start) = ((arrays.len() as u16).to_le_bytes(), (archive.len() as u32).to_le_bytes());
    let len = (directory.len() as u32).to_le_bytes();
    [&archive[..], &directory, b"PK\x05\x06\0\0\0\0", &number, &number, &len, &start, &[0, 0]].concat()
}

/// `NPY`, but of another shape, whose text is as long.
fn npy(shape: &str, data: &[u8]) -> Vec<u8> {
    let text = String::from_utf8_lossy(&NPY[10..NPY.len() - 3]).replace("(3,)", shape);
    let text = format!("{:<60}\n", text.trim_end());
    [&NPY[..10], text.as_bytes(), data].concat()
}

#[test]
fn arrays_of_an_archive_that_make_no_samples_are_listed() {
    let folder = folder();
    let (three, two, scalar) = (NPY.to_vec(), npy("(2,)", b"de"), npy("()", b"f"));
    let archives = [
        ("rows.npz", npz(&[("x.npy", &three), ("y.npy", &two)]), vec![&b"abc"[..], b"de"]),
        ("scalar.npz", npz(&[("x.npy", &three), ("s.npy", &scalar)]), vec![b"abc", b"f"]),
    ];
    for (name, archive, data) in &archives {
        let path = write(folder.path(), name, archive);
        let lines = inspect(&[&path]);
        let (summary, arrays) = lines.split_last().unwrap();
        assert_eq!(arrays.iter().map(bytes_of).collect::<Vec<_>>(), *data, "{name}");
        let (tensors, bytes) = (data.len(), data.iter().map(|it| it.len()).sum::<usize>());
        let expected = json!({"format": "npz", "samples": null, "tensors": tensors, "files": 1, "bytes": bytes});
        assert_eq!(summary["summary"], expected, "{name}");
        assert!(forebay::dataset::open(&[&path], &forebay::dataset::OpenOptions::new()).is_err());
    }
    let both = inspect(&[folder.path()]);
    assert_eq!((both.len(), &both[4]["summary"]["samples"]), (5, &json!(null)));
    let sound = write(folder.path(), "sound", &npz(&[("x.npy", &three), ("y.npy", &three)]));
    assert_eq!(inspect(&[&sound])[2]["summary"]["samples"], 3);
}

#[test]
fn mistakes_of_formats_and_paths_are_answered_with_what_to_do() {
    let folder = folder();
    let npy = write(folder.path(), "x.npy", NPY);
    let answer = |flags: &[&str], paths: &[&Path]| Answer::of(forebay().arg("inspect").args(flags).args(paths));
    for (format, words) in [
        ("webdataset", &["the file is npy, not webdataset; leave the format out"][..]),
        ("tar", &["the file is npy, not webdataset; leave the format out"]),
        ("wds", &["not webdataset"]),
        ("safetensors", &["this is a file of format npy", "leave the format out"]),
        ("parquet", &["parquet is not read yet", "the file is npy"]),
    ] {
        let answer = answer(&["--format", format], &[&npy]);
        let error = answer.error(1);
        assert!(words.iter().all(|word| error.contains(word)) && !error.contains("it is parquet"), "{error}");
    }
    let star = folder.path().join("*.tar");
    assert!(answer(&[], &[&star]).error(1).contains("leave `*` to the shell"));
    write(folder.path(), "*.tar", b"");
    assert!(!answer(&[], &[&star]).error(1).contains("shell"), "a file may be called so");
    let model = write(folder.path(), "model.safetensors", &safetensors(MODEL, b"AABBBBBBBBSS"));
    let index = write(folder.path(), "model.safetensors.index.json", b"{}");
    let config = write(folder.path(), "config.json", b"{}");
    assert!(answer(&[], &[&config, &model, &index]).error(1).contains("or the folder"));
}

#[test]
fn types_have_the_names_of_numpy_too() {
    let folder = folder();
    let tokens = write(folder.path(), "t.bin", &[0; 24]);
    for (name, dtype) in [("uint16", "U16"), ("INT32", "I32"), ("bfloat16", "BF16"), ("float32", "F32")] {
        let args = ["inspect", "--json", "--format=records", "--record-bytes=12", "--dtype", name];
        let lines = lines(&Answer::of(forebay().args(args).arg(&tokens)));
        assert_eq!(lines[0]["dtype"], dtype, "{name}");
    }
}

/// Alone as in an archive.
#[test]
fn an_array_without_rows_is_listed() {
    let folder = folder();
    let scalar = write(folder.path(), "scalar.npy", &npy("()", b"f"));
    let lines = inspect(&[&scalar]);
    assert_eq!(
        (&lines[0]["name"], &lines[0]["shape"], bytes_of(&lines[0])),
        (&json!("scalar"), &json!([]), b"f".to_vec())
    );
    let expected = json!({"format": "npy", "samples": null, "tensors": 1, "files": 1, "bytes": 1});
    assert_eq!(lines[1]["summary"], expected);
    // Arrays whose rows differ, too, and as they would be alone.
    let rows = write(folder.path(), "rows.npy", &npy("(3,1)", b"abc"));
    let both = inspect(&[folder.path()]);
    assert_eq!((bytes_of(&both[0]), bytes_of(&both[1])), (b"abc".to_vec(), b"f".to_vec()));
    assert_eq!(both[0], inspect(&[&rows])[0]);
    assert_eq!(both[2]["summary"]["samples"], json!(null));
    assert!(forebay::dataset::open(&[&scalar], &forebay::dataset::OpenOptions::new()).is_err());
}

#[test]
fn a_part_of_a_set_is_an_error_unless_it_is_asked_for() {
    let folder = folder();
    for i in [1, 3] {
        write(folder.path(), format!("x-0000{i}-of-00003.npy"), NPY);
    }
    for command in ["inspect", "order", "read"] {
        let refused = Answer::of(forebay().arg(command).arg(folder.path()));
        let error = refused.error(1);
        assert!(error.contains("x-00002-of-00003.npy") && error.contains("--allow-incomplete"), "{error}");
        let answer = Answer::of(forebay().args([command, "--allow-incomplete"]).arg(folder.path()));
        assert_eq!(answer.code, Some(0), "{}", answer.stderr);
    }
}

/// As for `cat`, one file that is given by name is enough to look at; what is packed is whole.
#[test]
fn a_shard_given_by_name_is_shown_with_a_warning_that_names_the_others() {
    let folder = folder();
    let shard = write(folder.path(), "m-00001-of-00002.safetensors", &safetensors(MODEL, b"AABBBBBBBBSS"));
    for json in [&["--json"][..], &[]] {
        let answer = Answer::of(forebay().arg("inspect").args(json).arg(&shard));
        assert_eq!(answer.code, Some(0), "{}", answer.stderr);
        assert_eq!(answer.stderr.lines().count(), 1, "{}", answer.stderr);
        let said = &answer.stderr;
        assert!(said.starts_with("warning: ") && said.contains("m-00002-of-00002.safetensors"), "{said}");
        assert!(String::from_utf8_lossy(&answer.stdout).contains("m-00001-of-00002.safetensors"));
    }
    let quiet = Answer::of(forebay().args(["inspect", "--json", "--allow-incomplete"]).arg(&shard));
    assert_eq!(lines(&quiet).len(), 4);
    for refused in [
        Answer::of(forebay().arg("inspect").arg(folder.path())),
        Answer::of(forebay().arg("pack").arg(&shard).arg("-o").arg(folder.path().join("packed"))),
    ] {
        assert!(refused.error(1).contains("m-00002-of-00002.safetensors"), "{}", refused.stderr);
    }
}

#[test]
fn why_arrays_make_no_samples_is_what_is_the_case() {
    let folder = folder();
    let scalar = npy("()", b"f");
    let end_of_zip = [&b"PK\x05\x06"[..], &[0; 18]].concat();
    for (name, bytes, why) in [
        ("empty.npz", end_of_zip, "no samples, since there are no tensors"),
        ("s.npz", npz(&[("s.npy", &scalar), ("t.npy", &scalar)]), "no samples, since the tensors have no dimensions"),
        ("none.safetensors", safetensors("{}", b""), "no samples, since there are no tensors"),
    ] {
        let path = write(folder.path(), name, &bytes);
        let answer = Answer::of(forebay().arg("inspect").arg(path));
        let text = String::from_utf8(answer.stdout).unwrap();
        assert!(text.contains(why), "{name}: {text} {}", answer.stderr);
    }
}
