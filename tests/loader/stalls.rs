//! What a loader says when nothing comes: who stops it, who is waited for, and that it waits for nothing that cannot come.
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use forebay::dataset::{DType, Dataset, TensorSpec};
use forebay::loader::transform::Map;
use forebay::loader::{LoaderFault, Stage};
use forebay::{LoaderError, Shuffle};

use crate::common::folder;
use crate::common::fuse::{Fuse, Kind};
use crate::common::reader::engines;
use crate::common::watchdog::guarded;
use crate::drops::with_engine;
use crate::heard;
use crate::or_skip;
use crate::stream::{Setting, all, assert_same, drained, open_records, records};
use crate::transforms::copied;

/// The error that a loader ends with.
pub fn error_of(what: &str, mut loader: forebay::Loader) -> LoaderError {
    guarded(what, move || drained(&mut loader).1.expect("it ends with an error"))
}

#[test]
fn a_stopper_ends_the_wait_of_another_thread() {
    let fuse = or_skip!(Fuse::mount(Kind::DirectIo));
    let path = fuse.add("stopped", 3, 1 << 20);
    let dataset = open_records(&[&path], 4096);
    fuse.knobs.stall("stopped");
    let loader = Setting::new(16).builder(&dataset).build().unwrap();
    let stopper = loader.stopper();
    thread::spawn(move || {
        thread::sleep(Duration::from_millis(100));
        stopper.clone().stop();
        stopper.stop();
    });
    // Before what it waits for goes on.
    let error = error_of("stopped", loader);
    assert!(matches!(error.fault, LoaderFault::Stopped), "{error}");
    fuse.knobs.release();
}

#[test]
fn a_stopped_loader_gives_one_error_and_nothing_more_and_can_go_on_by_its_state() {
    let folder = folder();
    let dataset = records(folder.path(), "stopped", 1000, 100);
    let setting = Setting::new(8);
    let mut loader = setting.builder(&dataset).build().unwrap();
    let first = loader.blocking().next().unwrap().unwrap();
    loader.stopper().stop();
    let (none, error) = drained(&mut loader);
    assert!(none.is_empty() && matches!(error.unwrap().fault, LoaderFault::Stopped));
    let rest = all(setting.builder(&dataset).resume(loader.state()).build().unwrap());
    assert_same(&rest, &setting.expected(&*dataset).unwrap()[1..], "after the stop");
    assert_eq!(first.number(), 0);
}

/// Whoever stops a loader that has given everything stops nothing.
#[test]
fn a_finished_loader_is_not_stopped() {
    let folder = folder();
    let dataset = records(folder.path(), "finished", 1000, 10);
    let mut loader = Setting::new(8).builder(&dataset).build().unwrap();
    assert_eq!(loader.blocking().map(Result::unwrap).count(), 2);
    loader.stopper().stop();
    assert!(loader.blocking().next().is_none());
}

/// Of five files the second never answers: the error and the warning name it, with the offset.
#[test]
fn the_deadline_and_the_warning_name_the_file_that_is_stuck() {
    heard::listen();
    let fuse = or_skip!(Fuse::mount(Kind::DirectIo));
    for engine in engines() {
        for (case, transformed) in [("plain", false), ("transformed", true)] {
            let name = |i: u64| format!("{engine:?}-{case}-{i}.bin").to_lowercase();
            let paths: Vec<_> = (0..5).map(|i| fuse.add(&name(i), i, 64 << 10)).collect();
            let dataset = open_records(&paths, 4096);
            let mut setting = Setting::new(8);
            setting.shuffle = Shuffle::None;
            fuse.knobs.stall(&name(1));
            let builder = setting.builder(&dataset).carrier(with_engine(engine));
            let builder = if transformed { builder.map(copied(4096)) } else { builder };
            let builder = builder.warn_after(Duration::from_millis(100)).deadline(Duration::from_millis(600));
            let mut loader = builder.build().unwrap();
            let (batches, error) = guarded("stalled", move || drained(&mut loader));
            let error = error.unwrap();
            fuse.knobs.release();
            let LoaderFault::Stalled { stage, path, offset, age } = &error.fault else { panic!("{error}") };
            assert_eq!((*stage, path.as_ref()), (Stage::Read, Some(&paths[1])), "{error}");
            assert!(offset.is_some_and(|offset| offset < 64 << 10), "{error}");
            assert!(*age >= Duration::from_millis(600) && *age < Duration::from_secs(10), "{error}");
            assert_same(&batches, &setting.expected(&*dataset).unwrap()[..batches.len()], "before it");
            assert!(batches.len() <= 2, "those of the first file at most");
            let warnings = heard::warnings(&name(1));
            assert!(warnings.iter().any(|said| said.contains("stage read") && said.contains(" at ")), "{warnings:?}");
        }
    }
}

