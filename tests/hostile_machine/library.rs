//! The library itself where calls are denied: what it falls back to, and what it refuses.
use std::fs::File;
use std::os::unix::fs::OpenOptionsExt;

use forebay::{EngineChoice, EngineKind, Extent, Mode, Reader};
use nix::libc;

use crate::common::data;
use crate::common::privilege::{self, NOBODY, Outside, Reduced};
use crate::common::reader::{self, BUDGET, CHUNK, Row, ask};
use crate::common::seccomp::Deny;
use crate::{LEN, SEED};

/// Without this, a filter that denies nothing would make every test above pass.
#[test]
fn the_denials_deny() {
    let outside = Outside::new();
    let denied = [Deny::Register(libc::ENOMEM), Deny::DirectOpen(libc::EINVAL), Deny::Statx(libc::ENOSYS)];
    let some = outside.rerun(&Reduced::new().deny(&denied), "library::in_child_under_denials");
    privilege::expect_child("register, direct open, statx", some);
    let all = Reduced::new().deny(&denied).deny(&[Deny::Uring(libc::EPERM)]);
    let mut all = outside.rerun(&all, "library::in_child_under_denials");
    all.env("FOREBAY_TEST_NO_URING", "1");
    privilege::expect_child("the same and io_uring", all);
}

#[test]
#[ignore = "a part of the_denials_deny"]
fn in_child_under_denials() {
    if !privilege::in_child() {
        return;
    }
    let exe = std::env::current_exe().unwrap();
    let direct = File::options().read(true).custom_flags(libc::O_DIRECT).open(&exe);
    assert_eq!(direct.unwrap_err().raw_os_error(), Some(libc::EINVAL));
    assert!(File::open(&exe).is_ok());
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

#[test]
fn a_reader_falls_back_or_refuses() {
    let outside = Outside::new();
    data::write_dense(&outside.path().join("shard"), SEED, LEN).unwrap();
    let uring = |errno| Reduced::new().deny(&[Deny::Uring(errno)]);
    let denials = [
        ("io_uring, EPERM", uring(libc::EPERM), "denied"),
        ("io_uring, ENOSYS", uring(libc::ENOSYS), "denied"),
        ("io_uring, ENOMEM", uring(libc::ENOMEM), "denied"),
        ("registering", Reduced::new().deny(&[Deny::Register(libc::ENOMEM)]), "perhaps"),
        ("direct opens", Reduced::new().deny(&[Deny::DirectOpen(libc::EINVAL)]), "direct"),
        ("statx", Reduced::new().deny(&[Deny::Statx(libc::ENOSYS)]), "perhaps"),
        // Not the user of the command's tests: locked memory is counted per user.
        ("locking 0 bytes", Reduced::new().user(NOBODY - 2).memlock(0), "perhaps"),
        ("locking more than 64 KiB", Reduced::new().user(NOBODY - 2).memlock(64 << 10), "perhaps"),
        ("locking more than 8 MiB", Reduced::new().user(NOBODY - 2).memlock(8 << 20), "perhaps"),
    ];
    for (what, reduced, denied) in denials {
        let mut command = outside.rerun(&reduced, "library::in_child_falling_back");
        command.env("FOREBAY_TEST_DENIED", denied);
        privilege::expect_child(what, command);
    }
}

#[test]
#[ignore = "a part of a_reader_falls_back_or_refuses"]
fn in_child_falling_back() {
    if !privilege::in_child() {
        return;
    }
    let denied = std::env::var("FOREBAY_TEST_DENIED").unwrap();
    let forced = Reader::builder().engine(EngineChoice::Uring).budget(BUDGET).build();
    if denied == "denied" {
        assert!(forced.is_err(), "a ring where io_uring is denied");
    }
    drop(forced);
    if denied == "direct" {
        let row = Row { engine: EngineChoice::Pread, mode: Mode::Direct };
        let error = row.reader().open(path()).map(drop).expect_err("opened directly where that is denied").to_string();
        reader::names_path(&error, &path()).unwrap();
    }
    for mode in [Mode::Auto, Mode::Buffered] {
        let reader = Row { engine: EngineChoice::Auto, mode }.reader();
        let fell_back = reader.engine() == EngineKind::Pread;
        assert!(fell_back || denied != "denied", "the ring that was denied is in use");
        assert_eq!(fell_back, reader.fallback().is_some(), "a fallback keeps its reason");
        data::drop_cache(&path()).unwrap();
        for (offset, len) in [(0, LEN), (1, CHUNK), (LEN - 513, 513), (4095, 2)] {
            let got = reader::read(&reader, &[ask(&path(), offset, len)]).unwrap();
            data::check(&got[0], SEED, offset).unwrap();
        }
    }
    privilege::child_done();
}

/// Data sets are most often another user's: the kernel then does not say what is in the page cache, which must not be
/// taken for "all of it".
#[test]
fn a_cold_file_of_another_user_is_read_directly() {
    let outside = Outside::new();
    let shard = outside.path().join("shard");
    data::write_dense(&shard, SEED, LEN).unwrap();
    data::drop_cache(&shard).unwrap();
    let reduced = Reduced::new().user(NOBODY - 3);
    privilege::expect_child("another user", outside.rerun(&reduced, "library::in_child_cold_file_of_another_user"));
    let denied = reduced.deny(&[Deny::Cachestat(libc::ENOSYS)]);
    data::drop_cache(&shard).unwrap();
    privilege::expect_child("no cachestat", outside.rerun(&denied, "library::in_child_cold_file_of_another_user"));
}

#[test]
#[ignore = "a part of a_cold_file_of_another_user_is_read_directly"]
fn in_child_cold_file_of_another_user() {
    if !privilege::in_child() {
        return;
    }
    let reader = Row { engine: EngineChoice::Auto, mode: Mode::Auto }.reader();
    let file = reader.open(path()).unwrap();
    if let Err(reason) = file.direct() {
        crate::common::skipped::skipped(format!("direct reads: {reason}"));
    } else {
        let pieces = reader.read_blocking(&[Extent::new(&file, 0, LEN)]).unwrap();
        data::check(&pieces[0], SEED, 0).unwrap();
        assert_eq!(reader.stats().bytes_direct, LEN);
    }
    privilege::child_done();
}

#[test]
fn no_thread_to_be_had_is_an_error() {
    let outside = Outside::new();
    let reduced = Reduced::new().deny(&[Deny::Threads(libc::EAGAIN)]);
    privilege::expect_child("no threads", outside.rerun(&reduced, "library::in_child_without_threads"));
}

#[test]
#[ignore = "a part of no_thread_to_be_had_is_an_error"]
fn in_child_without_threads() {
    if !privilege::in_child() {
        return;
    }
    let error = Reader::builder().budget(BUDGET).build().map(drop).expect_err("a reader without a thread").to_string();
    assert!(error.contains("threads could not be started"), "{error}");
    privilege::child_done();
}

fn path() -> std::path::PathBuf {
    privilege::child_dir().join("shard")
}
