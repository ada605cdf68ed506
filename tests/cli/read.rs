//! `forebay read`: the batches that `order` tells, with what the files hold, and ends that lose nothing.
use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use tempfile::TempDir;

use crate::common::emulator::Emulator;
use crate::common::folder;
use crate::or_skip;
use crate::run::{Answer, forebay, member, pattern, write};

/// Records that lie in `data.rec`, and what each holds.
fn records(count: usize, len: usize) -> (TempDir, Vec<Vec<u8>>) {
    let folder = folder();
    let bytes = pattern(count * len);
    write(folder.path(), "data.rec", &bytes);
    (folder, bytes.chunks(len).map(<[u8]>::to_vec).collect())
}

fn command(folder: &Path, name: &str, flags: &str) -> Command {
    let mut command = forebay();
    command.current_dir(folder).arg(name).args(flags.split_whitespace());
    command
}

fn read(folder: &Path, flags: &str) -> Answer {
    Answer::of(&mut command(folder, "read", &format!("--device host {flags}")))
}

/// The lines of batches, and the summary.
fn parsed(answer: &Answer) -> (Vec<Value>, Value) {
    assert_eq!((answer.code, answer.stderr.as_str()), (Some(0), ""));
    split(&answer.stdout)
}

fn split(stdout: &[u8]) -> (Vec<Value>, Value) {
    let text = std::str::from_utf8(stdout).unwrap();
    assert!(text.ends_with('\n'));
    let mut lines: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let mut last = lines.pop().unwrap();
    assert_eq!(last.as_object().unwrap().len(), 1, "{last}");
    (lines, last["summary"].take())
}

