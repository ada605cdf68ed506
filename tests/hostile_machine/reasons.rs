//! The reason and the advice are of the call that was refused, and of no other.
use std::path::Path;
use std::process::{Command, Output};

use nix::libc;

use crate::common::privilege::{self, NOBODY, Outside, Reduced, told};
use crate::common::seccomp::Deny;
use crate::common::{data, is_root, reader};
use crate::{LEN, SEED, or_skip};

/// What a refusal must name, and what it must not, since no such call was refused.
struct Case {
    denied: Deny,
    engine: &'static str,
    names: &'static [&'static str],
    not: &'static [&'static str],
}

const IO_URING: &[&str] = &["io_uring", "use the engine pread", "RLIMIT_MEMLOCK"];
const THREADS: &[&str] = &["threads", "RLIMIT_NPROC", "clone"];

const CASES: &[Case] = &[
    Case {
        denied: Deny::Threads(libc::EPERM),
        engine: "pread",
        names: &["16 of 16 threads", "seccomp", "clone3"],
        not: IO_URING,
    },
    Case {
        denied: Deny::Clone3(libc::EPERM),
        engine: "pread",
        names: &["threads", "seccomp", "clone3"],
        not: IO_URING,
    },
    Case {
        denied: Deny::Threads(libc::EPERM),
        engine: "uring",
        names: &["1 of 1 threads", "seccomp", "clone3"],
        not: IO_URING,
    },
    Case { denied: Deny::Clone3(libc::EPERM), engine: "auto", names: &["threads", "seccomp", "clone3"], not: IO_URING },
    Case {
        denied: Deny::Threads(libc::EAGAIN),
        engine: "pread",
        names: &["threads", "ulimit -u"],
        not: &["io_uring", "seccomp", "use the engine"],
    },
    Case { denied: Deny::Threads(libc::EAGAIN), engine: "uring", names: &["threads", "ulimit -u"], not: IO_URING },
    Case {
        denied: Deny::Eventfd(libc::EPERM),
        engine: "uring",
        names: &["eventfd2", "seccomp"],
        not: &["io_uring", "clone"],
    },
    Case {
        denied: Deny::Eventfd(libc::EMFILE),
        engine: "uring",
        names: &["eventfd", "ulimit -n"],
        not: &["io_uring", "seccomp"],
    },
    Case { denied: Deny::Uring(libc::EPERM), engine: "uring", names: &["io_uring_setup", "seccomp"], not: THREADS },
    Case {
        denied: Deny::Uring(libc::EMFILE),
        engine: "uring",
        names: &["ring", "ulimit -n"],
        not: &["seccomp", "clone", "RLIMIT_MEMLOCK"],
    },
];

#[test]
fn a_refused_call_is_what_the_error_names() {
    let forebay = or_skip!(privilege::forebay());
    let uring_works = reader::uring_here().is_ok();
    let outside = Outside::new();
    let file = shard(&outside);
    let mut wrong = Vec::new();
    for case in CASES.iter().filter(|case| uring_works || case.engine == "pread") {
        let what = format!("{:?}, --engine {}", case.denied, case.engine);
        let command = Reduced::new().deny(&[case.denied]).command(forebay);
        let output = cat(&what, command, &file, &["--engine", case.engine]);
        assert_eq!(output.status.code(), Some(1), "{what}: {}", told(&output));
        wrong.extend(missaid(&what, &output, case.names, case.not));
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// A warning that memory is not registered is of that call, too.
#[test]
fn a_refused_registration_is_not_called_a_limit_of_locked_memory() {
    let forebay = or_skip!(privilege::forebay());
    or_skip!(reader::uring_here());
    let outside = Outside::new();
    let file = shard(&outside);
    for (errno, names, not) in [
        (libc::EPERM, ["io_uring_register", "seccomp"], ["RLIMIT_MEMLOCK", "ulimit"]),
        (libc::ENOMEM, ["registered buffers", "budget"], ["seccomp", "clone"]),
    ] {
        let what = format!("io_uring_register answers {errno}");
        let command = Reduced::new().deny(&[Deny::Register(errno)]).command(forebay);
        let output = cat(&what, command, &file, &["--engine", "uring"]);
        assert!(output.status.success(), "{what}: {}", told(&output));
        assert_eq!(missaid(&what, &output, &names, &not), None);
    }
}

/// Root is not bound by the limit, so this needs another user.
#[test]
fn too_few_threads_are_counted_and_their_limit_is_named() {
    let forebay = or_skip!(privilege::forebay());
    if !is_root() {
        crate::common::skipped::skipped("a user of its own needs root");
        return;
    }
    let outside = Outside::new();
    let (forebay, file) = (outside.copy(forebay), shard(&outside));
    // The process itself is one of them.
    for (limit, engine, names) in [
        (4, "pread", ["of 16 threads", "RLIMIT_NPROC is 4"]),
        (1, "pread", ["16 of 16 threads", "RLIMIT_NPROC is 1"]),
        (1, "uring", ["1 of 1 threads", "RLIMIT_NPROC is 1"]),
        (1, "auto", ["threads", "RLIMIT_NPROC is 1"]),
    ] {
        let what = format!("RLIMIT_NPROC {limit}, --engine {engine}");
        let command = Reduced::new().user(NOBODY - 7).processes(limit).command(&forebay);
        let output = cat(&what, command, &file, &["--engine", engine]);
        assert_eq!(output.status.code(), Some(1), "{what}: {}", told(&output));
        assert_eq!(missaid(&what, &output, &names, &["io_uring", "seccomp"]), None);
    }
}

#[test]
fn memory_that_cannot_be_mapped_names_the_limit_of_address_space() {
    let forebay = or_skip!(privilege::forebay());
    let outside = Outside::new();
    let file = shard(&outside);
    let command = Reduced::new().address_space(400 << 20).command(forebay);
    let output = cat("RLIMIT_AS 400 MiB", command, &file, &["--engine", "pread", "--budget", "900MiB"]);
    assert_eq!(output.status.code(), Some(1), "{}", told(&output));
    assert_eq!(missaid("RLIMIT_AS", &output, &["RLIMIT_AS is 400 MiB"], &["io_uring", "threads"]), None);
}

fn shard(outside: &Outside) -> std::path::PathBuf {
    let file = outside.path().join("shard");
    data::write_dense(&file, SEED, LEN).unwrap();
    file
}

fn cat(what: &str, mut command: Command, file: &Path, flags: &[&str]) -> Output {
    command.arg("cat").arg(file).args(flags);
    privilege::run(what, command)
}

fn missaid(what: &str, output: &Output, names: &[&str], not: &[&str]) -> Option<String> {
    let said = String::from_utf8_lossy(&output.stderr);
    let missing: Vec<&&str> = names.iter().filter(|name| !said.contains(**name)).collect();
    let wrong: Vec<&&str> = not.iter().filter(|name| said.contains(**name)).collect();
    (!missing.is_empty() || !wrong.is_empty()).then(|| format!("{what}: names not {missing:?} but {wrong:?}: {said}"))
}
