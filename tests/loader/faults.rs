//! Storage that fails: the batches before it come, then an error that names the sample, and nothing after it.
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use forebay::dataset::{Corrupt, Dataset, TfRecord};
use forebay::loader::LoaderFault;
use forebay::{LoaderError, Shuffle};

use crate::common::fuse::{Fuse, Kind};
use crate::common::knobs::Fault;
use crate::common::reader::engines;
use crate::common::watchdog::guarded;
use crate::common::{data, folder};
use crate::drops::with_engine;
use crate::or_skip;
use crate::stream::{Setting, Taken, assert_same, drained, open_records};
use crate::transforms::Copied;

/// Which batch of the stream a sample is in, and the error that it ends with.
fn fails_at(what: &str, got: &[Taken], error: &LoaderError, want: &[Taken], index: u64, id: &str) {
    let batch = want.iter().position(|batch| batch.indices.contains(&index)).unwrap();
    assert_same(got, &want[..batch], what);
    assert_eq!(error.sample.as_deref(), Some(id), "{what}: {error}");
    assert_eq!((error.epoch, error.batch), (want[batch].epoch, want[batch].number), "{what}: {error}");
    assert!(error.to_string().contains(id) && !error.to_string().contains('\n'), "{what}: {error}");
}

const EIO: i32 = nix::libc::EIO;

/// With one batch in a window, and with many; by the loader's thread and by others; where rows are read to their place, and
/// where they are worked on.
#[test]
fn a_read_error_names_its_sample_and_comes_behind_the_batches_before_it() {
    let fuse = or_skip!(Fuse::mount(Kind::DirectIo));
    const RECORDS: u64 = 64;
    // So long that a block holds bytes of no other sample.
    for (bytes, budget) in [(4096, 4 << 20), (20_000, 1 << 20), (100_000, 3 << 20)] {
        let name = format!("eio-{bytes}");
        let path = fuse.add(&name, bytes, RECORDS * bytes);
        let dataset = open_records(&[&path], bytes);
        for engine in engines() {
            for (workers, transformed) in [(0, false), (3, false), (0, true), (3, true)] {
                for (shuffle, index) in [(Shuffle::None, 40), (Shuffle::Full, 17)] {
                    let what = format!("{bytes}, {engine:?}, {workers} workers, {shuffle}, transformed {transformed}");
                    let setting = Setting { shuffle, ..Setting::new(4) };
                    let want = setting.expected(&*dataset).unwrap();
                    let at = Some(index * bytes + bytes / 2);
                    fuse.knobs.fault(Some(Fault { after: 0, times: u64::MAX, at, errno: EIO }));
                    let builder = setting.builder(&dataset).workers(workers).budget(budget);
                    let builder = builder.carrier(with_engine(engine));
                    let builder = if transformed { builder.map(Copied) } else { builder };
                    let mut loader = builder.build().unwrap();
                    let (got, error) = guarded(&what, move || drained(&mut loader));
                    fuse.knobs.fault(None);
                    let error = error.unwrap_or_else(|| panic!("{what}: no error"));
                    fails_at(&what, &got, &error, &want, index, &index.to_string());
                    let LoaderFault::Carry(carry) = &error.fault else { panic!("{what}: {error}") };
                    assert_eq!(carry.path, path, "{what}");
                    let sample = index * bytes / 4096 * 4096..(index + 1) * bytes;
                    assert!(sample.contains(&carry.offset), "{what}: {error}");
                }
            }
        }
    }
}

