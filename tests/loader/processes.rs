//! What a loader takes of its process: threads, descriptors and memory go with it; few descriptors are enough; a forked
//! child gets an error.
use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use forebay::Error;
use forebay::dataset::{self, Dataset, OpenOptions};
use forebay::loader::LoaderFault;
use nix::libc;
use nix::sys::resource::{Resource, getrlimit, setrlimit};

use crate::common::effort;
use crate::common::privilege::{Outside, Reduced, child_dir, child_done, expect_child, expect_child_within, in_child};
use crate::common::reader::engines;
use crate::common::watchdog::{eventually, guarded};
use crate::common::{data, folder, is_root};
use crate::drops::with_engine;
use crate::equal;
use crate::formats::tar;
use crate::stream::{Setting, all, assert_same, drained, open_records, records};
use crate::transforms::copied;

/// A figure of `/proc/self/status`, in bytes.
pub fn status(field: &str) -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix(field)).unwrap();
    line.trim().strip_suffix(" kB").unwrap().trim().parse::<u64>().unwrap() << 10
}

fn entries(folder: &str) -> usize {
    fs::read_dir(folder).unwrap().count()
}

#[test]
fn thousands_of_loaders_leave_nothing_behind() {
    let child = Outside::new();
    let command = child.rerun(&Reduced::new(), "processes::in_child_thousands_of_loaders");
    eprintln!("{}", expect_child_within("loaders", command, Duration::from_secs(170)));
}

#[test]
#[ignore = "a part of another test"]
fn in_child_thousands_of_loaders() {
    if !in_child() {
        return;
    }
    let dataset = records(&child_dir(), "x", 1000, 100);
    let engines = engines();
    let (mut steady, began) = ((0, 0, 0), Instant::now());
    // What the first tenth has not settled would grow with all of them.
    let cycles = effort::of(1500, 10_000) as usize;
    for cycle in 0..=cycles {
        let builder = Setting::new(8).builder(&dataset).workers(cycle % 3).budget(128 << 10);
        let mut loader = builder.carrier(with_engine(engines[cycle % engines.len()])).build().unwrap();
        if cycle % 4 == 0 {
            assert_eq!(loader.blocking().next().unwrap().unwrap().len(), 8);
        }
        drop(loader);
        let now = || (entries("/proc/self/task"), entries("/proc/self/fd"), status("VmRSS:"));
        match cycle {
            _ if cycle == cycles / 10 * 2 => steady = now(),
            _ if cycle == cycles => {
                eprintln!("{steady:?}, then {:?}, in {:?}", now(), began.elapsed());
                // Threads may still be on their last instructions.
                let flat = || now().0 <= steady.0 && now().1 <= steady.1;
                assert!(eventually(flat), "{steady:?}, then {:?}", now());
                assert!(now().2 <= steady.2 + (6 << 20), "{steady:?}, then {:?}", now());
            }
            _ => {}
        }
    }
    child_done();
}

/// Row 136.
#[test]
fn five_hundred_shards_are_read_with_thirty_two_descriptors() {
    let outside = Outside::new();
    for i in 0..500 {
        data::write_dense(&outside.path().join(format!("{i:03}.bin")), i, 1000 * (1 + i % 3)).unwrap();
    }
    let reduced = Reduced::new().open_files(32);
    expect_child("descriptors", outside.rerun(&reduced, "processes::in_child_five_hundred_shards"));
}

#[test]
#[ignore = "a part of another test"]
fn in_child_five_hundred_shards() {
    if !in_child() {
        return;
    }
    let paths: Vec<PathBuf> = (0..500).map(|i| child_dir().join(format!("{i:03}.bin"))).collect();
    let dataset = open_records(&paths, 1000);
    for engine in engines() {
        for transformed in [false, true] {
            let setting = Setting { epochs: 2, ..Setting::new(64) };
            let builder = setting.builder(&dataset).carrier(with_engine(engine));
            let builder = if transformed { builder.map(copied(1000)) } else { builder };
            let mut got = all(builder.build().unwrap());
            if transformed {
                got.iter_mut().flat_map(|batch| &mut batch.rows).for_each(|row| row[0].1 = vec![1000]);
            }
            assert_same(&got, &setting.expected(&*dataset).unwrap(), &format!("{engine:?}, {transformed}"));
        }
    }
    child_done();
}

/// At the limit of a user's threads, whichever of the loader's is the first that cannot be started: an error, and none of
/// the others is left.
#[test]
fn where_a_thread_cannot_be_started_none_is_left() {
    if !is_root() {
        crate::common::skipped::skipped("threads are counted by user, and only root can be one that has no others");
        return;
    }
    let outside = Outside::new();
    data::write_dense(&outside.path().join("x.bin"), 1, 100_000).unwrap();
    expect_child("threads", outside.rerun(&Reduced::new().user(61_122), "processes::in_child_few_threads"));
}

