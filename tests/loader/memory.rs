//! Memory is what the budget says and little more, nothing of it is written to while somebody holds it, and the heap is
//! not asked for something by every sample.
use std::alloc::{GlobalAlloc, Layout, System};
use std::fs::File;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use forebay::Shuffle;
use forebay::dataset::{self, Dataset};
use forebay::loader::{LoaderFault, Stage};

use crate::common::folder;
use crate::common::privilege::{Outside, Reduced, child_dir, child_done, expect_child_within, in_child};
use crate::common::reader::engines;
use crate::common::watchdog::guarded;
use crate::datasets::{Told, push};
use crate::drops::with_engine;
use crate::formats::{array, zipped};
use crate::processes::status;
use crate::stream::{Setting, open_records, records, taken};
use crate::transforms::Copied;

/// Counts how often the heap is asked, and the bytes in use, by all threads.
struct Counting;

static ASKED: AtomicU64 = AtomicU64::new(0);
static IN_USE: AtomicUsize = AtomicUsize::new(0);

// SAFETY: the system's allocator does it all.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ASKED.fetch_add(1, Ordering::Relaxed);
        IN_USE.fetch_add(layout.size(), Ordering::Relaxed);
        // SAFETY: as the caller promises.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        IN_USE.fetch_sub(layout.size(), Ordering::Relaxed);
        // SAFETY: as the caller promises.
        unsafe { System.dealloc(at, layout) }
    }

    unsafe fn realloc(&self, at: *mut u8, layout: Layout, len: usize) -> *mut u8 {
        ASKED.fetch_add(1, Ordering::Relaxed);
        IN_USE.fetch_add(len, Ordering::Relaxed);
        IN_USE.fetch_sub(layout.size(), Ordering::Relaxed);
        // SAFETY: as the caller promises.
        unsafe { System.realloc(at, layout, len) }
    }
}

#[global_allocator]
static HEAP: Counting = Counting;

/// What it may take beside its budget.
const MORE: u64 = 24 << 20;

fn hole(path: &Path, len: u64) {
    File::create(path).unwrap().set_len(len).unwrap();
}

/// Rows 126 and 127: four times as much data as there is memory, in batches of an eighth of it.
#[test]
fn much_data_takes_no_more_memory_than_the_budget() {
    let child = Outside::new();
    let command = child.rerun(&Reduced::new(), "memory::in_child_much_data");
    eprintln!("{}", expect_child_within("much data", command, Duration::from_secs(60)));
}

#[test]
#[ignore = "a part of another test"]
fn in_child_much_data() {
    if !in_child() {
        return;
    }
    const BUDGET: u64 = 48 << 20;
    let path = child_dir().join("much.bin");
    hole(&path, 4 * BUDGET);
    let dataset = open_records(&[path], 1 << 20);
    let before = status("VmHWM:");
    for engine in engines() {
        for (transformed, prefetch) in [(false, 64), (true, 64), (true, 1)] {
            let builder = Setting::new(6).builder(&dataset).budget(BUDGET).prefetch(prefetch);
            let builder = builder.carrier(with_engine(engine));
            let builder = if transformed { builder.map(Copied) } else { builder };
            let mut loader = builder.build().unwrap();
            let samples: usize = loader.blocking().map(|batch| batch.unwrap().len()).sum();
            assert_eq!(samples as u64, (4 * BUDGET) >> 20);
            drop(loader);
            let peak = status("VmHWM:");
            eprintln!("{engine:?}, transformed {transformed}: {before} before, {peak} at most");
            assert!(peak <= before + BUDGET + MORE, "{engine:?}, transformed {transformed}: {before}, then {peak}");
        }
    }
    child_done();
}

/// Row 125.
#[test]
fn small_and_large_samples_by_turns_keep_to_the_budget() {
    let child = Outside::new();
    let command = child.rerun(&Reduced::new(), "memory::in_child_by_turns");
    eprintln!("{}", expect_child_within("by turns", command, Duration::from_secs(60)));
}

#[test]
#[ignore = "a part of another test"]
fn in_child_by_turns() {
    if !in_child() {
        return;
    }
    const LARGE: u64 = 8 << 20;
    const BUDGET: u64 = 20 << 20;
    let path = child_dir().join("turns.bin");
    hole(&path, LARGE + 4096);
    // Every sample lies in the same few bytes: what is read is not kept.
    let dataset: Arc<dyn Dataset> = Told::shared(&[path], 10_000, |index, sample| {
        push(sample, 0, index % 3 * 512, if index % 200 == 1 { LARGE } else { 1024 });
        Ok(())
    });
    let before = status("VmHWM:");
    for batch_size in [1, 3] {
        let setting = Setting { shuffle: Shuffle::None, ..Setting::new(batch_size) };
        let mut loader = setting.builder(&dataset).budget(BUDGET).prefetch(64).build().unwrap();
        let mut last = None;
        for batch in loader.blocking() {
            // One is held while the next is awaited, as training does.
            last = Some(batch.unwrap());
        }
        drop(last);
        let peak = status("VmHWM:");
        eprintln!("batches of {batch_size}: {before} before, {peak} at most");
        assert!(peak <= before + BUDGET + MORE, "batches of {batch_size}: {before}, then {peak}");
    }
    child_done();
}

