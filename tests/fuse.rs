//! A file system that answers short, fails and stalls. Right bytes or an error, never wrong bytes and never a hang.
//!
//! The trap behind half of it: an io_uring read with O_DIRECT of a file that the server opened with FOPEN_DIRECT_IO
//! and answers short comes back with a plausible length and wrong bytes, unless it agreed to FUSE_ASYNC_DIO.
mod common;

use std::collections::VecDeque;
use std::fs;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use common::fuse::{Fuse, Kind};
use common::knobs::{Fault, Short};
use common::privilege::{self, Outside, Reduced};
use common::reader::{self, CHUNK, Row, ask};
use common::watchdog::{eventually, guarded};
use common::{Rng, data, mounts};
use forebay::{EngineChoice, Extent, Mode, Reader};
use nix::libc;

const LEN: u64 = 6 * CHUNK + 1234;
const SEED: u64 = 5;

#[test]
fn short_answers() {
    let shorts = [
        ("by one byte", Short::By(1)),
        ("by 4096 bytes", Short::By(4096)),
        ("half a chunk at most", Short::AtMost(CHUNK / 2)),
        ("5000 bytes at most", Short::AtMost(5000)),
        ("by chance", Short::Random(Rng::new(3))),
    ];
    for kind in Kind::ALL {
        let fuse = or_skip!(Fuse::mount(kind));
        let (mut right, mut refused) = (0, 0);
        for (i, row) in reader::rows().into_iter().enumerate() {
            for (j, (name, short)) in shorts.iter().enumerate() {
                // A file for each: what the kernel has cached or learnt of one must not carry over to the next.
                let path = fuse.add(&format!("short-{i}-{j}"), SEED, LEN);
                fuse.knobs.short(Some(short.clone()));
                let what = format!("{row}, {kind:?}, short {name}");
                let before = fuse.knobs.shortened();
                match guarded("short answers", move || read_some(row, &path, SEED)) {
                    Ok(()) => right += 1,
                    // Without FOPEN_DIRECT_IO the kernel takes a short answer for the end of the file.
                    Err(Wrong::Refused(_)) if !kind.direct_io() || row.mode == Mode::Direct => refused += 1,
                    Err(wrong) => panic!("{what}: {wrong:?}"),
                }
                assert!(fuse.knobs.shortened() > before, "{what}: nothing was answered short");
                fuse.knobs.short(None);
            }
        }
        eprintln!("short answers, {kind:?}: {right} right, {refused} refused");
    }
}

/// An overlay says that it is an overlay, whatever lies below.
#[test]
fn short_answers_below_an_overlay() {
    for kind in Kind::ALL {
        let fuse = or_skip!(Fuse::mount(kind));
        for (i, row) in reader::rows().into_iter().enumerate() {
            for short in [Short::AtMost(5000), Short::By(4096), Short::Random(Rng::new(3))] {
                let name = format!("short-{i}");
                fuse.add(&name, SEED, LEN);
                let overlay = or_skip!(mounts::overlay_over(&fuse.dir));
                let path = overlay.dir.join(&name);
                fuse.knobs.short(Some(short));
                let before = fuse.knobs.shortened();
                match guarded("short answers", move || read_some(row, &path, SEED)) {
                    Ok(()) => {}
                    Err(Wrong::Refused(_)) if !kind.direct_io() || row.mode == Mode::Direct => {}
                    Err(wrong) => panic!("{row}, {kind:?}: {wrong:?}"),
                }
                assert!(fuse.knobs.shortened() > before, "{row}, {kind:?}: nothing was answered short");
                fuse.knobs.short(None);
            }
        }
    }
}

#[test]
fn a_closed_reader_reads_no_fuse_file_either() {
    let fuse = or_skip!(Fuse::mount(Kind::Cached));
    let path = fuse.add("file", SEED, LEN);
    for engine in reader::engines() {
        let reader = Row { engine, mode: Mode::Buffered }.reader();
        reader.clone().close_blocking();
        assert!(reader::read(&reader, &[ask(&path, 0, 10)]).is_err(), "{engine:?}: read after the close");
    }
}

