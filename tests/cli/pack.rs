use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs::{self, File};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::thread;
use std::time::{Duration, Instant};

use safetensors::tensor::TensorView;
use safetensors::{Dtype, SafeTensors, serialize};
use serde_json::Value;

use crate::common::effort;
use crate::common::{Rng, folder};
use crate::run::{Answer, forebay, pattern, run, write};

type Tensors = BTreeMap<String, (Dtype, Vec<usize>, Vec<u8>)>;

/// Writes a file with the safetensors crate.
fn model(
    folder: &Path,
    name: &str,
    tensors: &[(&str, Dtype, &[usize])],
    metadata: &[(&str, &str)],
) -> (PathBuf, Tensors) {
    let mut made = Tensors::new();
    for (name, dtype, shape) in tensors {
        let bytes = shape.iter().product::<usize>() * dtype.bitsize() / 8;
        made.insert((*name).to_owned(), (*dtype, shape.to_vec(), pattern(bytes + made.len())[made.len()..].to_vec()));
    }
    let views = made
        .iter()
        .map(|(name, (dtype, shape, bytes))| (name.clone(), TensorView::new(*dtype, shape.clone(), bytes).unwrap()));
    let metadata = metadata.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
    let bytes = serialize(views, Some(metadata)).unwrap();
    (write(folder, name, &bytes), made)
}

fn read(path: &Path) -> (Tensors, BTreeMap<String, String>) {
    let bytes = fs::read(path).unwrap();
    let (len, header) = SafeTensors::read_metadata(&bytes).unwrap();
    assert!((8 + len).is_multiple_of(4096));
    let tensors = SafeTensors::deserialize(&bytes).unwrap().tensors().into_iter();
    let tensors = tensors.map(|(name, view)| (name, (view.dtype(), view.shape().to_vec(), view.data().to_vec())));
    (tensors.collect(), header.metadata().clone().unwrap().into_iter().collect())
}

fn packed(args: &[&str], input: &Path, out: &Path) -> Answer {
    Answer::of(forebay().arg("pack").arg(input).arg("-o").arg(out).args(args))
}

