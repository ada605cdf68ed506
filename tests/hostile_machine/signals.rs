//! Waits that end with EINTR.
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use forebay::Mode;
use nix::libc;

use crate::common::privilege::{self, Outside, Reduced, told};
use crate::common::reader::{self, BUDGET, Row, ask};
use crate::common::watchdog::CHILD_PATIENCE;
use crate::common::{Rng, data};
use crate::{LEN, SEED};

/// Stopping and continuing a process ends its waits with EINTR, without any handler.
#[test]
fn stopped_and_continued_all_the_time() {
    let outside = Outside::new();
    let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    data::write_dense(&dir.path().join("shard"), SEED, LEN).unwrap();
    for engine in reader::engines() {
        let mut command = outside.rerun(&Reduced::new(), "signals::in_child_reading_for_a_while");
        command.env("FOREBAY_TEST_ENGINE", format!("{engine:?}")).env("FOREBAY_TEST_FILE", dir.path().join("shard"));
        let (output, stops) = storm(command);
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(output.status.success() && said.contains("work is done"), "{engine:?}: {}", told(&output));
        assert!(stops >= 10, "{engine:?}: stopped only {stops} times");
        eprintln!("{engine:?}: stopped and continued {stops} times");
    }
}

#[test]
#[ignore = "a part of stopped_and_continued_all_the_time"]
fn in_child_reading_for_a_while() {
    if !privilege::in_child() {
        return;
    }
    let engine = std::env::var("FOREBAY_TEST_ENGINE").unwrap();
    let engine = reader::engines().into_iter().find(|it| format!("{it:?}") == engine).unwrap();
    let path: PathBuf = std::env::var_os("FOREBAY_TEST_FILE").unwrap().into();
    let readers = [Mode::Auto, Mode::Buffered].map(|mode| Row { engine, mode }.reader());
    let mut rng = Rng::new(9);
    let end = Instant::now() + Duration::from_millis(1500);
    let mut rounds = 0;
    while Instant::now() < end || rounds < 20 {
        data::drop_cache(&path).unwrap();
        for reader in &readers {
            let offset = rng.below(LEN);
            let len = rng.below((LEN - offset).min(BUDGET / 4)) + 1;
            let got = reader::read(reader, &[ask(&path, offset, len), ask(&path, 0, 4097)]).unwrap();
            data::check(&got[0], SEED, offset).unwrap();
            data::check(&got[1], SEED, 0).unwrap();
        }
        rounds += 1;
    }
    eprintln!("{rounds} rounds");
    privilege::child_done();
}

/// Runs a command while stopping and continuing it, and counts the stops.
fn storm(mut command: Command) -> (Output, u32) {
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let pid = child.id() as libc::pid_t;
    let start = Instant::now();
    let mut stops = 0;
    while child.try_wait().unwrap().is_none() {
        // SAFETY: the child is not reaped yet, so the number is its.
        unsafe {
            libc::kill(pid, libc::SIGSTOP);
            thread::sleep(Duration::from_millis(2));
            libc::kill(pid, libc::SIGCONT);
        }
        stops += 1;
        thread::sleep(Duration::from_millis(4));
        if start.elapsed() > CHILD_PATIENCE {
            child.kill().unwrap();
            panic!("hangs under a storm of signals; {}", told(&child.wait_with_output().unwrap()));
        }
    }
    (child.wait_with_output().unwrap(), stops)
}