#[test]
fn failing_reads() {
    for kind in Kind::ALL {
        let fuse = or_skip!(Fuse::mount(kind));
        for (i, row) in reader::rows().into_iter().enumerate() {
            for errno in [libc::EIO, libc::ENODATA] {
                let what = format!("{row}, {kind:?}, errno {errno}");
                let bad = fuse.add(&format!("bad-{i}-{errno}"), SEED, LEN);
                let good = fuse.add(&format!("good-{i}-{errno}"), SEED + 1, LEN);
                // One bad place, for ever: no retry can help.
                let at = 3 * CHUNK + 77;
                fuse.knobs.fault(Some(Fault { after: 0, times: u64::MAX, at: Some(at), errno }));
                let before = fuse.knobs.failed();
                guarded("a failing place", {
                    let (what, bad) = (what.clone(), bad.clone());
                    move || failing_place(&what, row, &bad, at)
                });
                if row.mode != Mode::Direct {
                    assert!(fuse.knobs.failed() > before, "{what}: nothing failed");
                }
                // The nth read fails, once. The kernel's read-ahead may swallow it: then the bytes must be right.
                for after in [0, 1, 4] {
                    fuse.knobs.fault(Some(Fault { after, times: 1, at: None, errno }));
                    let path = good.clone();
                    let result = guarded("a failing read", move || read_some(row, &path, SEED + 1));
                    assert!(!matches!(result, Err(Wrong::Bytes(_))), "{what}: {result:?}");
                }
                fuse.knobs.fault(None);
                let both = move || read_some(row, &good, SEED + 1).and(read_some(row, &bad, SEED));
                let result = guarded("after the failure", both);
                assert!(row.mode == Mode::Direct || result.is_ok(), "{what}: after the failure: {result:?}");
            }
        }
    }
}

/// The request fails as a whole with the place; what lies elsewhere in the file can still be read, by the same reader.
fn failing_place(what: &str, row: Row, bad: &Path, at: u64) {
    let reader = row.reader();
    let error = reader::read(&reader, &[ask(bad, 0, 10), ask(bad, CHUNK, LEN - CHUNK)]);
    let error = error.err().unwrap_or_else(|| panic!("{what}: a read across a bad place succeeded"));
    reader::names_offset(&error, bad).unwrap_or_else(|wrong| panic!("{what}: {wrong}"));
    // Far enough away that neither widening nor read-ahead needs the bad place.
    let elsewhere = at + 2 * CHUNK;
    match reader::read(&reader, &[ask(bad, elsewhere, LEN - elsewhere)]) {
        Ok(got) => data::check(&got[0], SEED, elsewhere).unwrap_or_else(|wrong| panic!("{what}: {wrong}")),
        Err(error) => assert!(row.mode == Mode::Direct, "{what}: elsewhere: {error}"),
    }
}

/// Two reads wait, fewer than any pool has threads, and another file of the same file system is read meanwhile.
#[test]
fn a_stall_delays_only_its_own_request() {
    for kind in Kind::ALL {
        let fuse = or_skip!(Fuse::mount(kind));
        for (i, row) in reader::rows().into_iter().enumerate().filter(|(_, row)| row.mode != Mode::Direct) {
            let quick = fuse.add(&format!("quick-{i}"), SEED + 1, LEN);
            let what = format!("{row}, {kind:?}");
            beside_a_stall(&what, row, &fuse, &format!("slow-{i}"), CHUNK + 1000, quick);
        }
    }
}

/// However much waits on a dead file system, a ring goes on reading from the others.
#[test]
fn a_stall_of_one_file_system_does_not_stop_a_ring() {
    or_skip!(reader::uring_here());
    let fuse = or_skip!(Fuse::mount(Kind::Cached));
    let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let quick = dir.path().join("quick");
    data::write_dense(&quick, SEED + 1, LEN).unwrap();
    for (i, mode) in [Mode::Auto, Mode::Buffered].into_iter().enumerate() {
        let row = Row { engine: EngineChoice::Uring, mode };
        data::drop_cache(&quick).unwrap();
        beside_a_stall(&row.to_string(), row, &fuse, &format!("slow-{i}"), LEN - 1, quick.clone());
    }
}

