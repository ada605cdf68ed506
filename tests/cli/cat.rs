use std::ffi::{OsStr, OsString};
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::process::Stdio;

use nix::sys::stat::Mode;
use serde_json::Value;
use tempfile::tempdir;

use crate::run::{Answer, forebay, pattern, write};

fn cat(file: &Path, flags: &[&str]) -> Answer {
    Answer::of(forebay().arg("cat").arg(file).args(flags))
}

/// The flags of every engine and route that can run on any machine. `bounce` is left out where the file system of the
/// temporary folder has no direct I/O.
fn ways(sample: &Path) -> Vec<[&'static str; 2]> {
    let engines: Vec<&str> = match cat(sample, &["--engine=uring"]).code {
        Some(0) => vec!["--engine=uring", "--engine=pread"],
        _ => {
            crate::common::skipped::skipped("uring: io_uring cannot be had here");
            vec!["--engine=pread"]
        }
    };
    let mut routes = vec!["--route=auto", "--route=cached"];
    match cat(sample, &["--engine=pread", "--route=bounce"]).code {
        Some(0) => routes.push("--route=bounce"),
        _ => crate::common::skipped::skipped("bounce: the temporary folder has no direct I/O"),
    }
    engines.iter().flat_map(|engine| routes.iter().map(|route| [*engine, *route])).collect()
}

#[test]
fn ragged_ranges_are_what_std_reads() {
    let folder = tempdir().unwrap();
    let bytes = pattern((3 << 20) + 4097);
    let file = write(folder.path(), "data", &bytes);
    let size = bytes.len();
    let offsets = [0, 1, 511, 512, 513, 4095, 4096, 4097, (1 << 20) - 1, 1 << 20, size - 1, size];
    for way in ways(&file) {
        for offset in offsets {
            let lengths =
                [0, 1, 511, 4096, 4097, (1 << 20) + 1].map(|length| (offset + length <= size).then_some(length));
            for length in lengths.into_iter().flatten().map(Some).chain([None]) {
                let mut flags = vec![format!("--offset={offset}")];
                flags.extend(length.map(|length| format!("--length={length}")));
                let flags: Vec<&str> = way.iter().copied().chain(flags.iter().map(String::as_str)).collect();
                let answer = cat(&file, &flags);
                assert_eq!((answer.code, answer.stderr.as_str()), (Some(0), ""), "{flags:?}");
                let end = length.map_or(size, |length| offset + length);
                assert!(answer.stdout == bytes[offset..end], "{flags:?}: {} bytes differ", answer.stdout.len());
            }
        }
    }
}

#[test]
fn suffixes_count_in_binary_units() {
    let folder = tempdir().unwrap();
    let bytes = pattern(3 << 20);
    let file = write(folder.path(), "data", &bytes);
    let answer = cat(&file, &["--offset=1MiB", "--length", "64KiB", "--budget=64MiB"]);
    assert_eq!(answer.code, Some(0), "{}", answer.stderr);
    assert!(answer.stdout == bytes[1 << 20..(1 << 20) + (64 << 10)]);
}

#[test]
fn an_empty_file_is_no_bytes() {
    let folder = tempdir().unwrap();
    let file = write(folder.path(), "empty", b"");
    let answer = cat(&file, &[]);
    assert_eq!((answer.code, answer.stdout.len(), answer.stderr.as_str()), (Some(0), 0, ""));
}

#[test]
fn a_range_past_the_end_is_refused_whole() {
    let folder = tempdir().unwrap();
    let file = write(folder.path(), "data", &pattern(10_000));
    let cases: [&[&str]; 6] = [
        &["--offset=10001"],
        &["--offset=10001", "--length=0"],
        &["--offset=9999", "--length=2"],
        &["--length=10001"],
        &["--offset=18446744073709551615"],
        &["--offset=18446744073709551615", "--length=18446744073709551615"],
    ];
    for flags in cases {
        for engine in ["--engine=auto", "--engine=pread"] {
            let answer = cat(&file, &[flags, &[engine]].concat());
            let error = answer.error(1);
            assert!(error.starts_with(&format!("error: {} at ", file.display())), "{flags:?}: {error}");
            assert!(error.contains("10000"), "{flags:?}: {error}");
        }
    }
}

#[test]
fn names_are_bytes() {
    let folder = tempdir().unwrap();
    for name in [&b"f\xff\xfel\xe9"[..], b"two\nlines", b" ", b"--length"] {
        let name = OsStr::from_bytes(name);
        let file = write(folder.path(), name, b"payload");
        let answer = cat(&file, &[]);
        assert_eq!((answer.code, &answer.stdout[..]), (Some(0), &b"payload"[..]), "{name:?}: {}", answer.stderr);
        let past = cat(&file, &["--offset=8"]);
        past.error(1);
    }
}

#[test]
fn a_missing_file_is_an_error_with_its_name() {
    let folder = tempdir().unwrap();
    let missing = folder.path().join(OsString::from("no such\nfile"));
    let answer = cat(&missing, &[]);
    let error = answer.error(1);
    assert!(error.contains(r"no such\nfile at "), "{error}");
}

