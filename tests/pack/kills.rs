//! Killed at any moment: what has a final name is whole.
use std::fs;
use std::path::Path;
use std::process::Stdio;
use std::thread;
use std::time::{Duration, Instant};

use forebay::pack::{PackOptions, pack};

use crate::common::Rng;
use crate::common::privilege::{Outside, Reduced, child_dir, child_done, in_child};
use crate::made::{Made, Sample, varying};
use crate::oracle;

const SHARD: u64 = 40_000;

fn samples() -> Vec<Sample> {
    varying(120, 30_000)
}

#[test]
fn what_has_a_final_name_is_whole_whenever_the_process_is_killed() {
    let outside = Outside::new();
    let all = samples();
    let expected = oracle::singles(&all);
    let command = || {
        let mut command = outside.rerun(&Reduced::new(), "kills::in_child_a_pack");
        command.stdout(Stdio::null()).stderr(Stdio::null());
        command
    };
    // How long one takes when nobody stops it.
    let start = Instant::now();
    assert!(command().status().unwrap().success());
    let mut whole = start.elapsed();
    let shards = fs::read_dir(outside.path().join("out")).unwrap().count();
    assert!(shards > 20);
    let mut rng = Rng::new(7);
    let mut killed = 0;
    for round in 0..24 {
        // The last ones when all is written and files are being given their names.
        let share = if round < 16 { 200 + rng.below(800) } else { 930 + 10 * (round - 16) };
        fs::remove_dir_all(outside.path().join("out")).unwrap();
        let mut child = command().spawn().unwrap();
        thread::sleep(whole.mul_f64(share as f64 / 1000.0).min(Duration::from_secs(10)));
        child.kill().unwrap();
        match child.wait().unwrap().success() {
            // The first was slower, on a machine that did something else, too.
            true => whole = whole.mul_f64(0.8),
            false => killed += 1,
        }
        let found = fs::read_dir(outside.path().join("out")).into_iter().flatten().map(|entry| entry.unwrap().path());
        for path in found {
            // It had a hidden name; the next pack removes it.
            if path.extension().is_some_and(|extension| extension == "tmp") {
                continue;
            }
            for (name, held) in oracle::of_file(&path) {
                assert_eq!(Some(&held), expected.get(&name), "{path:?}: {name}");
            }
        }
        fs::create_dir_all(outside.path().join("out")).unwrap();
    }
    assert!(killed > 0, "killed {killed} times");
    assert!(command().status().unwrap().success());
    let found = fs::read_dir(outside.path().join("out")).unwrap().map(|entry| entry.unwrap().path());
    assert_eq!(
        found.filter(|path| path.extension().is_some_and(|extension| extension == "safetensors")).count(),
        shards
    );
}

fn names(folder: &Path) -> Vec<String> {
    let mut names: Vec<_> =
        fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

/// A file that one was killed over has no name; where there are more of them than may be open, the next pack removes what was left.
#[test]
fn whatever_was_left_of_a_pack_that_was_killed_the_next_one_removes() {
    let outside = Outside::new();
    let out = outside.path().join("out");
    let command = || {
        let mut command = outside.rerun(&Reduced::new(), "kills::in_child_a_pack");
        command.stdout(Stdio::null()).stderr(Stdio::null());
        command
    };
    assert!(command().status().unwrap().success());
    let whole = names(&out);
    fs::remove_dir_all(&out).unwrap();
    let mut child = command().env(STOPS_AT, "29").spawn().unwrap();
    let start = Instant::now();
    while !out.join("stopped").exists() {
        assert!(start.elapsed() < Duration::from_secs(60), "it hangs");
        thread::sleep(Duration::from_millis(5));
    }
    child.kill().unwrap();
    child.wait().unwrap();
    fs::remove_file(out.join("stopped")).unwrap();
    let left = names(&out);
    assert!(!left.is_empty() && left.iter().all(|name| name.starts_with(".forebay-pack-")), "{left:?}");
    assert!(left.len() < 29, "most have no name: {left:?}");
    assert!(command().status().unwrap().success());
    assert_eq!(names(&out), whole);
}

/// How many shards a pack writes before it waits to be killed.
const STOPS_AT: &str = "FOREBAY_TEST_PACK_STOPS_AT";

#[test]
#[ignore = "a part of another test"]
fn in_child_a_pack() {
    if !in_child() {
        return;
    }
    // The payload is made again, since where it lies is not written down.
    let source = tempfile::tempdir_in(child_dir()).unwrap();
    let made = Made::new(source.path(), &samples());
    let mut options = PackOptions::new().shard_bytes(SHARD).overwrite(true);
    if let Some(shards) = std::env::var(STOPS_AT).ok().and_then(|shards| shards.parse::<u64>().ok()) {
        options = options.progress(move |progress| {
            if progress.bytes > shards * SHARD {
                fs::write(child_dir().join("out/stopped"), "").unwrap();
                thread::sleep(Duration::from_secs(600));
            }
        });
    }
    pack(&made, &child_dir().join("out"), &options).unwrap();
    child_done();
}
