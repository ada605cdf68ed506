//! Files that change under their reader: an error that names the path, or the bytes as they were when the file was
//! opened. Never other bytes, never zeros, no SIGBUS, no hang.
mod common;

use std::fs::{self, File};
use std::io::Write;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;
use std::thread;
use std::time::Duration;

use common::Rng;
use common::data;
use common::fuse::{Fuse, Kind};
use common::reader;
use common::watchdog::{eventually, guarded};
use forebay::{Extent, Reader};

const LEN: u64 = (1 << 20) + 4321;
const SEED: u64 = 11;
const OTHER_SEED: u64 = 22;
/// Longer than the coarsest clock that stamps files, so that a change gets another time than what came before.
const TICK: Duration = Duration::from_millis(20);

struct Change {
    name: &'static str,
    make: fn(&Path),
    /// False where the bytes that were opened can still be had, so that delivering them is right too.
    must_fail: bool,
    /// Only the ctime tells of it.
    needs_ctime: bool,
}

const CHANGES: &[Change] = &[
    Change { name: "truncated to half", make: |path| set_len(path, LEN / 2), must_fail: true, needs_ctime: false },
    Change { name: "truncated to nothing", make: |path| set_len(path, 0), must_fail: true, needs_ctime: false },
    Change { name: "truncated by one byte", make: |path| set_len(path, LEN - 1), must_fail: true, needs_ctime: false },
    Change { name: "grown", make: grow, must_fail: true, needs_ctime: false },
    Change { name: "replaced by rename", make: replace, must_fail: true, needs_ctime: false },
    Change {
        name: "rewritten, times restored",
        make: |path| restoring_mtime(path, rewrite),
        must_fail: true,
        needs_ctime: true,
    },
    Change {
        name: "emptied and refilled with zeros, times restored",
        make: |path| restoring_mtime(path, zero),
        must_fail: true,
        needs_ctime: true,
    },
    Change { name: "removed", make: |path| fs::remove_file(path).unwrap(), must_fail: false, needs_ctime: false },
];

#[test]
fn between_open_and_read() {
    for row in reader::rows() {
        for change in CHANGES {
            let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
            let path = dir.path().join("shard");
            data::write_dense(&path, SEED, LEN).unwrap();
            guarded(change.name, move || {
                let reader = row.builder().strict_ctime(change.needs_ctime).build().unwrap();
                let what = format!("{row}, {}", change.name);
                let file = reader.open(&path).unwrap_or_else(|e| panic!("{what}: {e}"));
                thread::sleep(TICK);
                (change.make)(&path);
                for (offset, len) in [(0, LEN), (LEN - 5000, 5000), (LEN - 1, 1)] {
                    let result = read(&reader, &Extent::new(&file, offset, len));
                    assert!(!(change.must_fail && result.is_ok()), "{what}: a changed file was read as if it were not");
                    judge(&what, &path, offset, result);
                }
                // A part that no change has touched: its bytes, or the error again.
                judge(&what, &path, 8, read(&reader, &Extent::new(&file, 8, 0)).map(|_| Vec::new()));
                reads_anew(&what, &reader, &path);
            });
        }
    }
}

