//! Machines that forbid things: denied system calls, small limits, signals. The bytes stay the same; what was fallen
//! back from is said once; what was forced and cannot be had is a clean error.
mod common;

use std::path::Path;
use std::process::{Command, Output};
use std::thread;
use std::time::{Duration, Instant};

use common::privilege::{self, NOBODY, Outside, Reduced, told};
use common::reader::{self, Ask, BUDGET, CHUNK, Row, ask};
use common::seccomp::Deny;
use common::{Rng, data};
use forebay::{Mode, Reader};
use nix::libc;

const LEN: u64 = (3 << 20) + 1234;
const SEED: u64 = 42;

#[test]
fn denied_system_calls_change_no_byte() {
    let forebay = or_skip!(privilege::forebay());
    let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let file = dir.path().join("shard");
    data::write_dense(&file, SEED, LEN).unwrap();
    let uring_works = reader::uring_here().is_ok();
    for denial in DENIALS {
        let reduced = Reduced::new().deny(denial.denied);
        for engine in ["auto", "pread", "uring"] {
            let what = format!("{:?}, --engine {engine}", denial.denied);
            data::drop_cache(&file).unwrap();
            let output = cat(&what, reduced.command(forebay), &file, &["--engine", engine]);
            let denies_uring = denial.denied.iter().any(|deny| matches!(deny, Deny::Uring(_)));
            if engine == "uring" && (denies_uring || !uring_works) {
                expect_clean_error(&what, &output);
                continue;
            }
            expect_bytes(&what, &output);
            let warnings = warnings(&output);
            let expected = match engine {
                // The denials of io_uring are nothing to an engine that does not use it.
                "pread" => denial.warnings_with_pread.clone(),
                _ => denial.warnings.clone(),
            };
            assert!(expected.contains(&warnings), "{what}: {warnings} warnings, not {expected:?}: {}", told(&output));
        }
    }
}

struct Denial {
    denied: &'static [Deny],
    warnings: std::ops::RangeInclusive<usize>,
    warnings_with_pread: std::ops::RangeInclusive<usize>,
}

const DENIALS: &[Denial] = &[
    Denial { denied: &[], warnings: 0..=0, warnings_with_pread: 0..=0 },
    Denial { denied: &[Deny::Uring(libc::EPERM)], warnings: 1..=1, warnings_with_pread: 0..=0 },
    Denial { denied: &[Deny::Uring(libc::ENOSYS)], warnings: 1..=1, warnings_with_pread: 0..=0 },
    Denial { denied: &[Deny::Uring(libc::ENOMEM)], warnings: 1..=1, warnings_with_pread: 0..=0 },
    Denial { denied: &[Deny::Register(libc::ENOMEM)], warnings: 1..=1, warnings_with_pread: 0..=0 },
    Denial { denied: &[Deny::DirectOpen(libc::EINVAL)], warnings: 1..=1, warnings_with_pread: 1..=1 },
    // Alignment can be found by trying, so nothing need be given up.
    Denial { denied: &[Deny::Statx(libc::ENOSYS)], warnings: 0..=1, warnings_with_pread: 0..=1 },
    Denial {
        denied: &[Deny::Uring(libc::EPERM), Deny::DirectOpen(libc::EINVAL)],
        warnings: 1..=2,
        warnings_with_pread: 1..=1,
    },
    Denial {
        denied: &[Deny::Uring(libc::ENOSYS), Deny::Statx(libc::ENOSYS)],
        warnings: 1..=2,
        warnings_with_pread: 0..=1,
    },
    Denial {
        denied: &[Deny::Register(libc::ENOMEM), Deny::DirectOpen(libc::EINVAL), Deny::Statx(libc::ENOSYS)],
        warnings: 1..=3,
        warnings_with_pread: 1..=2,
    },
];

/// Without this, a filter that denies nothing would make every test above pass.
#[test]
fn the_denials_deny() {
    let outside = Outside::new();
    let denied = [Deny::Register(libc::ENOMEM), Deny::DirectOpen(libc::EINVAL), Deny::Statx(libc::ENOSYS)];
    let some = outside.rerun(&Reduced::new().deny(&denied), "in_child_under_denials");
    privilege::expect_child("register, direct open, statx", some);
    let all = Reduced::new().deny(&denied).deny(&[Deny::Uring(libc::EPERM)]);
    let mut all = outside.rerun(&all, "in_child_under_denials");
    all.env("FOREBAY_TEST_NO_URING", "1");
    privilege::expect_child("the same and io_uring", all);
}

