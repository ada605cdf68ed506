//! Few descriptors, little address space.
use forebay::{Mode, Reader};

use crate::SEED;
use crate::common::privilege::{self, NOBODY, Outside, Reduced};
use crate::common::reader::{self, Ask, CHUNK, ask};
use crate::common::{Rng, data};

#[test]
fn five_hundred_files_through_few_descriptors() {
    let outside = Outside::new();
    for i in 0..FILES {
        data::write_dense(&outside.path().join(i.to_string()), i, file_len(i)).unwrap();
    }
    let reduced = Reduced::new().user(NOBODY - 1).open_files(32);
    privilege::expect_child("RLIMIT_NOFILE 32", outside.rerun(&reduced, "limits::in_child_five_hundred_files"));
}

const FILES: u64 = 500;

fn file_len(i: u64) -> u64 {
    1 + i * 37 % 6000
}

#[test]
#[ignore = "a part of five_hundred_files_through_few_descriptors"]
fn in_child_five_hundred_files() {
    if !privilege::in_child() {
        return;
    }
    let mut rng = Rng::new(500);
    for row in reader::rows().into_iter().filter(|row| row.mode != Mode::Direct) {
        let reader = row.reader();
        let mut files: Vec<u64> = (0..FILES).chain(0..FILES).collect();
        rng.shuffle(&mut files);
        let asks: Vec<Ask> =
            files.iter().map(|i| ask(&privilege::child_dir().join(i.to_string()), 0, file_len(*i))).collect();
        let got = reader::read(&reader, &asks).unwrap_or_else(|e| panic!("{row}: {e}"));
        for (i, got) in files.iter().zip(&got) {
            data::check(got, *i, 0).unwrap_or_else(|wrong| panic!("{row}: file {i}: {wrong}"));
        }
    }
    privilege::child_done();
}

/// One pair of descriptors is all that is left, and many threads want one: they take turns.
#[test]
fn many_threads_through_the_last_descriptors() {
    let outside = Outside::new();
    for i in 0..THREADS {
        data::write_dense(&outside.path().join(i.to_string()), i, file_len(i)).unwrap();
    }
    let reduced = Reduced::new().open_files(64);
    privilege::expect_child("last descriptors", outside.rerun(&reduced, "limits::in_child_last_descriptors"));
}

const THREADS: u64 = 8;

#[test]
#[ignore = "a part of many_threads_through_the_last_descriptors"]
fn in_child_last_descriptors() {
    if !privilege::in_child() {
        return;
    }
    for engine in reader::engines() {
        let reader = reader::Row { engine, mode: Mode::Buffered }.reader();
        let mut others: Vec<_> = std::iter::from_fn(|| std::fs::File::open("/dev/null").ok()).collect();
        others.truncate(others.len() - 3);
        std::thread::scope(|scope| {
            for i in 0..THREADS {
                let reader = &reader;
                scope.spawn(move || {
                    let path = privilege::child_dir().join(i.to_string());
                    for _ in 0..200 {
                        let got = reader::read(reader, &[ask(&path, 0, file_len(i))]).unwrap();
                        data::check(&got[0], i, 0).unwrap();
                    }
                });
            }
        });
    }
    privilege::child_done();
}

/// Nothing may be mapped that grows with the file, and a budget that the address space cannot hold is an error.
#[test]
fn address_space_smaller_than_the_file() {
    let outside = Outside::new();
    let len = (4 << 30) + 999;
    data::write_islands(&outside.path().join("shard"), SEED, len, &data::boundary_islands(len)).unwrap();
    let reduced = Reduced::new().address_space(600 << 20);
    let mut command = outside.rerun(&reduced, "limits::in_child_small_address_space");
    // The allocator reserves address space for each thread that it gives an arena.
    command.env("MALLOC_ARENA_MAX", "1");
    privilege::expect_child("RLIMIT_AS 600 MiB", command);
}

#[test]
#[ignore = "a part of address_space_smaller_than_the_file"]
fn in_child_small_address_space() {
    if !privilege::in_child() {
        return;
    }
    let path = privilege::child_dir().join("shard");
    for row in reader::rows().into_iter().filter(|row| row.mode != Mode::Direct) {
        let reader = row.reader();
        for at in [data::MAX_RW, 1 << 31, 1 << 32] {
            let got =
                reader::read(&reader, &[ask(&path, at - CHUNK, CHUNK + 900)]).unwrap_or_else(|e| panic!("{row}: {e}"));
            data::check(&got[0], SEED, at - CHUNK).unwrap_or_else(|wrong| panic!("{row}: {wrong}"));
        }
        drop(reader);
        // Either it cannot be had at once, or not when it is needed; never an abort.
        let big = Reader::builder().engine(row.engine).mode(row.mode).budget(2 << 30).build();
        if let Ok(reader) = big {
            let read = reader::read(&reader, &[ask(&path, 0, 1 << 30)]);
            assert!(read.is_err(), "{row}: 1 GiB was read into 600 MiB of address space");
        }
    }
    privilege::child_done();
}
