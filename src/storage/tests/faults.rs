use std::time::Duration;

use nix::libc;

use super::super::direct::NoDirect;
use super::super::error::ReadFault;
use super::*;
use crate::MemoryError;

fn modes(path: &Path) -> Vec<Mode> {
    let reader = Reader::builder().budget(1 << 20).engine(EngineChoice::Pread).build().unwrap();
    match reader.open(path).unwrap().direct() {
        Ok(_) => vec![Mode::Auto, Mode::Direct, Mode::Buffered],
        Err(reason) => {
            crate::skipped::skipped(format!("direct reads: {reason}"));
            vec![Mode::Auto, Mode::Buffered]
        }
    }
}

#[test]
fn whatever_the_kernel_answers_the_bytes_are_right() {
    let sample = Sample::new(3_000_001);
    for engine in ENGINES {
        for mode in modes(&sample.path) {
            for seed in 0..24 {
                let chances = Chances {
                    short: [0, 60, 200][seed as usize % 3],
                    short_align: [512, 4096, 1][seed as usize % 3],
                    eagain: [0, 30, 120][seed as usize / 3 % 3],
                    eintr: 20,
                    refused_submission: [0, 80][seed as usize % 2],
                    delay: 100,
                    ..Chances::default()
                };
                let reader = builder(engine, mode, chances, seed).build().unwrap();
                let file = reader.open(&sample.path).unwrap();
                let mut next = random(seed);
                let lists: Vec<Vec<Extent>> = (0..4).map(|_| random_extents(&file, &mut next)).collect();
                let reads: Vec<_> = lists.iter().map(|list| reader.read(list)).collect();
                let mut asked = 0;
                for (list, read) in lists.iter().zip(reads) {
                    let pieces = read.wait().unwrap();
                    for (extent, piece) in list.iter().zip(pieces.iter()) {
                        let range = extent.offset() as usize..(extent.offset() + extent.len()) as usize;
                        assert!(piece == &sample.bytes[range], "{engine:?} {mode:?} seed {seed}: {extent:?}");
                        asked += extent.len();
                    }
                }
                let arena = reader.arena().clone();
                assert_eq!(arena.on_loan(), 0);
                let stats = reader.stats();
                assert_eq!(stats.bytes_direct + stats.bytes_buffered, asked);
                reader.close_blocking();
            }
        }
    }
}

#[test]
fn a_read_that_fails_fails_with_path_and_offset_and_nothing_else_does() {
    let sample = Sample::new(1 << 20);
    for engine in ENGINES {
        for (errno, words) in [(libc::EIO, "kernel log"), (libc::ENODATA, "medium error"), (libc::ESTALE, "server")] {
            for nth in 1..=16 {
                let chances = Chances { nth: Some((nth, errno)), ..Chances::default() };
                let reader = builder(engine, Mode::Auto, chances, nth).build().unwrap();
                let file = reader.open(&sample.path).unwrap();
                let error = reader.read_blocking(&[Extent::new(&file, 100, (1 << 20) - 100)]).unwrap_err();
                assert!(matches!(error.fault, ReadFault::Io { .. }), "{error}");
                assert_eq!(error.path, sample.path);
                assert!(error.offset == 100 || error.offset.is_multiple_of(64 << 10), "{error}");
                assert!(error.to_string().contains(words), "{error}");
                let stats = reader.stats();
                assert_eq!(stats.bytes_direct + stats.bytes_buffered, 0, "bytes of a failed read are not delivered");
                let again = reader.read_blocking(&[Extent::new(&file, 5, 10)]).unwrap();
                assert_eq!(&again[0], &sample.bytes[5..15]);
                drop(again);
                assert_eq!(reader.arena().on_loan(), 0);
            }
        }
    }
}

#[test]
fn a_refused_direct_read_is_read_buffered_and_only_if_nothing_else_was_asked_for() {
    let sample = Sample::new(300_000);
    for engine in ENGINES {
        if !modes(&sample.path).contains(&Mode::Direct) {
            return;
        }
        let chances = Chances { nth: Some((1, libc::EINVAL)), ..Chances::default() };
        let reader = builder(engine, Mode::Direct, chances.clone(), 1).build().unwrap();
        let file = reader.open(&sample.path).unwrap();
        let error = reader.read_blocking(&[Extent::new(&file, 0, 1000)]).unwrap_err();
        assert!(matches!(error.fault, ReadFault::NoDirect(_)), "{error}");

        drop_from_page_cache(&sample.path);
        let reader = builder(engine, Mode::Auto, chances, 1).build().unwrap();
        let file = reader.open(&sample.path).unwrap();
        let pieces = reader.read_blocking(&[Extent::new(&file, 10, 1000)]).unwrap();
        assert_eq!(&pieces[0], &sample.bytes[10..1010]);
        assert!(file.direct().is_err());
        assert_eq!(reader.stats().bytes_buffered, 1000);
    }
}

