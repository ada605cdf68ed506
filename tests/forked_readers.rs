//! A forked child with the handles of its parent: whatever it awaits ends, whatever it polls says why, and whatever it drops takes
//! nothing of its own with it. A child that hangs or dies fails the test.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Waker};

use forebay::dataset::{self, OpenOptions};
use forebay::loader::LoaderFault;
use forebay::{EngineChoice, Extent, Loader, MemoryError, OpenFault, ReadFault, Reader, ReaderBuilder};
use nix::libc;

const LEN: u64 = 4 << 20;
const ENGINES: [EngineChoice; 2] = [EngineChoice::Uring, EngineChoice::Pread];

struct Sample {
    _folder: tempfile::TempDir,
    path: std::path::PathBuf,
}

fn sample() -> Sample {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let path = folder.path().join("sample");
    std::fs::write(&path, (0..LEN).map(|i| (i / 4096) as u8).collect::<Vec<_>>()).unwrap();
    Sample { _folder: folder, path }
}

fn builder(engine: EngineChoice) -> ReaderBuilder {
    Reader::builder().engine(engine).budget(16 << 20)
}

/// How a forked child ended that did `work`: its wait status, 0 where all was well.
fn child(work: impl FnOnce()) -> i32 {
    // SAFETY: the child runs `work` on its only thread and leaves by `_exit`.
    let child = unsafe { libc::fork() };
    assert!(child >= 0);
    if child == 0 {
        // SAFETY: plain calls; a child that hangs is ended by the alarm.
        unsafe { libc::alarm(5) };
        let well = std::panic::catch_unwind(std::panic::AssertUnwindSafe(work)).is_ok();
        // SAFETY: as above.
        unsafe { libc::_exit(if well { 0 } else { 1 }) };
    }
    let mut status = 0;
    // SAFETY: the child is ours.
    assert_eq!(unsafe { libc::waitpid(child, &mut status, 0) }, child);
    status
}

fn forked(what: &str, work: impl FnOnce()) {
    assert_eq!(
        child(work),
        0,
        "{what}: the child's wait status (14: it hung; 11: it touched memory that is not there)"
    );
}

fn poll_once<T>(future: &mut (impl Future<Output = T> + Unpin)) -> Poll<T> {
    Pin::new(future).poll(&mut Context::from_waker(Waker::noop()))
}

/// The arena is not in the child. What it maps itself may lie where the arena was.
#[test]
fn memory_of_the_childs_own_outlives_what_it_drops() {
    let sample = sample();
    for engine in ENGINES {
        let reader = builder(engine).budget(64 << 20).prefault(true).build().unwrap();
        let file = reader.open(&sample.path).unwrap();
        let pieces = reader.read_blocking(&[Extent::new(&file, 0, LEN)]).unwrap();
        let slot = reader.arena().try_loan(1 << 20).unwrap().unwrap();
        forked(&format!("{engine:?}"), move || {
            let own: Vec<Vec<u8>> = (0..40).map(|i| vec![i; 2 << 20]).collect();
            drop((pieces, slot, file, reader));
            let more: Vec<Vec<u8>> = (0..40).map(|i| vec![i; 2 << 20]).collect();
            for buffers in [own, more] {
                assert!(buffers.iter().zip(0..).all(|(buffer, i)| buffer.iter().all(|byte| *byte == i)));
            }
        });
    }
}

#[test]
fn reads_begun_before_end_with_the_reason() {
    let sample = sample();
    for engine in ENGINES {
        let reader = builder(engine).budget(8 << 20).build().unwrap();
        let file = reader.open(&sample.path).unwrap();
        let whole = || [Extent::new(&file, 512, LEN - 512)];
        let held = reader.read_blocking(&whole()).unwrap();
        // One under way or over, and one that waits for memory.
        let (begun, waits) = (reader.read(&whole()), reader.read(&whole()));
        let mut polled = reader.read(&whole());
        assert!(poll_once(&mut polled).is_pending());
        let (dropped, nothing) = (reader.read(&whole()), reader.read(&[]));
        let mut stream = reader.stream(whole());
        let loan = reader.arena().loan(1 << 20).unwrap();
        forked(&format!("{engine:?}"), || {
            for read in [begun, waits, polled] {
                let error = read.wait().unwrap_err();
                assert!(matches!(error.fault, ReadFault::Forked), "{error}");
                assert_eq!((error.path.as_path(), error.offset), (sample.path.as_path(), 512));
                assert!(error.to_string().contains("fork"), "{error}");
            }
            drop(dropped);
            assert!(nothing.wait().is_ok());
            let next = futures_core::Stream::poll_next(Pin::new(&mut stream), &mut Context::from_waker(Waker::noop()));
            assert!(matches!(next, Poll::Ready(Some(Err(error))) if matches!(error.fault, ReadFault::Forked)));
            let mut loan = loan;
            assert!(matches!(poll_once(&mut loan), Poll::Ready(Err(MemoryError::Forked))));
            assert!(matches!(reader.arena().try_loan(1), Err(MemoryError::Forked)));
            assert!(matches!(reader.arena().loan(1), Err(MemoryError::Forked)));
            // What was read is the parent's, and is no memory of the child's.
            assert_eq!((held.get(0), held.iter().next()), (None, Some(&[][..])));
            let error = reader.open(&sample.path).unwrap_err();
            assert!(matches!(error.fault, OpenFault::Forked), "{error}");
            let error = reader.read_blocking(&whole()).unwrap_err();
            assert!(matches!(error.fault, ReadFault::Forked), "{error}");
            reader.close_blocking();
            // One of its own works.
            let own = builder(engine).build().unwrap();
            let file = own.open(&sample.path).unwrap();
            let pieces = own.read_blocking(&[Extent::new(&file, 0, LEN)]).unwrap();
            assert!(pieces[0].iter().zip(0..).all(|(byte, i)| *byte == (i / 4096) as u8));
            own.close_blocking();
        });
    }
}