/// On the pipeline's own thread and on others.
#[test]
fn the_deadline_names_a_transform_that_blocks() {
    let folder = folder();
    let dataset = records(folder.path(), "blocked", 4096, 64);
    for workers in [0, 1, 3] {
        let (release, gate) = mpsc::channel::<()>();
        let gate = std::sync::Mutex::new(gate);
        let blocks = Map::new([TensorSpec::new("x", DType::U8, [1])], move |_, _| {
            let _ = gate.lock().unwrap().recv();
            Ok(())
        });
        let builder = Setting::new(4).builder(&dataset).workers(workers).map(blocks);
        let error = error_of("blocked", builder.deadline(Duration::from_millis(300)).build().unwrap());
        drop(release);
        let LoaderFault::Stalled { stage, path, .. } = &error.fault else { panic!("{error}") };
        assert_eq!(*stage, Stage::Transform, "{workers} workers: {error}");
        assert_eq!(path.as_deref(), Some(dataset.files()[0].path()));
    }
}

/// A deadline is for who waits, not for who takes his time.
#[test]
fn a_slow_consumer_meets_no_deadline() {
    let folder = folder();
    let dataset = records(folder.path(), "slow", 4096, 40);
    let mut loader =
        Setting::new(4).builder(&dataset).prefetch(1).deadline(Duration::from_millis(150)).build().unwrap();
    let mut batches = 0;
    while let Some(batch) = loader.blocking().next() {
        drop(batch.unwrap());
        thread::sleep(Duration::from_millis(60));
        batches += 1;
    }
    assert_eq!(batches, 10);
}

/// He who keeps every batch is told why no more come, at the deadline by an error and before it by a warning.
#[test]
fn a_consumer_that_holds_all_memory_is_told() {
    heard::listen();
    let folder = folder();
    let dataset = records(folder.path(), "held", 65_536, 400);
    for transformed in [false, true] {
        let builder = Setting::new(4).builder(&dataset).budget(2 << 20).warn_after(Duration::from_millis(150));
        let builder = if transformed { builder.map(copied(65_536)) } else { builder };
        let mut loader = builder.deadline(Duration::from_millis(800)).build().unwrap();
        let before = heard::warnings("drop some, or raise the budget").len();
        let (held, error) = guarded("held", move || {
            let mut held = Vec::new();
            loop {
                match loader.blocking().next().unwrap() {
                    Ok(batch) => held.push(batch),
                    Err(error) => return (held, error),
                }
            }
        });
        assert!(matches!(error.fault, LoaderFault::Stalled { stage: Stage::Memory, .. }), "{error}");
        assert!(held.len() >= 2, "{} batches of 256 KiB in 2 MiB", held.len());
        held.iter().for_each(|batch| crate::equal::check(&*dataset, batch));
        assert!(heard::warnings("drop some, or raise the budget").len() > before, "no warning");
    }
}

/// Without a deadline he may drop one, and goes on.
#[test]
fn a_consumer_that_gives_memory_back_goes_on() {
    let folder = folder();
    let dataset = records(folder.path(), "back", 65_536, 100);
    let setting = Setting::new(4);
    let mut loader = setting.builder(&dataset).budget(2 << 20).build().unwrap();
    let (got, want) = guarded("gives back", move || {
        let (mut held, mut got) = (std::collections::VecDeque::new(), Vec::new());
        while let Some(batch) = loader.blocking().next() {
            let batch = batch.unwrap();
            got.push(crate::stream::taken(&batch));
            held.push_back(batch);
            if held.len() > 2 {
                held.pop_front();
            }
        }
        (got, setting.expected(&*dataset).unwrap())
    });
    assert_same(&got, &want, "with three batches held");
}