/// What changes the ctime and no byte: a training reads on. A strict reader does not.
#[test]
fn another_mode_owner_or_link_is_no_other_file_unless_that_is_asked_for() {
    type Make = fn(&Path);
    let changes: [(&str, Make); 4] = [
        ("chmod", |path| fs::set_permissions(path, fs::Permissions::from_mode(0o600)).unwrap()),
        ("hard link", |path| fs::hard_link(path, path.with_extension("backup")).unwrap()),
        ("chown", |path| std::os::unix::fs::chown(path, None, Some(fs::metadata(path).unwrap().gid())).unwrap()),
        ("renamed and back", |path| {
            fs::rename(path, path.with_extension("away")).unwrap();
            fs::rename(path.with_extension("away"), path).unwrap();
        }),
    ];
    for row in reader::rows() {
        for (name, make) in changes {
            for strict in [false, true] {
                let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
                let path = dir.path().join("shard");
                data::write_dense(&path, SEED, LEN).unwrap();
                let dataset = forebay::dataset::DataFile::new(&path).unwrap();
                let reader = row.builder().strict_ctime(strict).build().unwrap();
                let file = reader.open(&path).unwrap();
                thread::sleep(TICK);
                make(&path);
                let what = format!("{row}, {name}, strict: {strict}");
                let change = file.change().unwrap();
                assert!(matches!(change, None | Some(forebay::Change::Status)), "{what}: {change:?}");
                let result = read(&reader, &Extent::new(&file, 0, LEN));
                // A file system may keep the ctime, as of a chown to the same owner.
                assert_eq!(result.is_err(), strict && change.is_some(), "{what}: {:?}", result.err());
                judge(&what, &path, 0, result);
                // Opened anew, as a dataset's file is when its loader comes to it.
                let opened = reader.open(&path).unwrap();
                assert_eq!(dataset.check(&opened).is_err(), strict && change.is_some(), "{what}");
            }
        }
    }
}

/// One change in the midst of a read, at another moment each round.
#[test]
fn during_a_read() {
    let mut rng = Rng::new(77);
    let (mut failed, mut right) = (0, 0);
    for row in reader::rows() {
        for change in CHANGES {
            for _ in 0..3 {
                let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
                let path = dir.path().join("shard");
                data::write_dense(&path, SEED, LEN).unwrap();
                data::drop_cache(&path).unwrap();
                let delay = Duration::from_micros(rng.below(3000));
                let what = format!("{row}, {} after {delay:?}", change.name);
                let ok = guarded(change.name, move || {
                    let reader = row.builder().strict_ctime(change.needs_ctime).build().unwrap();
                    let file = reader.open(&path).unwrap();
                    thread::sleep(TICK);
                    let changer = thread::spawn({
                        let path = path.clone();
                        move || {
                            thread::sleep(delay);
                            (change.make)(&path);
                        }
                    });
                    // Many requests, so that the change falls between and into them.
                    let mut ok = true;
                    for offset in (0..LEN).step_by(300_000) {
                        let result = read(&reader, &Extent::new(&file, offset, LEN - offset));
                        ok &= result.is_ok();
                        judge(&what, &path, offset, result);
                    }
                    changer.join().unwrap();
                    ok
                });
                if ok { right += 1 } else { failed += 1 }
            }
        }
    }
    eprintln!("changes during a read: {failed} reported, {right} came too late to matter");
    assert!(failed > 0, "no change ever met a read");
}

/// The reply is held back by the FUSE server while the file changes, so the change falls into the read every time.
#[test]
fn during_a_read_that_waits() {
    let changes = [("shrunk", OTHER_SEED, LEN / 3), ("grown", SEED, LEN * 2), ("rewritten", OTHER_SEED, LEN)];
    for kind in Kind::ALL {
        let fuse = or_skip!(Fuse::mount(kind));
        fuse.knobs.volatile(true);
        for (i, row) in reader::rows().into_iter().enumerate() {
            for (name, seed, len) in changes {
                let what = format!("{row}, {kind:?}, {name} during the read");
                let file_name = format!("{name}-{i}");
                let path = fuse.add(&file_name, SEED, LEN);
                fuse.knobs.stall(&file_name);
                let reading = thread::spawn(move || {
                    let reader = row.reader();
                    let file = reader.open(&path).map_err(|e| e.to_string())?;
                    let result = read(&reader, &Extent::new(&file, 100, LEN - 100));
                    judge("a held read", &path, 100, result.clone());
                    result
                });
                // A direct open that is refused at once never comes to a read.
                assert!(eventually(|| fuse.knobs.stalled() > 0 || reading.is_finished()), "{what}: no read came");
                thread::sleep(TICK);
                fuse.knobs.change(&file_name, seed, len);
                fuse.knobs.release();
                assert!(eventually(|| reading.is_finished()), "{what}: hangs");
                let result = reading.join().unwrap_or_else(|_| panic!("{what}: see above"));
                assert!(result.is_err(), "{what}: the change was not noticed");
            }
        }
    }
}