/// Of two files of one read, one turns out to fill the page cache, after a part of it was refused and read through the cache anyway.
#[test]
fn bytes_of_a_file_that_turn_out_buffered_are_taken_from_no_other_file() {
    const LEN: u64 = 100_000;
    let samples = [Sample::new(LEN as usize), Sample::new(LEN as usize)];
    let mut refused_of_the_second = 0;
    for engine in ENGINES {
        if !modes(&samples[0].path).contains(&Mode::Direct) {
            return;
        }
        for nth in 1..=4 {
            samples.iter().for_each(|sample| drop_from_page_cache(&sample.path));
            let chances = Chances { nth: Some((nth, libc::EINVAL)), ..Chances::default() };
            let reader = builder(engine, Mode::Auto, chances, nth).build().unwrap();
            let [first, second] = [0, 1].map(|i| reader.open(&samples[i].path).unwrap());
            let read = reader.read(&[Extent::new(&first, 0, LEN), Extent::new(&second, 0, LEN)]);
            second.inner.proof.pretend_filled(NoDirect::Refused);
            let pieces = read.wait().unwrap();
            assert!((0..2).all(|i| pieces[i] == samples[i].bytes), "{engine:?} {nth}");
            let stats = reader.stats();
            assert_eq!(stats.bytes_direct + stats.bytes_buffered, 2 * LEN);
            // A refusal of the first file's part leaves it the other one.
            let other_part = [LEN - (64 << 10), 64 << 10];
            match first.direct().is_err() {
                true => assert!(other_part.contains(&stats.bytes_direct), "{engine:?} {nth}: {stats:?}"),
                false => {
                    assert_eq!(stats.bytes_direct, LEN, "{engine:?} {nth}: {stats:?}");
                    refused_of_the_second += 1;
                }
            }
        }
    }
    assert!(refused_of_the_second > 0);
}

#[test]
fn a_kernel_that_never_takes_a_read_is_an_error_and_no_hang() {
    let sample = Sample::new(100_000);
    for engine in ENGINES {
        let chances = Chances { eagain: 256, ..Chances::default() };
        let reader = builder(engine, Mode::Buffered, chances, 3).build().unwrap();
        let file = reader.open(&sample.path).unwrap();
        let error = reader.read_blocking(&[Extent::new(&file, 0, 100_000)]).unwrap_err();
        assert!(matches!(error.fault, ReadFault::Busy { .. }), "{error}");
    }
}

/// What the kernel may still write to is never lent again: who waits for it must hear that it will not come.
#[test]
fn a_ring_that_breaks_fails_those_too_who_wait_for_memory() {
    let sample = Sample::new(5 << 20);
    within_seconds(40, move || {
        let chances = Chances { refused_after: Some(1), ..Chances::default() };
        let reader = builder(EngineChoice::Uring, Mode::Auto, chances, 5).build().unwrap();
        let file = reader.open(&sample.path).unwrap();
        let reads: Vec<_> = (0..2).map(|_| reader.read(&[Extent::new(&file, 0, 5 << 20)])).collect();
        for read in reads {
            let error = read.wait().unwrap_err();
            assert!(matches!(error.fault, ReadFault::EngineEnded), "{error}");
        }
    });
}

#[test]
fn a_closed_engine_has_done_all_that_it_took() {
    let sample = Sample::new(1 << 20);
    for engine in ENGINES {
        let chances = Chances { slow: Duration::from_millis(3), ..Chances::default() };
        let reader = builder(engine, Mode::Auto, chances, 5).build().unwrap();
        let file = reader.open(&sample.path).unwrap();
        let reads: Vec<_> = (0..4).map(|i| reader.read(&[Extent::new(&file, i * 1000, 200_000)])).collect();
        reader.clone().close_blocking();
        for (i, read) in reads.into_iter().enumerate() {
            assert_eq!(&read.wait().unwrap()[0], &sample.bytes[i * 1000..i * 1000 + 200_000]);
        }
        let late = reader.read_blocking(&[Extent::new(&file, 0, 10)]).unwrap_err();
        assert!(matches!(late.fault, ReadFault::EngineEnded), "{late}");
    }
}

fn drop_from_page_cache(path: &Path) {
    use nix::fcntl::{PosixFadviseAdvice, posix_fadvise};
    let file = std::fs::File::open(path).unwrap();
    posix_fadvise(&file, 0, 0, PosixFadviseAdvice::POSIX_FADV_DONTNEED).unwrap();
}

/// As on Linux 5.1 to 5.5, which have rings and no IORING_OP_READ.
#[test]
fn a_ring_that_cannot_read_is_none() {
    let sample = Sample::new(10_000);
    let chances = Chances { first_read: Some(-libc::EINVAL), ..Chances::default() };
    let builder = |engine| builder(engine, Mode::Auto, chances.clone(), 1);
    let error = builder(EngineChoice::Uring).build().unwrap_err().to_string();
    assert!(error.contains("a first read with the ring") && error.contains("Linux 5.6"), "{error}");
    let reader = builder(EngineChoice::Auto).build().unwrap();
    assert_eq!(reader.engine(), crate::EngineKind::Pread);
    assert!(reader.fallback().unwrap().to_string().contains("Linux 5.6"));
    let file = reader.open(&sample.path).unwrap();
    assert_eq!(&reader.read_blocking(&[Extent::new(&file, 0, 10_000)]).unwrap()[0], &sample.bytes);
}