#[test]
#[ignore = "a part of the_denials_deny"]
fn in_child_under_denials() {
    use std::os::unix::fs::OpenOptionsExt;
    if !privilege::in_child() {
        return;
    }
    let exe = std::env::current_exe().unwrap();
    let direct = std::fs::File::options().read(true).custom_flags(libc::O_DIRECT).open(&exe);
    assert_eq!(direct.unwrap_err().raw_os_error(), Some(libc::EINVAL));
    assert!(std::fs::File::open(&exe).is_ok());
    let errno = |call, a: libc::c_long, b: libc::c_long| {
        // SAFETY: the calls are denied before they look at their arguments, and these would be refused anyway.
        let rc = unsafe { libc::syscall(call, a, b, 0, 0, 0) };
        if rc < 0 { std::io::Error::last_os_error().raw_os_error().unwrap() } else { 0 }
    };
    assert_eq!(errno(libc::SYS_io_uring_register, -1, 0), libc::ENOMEM);
    assert_eq!(errno(libc::SYS_statx, -1, 0), libc::ENOSYS);
    let uring = if std::env::var_os("FOREBAY_TEST_NO_URING").is_some() { libc::EPERM } else { libc::EBADF };
    assert_eq!(errno(libc::SYS_io_uring_enter, -1, 0), uring);
    privilege::child_done();
}

/// Root may lock what it likes, so this needs another user.
#[test]
fn locked_memory_is_limited() {
    let forebay = or_skip!(privilege::forebay());
    let outside = Outside::new();
    let forebay = outside.copy(forebay);
    let file = outside.path().join("shard");
    data::write_dense(&file, SEED, LEN).unwrap();
    for (limit, budget, expected) in [
        (0, "64MiB", 1..=1),
        (64 << 10, "64MiB", 1..=1),
        (8 << 20, "64MiB", 1..=1),
        // It may fit, if barely: the ring itself counts too.
        (8 << 20, "4MiB", 0..=1),
    ] {
        let reduced = Reduced::new().user(NOBODY).memlock(limit);
        or_skip!(reduced.possible());
        let what = format!("RLIMIT_MEMLOCK {limit}, --budget {budget}");
        let output = cat(&what, reduced.command(&forebay), &file, &["--budget", budget]);
        expect_bytes(&what, &output);
        // Without io_uring there is nothing to lock, and the one warning is about that.
        let warnings = warnings(&output);
        assert!(expected.contains(&warnings), "{what}: {warnings} warnings, not {expected:?}: {}", told(&output));
        if limit == 0 {
            let output = cat(&what, reduced.command(&forebay), &file, &["--engine", "uring"]);
            if output.status.success() { expect_bytes(&what, &output) } else { expect_clean_error(&what, &output) }
        }
    }
}

#[test]
fn five_hundred_files_through_few_descriptors() {
    let outside = Outside::new();
    for i in 0..FILES {
        data::write_dense(&outside.path().join(i.to_string()), i, file_len(i)).unwrap();
    }
    let reduced = Reduced::new().user(NOBODY - 1).open_files(32);
    privilege::expect_child("RLIMIT_NOFILE 32", outside.rerun(&reduced, "in_child_five_hundred_files"));
}

const FILES: u64 = 500;

fn file_len(i: u64) -> u64 {
    1 + i * 37 % 6000
}

#[test]
#[ignore = "a part of five_hundred_files_through_few_descriptors"]
fn in_child_five_hundred_files() {
    if !privilege::in_child() {
        return;
    }
    let mut rng = Rng::new(500);
    for row in reader::rows().into_iter().filter(|row| row.mode != Mode::Direct) {
        let reader = row.reader();
        let mut files: Vec<u64> = (0..FILES).chain(0..FILES).collect();
        rng.shuffle(&mut files);
        let asks: Vec<Ask> =
            files.iter().map(|i| ask(&privilege::child_dir().join(i.to_string()), 0, file_len(*i))).collect();
        let got = reader::read(&reader, &asks).unwrap_or_else(|e| panic!("{row}: {e}"));
        for (i, got) in files.iter().zip(&got) {
            data::check(got, *i, 0).unwrap_or_else(|wrong| panic!("{row}: file {i}: {wrong}"));
        }
    }
    privilege::child_done();
}

