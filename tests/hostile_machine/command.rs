//! `forebay cat` where calls are denied and locked memory is limited.
use std::path::Path;
use std::process::{Command, Output};

use nix::libc;

use crate::common::privilege::{self, NOBODY, Outside, Reduced, told};
use crate::common::seccomp::Deny;
use crate::common::{data, reader};
use crate::{LEN, SEED, or_skip};

#[test]
fn denied_system_calls_change_no_byte() {
    let forebay = or_skip!(privilege::forebay());
    let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let file = dir.path().join("shard");
    data::write_dense(&file, SEED, LEN).unwrap();
    let uring_works = reader::uring_here().is_ok();
    let mut wrong = Vec::new();
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
                // Where the machine itself forbids io_uring, falling back from it is one more.
                _ if !uring_works => 1..=denial.warnings.end() + 1,
                _ => denial.warnings.clone(),
            };
            if !expected.contains(&warnings) {
                let said = String::from_utf8_lossy(&output.stderr);
                wrong.push(format!("{what}: {warnings} warnings, not {expected:?}\n{said}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
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
        // What is used of it may fit, if barely: the ring itself counts too.
        (8 << 20, "64MiB", 0..=1),
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