fn hex(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

/// What `order` says of the same flags.
fn order(folder: &Path, flags: &str) -> Vec<Value> {
    parsed(&Answer::of(&mut command(folder, "order", &format!("--json {flags}")))).0
}

fn check_summary(summary: &Value, lines: &[Value]) {
    let sum = |of: &dyn Fn(&Value) -> u64| lines.iter().map(of).sum::<u64>();
    let bytes = sum(&|line| line["bytes"].as_u64().unwrap());
    assert_eq!(summary["batches"], lines.len());
    assert_eq!(summary["samples"], sum(&|line| line["ids"].as_array().unwrap().len() as u64));
    assert_eq!(summary["bytes"], bytes);
    let routes = summary["routes"].as_object().unwrap();
    assert_eq!(routes.values().map(|bytes| bytes.as_u64().unwrap()).sum::<u64>(), bytes, "{routes:?}");
    assert!(["uring", "pread"].contains(&summary["engine"].as_str().unwrap()));
    let mode = match (routes.contains_key("bounce"), routes.contains_key("cached")) {
        (true, false) => json!("direct"),
        (false, true) => json!("buffered"),
        (true, true) => json!("mixed"),
        (false, false) => Value::Null,
    };
    assert_eq!(summary["mode"], mode, "{routes:?}");
    assert!(summary["seconds"].as_f64().unwrap() > 0.0);
    let stalled = summary["stall_seconds"].as_f64().unwrap();
    assert!(stalled >= 0.0 && stalled <= summary["seconds"].as_f64().unwrap(), "{summary}");
}

#[test]
fn lines_are_those_of_order_with_the_hash_of_what_each_record_holds() {
    let (folder, records) = records(103, 1000);
    let flags =
        "data.rec --record-bytes 1000 --batch-size 8 --shuffle full --seed 5 --epochs 2 --rank 2 --world-size 3";
    let mut wanted = order(folder.path(), flags);
    assert!(wanted.len() == 10 && wanted[9]["padded"] == 2, "{wanted:?}");
    assert_eq!(parsed(&read(folder.path(), &format!("--json {flags}"))).0, wanted);
    for line in &mut wanted {
        let hash = |id: &Value| hex(&records[id.as_str().unwrap().parse::<usize>().unwrap()]);
        line["sha256"] = line["ids"].as_array().unwrap().iter().map(hash).collect();
    }
    for how in [
        "",
        "--workers 0 --prefetch 1",
        "--workers 5 --prefetch 3",
        "--engine pread",
        "--route bounce",
        "--route cached",
        "--budget 1MiB",
    ] {
        let (lines, summary) = parsed(&read(folder.path(), &format!("--json --hash {flags} {how}")));
        assert_eq!(lines, wanted, "{how}");
        check_summary(&summary, &lines);
    }
}

#[test]
fn a_sample_of_several_fields_is_hashed_in_the_order_of_the_archive() {
    let folder = folder();
    // Of varied lengths, in varied orders, one without a label, and one of nothing.
    let members = [("a.cls", 1), ("a.jpg", 700), ("b.jpg", 5000), ("b.cls", 2), ("c.jpg", 512), ("d.cls", 0)];
    let bytes = pattern(6000);
    let archive = members.map(|(name, len)| member(name, &bytes[..len])).concat();
    write(folder.path(), "0.tar", &[&archive[..], &[0; 1024]].concat());
    let of = |fields: &[usize]| hex(&fields.iter().flat_map(|len| &bytes[..*len]).copied().collect::<Vec<u8>>());
    let (lines, summary) = parsed(&read(folder.path(), "0.tar --json --hash --batch-size 3 --missing allow"));
    assert_eq!(lines[0]["ids"], json!(["a", "b", "c"]));
    assert_eq!(lines[0]["sha256"], json!([of(&[1, 700]), of(&[5000, 2]), of(&[512])]));
    assert_eq!((&lines[1]["ids"], &lines[1]["sha256"]), (&json!(["d"]), &json!([of(&[])])));
    check_summary(&summary, &lines);
}

#[test]
fn a_run_goes_on_where_another_stopped_as_if_it_never_had() {
    let (folder, _) = records(50, 300);
    let plain = "data.rec --record-bytes 300 --batch-size 7 --shuffle blocks:9 --seed 3 --epochs 3";
    let flags = format!("{plain} --json --hash");
    let whole = parsed(&read(folder.path(), &flags)).0;
    assert_eq!(whole.len(), 24);
    let mut pieces = Vec::new();
    for (number, how) in ["--workers 0", "--workers 4", "--prefetch 1", "--engine pread", ""].iter().enumerate() {
        let resume = if number > 0 { "--resume state" } else { "" };
        let (lines, summary) =
            parsed(&read(folder.path(), &format!("{flags} --max-batches 6 --save-state state {resume} {how}")));
        check_summary(&summary, &lines);
        pieces.extend(lines);
    }
    assert_eq!(pieces, whole);
    let (lines, summary) = parsed(&read(folder.path(), &format!("{flags} --resume state")));
    assert_eq!((lines.len(), &summary["bytes"]), (0, &json!(0)));
    check_summary(&summary, &lines);
    // `read` resumes what `order` has saved.
    order(folder.path(), &format!("{plain} --max-batches 11 --save-state state"));
    let rest = parsed(&read(folder.path(), &format!("{flags} --resume state"))).0;
    assert_eq!(rest, whole[11..]);
    write(folder.path(), "data.rec", &pattern(301 * 50));
    let foreign = read(folder.path(), "data.rec --record-bytes 301 --resume state --json");
    assert!(foreign.error(1).starts_with("error: state: "), "{}", foreign.stderr);
}

#[test]
fn no_batch_is_told_where_none_is_asked_for() {
    let (folder, _) = records(5, 300);
    let flags = "data.rec --record-bytes 300 --json";
    let (lines, summary) = parsed(&read(folder.path(), &format!("{flags} --max-batches 0 --save-state state")));
    assert_eq!((lines.len(), &summary["mode"]), (0, &Value::Null));
    let (lines, _) = parsed(&read(folder.path(), &format!("{flags} --resume state")));
    assert_eq!(lines[0]["ids"], json!(["0", "1", "2", "3", "4"]));
}

/// Records of TensorFlow, with the checksums of their format; that of record `broken` is of other bytes.
fn tfrecords(count: usize, broken: usize) -> Vec<u8> {
    let masked = |bytes: &[u8]| crc32c::crc32c(bytes).rotate_right(15).wrapping_add(0xa282_ead8).to_le_bytes();
    let mut file = Vec::new();
    for number in 0..count {
        let mut payload = pattern(100 + number);
        let crc = masked(&payload);
        payload[50] ^= u8::from(number == broken);
        let len = (payload.len() as u64).to_le_bytes();
        file.extend([&len[..], &masked(&len), &payload, &crc].concat());
    }
    file
}

#[test]
fn an_error_comes_behind_the_batches_before_it_and_the_state_stands_there() {
    let folder = folder();
    write(folder.path(), "data.tfrecord", &tfrecords(20, 13));
    let answer = read(folder.path(), "data.tfrecord --batch-size 4 --json --save-state state");
    assert_eq!(answer.code, Some(1));
    let said: Vec<&str> = answer.stderr.lines().collect();
    assert!(said.len() == 1 && said[0].starts_with("error: data.tfrecord at "), "{}", answer.stderr);
    assert!(said[0].contains("(sample 13, in batch 3 of epoch 0)"), "{}", answer.stderr);
    let printed = std::str::from_utf8(&answer.stdout).unwrap();
    let printed: Vec<Value> = printed.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(printed, order(folder.path(), "data.tfrecord --batch-size 4")[..3], "and no summary");
    let again = read(folder.path(), "data.tfrecord --batch-size 1 --json --resume state --max-batches 1");
    assert_eq!(parsed(&again).0[0]["ids"], json!(["12"]));
}

#[test]
fn corrupt_samples_that_may_be_skipped_are_warned_about_and_counted() {
    let folder = folder();
    write(folder.path(), "data.tfrecord", &tfrecords(20, 13));
    let answer = read(folder.path(), "data.tfrecord --batch-size 4 --json --hash --skip-corrupt 1");
    assert_eq!(answer.code, Some(0), "{}", answer.stderr);
    assert!(answer.stderr.lines().all(|line| line.starts_with("warning: ")), "{}", answer.stderr);
    assert!(answer.stderr.contains("data.tfrecord at "), "{}", answer.stderr);
    let (lines, summary) = split(&answer.stdout);
    check_summary(&summary, &lines);
    assert_eq!((lines.len(), &summary["samples"]), (5, &json!(19)));
    assert_eq!((&summary["skipped_corrupt"], &summary["skipped_missing"]), (&json!(1), &json!(0)));
    assert_eq!(lines[3]["ids"], json!(["12", "14", "15"]));
    assert_eq!(lines[3]["sha256"][1], hex(&pattern(114)));
    let words = String::from_utf8(read(folder.path(), "data.tfrecord --skip-corrupt 1").stdout).unwrap();
    assert!(words.trim_end().ends_with("; 1 corrupt sample skipped"), "{words}");
}

/// Pictures and labels, of which samples 2, 5 and 6 of eight lack the label; `order` and `read` say the same of them.
#[test]
fn samples_that_lack_a_field_are_an_error_or_left_out_or_come_without_it() {
    let folder = folder();
    let mut archive = Vec::new();
    for i in 0..8_usize {
        archive.extend(member(&format!("{i}.jpg"), &pattern(100 * i)));
        if ![2, 5, 6].contains(&i) {
            archive.extend(member(&format!("{i}.cls"), &[i as u8]));
        }
    }
    write(folder.path(), "0.tar", &[&archive[..], &[0; 1024]].concat());
    let both = |flags: &str| {
        let flags = format!("0.tar --batch-size 2 --json {flags}");
        [read(folder.path(), &flags), Answer::of(&mut command(folder.path(), "order", &flags))]
    };
    let [read_error, order_error] = both("").map(|answer| {
        assert_eq!(answer.code, Some(1), "{}", answer.stderr);
        answer.stderr
    });
    assert_eq!(read_error, order_error);
    for part in
        ["error: 0.tar at ", "no field cls", "5 of 8 samples", "sample 2, in batch 1 of epoch 0", "--missing skip"]
    {
        assert!(read_error.contains(part) && read_error.lines().count() == 1, "no {part}: {read_error}");
    }
    for answer in both("--missing skip --hash").into_iter().take(1).chain(both("--missing skip")) {
        assert_eq!(answer.code, Some(0), "{}", answer.stderr);
        assert_eq!(answer.stderr.lines().count(), 1, "{}", answer.stderr);
        assert!(answer.stderr.starts_with("warning: ") && answer.stderr.contains("sample 2"), "{}", answer.stderr);
        let (lines, summary) = split(&answer.stdout);
        let ids: Vec<&Value> = lines.iter().map(|line| &line["ids"]).collect();
        assert_eq!(ids, [&json!(["0", "1"]), &json!(["3"]), &json!(["4"]), &json!(["7"])]);
        assert_eq!((&summary["samples"], &summary["skipped_missing"]), (&json!(5), &json!(3)));
        assert_eq!(summary["skipped_corrupt"], json!(0));
    }
    let (lines, summary) = parsed(&read(folder.path(), "0.tar --batch-size 2 --json --hash --missing allow"));
    assert_eq!((&summary["samples"], &summary["skipped_missing"]), (&json!(8), &json!(0)));
    assert_eq!(lines[1]["sha256"], json!([hex(&pattern(200)), hex(&[&pattern(300)[..], &[3]].concat())]));
    assert_eq!(order(folder.path(), "0.tar --batch-size 2 --missing allow").len(), 4);
    for command in ["read", "order"] {
        let flags = "0.tar --batch-size 2 --missing skip";
        let words = Answer::of(&mut self::command(folder.path(), command, flags)).stdout;
        let words = String::from_utf8(words).unwrap();
        assert!(words.trim_end().ends_with("; 3 samples that lack a field skipped"), "{words}");
    }
}

#[test]
fn what_is_said_of_samples_left_out_is_the_same_before_and_while_reading() {
    let folder = folder();
    let archive = |names: &[String]| -> Vec<u8> {
        let members = names.iter().flat_map(|name| member(name, b"x"));
        members.chain([0; 1024]).collect()
    };
    let both = |flags: &str| {
        let flags = format!("x.tar --batch-size 4 --missing skip {flags}");
        ["read", "order"].map(|name| Answer::of(&mut command(folder.path(), name, &flags)))
    };
    let stray: Vec<String> = (0..9).map(|i| format!("{i}.jpg")).chain(["README.md".into()]).collect();
    write(folder.path(), "x.tar", &archive(&stray));
    let [read, order] = both("");
    assert_eq!((read.code, order.code), (Some(1), Some(1)), "{} {}", read.stderr, order.stderr);
    assert_eq!(read.stderr, order.stderr);
    let all = read.stderr.lines().last().unwrap();
    assert!(all.starts_with("error: x.tar: all 10 samples of this epoch"), "{all}");
    let most: Vec<String> = (0..9).map(|i| format!("{i}.jpg")).chain(["4.md".into()]).collect();
    write(folder.path(), "x.tar", &archive(&most));
    let [read, order] = both("");
    assert_eq!((read.code, order.code), (Some(0), Some(0)), "{} {}", read.stderr, order.stderr);
    assert_eq!(read.stderr, order.stderr);
    let warnings: Vec<&str> = read.stderr.lines().collect();
    let [first, second] = warnings[..] else { panic!("{warnings:?}") };
    assert!(first.contains("no field md, which 1 of 9 samples have, the first of them 4 (x.tar at "), "{first}");
    assert!(second.contains("8 of 9") && second.contains("field md"), "{second}");
}

/// Starts a run that has far more to say than a pipe holds, and reads ten lines of it.
fn long_run(folder: &Path) -> (Child, BufReader<ChildStdout>, Vec<u8>) {
    let flags = "data.rec --record-bytes 512 --batch-size 1 --shuffle full --json --save-state state --device host";
    let mut child = command(folder, "read", flags).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut stdout = BufReader::new(child.stdout.take().unwrap());
    let mut said = Vec::new();
    for _ in 0..10 {
        stdout.read_until(b'\n', &mut said).unwrap();
    }
    (child, stdout, said)
}

fn interrupt(child: &Child) {
    let sent = Command::new("sh").arg("-c").arg(format!("kill -INT {}", child.id())).status().unwrap();
    assert!(sent.success());
}

fn code_within(child: &mut Child, time: Duration) -> Option<i32> {
    let begun = Instant::now();
    while begun.elapsed() < time {
        if let Some(status) = child.try_wait().unwrap() {
            return status.code();
        }
        thread::sleep(Duration::from_millis(5));
    }
    child.kill().unwrap();
    panic!("not ended within {time:?}");
}

#[test]
fn an_interrupted_run_tells_its_summary_and_can_be_resumed() {
    let (folder, _) = records(20_000, 512);
    let (mut child, mut stdout, mut said) = long_run(folder.path());
    interrupt(&child);
    // It hears that on a thread of its own, while it waits for the pipe.
    thread::sleep(Duration::from_millis(500));
    stdout.read_to_end(&mut said).unwrap();
    assert_eq!(code_within(&mut child, Duration::from_secs(10)), Some(130));
    let mut stderr = String::new();
    child.stderr.take().unwrap().read_to_string(&mut stderr).unwrap();
    assert_eq!(stderr, "");
    let (lines, summary) = split(&said);
    check_summary(&summary, &lines);
    assert!((10..19_000).contains(&lines.len()), "{}", lines.len());

    let flags = "data.rec --record-bytes 512 --batch-size 1 --shuffle full";
    let whole = order(folder.path(), &format!("{flags} --max-batches {}", lines.len() + 50));
    let rest = parsed(&read(folder.path(), &format!("{flags} --json --resume state --max-batches 50"))).0;
    assert_eq!([lines, rest].concat(), whole);
}

#[test]
fn a_second_interrupt_ends_it_at_once() {
    let (folder, _) = records(20_000, 512);
    let (mut child, stdout, _) = long_run(folder.path());
    // Nobody reads what it writes, so that it cannot come to an end by itself.
    interrupt(&child);
    interrupt(&child);
    assert_eq!(code_within(&mut child, Duration::from_secs(10)), Some(130));
    drop(stdout);
}

#[test]
fn who_reads_no_further_is_no_error_and_the_state_is_saved() {
    let (folder, _) = records(20_000, 512);
    let (mut child, stdout, _) = long_run(folder.path());
    drop(stdout);
    assert_eq!(code_within(&mut child, Duration::from_secs(10)), Some(0));
    let state: Value = serde_json::from_slice(&fs::read(folder.path().join("state")).unwrap()).unwrap();
    assert!((10..19_000).contains(&state["position"].as_u64().unwrap()), "{state}");
}

#[test]
fn for_people_a_line_for_each_batch_and_what_it_took() {
    let (folder, records) = records(3, 2048);
    let answer = read(folder.path(), "data.rec --record-bytes 2048 --batch-size 2 --hash");
    assert_eq!((answer.code, answer.stderr.as_str()), (Some(0), ""));
    let text = String::from_utf8(answer.stdout).unwrap();
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines.len(), 6, "{text}");
    assert_eq!(lines[0], "epoch 0 batch 0: 2 samples, 4 KiB:");
    assert_eq!(lines[4], format!("  {}  2", hex(&records[2])));
    assert!(lines[5].starts_with("2 batches, 3 samples of 6 KiB in ") && lines[5].contains(" s to host: "), "{text}");
}

