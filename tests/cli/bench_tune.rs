//! `bench --tune` as scripts see it: what it finds, what it keeps, and who takes it up.
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;

use crate::bench::{checked, file, report, short};
use crate::common::fuse::{Fuse, Kind};
use crate::common::knobs::Knobs;
use crate::common::{Skip, folder};
use crate::or_skip;
use crate::run::{Answer, forebay, pattern, write};

/// As a user whose settings are in `home`.
fn user(home: &Path) -> Command {
    let mut command = forebay();
    command.env("XDG_CONFIG_HOME", home.join("config")).env("HOME", home);
    command
}

fn tune(home: &Path, path: &Path, flags: &[&str]) -> Command {
    let mut command = user(home);
    command.arg("bench").arg(path).args(["--tune", "--device=host", "--json"]).args(short(flags));
    command
}

/// All files under a folder, which may not be there.
fn files(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().map(|entry| entry.unwrap().path());
    entries.flat_map(|path| if path.is_dir() { files(&path) } else { vec![path] }).collect()
}

fn saved(home: &Path) -> (PathBuf, Value) {
    let found = files(&home.join("config"));
    let [path] = &found[..] else { panic!("{found:?}") };
    (path.clone(), serde_json::from_slice(&fs::read(path).unwrap()).unwrap())
}

#[test]
fn flags_that_would_have_no_effect_are_refused() {
    let folder = folder();
    let path = file(folder.path());
    for (flags, flag) in [
        (&["--tuned"][..], "--tuned"),
        (&["--strict-ctime"], "--strict-ctime"),
        (&["--tune", "--peers=true"], "--peers"),
    ] {
        let answer = Answer::of(user(folder.path()).arg("bench").arg(&path).args(short(flags)));
        let error = answer.error(2);
        assert!(error.contains(&format!("{flag} has no effect")), "{error}");
    }
}

#[test]
fn what_is_found_is_kept_only_where_that_is_asked_for() {
    let folder = folder();
    let path = file(folder.path());
    let flags = ["--depth=1,8", "--rounds=1", "--profile=images"];
    let (rows, summary) = report(&Answer::of(&mut tune(folder.path(), &path, &flags)));
    let tuned = &summary["tuned"];
    assert!(rows.len() >= 2 && tuned["saved"].is_null(), "{summary}");
    assert_eq!(files(&folder.path().join("config")), Vec::<PathBuf>::new());

    let (_, summary) = report(&Answer::of(tune(folder.path(), &path, &flags).arg("--save")));
    let (kept, profile) = saved(folder.path());
    let tuned = &summary["tuned"];
    assert_eq!(tuned["saved"], kept.to_str().unwrap());
    assert_eq!((&profile["tuned_for"], &tuned["profile"]), (&"images".into(), &"images".into()));
    for name in ["engine", "chunk", "depth", "rings", "iopoll"] {
        assert_eq!(profile[name], tuned["best"][name], "{name}");
    }
    for name in ["file_system", "drive", "device"] {
        assert_eq!(profile[name], tuned[name], "{name}");
    }
}

/// Of every command that reads: what was kept is what it reads by, unless its flags say otherwise.
#[test]
fn what_is_kept_is_taken_up_where_it_is_asked_for() {
    let folder = folder();
    let path = write(folder.path(), "data.bin", &pattern(12 << 20));
    Answer::of(tune(folder.path(), &path, &["--engine=pread", "--depth=1,4", "--rounds=1"]).arg("--save"));
    let (_, profile) = saved(folder.path());
    assert_eq!(profile["engine"], "pread", "{profile}");
    let reads = ["read", "--format=records", "--record-bytes=65536", "--max-batches=1", "--device=host"];
    let engine = |flags: &[&str]| {
        let answer = Answer::of(user(folder.path()).args(reads).arg("--json").args(flags).arg(&path));
        assert_eq!(answer.code, Some(0), "{}", answer.stderr);
        let last: Value =
            serde_json::from_str(std::str::from_utf8(&answer.stdout).unwrap().lines().last().unwrap()).unwrap();
        last["summary"]["engine"].clone()
    };
    let usual = engine(&[]);
    assert_eq!(engine(&["--tuned"]), "pread");
    assert_eq!(engine(&["--tuned", "--engine=auto"]), "pread");
    if usual == "uring" {
        assert_eq!(engine(&["--tuned", "--engine=uring"]), "uring", "what is asked for counts");
    }
    let answer = Answer::of(user(folder.path()).args(["cat", "--json", "--tuned", "--length=4KiB"]).arg(&path));
    assert_eq!(answer.stdout, pattern(4096));
    assert!(answer.stderr.contains("\"engine\":\"pread\""), "{}", answer.stderr);
}