/// Nothing may be mapped that grows with the file, and a budget that the address space cannot hold is an error.
#[test]
fn address_space_smaller_than_the_file() {
    let outside = Outside::new();
    let len = (4 << 30) + 999;
    data::write_islands(&outside.path().join("shard"), SEED, len, &data::boundary_islands(len)).unwrap();
    let reduced = Reduced::new().address_space(600 << 20);
    let mut command = outside.rerun(&reduced, "in_child_small_address_space");
    // The allocator reserves address space for each thread that it gives an arena.
    command.env("MALLOC_ARENA_MAX", "1");
    privilege::expect_child("RLIMIT_AS 600 MiB", command);
}

#[test]
#[ignore = "a part of address_space_smaller_than_the_file"]
fn in_child_small_address_space() {
    if !privilege::in_child() {
        return;
    }
    let path = privilege::child_dir().join("shard");
    for row in reader::rows().into_iter().filter(|row| row.mode != Mode::Direct) {
        let reader = row.reader();
        for at in [data::MAX_RW, 1 << 31, 1 << 32] {
            let got =
                reader::read(&reader, &[ask(&path, at - CHUNK, CHUNK + 900)]).unwrap_or_else(|e| panic!("{row}: {e}"));
            data::check(&got[0], SEED, at - CHUNK).unwrap_or_else(|wrong| panic!("{row}: {wrong}"));
        }
        drop(reader);
        // Either it cannot be had at once, or not when it is needed; never an abort.
        let big = Reader::builder().engine(row.engine).mode(row.mode).budget(2 << 30).build();
        if let Ok(reader) = big {
            let read = reader::read(&reader, &[ask(&path, 0, 1 << 30)]);
            assert!(read.is_err(), "{row}: 1 GiB was read into 600 MiB of address space");
        }
    }
    privilege::child_done();
}

/// Stopping and continuing a process ends its waits with EINTR, without any handler.
#[test]
fn stopped_and_continued_all_the_time() {
    let outside = Outside::new();
    let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    data::write_dense(&dir.path().join("shard"), SEED, LEN).unwrap();
    for engine in reader::engines() {
        let mut command = outside.rerun(&Reduced::new(), "in_child_reading_for_a_while");
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
    let path: std::path::PathBuf = std::env::var_os("FOREBAY_TEST_FILE").unwrap().into();
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
    use std::process::Stdio;
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
        if start.elapsed() > common::watchdog::CHILD_PATIENCE {
            child.kill().unwrap();
            panic!("hangs under a storm of signals; {}", told(&child.wait_with_output().unwrap()));
        }
    }
    (child.wait_with_output().unwrap(), stops)
}

const OFFSET: u64 = 777;

fn cat(what: &str, mut command: Command, file: &Path, flags: &[&str]) -> Output {
    let offset = OFFSET.to_string();
    command.arg("cat").arg(file).args(["--offset", &offset]).args(flags);
    privilege::run(what, command)
}

fn expect_bytes(what: &str, output: &Output) {
    assert!(output.status.success(), "{what}: {}", told(output));
    assert_eq!(output.stdout.len() as u64, LEN - OFFSET, "{what}: {}", String::from_utf8_lossy(&output.stderr));
    data::check(&output.stdout, SEED, OFFSET).unwrap_or_else(|wrong| panic!("{what}: {wrong}"));
}

/// Exit code 1, one line that begins `error: `, and not a byte on stdout.
fn expect_clean_error(what: &str, output: &Output) {
    let errors = lines(output, "error: ");
    assert!(output.status.code() == Some(1) && errors == 1 && output.stdout.is_empty(), "{what}: {}", told(output));
}

fn warnings(output: &Output) -> usize {
    lines(output, "warning: ")
}

fn lines(output: &Output, start: &str) -> usize {
    String::from_utf8_lossy(&output.stderr).lines().filter(|line| line.starts_with(start)).count()
}
