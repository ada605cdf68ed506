//! `bench` as scripts see it: what it says of a file's page cache, of its own figures, and what it leaves behind.
use std::fs;
use std::path::Path;
use std::process::Stdio;

use serde_json::Value;

use crate::common::emulator::Emulator;
use crate::common::{Skip, folder, mounts};
use crate::or_skip;
use crate::run::{Answer, forebay, pattern, write};
use crate::throttle::Throttle;

const SCHEMA: &str = include_str!("../../src/bin/forebay/bench/schema.json");
/// Flags of a run that is soon over, each unless the test has it otherwise.
const SHORT: [&str; 7] =
    ["--profile=random", "--chunk=64KiB", "--depth=4", "--threads=1", "--seconds=0.6", "--rounds=2", "--peers=false"];

pub fn short<'a>(flags: &'a [&'a str]) -> impl Iterator<Item = &'a str> {
    let name = |flag: &'a str| flag.split('=').next();
    let usual = SHORT.into_iter().filter(move |usual| !flags.iter().any(|flag| name(flag) == name(usual)));
    usual.chain(flags.iter().copied())
}

pub fn bench(path: &Path, flags: &[&str]) -> Answer {
    let device = flags.iter().any(|flag| flag.starts_with("--device"));
    let host = (!device).then_some("--device=host");
    Answer::of(forebay().arg("bench").arg(path).args(host).args(short(flags)).arg("--json"))
}

/// Rows and summary, each as the schema has it.
pub fn report(answer: &Answer) -> (Vec<Value>, Value) {
    assert_eq!(answer.code, Some(0), "{}", answer.stderr);
    checked(std::str::from_utf8(&answer.stdout).unwrap())
}

pub fn checked(text: &str) -> (Vec<Value>, Value) {
    let schema = jsonschema::validator_for(&serde_json::from_str(SCHEMA).unwrap()).unwrap();
    let mut lines: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    for line in &lines {
        let wrong: Vec<String> = schema.iter_errors(line).map(|error| error.to_string()).collect();
        assert!(wrong.is_empty(), "{line}: {wrong:?}");
    }
    let summary = lines.pop().unwrap()["summary"].take();
    assert_eq!(summary["rows"], lines.len());
    (lines, summary)
}

pub fn file(folder: &Path) -> std::path::PathBuf {
    write(folder, "data.bin", &pattern((12 << 20) + 77))
}

#[test]
fn each_line_is_as_the_schema_says_and_says_what_was_read() {
    let folder = folder();
    let (rows, summary) = report(&bench(&file(folder.path()), &[]));
    assert!(summary["interrupted"] == false && summary["rounds"] == 2, "{summary}");
    assert_eq!(summary["target_bytes"], (12 << 20) + 77);
    assert!(summary["ceilings"]["link"].as_array().unwrap().is_empty(), "the host has no link: {summary}");
    let routes: Vec<&str> = rows.iter().map(|row| row["route"].as_str().unwrap()).collect();
    assert!(routes.contains(&"cached"), "{routes:?}");
    for row in &rows {
        assert!(row["verified"] == true && row["emulated"] == false, "{row}");
        assert_eq!(row["runs"].as_array().unwrap().len(), 2, "{row}");
        assert!(row["bytes"].as_u64().unwrap().is_multiple_of(64 << 10), "{row}");
        assert!(row["cpu_seconds"].as_f64().unwrap() > 0.0, "{row}");
        // What was carried could be.
        let (rate, most) = (row["bytes_per_second"].as_f64(), row["bound"]["cpu_ceiling"].as_f64());
        assert!(most.unwrap() >= rate.unwrap() * 0.8, "{row}");
        let latency = |name: &str| row["latency_seconds"][name].as_f64().unwrap();
        assert!(latency("p50") > 0.0 && latency("p50") <= latency("p99") && latency("p99") <= latency("p999"), "{row}");
        let (before, after) = (row["cached_share_before"].as_f64(), row["cached_share_after"].as_f64());
        match (row["route"].as_str().unwrap(), row["cache"].as_str().unwrap()) {
            ("bounce", "cold") => assert!(before < Some(0.001) && row["mode"] == "direct", "{row}"),
            ("cached", "cold") => assert!(before < Some(0.001) && after > Some(0.0), "{row}"),
            ("cached", "warm") => assert!(before > Some(0.999) && row["mode"] == "buffered", "{row}"),
            other => assert!(before.is_none(), "{other:?} {row}"),
        }
    }
}

/// What fio is asked to do is what it does, where it is there.
#[test]
fn fio_reads_the_same_in_turns() {
    or_skip!(fio());
    let folder = folder();
    let flags = ["--peers=true", "--route=cached", "--profile=sequential", "--chunk=1MiB"];
    let (rows, summary) = report(&bench(&file(folder.path()), &flags));
    assert!(summary["peer"].as_str().unwrap().starts_with("fio"), "{summary}");
    for row in rows {
        let peer = &row["peer"];
        assert_eq!(peer["runs"].as_array().unwrap().len(), 2, "{row}");
        assert!(
            peer["ratio"].as_f64().unwrap() > 0.0 && peer["latency_seconds"]["p50"].as_f64().unwrap() > 0.0,
            "{row}"
        );
    }
}

fn fio() -> Result<(), Skip> {
    let found = std::process::Command::new("fio").arg("--version").stdout(Stdio::null()).status();
    found.map(drop).map_err(|error| Skip::because(format!("fio: {error}")))
}

/// Nobody but NVIDIA has the real one: a stand-in that says what it was asked, in the real one's words.
#[test]
fn gdsio_is_asked_for_the_same_where_it_is_on_the_path() {
    let emulator = or_skip!(Emulator::new());
    let folder = folder();
    let path = file(folder.path());
    let asked = folder.path().join("asked");
    let tool = "#!/bin/sh\n[ \"$1\" = -h ] || echo \"$@\" >> \"$ASKED\"\n\
                echo 'IoType: READ XferType: GPUD Threads: 4 IOSize: 64(KiB) Throughput: 2.5 GiB/sec, Avg_Latency: 1 usecs'\n";
    let tool = write(folder.path(), "gdsio", tool.as_bytes());
    fs::set_permissions(&tool, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let mut command = emulator.forebay("").unwrap();
    let search = std::env::var("PATH").unwrap_or_default();
    command.env("PATH", format!("{}:{search}", folder.path().display())).env("ASKED", &asked);
    let flags = ["--peers=true", "--rounds=1"];
    command.arg("bench").arg(&path).args(short(&flags)).args(["--json", "--device=cuda:0"]);
    let (rows, summary) = report(&Answer::of(&mut command));
    assert_eq!(summary["peer"], "gdsio");
    for row in rows {
        match row["route"].as_str().unwrap() {
            "direct" | "bounce" => {
                assert_eq!(row["peer"]["bytes_per_second"], 2.5 * f64::from(1 << 30), "{row}");
                assert!(row["peer"]["latency_seconds"].is_null(), "{row}");
            }
            _ => assert!(row["peer"].is_null(), "{row}"),
        }
    }
    let asked = fs::read_to_string(asked).unwrap();
    let path = path.canonicalize().unwrap();
    for way in ["0", "2"] {
        let line = format!("-f {} -d 0 -x {way} -I 2 -w 4 -i 65536 -s {} -T 1", path.display(), 12 << 20);
        assert!(asked.lines().any(|asked| asked == line), "{line}\n{asked}");
    }
}

/// Row 140.
#[test]
fn a_file_that_stays_in_the_page_cache_is_never_called_cold() {
    let folder = folder();
    let path = file(folder.path());
    // What a process has locked is not dropped.
    let opened = fs::File::open(&path).unwrap();
    // SAFETY: nobody writes to the file while it is mapped.
    let mapped = unsafe { memmap2::Mmap::map(&opened).unwrap() };
    or_skip!(mapped.lock().map_err(|error| Skip::because(format!("locking memory: {error}"))));
    for route in ["--route=cached", "--route=bounce"] {
        let answer = bench(&path, &[route]);
        if route.ends_with("bounce") && answer.code == Some(1) {
            crate::common::skipped::skipped(format!("no direct reads here: {}", answer.stderr));
            continue;
        }
        let (rows, summary) = report(&answer);
        assert!(rows.iter().all(|row| row["cache"] != "cold"), "{rows:?}");
        assert!(rows.iter().any(|row| row["cache"] == "unproven"), "{rows:?}");
        assert!(summary["warnings"].to_string().contains("not cold"), "{summary}");
    }
}

#[test]
fn a_file_in_memory_is_called_so() {
    let tmpfs = or_skip!(mounts::tmpfs());
    let (rows, summary) = report(&bench(&file(&tmpfs.dir), &["--route=cached"]));
    assert_eq!(summary["file_system"], "tmpfs");
    assert!(!rows.is_empty() && rows.iter().all(|row| row["cache"] == "memory"), "{rows:?}");
}

#[test]
fn figures_of_the_emulator_are_called_emulated() {
    let emulator = or_skip!(Emulator::new());
    let folder = folder();
    let path = file(folder.path());
    let mut command = emulator.forebay("").unwrap();
    command.arg("bench").arg(&path).args(SHORT).args(["--json", "--device=cuda:0"]);
    let answer = Answer::of(&mut command);
    let (rows, _) = report(&answer);
    let routes: Vec<&str> = rows.iter().map(|row| row["route"].as_str().unwrap()).collect();
    assert!(routes.contains(&"direct") && routes.contains(&"bounce") && routes.contains(&"cached"), "{routes:?}");
    assert!(rows.iter().all(|row| row["emulated"] == true && row["verified"] == true), "{rows:?}");
    emulator.report().assert_clean();
}

/// 50 MB/s is slower than any drive here.
#[test]
fn a_link_that_is_slow_is_what_is_named() {
    let emulator = or_skip!(Emulator::new());
    let folder = folder();
    let path = file(folder.path());
    let mut command = emulator.forebay("h2d_gbps=0.05;latency_us=5;jitter_us=0").unwrap();
    let flags = ["--route=bounce", "--seconds=2", "--chunk=1MiB"];
    command.arg("bench").arg(&path).args(short(&flags)).args(["--json", "--device=cuda:0"]);
    let (rows, summary) = report(&Answer::of(&mut command));
    let link = summary["ceilings"]["to_device"].as_f64().unwrap();
    assert!((0.02e9..0.06e9).contains(&link), "{summary}");
    assert!(rows.iter().all(|row| row["bound"]["by"] == "link"), "{rows:?}");
    emulator.report().assert_clean();
}

/// Half a millisecond before each copy is all of a small one's time, and nothing of a large one's.
#[test]
fn the_link_is_measured_by_the_size_of_a_copy() {
    let emulator = or_skip!(Emulator::new());
    let folder = folder();
    let path = file(folder.path());
    let mut command = emulator.forebay("h2d_gbps=2;d2h_gbps=2;latency_us=500;jitter_us=0").unwrap();
    command.arg("bench").arg(&path).args(short(&["--route=bounce"])).args(["--json", "--device=cuda:0"]);
    let (_, summary) = report(&Answer::of(&mut command));
    let link = summary["ceilings"]["link"].as_array().unwrap();
    let chunks: Vec<u64> = link.iter().map(|rates| rates["chunk"].as_u64().unwrap()).collect();
    assert_eq!(chunks, [64 << 10, 256 << 10, 1 << 20, 4 << 20, 16 << 20]);
    for way in ["to_device", "to_host"] {
        let rate = |of: usize| link[of][way].as_f64().unwrap();
        let larger = (1..5).map(rate).fold(0.0, f64::max);
        assert!(rate(0) < 0.2e9 && larger > 2.0 * rate(0), "{way}: {summary}");
        assert_eq!(summary["ceilings"][way], link[3][way], "4 MiB is what is copied at once");
    }
    emulator.report().assert_clean();
}

#[test]
fn a_report_is_compared_row_by_row_and_chance_is_no_change() {
    let folder = folder();
    let path = file(folder.path());
    let flags = ["--route=cached", "--rounds=4"];
    let before = bench(&path, &flags);
    let (rows, _) = report(&before);
    let before = write(folder.path(), "before.jsonl", &before.stdout);
    let faster: String = rows
        .iter()
        .map(|row| {
            let mut row = row.clone();
            for run in row["runs"].as_array_mut().unwrap() {
                *run = (run.as_f64().unwrap() * 100.0).into();
            }
            // As reports were before this was told.
            row["bound"].as_object_mut().unwrap().remove("cpu_ceiling");
            row["bytes_per_second"] = (row["bytes_per_second"].as_f64().unwrap() * 100.0).into();
            format!("{row}\n")
        })
        .collect();
    let after = write(folder.path(), "after.jsonl", faster.as_bytes());
    let compare = |a: &Path, b: &Path| {
        let answer = Answer::of(forebay().arg("bench").arg("--json").arg("--compare").arg(a).arg(b));
        assert_eq!(answer.code, Some(0), "{}", answer.stderr);
        let text = String::from_utf8(answer.stdout).unwrap();
        let last: Value = serde_json::from_str(text.lines().last().unwrap()).unwrap();
        last["summary"].clone()
    };
    let same = compare(&before, &before);
    assert!(same["rows"] == rows.len() && same["same"] == rows.len(), "{same}");
    assert_eq!(compare(&before, &after)["faster"], rows.len());
    assert_eq!(compare(&after, &before)["slower"], rows.len());

    let wrong = |a: &Path| Answer::of(forebay().arg("bench").arg("--compare").arg(a).arg(&after)).error(1).to_owned();
    assert!(wrong(&folder.path().join("none")).contains("none"));
    assert!(wrong(&path).contains("forebay bench --json"));
    let foreign = write(folder.path(), "foreign.jsonl", b"{\"version\":2}\n");
    assert!(wrong(&foreign).contains("version 2"));
}

#[test]
fn of_a_folder_a_file_of_its_own_is_read_and_nothing_left_in_it() {
    let folder = folder();
    let (rows, summary) = report(&bench(folder.path(), &["--size=16MiB", "--route=cached"]));
    assert!(!rows.is_empty() && summary["target_bytes"] == 16 << 20, "{summary}");
    assert!(summary["target"].as_str().unwrap().contains(folder.path().to_str().unwrap()), "{summary}");
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
    let file = file(folder.path());
    assert!(bench(&file, &["--size=16MiB"]).error(2).contains("--size"));
}

#[test]
fn what_cannot_be_measured_is_an_error_that_says_why() {
    let folder = folder();
    let small = write(folder.path(), "small", b"x");
    assert!(bench(&small, &[]).error(1).contains("1 bytes") || bench(&small, &[]).error(1).contains("larger file"));
    assert!(bench(&folder.path().join("none"), &[]).error(1).contains("none"));
    let fifo = folder.path().join("fifo");
    nix::unistd::mkfifo(&fifo, nix::sys::stat::Mode::S_IRUSR).unwrap();
    assert!(bench(&fifo, &[]).error(1).contains("neither a file nor a block device"));
    for flag in ["--chunk=100", "--chunk=0", "--depth=0", "--threads=65", "--seconds=0", "--seconds=nan", "--rounds=0"]
    {
        let answer = Answer::of(forebay().arg("bench").arg(&small).arg(flag));
        answer.error(2);
    }
}

/// Runs it until the other tests leave it the processors; `None` where they never do.
fn when_quiet(command: impl Fn() -> std::process::Command) -> Option<Vec<Value>> {
    for _ in 0..5 {
        let answer = Answer::of(&mut command());
        let (rows, _) = report(&answer);
        if !rows.iter().any(|row| row["bound"]["why"].to_string().contains("other programs")) {
            return Some(rows);
        }
    }
    crate::common::skipped::skipped("other programs never left the processors alone");
    None
}

#[test]
fn a_drive_that_the_kernel_holds_back_is_what_is_named() {
    let folder = folder();
    let path = file(folder.path());
    let throttle = or_skip!(Throttle::new(&path, 0.05).map_err(|why| Skip::because(format!("a held drive: {why}"))));
    let rows = when_quiet(|| {
        // The group holds what is in it: a shell that goes there first.
        let mut shell = std::process::Command::new("sh");
        let script = "echo $$ > \"$0/cgroup.procs\" && exec \"$@\"";
        shell.arg("-c").arg(script).arg(throttle.group()).arg(env!("CARGO_BIN_EXE_forebay"));
        shell.args(["bench", "--device=host", "--route=bounce", "--json"]).args(short(&["--seconds=2", "--depth=8"]));
        shell.arg(&path).stdin(Stdio::null());
        shell
    });
    for row in rows.into_iter().flatten() {
        assert_eq!(row["bound"]["by"], "drive", "{row}");
        assert!(row["bytes_per_second"].as_f64().unwrap() < 0.2e9, "{row}");
    }
}

/// Ended when it is dropped.
struct Burner(std::process::Child);

impl Drop for Burner {
    fn drop(&mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

#[test]
fn a_processor_that_others_burn_is_what_is_named() {
    let folder = folder();
    let path = file(folder.path());
    let on_one = |program: &str| {
        let mut command = std::process::Command::new("taskset");
        command.args(["--cpu-list", "0", program]).stdin(Stdio::null());
        command
    };
    let started = on_one("sh").args(["-c", "while :; do :; done"]).spawn();
    let _burner = Burner(or_skip!(started.map_err(|error| Skip::because(format!("taskset: {error}")))));
    let mut command = on_one(env!("CARGO_BIN_EXE_forebay"));
    command.args(["bench", "--device=host", "--route=cached", "--json"]).args(short(&["--seconds=2"])).arg(&path);
    let (rows, _) = report(&Answer::of(&mut command));
    let warm: Vec<&Value> = rows.iter().filter(|row| row["cache"] == "warm").collect();
    assert!(!warm.is_empty(), "{rows:?}");
    for row in warm {
        assert_eq!(row["bound"]["by"], "cpu", "{row}");
        assert!(row["bound"]["why"].as_str().unwrap().contains("other programs"), "{row}");
    }
}
