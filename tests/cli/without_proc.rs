//! Commands where procfs is not mounted, as in a chroot, or is that of other processes.
use std::path::Path;
use std::process::{Command, Stdio};

use crate::bench::{checked, short};
use crate::common::{Skip, folder};
use crate::or_skip;
use crate::run::{Answer, NPY, pattern, write};

const FOREBAY: &str = env!("CARGO_BIN_EXE_forebay");

/// `forebay` after `set_up`, in namespaces of its own.
fn unshared(flags: &[&str], set_up: &str) -> Result<Command, Skip> {
    let command = |then: &str| {
        let mut command = Command::new("unshare");
        command.args(flags).args(["sh", "-c", &format!("{set_up} && exec \"$@\""), "sh", then]).stdin(Stdio::null());
        command
    };
    let tried = command("true").output().map_err(|error| Skip::because(format!("unshare: {error}")))?;
    match tried.status.success() {
        true => Ok(command(FOREBAY)),
        false => Err(Skip::because(format!("unshare: {}", String::from_utf8_lossy(&tried.stderr).trim()))),
    }
}

fn without_proc() -> Result<Command, Skip> {
    unshared(&["--mount"], "umount --lazy /proc")
}

/// The process numbers of `/proc` are not those that processes there know themselves by.
fn with_anothers_proc() -> Result<Command, Skip> {
    unshared(&["--pid", "--fork"], "true")
}

fn small_bench(command: &mut Command, path: &Path) -> Answer {
    let flags = ["--rounds=1", "--seconds=0.3"];
    Answer::of(command.args(["bench", "--device=host", "--json"]).arg(path).args(short(&flags)))
}

#[test]
fn the_file_that_bench_makes_is_the_one_that_it_reads_or_it_says_what_is_missing() {
    let folder = folder();
    let mut command = or_skip!(without_proc());
    let answer = small_bench(&mut command, folder.path());
    let said = answer.error(1);
    assert!(said.contains(folder.path().to_str().unwrap()) && said.contains("/proc") && said.contains("name a file"));
    let mut command = or_skip!(with_anothers_proc());
    let answer = small_bench(&mut command, folder.path());
    let (rows, _) = checked(std::str::from_utf8(&answer.stdout).unwrap());
    assert!(!rows.is_empty() && rows.iter().all(|row| row["verified"] == true), "{}", answer.stderr);
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
}

#[test]
fn bench_does_not_blame_processors_of_which_it_knows_nothing() {
    let folder = folder();
    let path = write(folder.path(), "data.bin", &pattern(12 << 20));
    let answer = small_bench(&mut or_skip!(without_proc()), &path);
    let (rows, _) = checked(std::str::from_utf8(&answer.stdout).unwrap());
    assert!(answer.code == Some(0) && !rows.is_empty(), "{}", answer.stderr);
    assert!(rows.iter().all(|row| row["bound"]["by"] != "cpu"), "{rows:?}");
}

/// Bytes, order and codes are those of a machine with /proc.
#[test]
fn what_reads_data_reads_the_same_without_proc() {
    let folder = folder();
    let bytes = pattern(70_000);
    let (data, npy) = (write(folder.path(), "data.bin", &bytes), write(folder.path(), "a.npy", NPY));
    for args in [
        &["cat", data.to_str().unwrap()][..],
        &["cat", data.to_str().unwrap(), "--engine", "pread"],
        &["inspect", npy.to_str().unwrap(), "--json"],
        &["order", npy.to_str().unwrap(), "--batch-size", "2"],
        &["cat", folder.path().join("none").to_str().unwrap()],
    ] {
        let with = Answer::of(Command::new(FOREBAY).args(args));
        for without in [without_proc(), with_anothers_proc()] {
            let answer = Answer::of(or_skip!(without).args(args));
            assert_eq!((answer.code, &answer.stderr), (with.code, &with.stderr), "{args:?}");
            assert!(answer.stdout == with.stdout, "{args:?}");
        }
    }
}

#[test]
fn batches_are_the_same_without_proc() {
    let folder = folder();
    let npy = write(folder.path(), "a.npy", NPY);
    let args = ["read", npy.to_str().unwrap(), "--device", "host", "--batch-size", "2", "--hash"];
    // The last line has times.
    let batches = |command: &mut Command| {
        let answer = Answer::of(command.args(args));
        assert_eq!(answer.code, Some(0), "{}", answer.stderr);
        let text = String::from_utf8(answer.stdout).unwrap();
        text.lines().rev().skip(1).map(str::to_owned).collect::<Vec<_>>()
    };
    let with = batches(&mut Command::new(FOREBAY));
    assert!(!with.is_empty());
    assert_eq!(batches(&mut or_skip!(without_proc())), with);
}

/// What it finds out by doing it finds out without /proc, too.
#[test]
fn doctor_judges_cachestat_by_the_call_and_not_by_proc() {
    let folder = folder();
    let verdict = |command: &mut Command| {
        let answer = Answer::of(command.args(["doctor", "--json"]).arg(folder.path()));
        assert_eq!(answer.code, Some(0), "{}", answer.stderr);
        let lines = String::from_utf8(answer.stdout).unwrap();
        lines.lines().find(|line| line.contains("cachestat")).unwrap_or_default().to_owned()
    };
    let with = verdict(&mut Command::new(FOREBAY));
    assert!(!with.is_empty());
    assert_eq!(verdict(&mut or_skip!(without_proc())), with);
}
