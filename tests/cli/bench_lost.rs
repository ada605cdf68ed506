//! `bench` where a precondition of some rows does not hold: those rows are lost, with the reason, and no others.
use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::Value;

use crate::bench::{checked, file, short};
use crate::common::folder;
use crate::common::privilege::Reduced;
use crate::common::seccomp::Deny;
use crate::run::{Answer, write};

/// No file can be made cold: EIO is what a drive gives that cannot write what is to be dropped.
fn never_cold() -> Command {
    Reduced::new().deny(&[Deny::SyncData(nix::libc::EIO)]).command(Path::new(env!("CARGO_BIN_EXE_forebay")))
}

const FLAGS: [&str; 2] = ["--device=host", "--route=cached"];

#[test]
fn a_failed_precondition_loses_its_rows_and_not_the_run() {
    let folder = folder();
    let page = folder.path().join("page.html");
    let path = file(folder.path());
    let answer =
        Answer::of(never_cold().arg("bench").arg(&path).args(short(&FLAGS)).args(["--json", "--html"]).arg(&page));
    assert_eq!(answer.code, Some(0), "{}", answer.stderr);
    let (rows, summary) = checked(std::str::from_utf8(&answer.stdout).unwrap());
    assert!(!rows.is_empty() && rows.iter().all(|row| row["cache"] == "warm" && row["verified"] == true), "{rows:?}");
    let lost = summary["lost"].as_array().unwrap();
    assert!(!lost.is_empty(), "{summary}");
    for lost in lost {
        assert!(lost["cache"] == "cold" && lost["runs"] == 0 && lost["lost"] == 2, "{lost}");
        let why = lost["why"].as_str().unwrap();
        assert!(why.contains(path.to_str().unwrap()) && why.contains("Input/output error"), "{lost}");
    }
    let page = fs::read_to_string(&page).unwrap();
    assert_eq!(page.matches("class=\"lost\"").count(), lost.len(), "{page}");
    assert!(page.contains("Input/output error"));

    let answer = Answer::of(never_cold().arg("bench").arg(&path).args(short(&FLAGS)));
    assert_eq!(answer.code, Some(0), "{}", answer.stderr);
    let table = String::from_utf8(answer.stdout).unwrap();
    assert_eq!(
        table.lines().filter(|line| line.contains(" cold ") && line.contains("lost")).count(),
        lost.len(),
        "{table}"
    );
    assert_eq!(table.matches("Input/output error").count(), 1, "one reason is told once: {table}");
}

#[test]
fn a_run_of_which_every_row_is_lost_is_an_error_and_takes_the_place_of_no_page() {
    let folder = folder();
    let page = write(folder.path(), "page.html", b"an older report");
    let flags = ["--device=host", "--route=bounce"];
    let args = short(&flags);
    let answer =
        Answer::of(never_cold().arg("bench").arg(file(folder.path())).args(args).args(["--json", "--html"]).arg(&page));
    assert_eq!(answer.code, Some(1), "{}", answer.stderr);
    let (rows, summary) = checked(std::str::from_utf8(&answer.stdout).unwrap());
    assert!(rows.is_empty() && !summary["lost"].as_array().unwrap().is_empty(), "{summary}");
    assert!(answer.stderr.contains("no row") && answer.stderr.contains("Input/output error"), "{}", answer.stderr);
    assert_eq!(fs::read(&page).unwrap(), b"an older report");
}

/// fio that fails in its second run, as one does that finds no memory while others have it.
#[test]
fn a_peer_that_fails_once_loses_that_run_of_its_own() {
    let folder = folder();
    let path = file(folder.path());
    let runs = folder.path().join("runs");
    let script = "#!/bin/sh\n[ \"$1\" = --version ] && echo fio-3.39 && exit 0\necho x >> \"$RUNS\"\n\
                  [ $(wc -l < \"$RUNS\") = 2 ] && echo 'no memory' >&2 && exit 1\n\
                  echo '{\"jobs\":[{\"error\":0,\"read\":{\"io_bytes\":1000000,\"runtime\":100,\"lat_ns\":{}}}]}'\n";
    let fio = write(folder.path(), "fio", script.as_bytes());
    fs::set_permissions(&fio, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let search = std::env::var("PATH").unwrap_or_default();
    let mut command = crate::run::forebay();
    command.env("PATH", format!("{}:{search}", folder.path().display())).env("RUNS", &runs);
    let flags = ["--device=host", "--route=cached", "--peers=true", "--rounds=3"];
    let answer = Answer::of(command.arg("bench").arg(&path).args(short(&flags)).arg("--json"));
    assert_eq!(answer.code, Some(0), "{}", answer.stderr);
    let (rows, summary) = checked(std::str::from_utf8(&answer.stdout).unwrap());
    let counts: Vec<usize> = rows.iter().map(|row| row["peer"]["runs"].as_array().map_or(0, Vec::len)).collect();
    assert_eq!(counts.iter().sum::<usize>(), 3 * rows.len() - 1, "{rows:?}");
    let warnings: Vec<&Value> = summary["warnings"].as_array().unwrap().iter().collect();
    assert!(warnings.iter().any(|warning| warning.to_string().contains("no memory")), "{summary}");
}