/// Reads `quick` while `len` bytes of a stalled file are waited for, then releases and checks those too.
fn beside_a_stall(what: &str, row: Row, fuse: &Fuse, slow: &str, len: u64, quick: PathBuf) {
    let path = fuse.add(slow, SEED, LEN);
    fuse.knobs.stall(slow);
    let reader = row.reader();
    let reading = thread::spawn({
        let reader = reader.clone();
        move || reader::read(&reader, &[ask(&path, 1, len)])
    });
    assert!(eventually(|| fuse.knobs.stalled() > 0), "{what}: no read came");
    let got = guarded("beside a stall", move || reader::read(&reader, &[ask(&quick, 3, LEN - 3)]));
    let got = got.unwrap_or_else(|e| panic!("{what}: beside a stall: {e}"));
    data::check(&got[0], SEED + 1, 3).unwrap_or_else(|wrong| panic!("{what}: {wrong}"));
    assert!(!reading.is_finished(), "{what}: a read ended without its bytes");
    fuse.knobs.release();
    assert!(eventually(|| reading.is_finished()), "{what}: hangs after the release");
    let got = reading.join().unwrap().unwrap_or_else(|e| panic!("{what}: {e}"));
    data::check(&got[0], SEED, 1).unwrap_or_else(|wrong| panic!("{what}: {wrong}"));
}

/// The kernel still owns the memory of a read whose future was dropped. Were it lent out again, the late answer
/// would land in another request's bytes.
#[test]
fn a_dropped_read_never_lands_in_anothers_memory() {
    for kind in Kind::ALL {
        let fuse = or_skip!(Fuse::mount(kind));
        for (i, row) in reader::rows().into_iter().enumerate().filter(|(_, row)| row.mode != Mode::Direct) {
            let what = format!("{row}, {kind:?}");
            let name = format!("slow-{i}");
            let slow = fuse.add(&name, SEED, LEN);
            let quick = fuse.add(&format!("quick-{i}"), SEED + 1, LEN);
            fuse.knobs.stall(&name);
            let reader = row.reader();
            let knobs = fuse.knobs.clone();
            let done = guarded("after a drop", move || -> Result<(), String> {
                for offset in [0, 9, 4096] {
                    drop_half_way(&reader, &slow, offset, 60_000);
                }
                assert!(eventually(|| knobs.stalled() > 0), "no read came");
                // What is read stays on loan for a while, and must still be right when it is given back.
                let mut held = VecDeque::new();
                for round in 0..16 {
                    let extents = reader::extents(&reader, &[ask(&quick, round, LEN - round)])?;
                    held.push_back((round, reader.read_blocking(&extents).map_err(|e| e.to_string())?));
                    if round == 6 {
                        knobs.release();
                    }
                    if held.len() > 3 {
                        held.pop_front()
                            .map_or(Ok(()), |(offset, pieces)| data::check(&pieces[0], SEED + 1, offset))?;
                    }
                }
                held.iter().try_for_each(|(offset, pieces)| data::check(&pieces[0], SEED + 1, *offset))
            });
            done.unwrap_or_else(|wrong| panic!("{what}: {wrong}"));
        }
    }
}

/// Starts a read, sees that it does not end, and drops its future.
fn drop_half_way(reader: &Reader, path: &Path, offset: u64, len: u64) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let file = reader.open(path).unwrap();
    let extents = [Extent::new(&file, offset, len)];
    let ended = runtime
        .block_on(async { tokio::time::timeout(Duration::from_millis(50), reader.read(&extents)).await.is_ok() });
    assert!(!ended, "a held read ended");
    // Whatever the runtime itself still waits for is not what is tested here.
    runtime.shutdown_background();
}