/// Row 124: of samples that are just larger than a power of two, nearly as many fit as the budget has bytes for.
#[test]
fn samples_of_a_power_of_two_and_one_byte_cost_hardly_more() {
    let folder = folder();
    for (bytes, budget) in [((1 << 20) + 1, 32 << 20), ((64 << 10) + 1, 4 << 20), ((2 << 20) + 1, 64 << 20)] {
        let path = folder.path().join(format!("{bytes}.bin"));
        hole(&path, bytes * 64);
        let dataset = open_records(&[path], bytes);
        let builder = Setting::new(1).builder(&dataset).budget(budget).prefetch(1);
        let mut loader = builder.deadline(Duration::from_millis(400)).build().unwrap();
        let held = guarded("held", move || {
            let mut held = Vec::new();
            loop {
                match loader.blocking().next().unwrap() {
                    Ok(batch) => held.push(batch),
                    Err(error) => {
                        assert!(matches!(error.fault, LoaderFault::Stalled { stage: Stage::Memory, .. }), "{error}");
                        return held.len() as u64;
                    }
                }
            }
        });
        // One more is under way, with what is read beside it.
        let least = (budget as f64 / 1.125 / bytes as f64) as u64 - 2;
        assert!(held >= least, "{held} of {bytes} bytes are in {budget}, and {least} should be");
    }
}

/// Row 128.
#[test]
fn what_is_held_is_not_written_to() {
    let folder = folder();
    let dataset = records(folder.path(), "x", 20_000, 300);
    for (transformed, batch_size) in [(false, 4), (true, 4), (true, 1)] {
        let setting = Setting { epochs: 2, ..Setting::new(batch_size) };
        let builder = setting.builder(&dataset);
        let builder = if transformed { builder.map(Copied) } else { builder };
        let mut loader = builder.build().unwrap();
        guarded("held", move || {
            while let Some(batch) = loader.blocking().next() {
                let batch = batch.unwrap();
                let before = taken(&batch);
                let shared = batch.tensor("record").unwrap().bytes().unwrap();
                loader.blocking().take(8).for_each(|other| drop(other.unwrap()));
                assert!(taken(&batch) == before, "batch {} has changed", batch.number());
                drop(batch);
                loader.blocking().take(2).for_each(|other| drop(other.unwrap()));
                let rows: Vec<u8> = before.rows.iter().flat_map(|row| row[0].2.clone()).collect();
                assert!(shared == rows, "a shared tensor of batch {} has changed", before.number);
            }
        });
    }
}

/// Eight times as many samples in as many batches ask little more of the heap.
#[test]
fn the_heap_is_not_asked_by_every_sample() {
    let child = Outside::new();
    let command = child.rerun(&Reduced::new(), "memory::in_child_allocations");
    eprintln!("{}", expect_child_within("allocations", command, Duration::from_secs(60)));
}

#[test]
#[ignore = "a part of another test"]
fn in_child_allocations() {
    if !in_child() {
        return;
    }
    const BATCHES: u64 = 40;
    for (transformed, workers) in [(false, 0), (true, 0), (true, 2)] {
        for engine in engines() {
            let [few, many] = [64, 512].map(|batch_size| {
                let dataset = records(&child_dir(), &format!("{batch_size}"), 160, batch_size * BATCHES);
                let setting = Setting { epochs: 4, ..Setting::new(batch_size) };
                let builder = setting.builder(&dataset).prefetch(1).workers(workers).carrier(with_engine(engine));
                let builder = if transformed { builder.map(Copied) } else { builder };
                let mut loader = builder.build().unwrap();
                let mut before = 0;
                for batch in loader.blocking() {
                    let batch = batch.unwrap();
                    if (batch.epoch(), batch.number()) == (2, 0) {
                        before = ASKED.load(Ordering::Relaxed);
                    }
                    if (batch.epoch(), batch.number()) == (3, 0) {
                        before = ASKED.load(Ordering::Relaxed) - before;
                        break;
                    }
                }
                before / BATCHES
            });
            eprintln!("{engine:?}, transformed {transformed}: {few} and {many} a batch");
            assert!(
                few > 0 && many < 2 * few + 20,
                "{engine:?}, transformed {transformed}: {few}, then {many} a batch"
            );
        }
    }
    child_done();
}

/// What the check of an archive's CRC-32 keeps of the rows that were read: a bit each, in whatever order they come.
#[test]
fn the_check_of_an_archives_checksum_keeps_a_bit_a_row() {
    let child = Outside::new();
    let command = child.rerun(&Reduced::new(), "memory::in_child_archive");
    eprintln!("{}", expect_child_within("an archive", command, Duration::from_secs(100)));
}

#[test]
#[ignore = "a part of another test"]
fn in_child_archive() {
    if !in_child() {
        return;
    }
    const ROWS: u64 = 1 << 20;
    let path = child_dir().join("rows.npz");
    let array = array(ROWS, 3);
    std::fs::write(&path, zipped(&[("x.npy", array.clone())])).unwrap();
    let dataset = dataset::open(&[path], &dataset::OpenOptions::new()).unwrap();
    let row = |row: u64| &array[array.len() - (ROWS - row) as usize * 6..][..6];
    let before = IN_USE.load(Ordering::Relaxed);
    // Every 4,099th, which is a prime: all blocks of rows are there at the same time.
    let mut most = before;
    for i in 0..ROWS {
        let at = i * 4099 % ROWS;
        dataset.check(at, &[row(at)]).unwrap();
        if i.is_multiple_of(1 << 14) {
            most = most.max(IN_USE.load(Ordering::Relaxed));
        }
    }
    eprintln!("{before} before, {most} at most");
    assert!(most <= before + (1 << 20), "{before}, then {most}");
    child_done();
}
