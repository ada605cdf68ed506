//! A loader may be dropped at any moment, whatever it is waiting for.
use std::sync::Arc;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use forebay::dataset::{DType, DatasetError, TensorSpec};
use forebay::loader::transform::Map;
use forebay::{EngineChoice, Loader, Shuffle};

use crate::common::effort;
use crate::common::fuse::{Fuse, Kind};
use crate::common::privilege::{Outside, Reduced, child_dir, child_done, expect_child_within, in_child};
use crate::common::reader::engines;
use crate::common::watchdog::{eventually, guarded};
use crate::common::{Rng, folder};
use crate::datasets::{Told, push};
use crate::stream::{Setting, open_records, records};
use crate::transforms::copied;
use crate::{equal, or_skip};

/// What hangs goes on behind the drop only.
fn dropped(what: &str, loader: Loader) {
    guarded(what, move || drop(loader));
}

/// The carrier of a loader that reads with this engine.
pub fn with_engine(engine: EngineChoice) -> forebay::CarrierBuilder {
    forebay::Carrier::builder().reader(forebay::Reader::builder().engine(engine))
}

/// Row 121. In a process of its own, whose every word is looked at.
#[test]
fn hundreds_of_drops_after_a_few_batches_are_quiet() {
    let outside = Outside::new();
    let child = outside.rerun(&Reduced::new(), "drops::in_child_a_thousand_drops");
    let said = expect_child_within("drops", child, Duration::from_secs(90));
    assert!(!said.contains("panicked") && !said.contains("WARN"), "{said}");
}

#[test]
#[ignore = "a part of another test"]
fn in_child_a_thousand_drops() {
    if !in_child() {
        return;
    }
    crate::heard::listen();
    let dataset = records(&child_dir(), "drops", 5000, 400);
    let (mut rng, engines) = (Rng::new(121), engines());
    for round in 0..effort::of(200, 1000) as usize {
        let mut setting = Setting::new(1 + rng.below(16));
        setting.epochs = 1 + rng.below(3);
        let builder = setting.builder(&dataset).workers(rng.below(3) as usize).budget((2 + rng.below(3)) << 20);
        let builder = builder.carrier(with_engine(engines[round % engines.len()])).prefetch(1 + rng.below(5) as usize);
        let mut loader = match rng.below(2) {
            0 => builder.map(copied(5000)).build().unwrap(),
            _ => builder.build().unwrap(),
        };
        let take = rng.below(5) as usize;
        let kept: Vec<_> = loader.blocking().take(take).map(Result::unwrap).collect();
        if rng.below(2) == 0 {
            thread::sleep(Duration::from_micros(rng.below(1500)));
        }
        dropped("a drop", loader);
        kept.iter().for_each(|batch| equal::check(&*dataset, batch));
    }
    assert_eq!(crate::heard::warnings(""), [""; 0]);
    child_done();
}

/// Row 118, with a file system that never answers.
#[test]
fn a_loader_whose_read_hangs_for_ever_is_dropped_in_about_a_second() {
    let fuse = or_skip!(Fuse::mount(Kind::DirectIo));
    let path = fuse.add("hangs", 3, 1 << 20);
    for engine in engines() {
        for workers in [0, 2] {
            let dataset = open_records(&[&path], 4096);
            fuse.knobs.stall("hangs");
            let builder = Setting::new(16).builder(&dataset).workers(workers).carrier(with_engine(engine));
            let mut loader = builder.build().unwrap();
            assert!(eventually(|| fuse.knobs.stalled() > 0), "nothing was read");
            // Also while somebody waits.
            let mut next = Box::pin(loader.next());
            let mut context = std::task::Context::from_waker(std::task::Waker::noop());
            assert!(std::future::Future::poll(next.as_mut(), &mut context).is_pending());
            drop(next);
            guarded("drop", move || dropped(&format!("{engine:?}, {workers} workers"), loader));
            fuse.knobs.release();
        }
    }
}