#[test]
fn what_is_not_a_file_is_refused_with_its_name() {
    let folder = tempdir().unwrap();
    let fifo = folder.path().join("fifo");
    nix::unistd::mkfifo(&fifo, Mode::S_IRWXU).unwrap();
    for path in [fifo.as_path(), folder.path(), Path::new("/dev/null")] {
        let answer = cat(path, &[]);
        let error = answer.error(1);
        assert!(error.starts_with(&format!("error: {} at ", path.display())), "{error}");
    }
}

#[test]
fn a_reader_that_leaves_is_no_mistake() {
    let folder = tempdir().unwrap();
    let bytes = pattern(8 << 20);
    let file = write(folder.path(), "data", &bytes);
    let mut child =
        forebay().arg("cat").arg(&file).arg("--json").stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut head = [0; 10];
    let mut stdout = child.stdout.take().unwrap();
    stdout.read_exact(&mut head).unwrap();
    drop(stdout);
    let output = child.wait_with_output().unwrap();
    assert_eq!(head, bytes[..10]);
    assert_eq!(output.status.code(), Some(0));
    assert_eq!(String::from_utf8_lossy(&output.stderr), "");
}

#[test]
fn a_budget_that_cannot_serve_is_refused_with_its_numbers() {
    let folder = tempdir().unwrap();
    let file = write(folder.path(), "data", &pattern(1 << 20));
    for budget in ["0", "1"] {
        let answer = cat(&file, &["--budget", budget]);
        assert!(answer.error(2).contains("budget"), "{}", answer.stderr);
    }
}

#[test]
fn the_summary_accounts_for_every_byte() {
    let folder = tempdir().unwrap();
    let bytes = pattern((2 << 20) + 3);
    let file = write(folder.path(), "data", &bytes);
    for way in ways(&file) {
        for (offset, length) in [(5, bytes.len() - 5), (bytes.len(), 0)] {
            let flags = [way[0], way[1], "--json", &format!("--offset={offset}")];
            let answer = cat(&file, &flags);
            assert_eq!(answer.code, Some(0), "{}", answer.stderr);
            assert!(answer.stdout == bytes[offset..]);
            check_summary(&answer.stderr, length as u64, way);
        }
    }
}

fn check_summary(stderr: &str, length: u64, [engine, route]: [&str; 2]) {
    let last: Value = serde_json::from_str(stderr.lines().last().unwrap()).unwrap();
    assert_eq!(last.as_object().unwrap().len(), 1);
    let summary = last["summary"].as_object().unwrap();
    let mut keys: Vec<&str> = summary.keys().map(String::as_str).collect();
    keys.sort_unstable();
    assert_eq!(keys, ["bytes", "bytes_per_second", "decision", "device", "engine", "mode", "routes", "seconds"]);
    assert_eq!(summary["device"], "host");
    let rejected = summary["decision"]["rejected"].as_array().unwrap();
    assert_eq!(rejected.len(), 2, "{rejected:?}");
    for route in rejected {
        assert!(!route["reason"].as_str().unwrap().is_empty() && !route["fix"].as_str().unwrap().is_empty());
    }
    assert_eq!(summary["bytes"], length);
    assert_eq!(format!("--engine={}", summary["engine"].as_str().unwrap()), engine);
    assert!(summary["seconds"].as_f64().unwrap() > 0.0 && summary["bytes_per_second"].is_number());
    let routes = summary["routes"].as_object().unwrap();
    assert_eq!(routes.values().map(|bytes| bytes.as_u64().unwrap()).sum::<u64>(), length, "{routes:?}");
    let mode = summary["mode"].as_str().unwrap();
    match route {
        "--route=bounce" => assert_eq!((mode, routes.contains_key("cached")), ("direct", false), "{routes:?}"),
        "--route=cached" => assert_eq!((mode, routes.contains_key("bounce")), ("buffered", false), "{routes:?}"),
        _ => assert!(["direct", "buffered", "mixed"].contains(&mode), "{mode}"),
    }
}

/// No bytes would pass for an empty file.
#[test]
fn a_file_whose_size_is_not_told_is_an_error_of_every_command() {
    let commands: [&[&str]; 6] = [
        &["cat"],
        &["load", "--device=host"],
        &["inspect"],
        &["read", "--device=host", "--format=records", "--record-bytes=1"],
        &["order", "--format=tokens", "--seq-len=1"],
        &["pack", "--format=tfrecord", "--out=/nowhere/out"],
    ];
    for path in ["/proc/version", "/proc/self/status", "/sys/kernel/mm/transparent_hugepage/enabled"].map(Path::new) {
        if std::fs::read(path).is_ok_and(|bytes| !bytes.is_empty()) {
            for command in commands {
                let answer = Answer::of(forebay().args(command).arg(path));
                assert!(answer.error(1).contains("kernel makes up"), "{command:?}: {}", answer.stderr);
            }
        }
    }
}
