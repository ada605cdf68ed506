//! `load` as scripts see it.
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use safetensors::Dtype;
use serde_json::Value;
use sha2::{Digest, Sha256};

use crate::common::emulator::Emulator;
use crate::common::folder;
use crate::common::weights::{Seen, Tensor, oracle, write, write_index};
use crate::no_gpu::shows_gpu;
use crate::or_skip;
use crate::run::{Answer, NPY, forebay, run};

fn tensors() -> Vec<Tensor> {
    vec![
        Tensor::new("z.weight", Dtype::F32, &[300, 70], 1),
        Tensor::new("a.größe", Dtype::BF16, &[17], 2),
        Tensor::new("step", Dtype::I64, &[], 3),
        Tensor::new("none", Dtype::U8, &[0, 4], 4),
        Tensor::new("two\nlines \"q\"", Dtype::F8_E4M3, &[5, 5], 5),
    ]
}

fn load(path: &Path, flags: &[&str]) -> Answer {
    let device = flags.iter().any(|flag| flag.starts_with("--device"));
    let host = (!device).then_some("--device=host");
    Answer::of(forebay().arg("load").arg(path).args(host).args(flags))
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn lines(answer: &Answer) -> Vec<Value> {
    assert_eq!((answer.code, answer.stderr.as_str()), (Some(0), ""));
    let text = std::str::from_utf8(&answer.stdout).unwrap();
    assert!(text.ends_with('\n'));
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn check_summary(line: &Value, wanted: &[Seen], device: &str) {
    assert_eq!(line.as_object().unwrap().len(), 1);
    let summary = line["summary"].as_object().unwrap();
    let bytes: usize = wanted.iter().map(|seen| seen.3.len()).sum();
    assert_eq!(summary["tensors"], wanted.len());
    assert_eq!(summary["bytes"], bytes);
    assert_eq!(summary["device"], device);
    assert!(summary["seconds"].as_f64().unwrap() > 0.0);
    assert!(summary["bytes_per_second"].as_f64().unwrap() > 0.0);
    let routes = summary["routes"].as_object().unwrap();
    assert_eq!(routes.values().map(|bytes| bytes.as_u64().unwrap()).sum::<u64>(), bytes as u64, "{routes:?}");
    assert!(summary["peak_host_bytes"].as_u64().unwrap() > bytes as u64);
}

#[test]
fn a_line_for_each_tensor_and_then_the_summary() {
    let folder = folder();
    let path = write(folder.path(), "model.safetensors", &tensors());
    let wanted = oracle(&std::fs::read(&path).unwrap()).unwrap();
    for flags in [&[][..], &["--engine=pread"], &["--route=cached"], &["--route=auto"], &["--budget=1MiB"]] {
        let flags = [&["--json", "--hash"], flags].concat();
        for path in [path.as_path(), folder.path()] {
            let lines = lines(&load(path, &flags));
            let (summary, hashed) = lines.split_last().unwrap();
            check_summary(summary, &wanted, "host");
            assert_eq!(hashed.len(), wanted.len());
            for (line, (name, dtype, shape, bytes)) in hashed.iter().zip(&wanted) {
                let sha256 = hex(&Sha256::digest(bytes));
                assert_eq!(
                    line,
                    &serde_json::json!({ "name": name, "dtype": dtype, "shape": shape, "sha256": sha256 })
                );
            }
        }
    }
    let lines = lines(&load(&path, &["--json"]));
    assert_eq!(lines.len(), 1);
    check_summary(&lines[0], &wanted, "host");
}

/// A line is a line, whatever names tensors have.
#[test]
fn for_people_it_says_the_same() {
    let folder = folder();
    let path = write(folder.path(), "model.safetensors", &tensors());
    let answer = load(&path, &["--hash"]);
    assert_eq!((answer.code, answer.stderr.as_str()), (Some(0), ""));
    let text = String::from_utf8(answer.stdout).unwrap();
    let lines: Vec<&str> = text.lines().collect();
    let wanted = oracle(&std::fs::read(&path).unwrap()).unwrap();
    assert_eq!(lines.len(), wanted.len() + 1, "{text}");
    for (line, (.., bytes)) in lines.iter().zip(&wanted) {
        assert!(line.starts_with(&hex(&Sha256::digest(bytes))), "{line}");
    }
    let summary = lines.last().unwrap();
    assert!(summary.starts_with("5 tensors of 1 file, 82.1 KiB in "), "{text}");
    assert!(!summary.contains(" 0.00 ") && summary.contains("; at most ") && summary.contains("iB of host memory"));
}

/// Where there is no GPU, the host is what is meant, and where one cannot be used, that is said once.
#[test]
fn without_a_device_named_it_lands_where_it_can() {
    let folder = folder();
    let path = write(folder.path(), "model.safetensors", &tensors());
    let answer = load(&path, &["--json", "--device=auto"]);
    assert_eq!(answer.code, Some(0), "{}", answer.stderr);
    let summary: Value = serde_json::from_slice(&answer.stdout).unwrap();
    match summary["summary"]["device"].as_str().unwrap() {
        "host" if shows_gpu() => assert!(answer.stderr.starts_with("warning: ") && answer.stderr.lines().count() == 1),
        "host" => assert_eq!(answer.stderr, ""),
        device => assert!(device.starts_with("cuda:")),
    }
}

#[test]
fn an_index_is_the_authority() {
    let folder = folder();
    write(folder.path(), "a.safetensors", &[Tensor::new("t", Dtype::U8, &[10], 1)]);
    let b = write(folder.path(), "b.safetensors", &[Tensor::new("t", Dtype::U8, &[10], 2)]);
    let index = write_index(folder.path(), &[("t", "b.safetensors")]);
    let wanted = oracle(&std::fs::read(&b).unwrap()).unwrap();
    for path in [index.as_path(), folder.path()] {
        let lines = lines(&load(path, &["--json", "--hash"]));
        assert_eq!(lines[0]["sha256"], hex(&Sha256::digest(&wanted[0].3)));
        check_summary(&lines[1], &wanted, "host");
    }
    std::fs::remove_file(b).unwrap();
    let answer = load(folder.path(), &["--json", "--hash"]);
    assert!(answer.error(1).contains("b.safetensors"), "{}", answer.stderr);
}

#[test]
fn names_are_bytes() {
    let folder = folder();
    for name in [&b"f\xff\xfel\xe9.safetensors"[..], b"two\nlines", b"--hash"] {
        let path = write(folder.path(), OsStr::from_bytes(name), &tensors());
        let answer = Answer::of(forebay().args(["load", "--json", "--device=host", "--"]).arg(&path));
        assert_eq!(lines(&answer).len(), 1);
        std::fs::write(&path, b"short").unwrap();
        let answer = Answer::of(forebay().args(["load", "--device=host", "--"]).arg(&path));
        assert!(answer.error(1).contains(" at 0: "), "{}", answer.stderr);
    }
}

#[test]
fn what_cannot_be_loaded_is_one_error() {
    let folder = folder();
    let path = write(folder.path(), "model.safetensors", &tensors());
    let refused = |path: &Path, flags: &[&str], words: &[&str]| {
        for json in [&[][..], &["--json"], &["--hash"]] {
            let answer = load(path, &[flags, json].concat());
            let error = answer.error(1);
            words.iter().for_each(|word| assert!(error.contains(word), "{error} lacks {word}"));
        }
    };
    let shown = path.display().to_string();
    refused(&path, &["--budget=64KiB"], &["the budget is 64 KiB; ", "--budget"]);
    refused(&path, &["--route=direct", "--device=host"], &["direct"]);
    refused(&folder.path().join("missing"), &[], &["missing"]);
    let npy = folder.path().join("x.npy");
    std::fs::write(&npy, NPY).unwrap();
    refused(&npy, &[], &["this is a file of format npy"]);
    refused("/dev/null".as_ref(), &[], &["/dev/null"]);
    let mut bytes = std::fs::read(&path).unwrap();
    bytes.push(0);
    std::fs::write(&path, bytes).unwrap();
    refused(&path, &[], &[&shown, " at ", "1 bytes follow"]);
    std::fs::write(&path, u64::MAX.to_le_bytes()).unwrap();
    refused(&path, &[], &[&shown, " at 0: ", "18446744073709551615"]);
    assert_eq!(run(["load"]).code, Some(2));
    assert_eq!(load(&path, &["--device=gpu"]).code, Some(2));
    assert_eq!(load(&path, &["--route=fast"]).code, Some(2));
}

#[test]
fn to_a_device_by_every_route() {
    let emulator = or_skip!(Emulator::new());
    let folder = folder();
    let path = write(folder.path(), "model.safetensors", &tensors());
    let wanted = oracle(&std::fs::read(&path).unwrap()).unwrap();
    for route in ["auto", "direct", "bounce", "cached"] {
        let mut command = emulator.forebay("jitter_us=20").unwrap();
        command.arg("load").arg(&path).args(["--device=cuda:0", "--json", "--hash", "--route", route]);
        let mut answer = Answer::of(&mut command);
        answer.stderr = answer.stderr.lines().filter(|line| !line.starts_with("emulator: note")).collect();
        let lines = lines(&answer);
        for (line, (.., bytes)) in lines.iter().zip(&wanted) {
            assert_eq!(line["sha256"], hex(&Sha256::digest(bytes)), "{route}");
        }
        let summary = &lines[wanted.len()];
        check_summary(summary, &wanted, "cuda:0");
        let routes = summary["summary"]["routes"].as_object().unwrap();
        assert!(route == "auto" || routes.keys().eq([route]), "{routes:?}");
        emulator.report().assert_clean();
    }
    let mut command = emulator.forebay("memory=64KiB").unwrap();
    let answer = Answer::of(command.arg("load").arg(&path).arg("--device=cuda:0"));
    assert!(answer.code == Some(1) && answer.stdout.is_empty(), "{}", answer.stderr);
    assert!(
        answer.stderr.lines().any(|line| line.starts_with("error: ") && line.contains("64 KiB")),
        "{}",
        answer.stderr
    );
}

/// A part of a model passes for all of it otherwise.
#[test]
fn files_of_a_set_are_all_there_or_it_is_an_error() {
    let folder = folder();
    let tensor = |name: &str| [Tensor::new(name, Dtype::U8, &[10], 1)];
    let name = |i| format!("model-0000{i}-of-00003.safetensors");
    let paths = [1, 2, 3].map(|i| write(folder.path(), name(i), &tensor(&format!("t{i}"))));
    assert_eq!(lines(&load(folder.path(), &["--json"]))[0]["summary"]["tensors"], 3);
    for (gone, path) in (1..).zip(&paths) {
        let aside = folder.path().join("aside");
        std::fs::rename(path, &aside).unwrap();
        let answer = load(folder.path(), &[]);
        let error = answer.error(1);
        assert!(error.contains(&name(gone)) && error.contains("--allow-incomplete"), "{error}");
        let part = lines(&load(folder.path(), &["--json", "--allow-incomplete"]));
        assert_eq!(part[0]["summary"]["tensors"], 2);
        std::fs::rename(&aside, path).unwrap();
    }
    assert!(load(&paths[0], &[]).error(1).contains("2 files are missing"));
    // What an index names counts, and nothing else.
    std::fs::remove_file(&paths[2]).unwrap();
    write_index(folder.path(), &[("t1", &name(1)), ("t2", &name(2))]);
    assert_eq!(lines(&load(folder.path(), &["--json"]))[0]["summary"]["tensors"], 2);
}

#[test]
fn a_checkpoint_of_nothing_is_an_error() {
    let folder = folder();
    let empty = write(folder.path(), "empty.safetensors", &[]);
    for path in [empty.as_path(), folder.path()] {
        let answer = load(path, &[]);
        assert!(answer.error(1).contains("holds no tensor"), "{}", answer.stderr);
    }
    std::fs::write(folder.path().join("model.safetensors.index.json"), r#"{"weight_map":{}}"#).unwrap();
    assert!(load(folder.path(), &[]).error(1).contains("names no tensor"));
}

/// As `inspect` reads it.
#[test]
fn a_folder_in_the_folder_is_no_part_of_the_model() {
    let folder = folder();
    write(folder.path(), "model.safetensors", &tensors());
    std::fs::create_dir(folder.path().join("old.safetensors")).unwrap();
    std::fs::create_dir(folder.path().join("old.safetensors.index.json")).unwrap();
    assert_eq!(lines(&load(folder.path(), &["--json"]))[0]["summary"]["tensors"], tensors().len());
    std::os::unix::fs::symlink("old.safetensors", folder.path().join("link.safetensors")).unwrap();
    assert_eq!(lines(&load(folder.path(), &["--json"]))[0]["summary"]["tensors"], tensors().len());
}