fn read(reader: &Reader, extent: &Extent) -> Result<Vec<u8>, String> {
    let pieces = reader.read_blocking(std::slice::from_ref(extent)).map_err(|e| e.to_string())?;
    Ok(pieces[0].to_vec())
}

/// The bytes that were opened, or an error that says where.
fn judge(what: &str, path: &Path, offset: u64, result: Result<Vec<u8>, String>) {
    let verdict = match result {
        Ok(got) => data::check(&got, SEED, offset),
        Err(error) => reader::names_offset(&error, path),
    };
    if let Err(wrong) = verdict {
        panic!("{what}: {wrong}");
    }
}

/// Opening the path again reads what is there now: nothing of the old file is remembered.
fn reads_anew(what: &str, reader: &Reader, path: &Path) {
    let Ok(want) = fs::read(path) else {
        assert!(reader.open(path).is_err(), "{what}: opened a file that is not there");
        return;
    };
    let file = reader.open(path).unwrap_or_else(|e| panic!("{what}: opening again: {e}"));
    let got = read(reader, &Extent::new(&file, 0, want.len() as u64));
    let got = got.unwrap_or_else(|e| panic!("{what}: reading anew: {e}"));
    data::same(&got, &want, 0).unwrap_or_else(|wrong| panic!("{what}: reading anew: {wrong}"));
}

fn set_len(path: &Path, len: u64) {
    File::options().write(true).open(path).unwrap().set_len(len).unwrap();
}

fn grow(path: &Path) {
    File::options().append(true).open(path).unwrap().write_all(&[7; 5000]).unwrap();
}

fn replace(path: &Path) {
    let new = path.with_extension("new");
    data::write_dense(&new, OTHER_SEED, LEN).unwrap();
    fs::rename(&new, path).unwrap();
}

fn rewrite(path: &Path) {
    data::overwrite(path, OTHER_SEED).unwrap();
}

fn zero(path: &Path) {
    set_len(path, 0);
    set_len(path, LEN);
}

fn restoring_mtime(path: &Path, change: fn(&Path)) {
    let before = fs::metadata(path).unwrap().modified().unwrap();
    change(path);
    File::options().write(true).open(path).unwrap().set_modified(before).unwrap();
}

/// Nor is its size called untold, whenever its first bytes come between two looks at it.
#[test]
fn a_file_can_be_opened_while_its_first_bytes_are_written() {
    let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let reader = forebay::Reader::builder().budget(1 << 20).build().unwrap();
    for round in 0..3000 {
        let path = dir.path().join(round.to_string());
        let log = std::fs::File::create(&path).unwrap();
        let both_are_ready = std::sync::Barrier::new(2);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                both_are_ready.wait();
                (&log).write_all(&[7; 16]).unwrap();
            });
            both_are_ready.wait();
            let opened = reader.open(&path).unwrap();
            assert!([0, 16].contains(&opened.len()), "{} bytes", opened.len());
        });
        std::fs::remove_file(&path).unwrap();
    }
}

/// A file that grows while it is being opened is one file, and can be opened.
#[test]
fn a_file_that_is_being_written_can_be_opened() {
    let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let path = dir.path().join("log");
    let mut log = std::fs::File::create(&path).unwrap();
    let reader = forebay::Reader::builder().budget(1 << 20).build().unwrap();
    let done = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !done.load(std::sync::atomic::Ordering::Relaxed) {
                log.write_all(&[7; 16]).unwrap();
            }
        });
        let failed = (0..5000).find_map(|_| reader.open(&path).err());
        done.store(true, std::sync::atomic::Ordering::Relaxed);
        assert!(failed.is_none(), "{}", failed.unwrap());
    });
}