#[test]
#[ignore = "a part of another test"]
fn in_child_few_threads() {
    if !in_child() {
        return;
    }
    let dataset = open_records(&[child_dir().join("x.bin")], 1000);
    let want = Setting::new(8).expected(&*dataset).unwrap();
    let (_, hard) = getrlimit(Resource::RLIMIT_NPROC).unwrap();
    let base = entries("/proc/self/task");
    for engine in engines() {
        let (mut refused, mut built) = (0, 0);
        for more in (0..16).chain([30, 36, 40, 41, 60]) {
            setrlimit(Resource::RLIMIT_NPROC, base as u64 + more, hard).unwrap();
            match Setting::new(8).builder(&dataset).workers(3).carrier(with_engine(engine)).build() {
                Ok(mut loader) => {
                    // The kernel cancels a read of a ring for which it can start no thread of its own.
                    let (got, error) = drained(&mut loader);
                    assert_same(&got, &want[..got.len()], "with few threads");
                    assert!(got.len() == want.len() || error.is_some());
                    built += u64::from(error.is_none());
                }
                Err(error) => {
                    assert!(matches!(error, Error::Build(_)) && error.to_string().contains("thread"), "{error}");
                    refused += 1;
                }
            }
            assert!(eventually(|| entries("/proc/self/task") <= base), "threads are left of {more}");
        }
        assert!(built > 0, "none was built");
        eprintln!("{engine:?}: {refused} refused, {built} built");
    }
    child_done();
}

/// Row 132.
#[test]
fn a_forked_child_gets_one_error_and_its_parent_goes_on() {
    let child = Outside::new();
    expect_child("forks", child.rerun(&Reduced::new(), "processes::in_child_fork"));
}

#[test]
#[ignore = "a part of another test"]
fn in_child_fork() {
    if !in_child() {
        return;
    }
    let dataset = records(&child_dir(), "x", 4096, 400);
    for engine in engines() {
        let mut loader = Setting::new(8).builder(&dataset).carrier(with_engine(engine)).build().unwrap();
        let first = loader.blocking().next().unwrap().unwrap();
        // SAFETY: the child takes no lock that threads of the parent may hold, and leaves by `_exit`.
        let child = unsafe { libc::fork() };
        assert!(child >= 0);
        if child == 0 {
            // SAFETY: plain calls; a child that hangs is ended by the alarm.
            unsafe { libc::alarm(10) };
            let well = catch_unwind(AssertUnwindSafe(|| {
                let error = loader.blocking().next().unwrap().unwrap_err();
                assert!(matches!(error.fault, LoaderFault::Forked) && error.to_string().contains("fork"), "{error}");
                assert!(loader.blocking().next().is_none(), "nothing comes after an error");
                drop((first, loader));
            }));
            // SAFETY: as above.
            unsafe { libc::_exit(i32::from(well.is_err())) };
        }
        let mut status = 0;
        // SAFETY: the child is ours.
        assert_eq!(unsafe { libc::waitpid(child, &mut status, 0) }, child);
        assert!(libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == 0, "the child ended with {status:#x}");
        equal::check(&*dataset, &first);
        assert_eq!(loader.blocking().map(|batch| batch.unwrap().len()).sum::<usize>(), 392);
    }
    child_done();
}

/// Row 123: an index that was being made when its process was killed, and one that is there in part.
#[test]
fn what_a_killed_run_has_left_beside_its_shards_stops_no_other() {
    let folder = folder();
    let mut indexes = Vec::new();
    for shard in 0..3_u64 {
        let members = (0..20).map(|i| (format!("{shard}-{i:02}.bin"), data::bytes(shard, 100 * i, 100 + i)));
        let path = folder.path().join(format!("{shard}.tar"));
        fs::write(&path, tar(&members.collect::<Vec<_>>())).unwrap();
        indexes.push(folder.path().join(format!("{shard}.tar.forebay-index")));
    }
    let open = |keeps| -> Arc<dyn Dataset> {
        dataset::open(&[folder.path()], &OpenOptions::new().keep_index(keeps)).unwrap().into()
    };
    let setting = Setting { epochs: 2, ..Setting::new(7) };
    let want = setting.expected(&*open(false)).unwrap();
    assert_eq!(open(true).len(), 60);
    let whole: Vec<Vec<u8>> = indexes.iter().map(|path| fs::read(path).unwrap()).collect();

    let half = |number: usize| &whole[number][..whole[number].len() / 2];
    fs::remove_file(&indexes[0]).unwrap();
    for (number, index) in indexes.iter().enumerate() {
        let unfinished = format!("{}.0123456789abcdef.tmp", index.display());
        fs::write(unfinished, half(number)).unwrap();
    }
    fs::write(&indexes[1], half(1)).unwrap();
    fs::write(&indexes[2], "").unwrap();
    for run in ["the next run", "the one after that"] {
        let dataset = open(true);
        assert_eq!((dataset.len(), dataset.files().len()), (60, 3), "{run}");
        assert_same(&guarded(run, move || all(setting.builder(&dataset).build().unwrap())), &want, run);
        for (index, whole) in indexes.iter().zip(&whole) {
            assert!(fs::read(index).unwrap() == *whole, "{run}: {index:?} is not what it was");
        }
    }
}
