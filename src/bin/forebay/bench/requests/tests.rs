use std::collections::HashSet;

use forebay::{EngineChoice, Route};

use super::*;
use crate::bench::case::Cache;

/// Reads at random of a sparse file, which are not carried out.
fn reads(len: u64, chunk: u64, depth: u32, seed: u64) -> Vec<u64> {
    let file = tempfile::NamedTempFile::new().unwrap();
    file.as_file().set_len(len).unwrap();
    let (route, cache) = (Route::Cached, Cache::Cold);
    let case = Case {
        pattern: Pattern::Random,
        device: 0,
        route,
        engine: EngineChoice::Pread,
        chunk,
        depth,
        threads: 1,
        cache,
        iopoll: false,
    };
    let opened = Reader::builder().engine(EngineChoice::Pread).build().unwrap().open(file.path()).unwrap();
    let mut order = Order::new(&case, len, seed);
    let (mut extents, mut all) = (Vec::new(), Vec::new());
    while order.next(&opened, &mut extents) {
        all.extend(extents.iter().map(Extent::offset));
    }
    all
}

#[test]
fn of_random_reads_of_a_cold_file_fewer_than_five_of_a_hundred_are_repeats() {
    for (len, chunk, depth) in
        [(1 << 30, 4 << 10, 32), (1 << 30, 128 << 10, 8), (64 << 20, 4 << 10, 1), (12 << 20, 128 << 10, 32)]
    {
        let (mut all, mut repeats) = (0, 0);
        for seed in 0..6 {
            let reads = reads(len, chunk, depth, seed);
            assert!(!reads.is_empty());
            all += reads.len();
            repeats += reads.len() - reads.iter().collect::<HashSet<_>>().len();
        }
        let share = repeats as f64 / all as f64;
        assert!(share < 0.05, "{len} by {chunk}, depth {depth}: {repeats} of {all}");
    }
}

#[test]
fn no_request_goes_beyond_the_part_that_is_read_while_cold() {
    for depth in [1, 8, 32, 300] {
        let chunks = 4096;
        let read = reads(chunks * 4096, 4096, depth, 7).len() as u64;
        assert!(read <= cache::drawn_while_cold(chunks).max(u64::from(depth)), "{depth}: {read}");
        assert!(read > 0);
    }
}

/// What a row is called is what the kernel was asked for.
#[test]
fn a_read_is_as_long_as_the_case_says_however_long_that_is() {
    let file = tempfile::NamedTempFile::new().unwrap();
    file.as_file().set_len(64 << 20).unwrap();
    for chunk in [64 << 10, 4 << 20, 16 << 20, 32 << 20] {
        let case = Case {
            pattern: Pattern::Sequential,
            device: 0,
            route: Route::Cached,
            engine: EngineChoice::Pread,
            chunk,
            depth: 1,
            threads: 1,
            cache: Cache::Warm,
            iopoll: false,
        };
        let requests = Requests::new(&case, &Device::host(), file.path()).unwrap_or_else(|why| panic!("{why:?}"));
        let run = requests.run(&case, Duration::from_millis(50), 1, &|| true).unwrap_or_else(|why| panic!("{why:?}"));
        assert!(run.bytes > 0);
        assert_eq!(run.latencies.reads() * chunk, run.bytes, "reads of {chunk}");
    }
}