/// An error that does not come again is none.
#[test]
fn a_read_that_fails_once_is_read_again() {
    let fuse = or_skip!(Fuse::mount(Kind::DirectIo));
    let path = fuse.add("once", 5, 64 * 5000);
    let dataset = open_records(&[&path], 5000);
    let setting = Setting::new(4);
    let want = setting.expected(&*dataset).unwrap();
    fuse.knobs.fault(Some(Fault { after: 0, times: 1, at: Some(33 * 5000), errno: EIO }));
    let failed = fuse.knobs.failed();
    let mut loader = setting.builder(&dataset).build().unwrap();
    let (got, error) = guarded("once", move || drained(&mut loader));
    assert!(error.is_none() && fuse.knobs.failed() > failed, "{error:?}");
    assert_same(&got, &want, "read again");
}

/// The second of two batches, each of nearly half of the memory, cannot be read: the samples are read one by one while the
/// first one is still there.
#[test]
fn samples_are_read_one_by_one_in_little_memory() {
    let fuse = or_skip!(Fuse::mount(Kind::DirectIo));
    const BYTES: u64 = 300_001;
    let path = fuse.add("little", 5, 6 * BYTES);
    let dataset = open_records(&[&path], BYTES);
    for (workers, budget) in [(0, 610_304 + 4096), (2, 610_304 + 4096), (0, 950_272), (0, 1 << 20), (0, 1_300_000)] {
        let what = format!("{workers} workers, {budget}");
        let setting = Setting { shuffle: Shuffle::None, ..Setting::new(1) };
        let want = setting.expected(&*dataset).unwrap();
        for index in [1, 2, 5] {
            let at = Some(index * BYTES + 5000);
            fuse.knobs.fault(Some(Fault { after: 0, times: u64::MAX, at, errno: EIO }));
            let mut loader = setting.builder(&dataset).workers(workers).budget(budget).build().unwrap();
            let (got, error) = guarded(&what, move || drained(&mut loader));
            fuse.knobs.fault(None);
            fails_at(&what, &got, &error.unwrap(), &want, index, &index.to_string());
        }
    }
}

/// A shard that changes while an epoch is under way is an error: neither a short epoch nor other bytes.
#[test]
fn a_shard_that_changes_during_the_epoch_is_an_error() {
    type Change = fn(&Path);
    let changes: [(&str, Change); 4] = [
        ("truncated", |path| {
            fs::File::options().write(true).open(path).unwrap().set_len(70_000).unwrap();
        }),
        ("emptied", |path| {
            fs::File::options().write(true).open(path).unwrap().set_len(0).unwrap();
        }),
        ("replaced", |path| {
            fs::write(path.with_extension("new"), vec![9; 64 * 4096]).unwrap();
            fs::rename(path.with_extension("new"), path).unwrap();
        }),
        ("unlinked", |path| fs::remove_file(path).unwrap()),
    ];
    for engine in engines() {
        for (name, change) in changes {
            let folder = folder();
            let paths: Vec<PathBuf> = (0..4).map(|i| folder.path().join(format!("{i}.bin"))).collect();
            paths.iter().zip(0..).for_each(|(path, seed)| data::write_dense(path, seed, 64 * 4096).unwrap());
            let dataset = open_records(&paths, 4096);
            let setting = Setting { shuffle: Shuffle::None, ..Setting::new(8) };
            let want = setting.expected(&*dataset).unwrap();
            let builder = setting.builder(&dataset).prefetch(2).budget(1 << 20).carrier(with_engine(engine));
            let mut loader = builder.build().unwrap();
            let first = loader.blocking().next().unwrap().unwrap();
            change(&paths[3]);
            let what = format!("{engine:?}, {name}");
            let (got, error) = guarded(&what, move || drained(&mut loader));
            drop(first);
            match error {
                Some(error) => {
                    assert_same(&got, &want[1..1 + got.len()], &what);
                    assert!(error.to_string().contains("3.bin"), "{what}: {error}");
                    assert!(got.len() + 1 >= 24, "{what}: those of the other shards come: {}", got.len());
                }
                None => panic!("{what}: no error"),
            }
        }
    }
}