/// A ring that cannot hear of new reads would ask for it again and again.
#[test]
fn a_ring_whose_bell_fails_is_broken_and_does_not_spin() {
    let sample = Sample::new(10_000);
    within_seconds(20, move || {
        let chances = Chances { bell: Some(-libc::EINVAL), ..Chances::default() };
        let reader = builder(EngineChoice::Uring, Mode::Auto, chances, 1).build().unwrap();
        let file = reader.open(&sample.path).unwrap();
        let outcomes: Vec<_> = (0..20).map(|_| reader.read_blocking(&[Extent::new(&file, 0, 10_000)])).collect();
        for outcome in &outcomes {
            match outcome {
                Ok(pieces) => assert!(pieces[0] == sample.bytes),
                Err(error) => assert!(matches!(error.fault, ReadFault::EngineEnded), "{error}"),
            }
        }
        assert!(outcomes.last().unwrap().is_err());
    });
}

/// Of several rings one breaks: what it had taken fails, and the others serve what comes later, with the memory that is left.
#[test]
fn where_one_ring_breaks_the_others_go_on() {
    let sample = Sample::new(1 << 20);
    for broken in 0..3 {
        let chances = Chances { broken_ring: Some(broken), ..Chances::default() };
        let builder = builder(EngineChoice::Uring, Mode::Auto, chances, 1).rings(3).budget(4 << 20);
        let reader = builder.build().unwrap();
        let file = reader.open(&sample.path).unwrap();
        let read = |at: u64| reader.read_blocking(&[Extent::new(&file, at, 1000)]);
        let failed = (0..60).filter(|at| read(*at).is_err()).count();
        assert!(failed <= 1, "{failed} of 60 reads failed");
        // So many at once that some wait for memory.
        let whole = [Extent::new(&file, 0, 1 << 20)];
        let reads: Vec<_> = (0..12).map(|_| reader.read(&whole)).collect();
        for read in reads {
            assert_eq!(&read.wait().unwrap()[0], &sample.bytes);
        }
    }
}

/// Whoever asks where a read is must not be in the way of who takes its memory.
#[test]
fn a_read_that_is_watched_all_the_time_gives_its_slot() {
    use std::sync::atomic::{AtomicBool, Ordering};

    let sample = Sample::new(64 << 10);
    for engine in ENGINES {
        let reader = builder(engine, Mode::Auto, Chances::default(), 1).budget(1 << 20).build().unwrap();
        let file = reader.open(&sample.path).unwrap();
        let (watched, done) = (std::sync::Mutex::new(None), AtomicBool::new(false));
        std::thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    while !done.load(Ordering::Relaxed) {
                        let watch: Option<crate::storage::Watch> = crate::sync::lock(&watched).clone();
                        watch.into_iter().for_each(|watch| drop((0..50).map(|_| watch.oldest()).collect::<Vec<_>>()));
                    }
                });
            }
            let lost = (0..4000).filter(|_| {
                let read = reader.read(&[Extent::new(&file, 0, 4096)]);
                *crate::sync::lock(&watched) = read.watch();
                read.wait().unwrap().into_request().unwrap().into_slot().is_none()
            });
            let lost = lost.count();
            done.store(true, Ordering::Relaxed);
            assert_eq!(lost, 0, "{engine:?}: reads whose slot a watcher had");
        });
    }
}

/// Before there is a part for each of its chunks, which no memory would hold.
#[test]
fn what_no_budget_holds_is_refused_before_it_is_planned() {
    const LEN: u64 = 1 << 60;
    let sparse = tempfile::NamedTempFile::new_in("/dev/shm").unwrap();
    if let Err(error) = sparse.as_file().set_len(LEN) {
        return crate::skipped::skipped(format!("a sparse file of an exbibyte: {error}"));
    }
    let path = sparse.path().to_owned();
    within_seconds(20, move || {
        let reader = Reader::builder().budget(16 << 20).build().unwrap();
        let file = reader.open(path).unwrap();
        let parts = (0..16).map(|i| Extent::new(&file, i * (LEN / 16), LEN / 16)).collect();
        for extents in [vec![Extent::new(&file, 0, LEN)], parts] {
            let error = reader.read_blocking(&extents).unwrap_err();
            let is_over =
                |error: &MemoryError| matches!(error, MemoryError::OverBudget { asked: LEN, budget: 0x100_0000 });
            assert!(matches!(&error.fault, ReadFault::Memory(error) if is_over(error)), "{error}");
        }
    });
}
