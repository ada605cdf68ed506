//! `bench --profile loader`: what the loader itself gets, cold where it says so and by the route that it names.

use std::fs;
use std::path::Path;

use serde_json::Value;

use crate::bench::{bench, file, report};
use crate::common::emulator::Emulator;
use crate::common::{Skip, folder};
use crate::or_skip;
use crate::run::{Answer, forebay, write};

/// The profile's own records.
const SHORT: [&str; 6] =
    ["--profile=loader", "--depth=4", "--threads=1", "--seconds=0.6", "--rounds=2", "--peers=false"];

fn told(mut command: std::process::Command, path: &Path, flags: &[&str]) -> Answer {
    Answer::of(command.arg("bench").arg(path).args(SHORT).arg("--json").args(flags))
}

fn check(row: &Value, record: u64) {
    assert!(row["pattern"] == "loader" && row["verified"] == true && row["chunk"] == record, "{row}");
    assert_eq!(row["runs"].as_array().unwrap().len(), 2, "{row}");
    let bytes = row["bytes"].as_u64().unwrap();
    assert!(bytes > 0 && bytes.is_multiple_of(record), "{row}");
}

#[test]
fn rows_of_the_loader_are_whole_records_and_cold_is_cold() {
    let folder = folder();
    let (rows, _) = report(&told(forebay(), &file(folder.path()), &["--device=host"]));
    for row in &rows {
        check(row, 150 << 10);
        let latency = |name: &str| row["latency_seconds"][name].as_f64().unwrap();
        assert!(latency("p50") > 0.0 && latency("p50") <= latency("p999"), "{row}");
        let (before, after) = (row["cached_share_before"].as_f64(), row["cached_share_after"].as_f64());
        match (row["route"].as_str().unwrap(), row["cache"].as_str().unwrap()) {
            ("bounce", "cold") => assert!(before < Some(0.001) && row["mode"] == "direct", "{row}"),
            ("cached", "cold") => assert!(before < Some(0.001) && after > Some(0.0), "{row}"),
            ("cached", "warm") => assert!(before > Some(0.999) && row["mode"] == "buffered", "{row}"),
            other => assert!(before.is_none(), "{other:?} {row}"),
        }
    }
    assert!(rows.iter().any(|row| row["route"] == "cached"), "{rows:?}");
}

/// cuFile takes whole blocks: there a record has 152 KiB.
#[test]
fn the_loader_to_a_gpu_takes_the_route_that_its_row_names() {
    let emulator = or_skip!(Emulator::new());
    let folder = folder();
    let path = file(folder.path());
    let (rows, _) = report(&told(emulator.forebay("").unwrap(), &path, &["--device=cuda:0"]));
    let of = |route: &str| rows.iter().filter(|row| row["route"] == route).collect::<Vec<_>>();
    for (route, record) in [("direct", 152 << 10), ("bounce", 150 << 10), ("cached", 150 << 10)] {
        assert!(!of(route).is_empty(), "{route}: {rows:?}");
        for row in of(route) {
            check(row, record);
            assert!(row["emulated"] == true && row["device"] == "cuda:0", "{row}");
        }
    }
    let odd = ["--device=cuda:0", "--route=direct", "--chunk=150KiB"];
    let answer = told(emulator.forebay("").unwrap(), &path, &odd);
    assert!(answer.code == Some(1) && answer.stderr.contains("whole blocks"), "{}", answer.stderr);
    emulator.report().assert_clean();
}

/// As many jobs as rings, as deep, in whole blocks: what it was asked for stands in its command line.
#[test]
fn fio_reads_whole_blocks_beside_the_loader() {
    let folder = folder();
    let path = file(folder.path());
    let search = std::env::var_os("PATH").unwrap_or_default();
    let real = std::env::split_paths(&search).map(|folder| folder.join("fio")).find(|fio| fio.is_file());
    let real = or_skip!(real.ok_or_else(|| Skip::because("no fio on PATH")));
    let asked = folder.path().join("asked");
    let tool = format!("#!/bin/sh\necho \"$@\" >> {}\nexec {} \"$@\"\n", asked.display(), real.display());
    let tool = write(folder.path(), "fio", tool.as_bytes());
    fs::set_permissions(&tool, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let mut command = forebay();
    command.env("PATH", format!("{}:{}", folder.path().display(), search.to_string_lossy()));
    command.args(["bench", "--profile=loader", "--depth=4", "--threads=1,2", "--seconds=1.6", "--rounds=1"]);
    let (rows, summary) = report(&Answer::of(command.args(["--device=host", "--json"]).arg(&path)));
    assert!(summary["peer"].as_str().unwrap().starts_with("fio"), "{summary}");
    for row in &rows {
        assert!(row["peer"]["ratio"].as_f64().unwrap() > 0.0, "{row}");
    }
    let asked = fs::read_to_string(asked).unwrap();
    let runs: Vec<&str> = asked.lines().filter(|line| line.contains("--filename")).collect();
    assert_eq!(runs.len(), rows.len());
    for (row, run) in rows.iter().zip(runs) {
        let queue = match row["engine"].as_str().unwrap() {
            "pread" => "--numjobs=4 ".to_owned(),
            _ => format!("--iodepth=4 --numjobs={} ", row["threads"]),
        };
        assert!(run.contains("--bs=155648 ") && run.contains("--rw=randread") && run.contains(&queue), "{run}");
    }
}

/// Which would take memory for all of them, and the machine down with it.
#[test]
fn fio_is_not_asked_for_more_reads_at_once_than_the_budget_holds() {
    let folder = folder();
    let path = file(folder.path());
    let fio = write(folder.path(), "fio", b"#!/bin/sh\n[ \"$1\" = --version ] && echo fio-test || kill -9 $$\n");
    fs::set_permissions(&fio, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let mut command = forebay();
    let search = std::env::var("PATH").unwrap_or_default();
    command.env("PATH", format!("{}:{search}", folder.path().display()));
    command.args(["bench", "--profile=loader", "--depth=2048", "--threads=1", "--engine=uring", "--route=bounce"]);
    command.args(["--budget=256MiB", "--rounds=1", "--seconds=0.3", "--device=host", "--json"]).arg(&path);
    let answer = Answer::of(&mut command);
    if answer.stderr.contains("io_uring") {
        crate::common::skipped::skipped(&answer.stderr);
        return;
    }
    let (_, summary) = report(&answer);
    let warnings = summary["warnings"].to_string();
    assert!(
        warnings.contains("more than the budget; raise it (--budget)") && !warnings.contains("signal"),
        "{warnings}"
    );
}

#[test]
fn records_may_have_any_length_and_reads_may_not() {
    let folder = folder();
    let path = file(folder.path());
    let (rows, _) = report(&bench(&path, &["--profile=loader", "--chunk=5001,64KiB", "--route=cached"]));
    for chunk in [5001, 64 << 10] {
        assert!(rows.iter().any(|row| row["chunk"] == chunk), "{chunk}: {rows:?}");
    }
    rows.iter().for_each(|row| check(row, row["chunk"].as_u64().unwrap()));
    let refused = bench(&path, &["--chunk=150KiB"]);
    assert!(refused.error(2).contains("--profile loader"), "{}", refused.stderr);
}