/// What was opened before it was unlinked may be read to its end, but then it is read whole.
#[test]
fn an_open_shard_that_is_unlinked_is_read_whole_or_an_error() {
    let folder = folder();
    let path = folder.path().join("one.bin");
    data::write_dense(&path, 1, 400 * 4096).unwrap();
    let dataset = open_records(&[&path], 4096);
    let setting = Setting::new(8);
    let want = setting.expected(&*dataset).unwrap();
    let mut loader = setting.builder(&dataset).prefetch(1).build().unwrap();
    let first = loader.blocking().next().unwrap().unwrap();
    fs::remove_file(&path).unwrap();
    let (got, error) = guarded("unlinked", move || drained(&mut loader));
    drop(first);
    match error {
        None => assert_same(&got, &want[1..], "unlinked"),
        Some(error) => assert!(error.to_string().contains("one.bin"), "{error}"),
    }
}

pub fn masked(bytes: &[u8]) -> [u8; 4] {
    crc32c::crc32c(bytes).rotate_right(15).wrapping_add(0xa282_ead8).to_le_bytes()
}

/// A TFRecord file: record `i` has `lens[i]` bytes of the self-describing file of seed `i`. Gives where each begins.
pub fn write_tfrecords(path: &Path, lens: &[u64]) -> Vec<u64> {
    let (mut file, mut starts) = (Vec::new(), Vec::new());
    for (&len, seed) in lens.iter().zip(0..) {
        let header = len.to_le_bytes();
        file.extend_from_slice(&header);
        file.extend_from_slice(&masked(&header));
        starts.push(file.len() as u64);
        let payload = data::bytes(seed, 0, len);
        file.extend_from_slice(&payload);
        file.extend_from_slice(&masked(&payload));
    }
    fs::write(path, file).unwrap();
    starts
}

/// Turns one bit.
pub fn flip(path: &Path, offset: u64) {
    let mut bytes = fs::read(path).unwrap();
    bytes[offset as usize] ^= 0x10;
    fs::write(path, bytes).unwrap();
}

/// Row 120: a damaged payload in the middle of an epoch.
#[test]
fn a_record_that_is_damaged_is_an_error_that_names_it_behind_the_batches_before_it() {
    let folder = folder();
    let path = folder.path().join("damaged.tfrecord");
    let lens: Vec<u64> = (0..120).map(|i| 1 + i * 997 % 6000).collect();
    let starts = write_tfrecords(&path, &lens);
    let opened = || -> Arc<dyn Dataset> { Arc::new(TfRecord::open(&[&path], Corrupt::Refuse).unwrap()) };
    for index in [61_u64, 0, 119] {
        let settings = [Setting::new(4), Setting { shuffle: Shuffle::None, ..Setting::new(7) }];
        // The order does not depend on a file's times.
        let want = settings.map(|setting| setting.expected(&*opened()).unwrap());
        let at = starts[index as usize] + lens[index as usize] / 2;
        flip(&path, at);
        let dataset = opened();
        for (setting, want) in settings.iter().zip(want) {
            for (workers, transformed) in [(0, false), (3, false), (0, true), (3, true)] {
                let what = format!("{index}, {workers} workers, transformed {transformed}, {}", setting.shuffle);
                let builder = setting.builder(&dataset).workers(workers);
                let builder = if transformed { builder.map(Copied) } else { builder };
                let mut loader = builder.build().unwrap();
                let (got, error) = guarded(&what, move || drained(&mut loader));
                let error = error.unwrap_or_else(|| panic!("{what}: no error"));
                fails_at(&what, &got, &error, &want, index, &index.to_string());
                let LoaderFault::Dataset(fault) = &error.fault else { panic!("{what}: {error}") };
                assert_eq!(fault.path, path, "{what}");
                let start = starts[index as usize];
                let record = start - 12..start + lens[index as usize] + 4;
                assert!(fault.offset.is_some_and(|at| record.contains(&at)), "{what}: {error}");
            }
        }
        flip(&path, at);
    }
}