fn lines(answer: &Answer) -> Vec<Value> {
    assert_eq!((answer.code, answer.stderr.as_str()), (Some(0), ""));
    String::from_utf8_lossy(&answer.stdout).lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn a_model_keeps_its_tensors_and_what_it_says_of_itself() {
    let folder = folder();
    let tensors: &[(_, _, &[usize])] = &[
        ("layer.0/w", Dtype::BF16, &[64, 33]),
        ("bias", Dtype::F32, &[7]),
        ("step", Dtype::I64, &[]),
        ("none", Dtype::U8, &[0]),
    ];
    let (input, made) = model(folder.path(), "in.safetensors", tensors, &[("format", "pt")]);
    let out = folder.path().join("out.safetensors");
    let said = lines(&packed(&["--json"], &input, &out));
    assert_eq!(said.len(), 2);
    let size = fs::metadata(&out).unwrap().len();
    let file = out.to_str().unwrap();
    assert_eq!(said[0], serde_json::json!({"file": file, "samples": 0, "tensors": 4, "bytes": size}));
    let summary = said[1]["summary"].as_object().unwrap();
    for (key, value) in [("files", 1), ("samples", 0), ("tensors", 4), ("bytes", size)] {
        assert_eq!(summary[key], value, "{key}");
    }
    assert!(summary["seconds"].as_f64().unwrap() > 0.0 && summary["bytes_per_second"].as_f64().unwrap() > 0.0);
    assert!(summary["direct"].is_boolean() && summary["layout"] == "tensors");
    let (tensors, metadata) = read(&out);
    assert_eq!(tensors, made);
    assert_eq!(
        metadata,
        BTreeMap::from([("forebay.layout", "tensors"), ("format", "pt")].map(|(k, v)| (k.into(), v.into())))
    );
    // What was packed is packed again to the same bytes.
    let again = folder.path().join("again.safetensors");
    lines(&packed(&["--json"], &out, &again));
    assert!(fs::read(&again).unwrap() == fs::read(&out).unwrap());
}

/// 1,000 rows.
fn rows(folder: &Path) -> (PathBuf, Tensors) {
    model(folder, "rows.safetensors", &[("image", Dtype::F32, &[1000, 3, 50]), ("label", Dtype::U8, &[1000])], &[])
}

#[test]
fn rows_are_cut_into_shards_of_the_size_asked_for() {
    let folder = folder();
    let (input, made) = rows(folder.path());
    let out = folder.path().join("out");
    let said = lines(&packed(&["--json", "--shard-bytes=200KiB"], &input, &out));
    // 601 bytes a row.
    assert_eq!(said.len(), 4);
    let samples: Vec<u64> = said[..3].iter().map(|line| line["samples"].as_u64().unwrap()).collect();
    assert_eq!(samples, [340, 340, 320]);
    let mut joined = BTreeMap::from([("image".to_owned(), Vec::new()), ("label".to_owned(), Vec::new())]);
    for line in &said[..3] {
        for (name, (_, _, bytes)) in read(Path::new(line["file"].as_str().unwrap())).0 {
            joined.get_mut(&name).unwrap().extend(bytes);
        }
    }
    assert!(made.iter().all(|(name, (_, _, bytes))| joined[name] == *bytes));
    // Without --json the same for people.
    let answer = packed(&["--overwrite"], &input, &out);
    let text = String::from_utf8(answer.stdout).unwrap();
    assert!(text.lines().count() == 2 && text.contains("1000 samples, 2 tensors") && text.contains("rows"), "{text}");
    let place = format!("; in folder {}", out.display());
    assert!(text.trim_end().ends_with(&place) && text.contains("1 file as rows, "), "{text}");
    assert_eq!(fs::read_dir(&out).unwrap().count(), 1, "shards of the first pack are gone");
    let answer = packed(&[], &input, &folder.path().join("one.safetensors"));
    assert!(!String::from_utf8_lossy(&answer.stdout).contains("folder"));
}

#[test]
fn mistakes_are_one_line_and_leave_what_was_there() {
    let folder = folder();
    let (input, _) = rows(folder.path());
    let there = write(folder.path(), "there.safetensors", b"mine");
    let answer = packed(&[], &input, &there);
    assert!(answer.error(1).contains("there.safetensors is there already; "), "{}", answer.stderr);
    assert!(answer.stderr.contains("--overwrite"), "{}", answer.stderr);
    for flag in ["--seq-len=3", "--record-bytes=3"] {
        let answer = packed(&[flag, "--format=safetensors"], &input, &there);
        assert!(answer.error(1).contains(&flag[..flag.len() - 2]), "{}", answer.stderr);
    }
    assert_eq!(fs::read(&there).unwrap(), b"mine");
    let one = folder.path().join("one.safetensors");
    assert!(packed(&["--shard-bytes=1KiB"], &input, &one).error(1).contains("one was asked for"));
    let missing = folder.path().join("no\nsuch.safetensors");
    assert!(packed(&[], &missing, &one).error(1).contains(r"no\nsuch.safetensors"));
    assert!(packed(&["--device=cuda:0"], &input, &one).error(1).contains("--device"));
    assert!(packed(&["--route=direct"], &input, &one).error(1).contains("host memory"));
    assert!(packed(&["--budget=1"], &input, &one).error(2).contains("budget"));
    assert!(!one.exists());
    for usage in [&["pack"][..], &["pack", "x"], &["pack", "-o", "x"], &["pack", "x", "-o", "y", "--shard-bytes=0"]] {
        run(usage).error(2);
    }
}

#[test]
fn names_are_bytes() {
    let folder = folder();
    let (input, made) = rows(folder.path());
    let out = folder.path().join(OsStr::from_bytes(b"f\xff\n.safetensors"));
    let said = lines(&packed(&["--json"], &input, &out));
    assert!(said[0]["file"].as_str().unwrap().ends_with("f\\xff\n.safetensors"), "{said:?}");
    assert_eq!(read(&out).0, made);
    assert!(packed(&[], &input, &out).error(1).contains("already"));
}

#[test]
fn a_full_disk_under_stdout_is_an_error_and_the_files_are_whole() {
    let folder = folder();
    let (input, made) = rows(folder.path());
    let out = folder.path().join("out.safetensors");
    let full = File::options().write(true).open("/dev/full").unwrap();
    let answer = Answer::of(forebay().arg("pack").arg(&input).arg("-o").arg(&out).stdout(full));
    assert!(answer.error(1).contains("stdout"), "{}", answer.stderr);
    assert_eq!(read(&out).0, made);
}

#[test]
fn a_command_that_is_killed_leaves_no_half_file_under_a_final_name() {
    let folder = folder();
    let (input, made) = model(folder.path(), "in.safetensors", &[("x", Dtype::U8, &[300, 100_000])], &[]);
    let (file, shards) = (folder.path().join("out.safetensors"), folder.path().join("out"));
    let bytes = &made["x"].2;
    let mut rng = Rng::new(3);
    let mut killed = 0;
    for to in [&file, &shards] {
        let command = || {
            let mut command = forebay();
            command.arg("pack").arg(&input).arg("-o").arg(to).args(["--overwrite"]);
            if to == &shards {
                command.arg("--shard-bytes=1MiB");
            }
            command.stdout(Stdio::null()).stderr(Stdio::null());
            command
        };
        let start = Instant::now();
        assert!(command().status().unwrap().success());
        let mut whole = start.elapsed().min(Duration::from_secs(5));
        let least = killed + effort::of(5, 15) as usize;
        // A run that ended before it was killed says that the others may take less time, too.
        for _ in 0..200 {
            if killed == least {
                break;
            }
            if to == &file {
                fs::remove_file(to).ok();
            } else {
                fs::remove_dir_all(to).ok();
            }
            let mut child = command().spawn().unwrap();
            thread::sleep(whole.mul_f64(rng.below(1000) as f64 / 1000.0));
            child.kill().unwrap();
            match child.wait().unwrap().success() {
                true => whole = whole.mul_f64(0.9),
                false => killed += 1,
            }
            let found: Vec<PathBuf> = match to == &file {
                true => to.exists().then(|| to.clone()).into_iter().collect(),
                false => fs::read_dir(to).into_iter().flatten().map(|entry| entry.unwrap().path()).collect(),
            };
            for path in found.iter().filter(|path| path.extension().is_some_and(|it| it == "safetensors")) {
                let held = &read(path).0["x"].2;
                let number = path.file_name().unwrap().to_str().unwrap().strip_prefix("shard-").map(|name| &name[..6]);
                let at = number.map_or(0, |number| number.parse::<usize>().unwrap() * 1_000_000);
                assert!(
                    held[..] == bytes[at..at + held.len()] && (to == &shards || held.len() == bytes.len()),
                    "{path:?}"
                );
            }
        }
        assert_eq!(killed, least, "killed of 200 runs");
    }
}