/// Row 118.
#[test]
fn a_fifo_among_the_shards_is_refused_and_one_put_in_their_place_is_an_error() {
    let folder = folder();
    let fifo = folder.path().join("a.bin");
    nix::unistd::mkfifo(&fifo, nix::sys::stat::Mode::S_IRWXU).unwrap();
    let refused = guarded("open", {
        let fifo = fifo.clone();
        move || forebay::dataset::open(&[&fifo], &forebay::dataset::OpenOptions::new().record_bytes(8)).err()
    });
    let said = refused.expect("a FIFO is no dataset").to_string();
    assert!(said.contains("a.bin"), "{said}");

    std::fs::remove_file(&fifo).unwrap();
    std::fs::write(&fifo, [7; 4096]).unwrap();
    let dataset = open_records(&[&fifo], 64);
    std::fs::remove_file(&fifo).unwrap();
    nix::unistd::mkfifo(&fifo, nix::sys::stat::Mode::S_IRWXU).unwrap();
    let error = guarded("fifo", move || {
        let mut loader = Setting::new(8).builder(&dataset).build().unwrap();
        let error = loader.blocking().next().unwrap().unwrap_err();
        dropped("fifo", loader);
        error
    });
    assert!(error.to_string().contains("a.bin"), "{error}");
}

/// Row 119.
#[test]
fn a_consumer_may_stop_after_one_batch_with_the_least_of_everything() {
    let folder = folder();
    let dataset = records(folder.path(), "one", 4096, 500);
    for engine in engines() {
        for transformed in [false, true] {
            let builder = Setting::new(4).builder(&dataset).workers(1).prefetch(1).budget(256 << 10);
            let builder = builder.carrier(with_engine(engine));
            let builder = if transformed { builder.map(copied(4096)) } else { builder };
            let mut loader = builder.build().unwrap();
            let batch = guarded("one batch", {
                let mut taken = None;
                move || {
                    taken.replace((loader.blocking().next().unwrap().unwrap(), loader));
                    taken
                }
            });
            let (batch, loader) = batch.unwrap();
            thread::sleep(Duration::from_millis(20));
            dropped("after one batch", loader);
            equal::check(&*dataset, &batch);
        }
    }
}

#[test]
fn a_loader_whose_transform_blocks_is_dropped_in_about_a_second() {
    let folder = folder();
    let dataset = records(folder.path(), "blocked", 4096, 100);
    for workers in [0, 1, 3] {
        let (release, gate) = mpsc::channel::<()>();
        let gate = std::sync::Mutex::new(gate);
        let (entered, was_entered) = mpsc::channel();
        let blocks = Map::new([TensorSpec::new("x", DType::U8, [1])], move |_, _| {
            let _ = entered.send(());
            let _ = gate.lock().unwrap().recv();
            Ok(())
        });
        let loader = Setting::new(4).builder(&dataset).workers(workers).map(blocks).build().unwrap();
        was_entered.recv_timeout(Duration::from_secs(10)).unwrap();
        guarded("drop", move || dropped(&format!("{workers} workers"), loader));
        drop(release);
    }
}

/// As where a dataset asks a server.
#[test]
fn a_loader_whose_dataset_blocks_is_dropped_in_about_a_second() {
    let folder = folder();
    let path = folder.path().join("x");
    std::fs::write(&path, [1; 100]).unwrap();
    let (release, gate) = mpsc::channel::<()>();
    let gate = std::sync::Mutex::new(gate);
    let dataset = Told::shared(&[path], 10, move |index, sample| -> Result<(), DatasetError> {
        let _ = gate.lock().unwrap().recv();
        push(sample, 0, index, 1);
        Ok(())
    });
    let loader = Setting::new(4).builder(&dataset).build().unwrap();
    guarded("drop", move || dropped("a dataset that blocks", loader));
    drop(release);
}

/// Batches hold what they need, not the loader.
#[test]
fn batches_outlive_their_loader() {
    let folder = folder();
    let dataset = records(folder.path(), "outlived", 3000, 64);
    let mut loader =
        Loader::builder(Arc::clone(&dataset)).shuffle(Shuffle::Full).batch_size(8).budget(2 << 20).build().unwrap();
    let batches: Vec<_> = loader.blocking().map(Result::unwrap).collect();
    let bytes = batches[3].tensor("record").unwrap().bytes().unwrap();
    drop(loader);
    batches.iter().for_each(|batch| equal::check(&*dataset, batch));
    let copy = bytes.to_vec();
    drop(batches);
    assert!(bytes == copy);
}