#[test]
fn a_batch_that_can_never_fit_is_refused_with_the_numbers() {
    let (folder, _) = records(4, 1 << 20);
    let answer = read(folder.path(), "data.rec --record-bytes 1MiB --batch-size 4 --budget 2MiB --json");
    let error = answer.error(1);
    assert!(error.contains("MiB") && error.contains("budget"), "{error}");
}

#[test]
fn batches_on_a_device_have_the_same_bytes_by_every_route() {
    let emulator = or_skip!(Emulator::new());
    let (folder, _) = records(60, 8192);
    let flags = "data.rec --record-bytes 8192 --batch-size 8 --shuffle full --json --hash";
    let wanted = parsed(&read(folder.path(), flags)).0;
    for route in ["auto", "direct", "bounce", "cached"] {
        let mut command = emulator.forebay("jitter_us=20").unwrap();
        command.current_dir(folder.path()).args(["read", "--device=cuda:0", "--route", route]);
        let mut answer = Answer::of(command.args(flags.split_whitespace()));
        answer.stderr = answer.stderr.lines().filter(|line| !line.starts_with("emulator: note")).collect();
        let (lines, summary) = parsed(&answer);
        assert_eq!(lines, wanted, "{route}");
        let routes = summary["routes"].as_object().unwrap();
        assert!(route == "auto" || routes.keys().eq([route]), "{routes:?}");
        emulator.report().assert_clean();
    }
}