#[test]
fn what_is_kept_and_cannot_be_used_is_an_error_that_names_its_file() {
    let folder = folder();
    let path = file(folder.path());
    Answer::of(tune(folder.path(), &path, &["--rounds=1", "--profile=images"]).arg("--save"));
    let (kept, mut profile) = saved(folder.path());
    profile["depth"] = 0.into();
    fs::write(&kept, profile.to_string()).unwrap();
    let cat =
        |tuned: Option<&str>| Answer::of(user(folder.path()).args(["cat", "--length=4KiB"]).args(tuned).arg(&path));
    let answer = cat(Some("--tuned"));
    let said = answer.error(1);
    assert!(said.contains(kept.to_str().unwrap()) && said.contains("depth"), "{said}");
    assert_eq!(cat(None).code, Some(0));
    fs::remove_file(&kept).unwrap();
    let usual = cat(Some("--tuned"));
    assert_eq!(usual.code, Some(0), "where nothing was kept, all is as usual");
    assert!(usual.stderr.contains("nothing is kept for ") && usual.stderr.contains(" to host"), "{}", usual.stderr);
    let nowhere =
        Answer::of(forebay().env_remove("HOME").env_remove("XDG_CONFIG_HOME").arg("cat").arg("--tuned").arg(&path));
    assert!(nowhere.error(1).contains("HOME"));
}

/// The pool has sixteen threads at most: what is told is what was tried.
#[test]
fn no_row_has_more_threads_of_the_pool_than_it_has() {
    let folder = folder();
    let path = file(folder.path());
    let flags = ["--profile=sequential", "--chunk=64KiB,128KiB", "--depth=64", "--engine=pread", "--rounds=1"];
    let (rows, summary) = report(&Answer::of(&mut tune(folder.path(), &path, &flags)));
    assert!(!rows.is_empty() && rows.iter().all(|row| row["depth"] == 16), "{rows:?}");
    assert_eq!(summary["tuned"]["best"]["depth"], 16);
}

#[test]
fn what_cannot_be_tuned_says_why() {
    let folder = folder();
    let path = file(folder.path());
    let flags = ["--route=direct"];
    assert!(Answer::of(&mut tune(folder.path(), &path, &flags)).error(1).contains("cuFile"));
    Answer::of(user(folder.path()).arg("bench").arg(&path).arg("--save")).error(2);
    for (flags, why) in [
        (&["--profile=tokens", "--engine=pread", "--depth=8"][..], "nothing to choose between"),
        (&["--profile=checkpoint", "--chunk=4KiB"], "64 KiB"),
        (&["--profile=random", "--chunk=16MiB", "--depth=1"], "larger than the file"),
    ] {
        let answer = Answer::of(tune(folder.path(), &path, flags).arg("--save"));
        let said = answer.error(1);
        assert!(said.contains(path.to_str().unwrap()) && said.contains(why), "{said}");
    }
    assert_eq!(files(&folder.path().join("config")), Vec::<PathBuf>::new());
}

#[test]
fn a_file_that_is_shorter_than_some_chunks_is_tuned_for_with_the_others() {
    let folder = folder();
    let path = write(folder.path(), "short.bin", &pattern(600 << 10));
    let flags = ["--profile=sequential", "--engine=pread", "--chunk=256KiB,512KiB,1MiB", "--rounds=1"];
    let (rows, _) = report(&Answer::of(&mut tune(folder.path(), &path, &flags)));
    let chunks: std::collections::BTreeSet<u64> = rows.iter().map(|row| row["chunk"].as_u64().unwrap()).collect();
    assert_eq!(Vec::from_iter(chunks), [256 << 10, 512 << 10]);
}

#[test]
fn what_the_machine_cannot_give_is_left_out_of_the_search() {
    let folder = folder();
    let path = file(folder.path());
    let bench = tune(folder.path(), &path, &["--engine=uring", "--threads=1,64", "--depth=4,8", "--rounds=1"]);
    let mut command = Command::new("sh");
    command.args(["-c", "ulimit -n 24; exec \"$0\" \"$@\""]).arg(bench.get_program()).args(bench.get_args());
    let answer = Answer::of(&mut command);
    if answer.stderr.contains("io_uring") {
        crate::common::skipped::skipped(&answer.stderr);
        return;
    }
    let (rows, summary) = report(&answer);
    assert!(rows.iter().all(|row| row["threads"] == 1) && rows.len() >= 2, "{rows:?}");
    assert!(summary["warnings"].to_string().contains("64 rings"), "{summary}");
}