#[test]
fn dropping_a_stalled_reader_returns_and_gives_its_memory_back_later() {
    or_skip!(Fuse::mount(Kind::Cached).map(drop));
    let outside = Outside::new();
    for engine in reader::engines() {
        let mut command = outside.rerun(&Reduced::new(), "in_child_dropping_a_stalled_reader");
        command.env("FOREBAY_TEST_ENGINE", format!("{engine:?}"));
        // So that what the allocator hoards stays small against what is measured.
        command.env("MALLOC_ARENA_MAX", "1").env("MALLOC_MMAP_THRESHOLD_", "131072");
        privilege::expect_child(&format!("{engine:?}"), command);
    }
}

/// Alone in its process, so that memory, threads and descriptors can be counted.
#[test]
#[ignore = "a part of dropping_a_stalled_reader_returns_and_gives_its_memory_back_later"]
fn in_child_dropping_a_stalled_reader() {
    if !privilege::in_child() {
        return;
    }
    let engine = std::env::var("FOREBAY_TEST_ENGINE").unwrap();
    let engine = reader::engines().into_iter().find(|it| format!("{it:?}") == engine).unwrap();
    let row = Row { engine, mode: Mode::Auto };
    let fuse = Fuse::mount(Kind::Cached).unwrap();
    let slow = fuse.add("slow", SEED, LEN);
    let quick = fuse.add("quick", SEED, 24 << 20);
    // The server's threads have all begun once it has answered.
    assert_eq!(fs::metadata(&quick).unwrap().len(), 24 << 20);
    let before = Usage::now();

    let reader = row.reader();
    let extents = reader::extents(&reader, &[ask(&quick, 0, 24 << 20)]).unwrap();
    let pieces = reader.read_blocking(&extents).unwrap();
    for (i, part) in pieces[0].chunks(64 << 10).enumerate() {
        data::check(part, SEED, i as u64 * (64 << 10)).unwrap();
    }
    drop((pieces, extents));
    fuse.knobs.stall("slow");
    drop_half_way(&reader, &slow, 0, LEN);
    assert!(fuse.knobs.stalled() > 0);
    let during = Usage::now();
    assert!(during.resident > before.resident + (8 << 20), "the reader's memory does not show: {before:?}, {during:?}");

    // Before the read that it does not wait for goes on.
    guarded("dropping a stalled reader", move || drop(reader));
    assert!(fuse.knobs.stalled() > 0, "what was stalled went on by itself");

    fuse.knobs.release();
    let mut after = Usage::now();
    let given_back = eventually(|| {
        after = Usage::now();
        after.resident < before.resident + (8 << 20) && after.threads <= before.threads && after.open <= before.open
    });
    assert!(given_back, "not given back: before {before:?}, after {after:?}");
    privilege::child_done();
}

#[derive(Debug)]
struct Usage {
    resident: u64,
    threads: usize,
    open: usize,
}

impl Usage {
    fn now() -> Usage {
        // The allocator may keep what was freed; what it keeps is not what is measured.
        // SAFETY: malloc_trim may be called at any time.
        unsafe { libc::malloc_trim(0) };
        let statm = fs::read_to_string("/proc/self/statm").unwrap();
        let pages: u64 = statm.split(' ').nth(1).unwrap().parse().unwrap();
        Usage {
            resident: pages * 4096,
            threads: fs::read_dir("/proc/self/task").unwrap().count(),
            open: fs::read_dir("/proc/self/fd").unwrap().count(),
        }
    }
}

#[derive(Debug)]
enum Wrong {
    Bytes(#[allow(dead_code)] String),
    Refused(#[allow(dead_code)] String),
}

/// Reads nearly the whole file and ragged parts of it with a fresh reader.
fn read_some(row: Row, path: &Path, seed: u64) -> Result<(), Wrong> {
    let reader = row.reader();
    for (offset, len) in [(1, LEN - 1), (CHUNK - 3, 7), (4096, CHUNK), (LEN - 1, 1)] {
        match reader::read(&reader, &[ask(path, offset, len)]) {
            Ok(got) => data::check(&got[0], seed, offset).map_err(Wrong::Bytes)?,
            Err(error) => {
                reader::names_path(&error, path).map_err(Wrong::Bytes)?;
                return Err(Wrong::Refused(error));
            }
        }
    }
    Ok(())
}