/// Threads of the parent hold locks at any time: a child is forked at many.
#[test]
fn no_lock_of_the_parents_holds_up_a_child() {
    let sample = sample();
    for engine in ENGINES {
        let reader = builder(engine).build().unwrap();
        let file = reader.open(&sample.path).unwrap();
        let stop = AtomicBool::new(false);
        std::thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    let few: Vec<_> = (0..64).map(|i| Extent::new(&file, i * 4096, 512)).collect();
                    while !stop.load(Ordering::Relaxed) {
                        drop(reader.read_blocking(&few).unwrap());
                        drop(reader.open(&sample.path).unwrap());
                    }
                });
            }
            let statuses: Vec<i32> = (0..300)
                .map(|_| {
                    let pieces = reader.read_blocking(&[Extent::new(&file, 0, 4096)]).unwrap();
                    let read = reader.read(&[Extent::new(&file, 0, 4096)]);
                    let (other, slot) = (reader.clone(), reader.arena().try_loan(4096).unwrap());
                    let opened = reader.open(&sample.path).unwrap();
                    child(|| {
                        assert!(read.wait().is_err());
                        drop((pieces, slot, other, opened));
                        // The last handles of all.
                        // SAFETY: the child leaves without its parent's stack being unwound, so nothing is dropped twice.
                        unsafe {
                            std::ptr::drop_in_place(std::ptr::from_ref(&file).cast_mut());
                            std::ptr::drop_in_place(std::ptr::from_ref(&reader).cast_mut());
                        }
                    })
                })
                .filter(|status| *status != 0)
                .collect();
            stop.store(true, Ordering::Relaxed);
            assert!(statuses.is_empty(), "{engine:?}: of 300 children {} ended with {statuses:?}", statuses.len());
        });
    }
}

#[test]
fn a_loader_and_its_batches_say_so_and_are_dropped() {
    let sample = sample();
    for workers in [0, 2] {
        let records = dataset::open(&[&sample.path], &OpenOptions::new().record_bytes(4096)).unwrap();
        let mut loader = Loader::builder(records).batch_size(8).workers(workers).budget(8 << 20).build().unwrap();
        let held = loader.blocking().next().unwrap().unwrap();
        let status = child(|| {
            let error = loader.blocking().next().unwrap().unwrap_err();
            assert!(matches!(error.fault, LoaderFault::Forked), "{error}");
            assert!(loader.blocking().next().is_none());
            // SAFETY: the child leaves without its parent's stack being unwound, so nothing is dropped twice.
            unsafe {
                std::ptr::drop_in_place(std::ptr::from_ref(&held).cast_mut());
                std::ptr::drop_in_place(std::ptr::from_ref(&loader).cast_mut());
            }
        });
        assert_eq!(status, 0, "{workers} workers");
        // The parent goes on.
        assert_eq!(loader.blocking().map(|batch| batch.unwrap().len()).sum::<usize>(), 1024 - 8);
        assert_eq!(held.len(), 8);
    }
}

/// A thread of the parent that reads goes on whatever its children drop.
#[test]
fn the_parent_is_not_disturbed() {
    let sample = sample();
    for engine in ENGINES {
        let reader = Arc::new(builder(engine).build().unwrap());
        let file = reader.open(&sample.path).unwrap();
        for _ in 0..20 {
            let read = reader.read(&[Extent::new(&file, 0, LEN)]);
            forked("a child that drops all", || drop((Arc::clone(&reader), file.clone())));
            let pieces = read.wait().unwrap();
            assert!(pieces[0].iter().zip(0..).all(|(byte, i)| *byte == (i / 4096) as u8));
        }
        assert_eq!(reader.arena().on_loan(), 0);
    }
}