#[test]
fn where_nothing_can_be_kept_is_said_before_measuring_or_after_the_report() {
    let folder = folder();
    let path = file(folder.path());
    let search = |home: &Path| {
        let flags = ["--profile=tokens", "--engine=pread", "--depth=4,8", "--rounds=1"];
        Answer::of(tune(home, &path, &flags).arg("--save"))
    };
    let odd = folder.path().join("odd");
    fs::create_dir(&odd).unwrap();
    fs::write(odd.join("config"), "").unwrap();
    let answer = search(&odd);
    assert!(answer.error(1).contains(odd.to_str().unwrap()) && answer.stdout.is_empty(), "{}", answer.stderr);

    report(&search(folder.path()));
    let (kept, _) = saved(folder.path());
    fs::remove_file(&kept).unwrap();
    fs::create_dir(&kept).unwrap();
    let answer = search(folder.path());
    assert!(answer.stderr.contains(kept.to_str().unwrap()), "{}", answer.stderr);
    assert_eq!(answer.code, Some(1));
    let (rows, summary) = checked(std::str::from_utf8(&answer.stdout).unwrap());
    assert!(rows.len() >= 2 && summary["tuned"]["saved"].is_null(), "{summary}");
    assert_eq!(files(&folder.path().join("config")), Vec::<PathBuf>::new());
}

#[test]
fn what_is_best_is_on_the_page() {
    let folder = folder();
    let (path, page) = (file(folder.path()), folder.path().join("page.html"));
    let flags = ["--profile=tokens", "--engine=pread", "--depth=4,8", "--rounds=1"];
    report(&Answer::of(tune(folder.path(), &path, &flags).arg("--html").arg(&page)));
    let page = fs::read_to_string(&page).unwrap();
    assert!(page.contains("best for tokens: engine pread, ") && page.contains("not saved"), "{page}");
}

/// A search that is interrupted keeps nothing.
#[test]
fn an_interrupted_search_keeps_nothing_and_says_what_it_measured() {
    let folder = folder();
    let path = file(folder.path());
    let mut command = tune(folder.path(), &path, &["--seconds=30"]);
    let child =
        command.arg("--save").stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    std::thread::sleep(Duration::from_millis(1500));
    kill(Pid::from_raw(child.id() as i32), Signal::SIGINT).unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(130), "{}", String::from_utf8_lossy(&output.stderr));
    let (_, summary) = checked(std::str::from_utf8(&output.stdout).unwrap());
    assert!(summary["interrupted"] == true && summary["tuned"].is_null(), "{summary}");
    assert_eq!(files(&folder.path().join("config")), Vec::<PathBuf>::new());
}

/// What `bench --tune` finds between depths, with a server that every so often answers some of the reads that wait for it.
fn best_depth(answers: impl Fn(&Knobs) + Send + 'static) -> Result<Value, Skip> {
    let fuse = Fuse::mount(Kind::AsyncDirectIo)?;
    let path = fuse.add("slow", 1, 16 << 20);
    let (knobs, over) = (Arc::clone(&fuse.knobs), Arc::new(AtomicBool::new(false)));
    let ends = Arc::clone(&over);
    let server = std::thread::spawn(move || {
        knobs.stall("slow");
        while !ends.load(Ordering::Relaxed) {
            answers(&knobs);
        }
        knobs.release();
    });
    let folder = folder();
    // By threads, of which each has one read under way: the kernel has a mind of its own on how many of a ring's it passes on.
    let flags = ["--chunk=64KiB", "--depth=1,3,8", "--engine=pread", "--route=bounce", "--seconds=4", "--verify=false"];
    let answer = Answer::of(&mut tune(folder.path(), &path, &flags));
    over.store(true, Ordering::Relaxed);
    server.join().unwrap();
    let (rows, summary) = report(&answer);
    assert_eq!(rows.len(), 3, "{rows:?}");
    rows.iter().for_each(|row| eprintln!("{} {}", row["depth"], row["runs"]));
    Ok(summary["tuned"]["best"]["depth"].clone())
}

#[test]
fn where_reads_wait_the_depth_that_hides_it_is_found() {
    let depth = or_skip!(best_depth(|knobs| {
        std::thread::sleep(Duration::from_millis(20));
        knobs.release_some(usize::MAX);
    }));
    assert_eq!(depth, 8);
}

/// As a disk whose head goes to and fro: the more is asked of it, the slower it is.
#[test]
fn where_reads_are_in_each_others_way_the_least_depth_is_found() {
    let depth = or_skip!(best_depth(|knobs| {
        std::thread::sleep(Duration::from_millis(1));
        let waiting = knobs.stalled() as u32;
        std::thread::sleep(Duration::from_millis(1) * waiting * waiting);
        knobs.release_some(waiting as usize);
    }));
    assert_eq!(depth, 1);
}
