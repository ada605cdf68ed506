//! Which cases are measured: a profile's, with what was asked for in place of its own.

use std::fmt;

use clap::ValueEnum;
use forebay::{DeviceKind, EngineChoice, Route};

use super::case::{Cache, Case, Pattern};
use crate::args;
use crate::byte_count::ByteCount;
use crate::failure::{Failure, Outcome};

/// What people read for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Profile {
    /// A little of everything
    All,
    /// A file in order
    Sequential,
    /// Reads of 4 to 128 KiB at random
    Random,
    /// Windows of 2 KiB of tokens at random: a block of 4 KiB each
    Tokens,
    /// Pictures of 150 KiB at random
    Images,
    /// A checkpoint of some large files, in order
    Checkpoint,
    /// Batches of 32 records of 150 KiB in full shuffle, by the loader that training uses
    Loader,
}

/// As `--profile` takes it.
impl fmt::Display for Profile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.to_possible_value().as_ref().map_or("", clap::builder::PossibleValue::get_name))
    }
}

/// Reads that are all alike: in order, or at random.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Work {
    pub pattern: Pattern,
    /// Bytes of a read at random.
    pub len: u64,
}

/// Patterns with their chunks, depths and threads.
struct Grid {
    pattern: Pattern,
    chunks: &'static [u64],
    depths: &'static [u32],
    threads: &'static [u32],
    /// The only one of the routes, and of the engines, where there is but one.
    route: Option<Route>,
    engine: Option<EngineChoice>,
}

/// A picture, as it lies in a file of such: no whole number of blocks.
const RECORD: u64 = 150 * KIB;

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;

impl Profile {
    /// The kinds of its reads, with lengths as they were asked for: of reads in order one, whose length is the reader's.
    pub fn works(self, lens: &[ByteCount]) -> Vec<Work> {
        let mut works = Vec::new();
        for grid in self.grids() {
            let asked: Vec<u64> = lens.iter().map(|len| len.0).collect();
            let lens = match grid.pattern {
                Pattern::Sequential => &grid.chunks[..1],
                _ if asked.is_empty() => grid.chunks,
                _ => &asked,
            };
            works.extend(lens.iter().map(|&len| Work { pattern: grid.pattern, len }));
        }
        let mut kept: Vec<Work> = Vec::new();
        for work in works {
            if !kept.contains(&work) {
                kept.push(work);
            }
        }
        kept
    }

    fn grids(self) -> Vec<Grid> {
        let grid =
            |pattern, chunks, depths, threads| Grid { pattern, chunks, depths, threads, route: None, engine: None };
        let sequential = |chunks, depths, threads| grid(Pattern::Sequential, chunks, depths, threads);
        let random = |chunks, depths, threads| grid(Pattern::Random, chunks, depths, threads);
        let loader = |depths, threads| grid(Pattern::Loader, &[RECORD], depths, threads);
        let pool = |grid| Grid { route: Some(Route::Bounce), engine: Some(EngineChoice::Pread), ..grid };
        match self {
            Self::All => vec![
                sequential(&[MIB], &[1, 8, 32], &[1]),
                random(&[4 * KIB], &[1, 32], &[1, 2]),
                random(&[128 * KIB], &[8, 32], &[1]),
                Grid { route: Some(Route::Bounce), ..loader(&[32], &[1]) },
                pool(sequential(&[MIB], &[8], &[1])),
                pool(random(&[4 * KIB], &[16], &[1])),
            ],
            Self::Sequential => vec![sequential(&[256 * KIB, MIB, 4 * MIB], &[2, 8, 32], &[1])],
            Self::Random => vec![random(&[4 * KIB, 16 * KIB, 128 * KIB], &[1, 8, 32], &[1, 2])],
            Self::Tokens => vec![random(&[4 * KIB], &[32, 128], &[1, 2])],
            Self::Images => vec![random(&[152 * KIB], &[8, 32], &[1, 2])],
            Self::Checkpoint => vec![sequential(&[MIB, 4 * MIB], &[8, 32], &[1, 2])],
            Self::Loader => vec![loader(&[8, 32], &[1, 2])],
        }
    }
}

/// Refuses what makes no sense, before anything is opened.
pub fn check(bench: &args::Bench) -> Outcome {
    let odd = bench.chunk.iter().find(|chunk| !chunk.0.is_multiple_of(4 * KIB));
    match odd.filter(|_| bench.profile != Profile::Loader) {
        None => Ok(()),
        Some(chunk) => Err(Failure::Usage(format!(
            "--chunk {}: no multiple of 4096, which reads past the page cache are; only records may have any length \
             (--profile loader)",
            chunk.0
        ))),
    }
}

/// All that is to be measured, in an order in which neighbours can be compared, to devices of these kinds. `can_poll` says whether the drive's queue can
/// be polled.
pub fn cases(common: &args::Common, bench: &args::Bench, devices: &[DeviceKind], can_poll: bool) -> Vec<Case> {
    let engines = engines(common);
    let ways: Vec<(usize, Route)> = devices
        .iter()
        .enumerate()
        .flat_map(|(number, kind)| routes(common, *kind).into_iter().map(move |route| (number, route)))
        .collect();
    let mut cases: Vec<Case> = Vec::new();
    for grid in bench.profile.grids() {
        let chunks: Vec<u64> = match bench.chunk.is_empty() {
            true => grid.chunks.to_vec(),
            false => bench.chunk.iter().map(|chunk| chunk.0).collect(),
        };
        let depths = if bench.depth.is_empty() { grid.depths.to_vec() } else { bench.depth.clone() };
        let threads = if bench.threads.is_empty() { grid.threads.to_vec() } else { bench.threads.clone() };
        let engines = match grid.engine {
            Some(only) if common.engine == args::Engine::Auto || engines == [only] => vec![only],
            Some(_) => Vec::new(),
            None => engines.clone(),
        };
        for engine in engines {
            let all = depths.iter().flat_map(|depth| threads.iter().map(|threads| (*depth, *threads)));
            // The pool has no rings: threads are its depth.
            let is_own =
                |(depth, threads): &(u32, u32)| engine != EngineChoice::Pread || (*threads == 1 && *depth <= 16);
            let queues: Vec<(u32, u32)> = all.filter(is_own).collect();
            let deepest = queues.iter().max();
            let of_grid = |(_, route): &&(usize, Route)| grid.route.is_none_or(|only| only == *route);
            for &(device, route) in ways.iter().filter(of_grid) {
                for &chunk in &chunks {
                    // cuFile takes whole blocks: for it a profile's own records are rounded up to them.
                    let is_rounded = route == Route::Direct && bench.chunk.is_empty();
                    let chunk = if is_rounded { chunk.next_multiple_of(4 * KIB) } else { chunk };
                    for queue in &queues {
                        let (pattern, (depth, threads)) = (grid.pattern, *queue);
                        let iopoll = false;
                        let case =
                            |cache| Case { pattern, device, route, engine, chunk, depth, threads, cache, iopoll };
                        match route {
                            // How deep does not change much of what memory gives: only at the end of the grid.
                            Route::Cached if Some(queue) == deepest => {
                                cases.extend([case(Cache::Cold), case(Cache::Warm)]);
                            }
                            Route::Cached => {}
                            _ => cases.push(case(Cache::Cold)),
                        }
                    }
                }
            }
        }
    }
    let mut kept: Vec<Case> = Vec::new();
    for case in cases {
        // Reads in order are cut where a reader cuts them.
        let fits = case.pattern != Pattern::Sequential || case.chunk.is_multiple_of(64 * KIB);
        if fits && !kept.contains(&case) {
            kept.push(case);
        }
    }
    let mut kept = polled(kept, bench, can_poll);
    // So that the page cache is filled once a round.
    kept.sort_by_key(|case| case.cache == Cache::Warm);
    kept
}

/// What is asked for, of what there is to a device of this kind.
fn routes(common: &args::Common, kind: DeviceKind) -> Vec<Route> {
    let is_host = kind == DeviceKind::Host;
    match common.route {
        args::Route::Auto if is_host => vec![Route::Bounce, Route::Cached],
        args::Route::Auto => vec![Route::Direct, Route::Bounce, Route::Cached],
        args::Route::Direct => vec![Route::Direct],
        args::Route::Bounce => vec![Route::Bounce],
        args::Route::Cached => vec![Route::Cached],
    }
}

/// What is asked for; else the one that a reader takes of itself.
pub fn engines(common: &args::Common) -> Vec<EngineChoice> {
    match common.engine {
        args::Engine::Auto => match forebay::Reader::builder().budget(1 << 20).build() {
            Ok(reader) if reader.engine() == forebay::EngineKind::Uring => vec![EngineChoice::Uring],
            _ => vec![EngineChoice::Pread],
        },
        args::Engine::Uring => vec![EngineChoice::Uring],
        args::Engine::Pread => vec![EngineChoice::Pread],
    }
}

/// The same cases polled, each beside its like: as was asked for, or the one of a profile that polling is for.
fn polled(cases: Vec<Case>, bench: &args::Bench, can_poll: bool) -> Vec<Case> {
    let has_one = matches!(bench.profile, Profile::All | Profile::Random) && can_poll && bench.iopoll.is_empty();
    let small = |case: &&Case| case.pattern == Pattern::Random && case.chunk == 4 * KIB && case.may_poll();
    let own = if has_one { cases.iter().filter(small).max_by_key(|case| case.in_flight()).cloned() } else { None };
    let is_asked = |iopoll: bool| if bench.iopoll.is_empty() { !iopoll } else { bench.iopoll.contains(&iopoll) };
    let ways = |case: Case| {
        let iopoll = is_asked(true) && case.may_poll() || own.as_ref() == Some(&case);
        let plain = is_asked(false).then(|| case.clone());
        plain.into_iter().chain(iopoll.then_some(Case { iopoll, ..case }))
    };
    cases.into_iter().flat_map(ways).collect()
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    fn cases(flags: &[&str], can_poll: bool) -> Vec<Case> {
        let usual = (!flags.iter().any(|flag| flag.starts_with("--engine"))).then_some("--engine=uring");
        let flags = ["forebay", "bench", "--device=host"].into_iter().chain(usual).chain(flags.iter().copied());
        let args::Cli { command, common } = args::Cli::parse_from(flags);
        let args::Command::Bench(bench) = command else { panic!("not a bench") };
        super::cases(&common, &bench, &[DeviceKind::Host], can_poll)
    }

    #[test]
    fn the_deepest_small_reads_are_polled_too_where_the_queue_can_be() {
        for profile in ["--profile=random", "--profile=all"] {
            let with = cases(&[profile], true);
            let polled: Vec<&Case> = with.iter().filter(|case| case.iopoll).collect();
            let [case] = polled[..] else { panic!("{polled:?}") };
            assert_eq!(
                (case.pattern, case.route, case.chunk, case.depth, case.threads),
                (Pattern::Random, Route::Bounce, 4 * KIB, 32, 2)
            );
            // Beside it, for the comparison.
            let at = with.iter().position(|other| other == case).unwrap();
            assert_eq!(with[at - 1], Case { iopoll: false, ..case.clone() });
            let without: Vec<Case> = with.iter().filter(|case| !case.iopoll).cloned().collect();
            assert_eq!(cases(&[profile], false), without);
        }
        for flags in
            [&["--profile=images"][..], &["--profile=random", "--iopoll=false"], &["--profile=random", "--chunk=16KiB"]]
        {
            assert!(cases(flags, true).iter().all(|case| !case.iopoll), "{flags:?}");
        }
    }

    #[test]
    fn what_is_asked_for_is_polled_and_nothing_that_cannot_be() {
        let polled = cases(&["--profile=sequential", "--iopoll=true"], false);
        assert!(
            polled.iter().all(|case| case.iopoll && case.route == Route::Bounce) && polled.len() == 9,
            "{polled:?}"
        );
        let both = cases(&["--profile=sequential", "--iopoll=true,false"], false);
        let plain = cases(&["--profile=sequential"], false);
        assert_eq!(both.len(), plain.len() + polled.len());
        assert_eq!(cases(&["--engine=pread", "--iopoll=true"], true), []);
    }

    #[test]
    fn all_has_rows_of_the_pool_beside_those_of_the_rings_and_who_asks_for_one_engine_has_no_other() {
        let of = |engine: &str| cases(&["--profile=all", engine], false);
        let is_pool = |case: &&Case| case.engine == EngineChoice::Pread;
        let both = of("--engine=auto");
        assert!(both.iter().filter(is_pool).count() >= 2);
        assert_eq!(of("--engine=uring").iter().filter(is_pool).count(), 0);
        assert!(of("--engine=pread").iter().all(|case| is_pool(&case)));
    }

    #[test]
    fn all_has_one_row_of_the_loader_and_its_profile_nothing_else() {
        let all = cases(&["--profile=all"], false);
        let of_loader: Vec<&Case> = all.iter().filter(|case| case.pattern == Pattern::Loader).collect();
        let [case] = of_loader[..] else { panic!("{of_loader:?}") };
        assert_eq!((case.route, case.chunk, case.depth, case.threads), (Route::Bounce, RECORD, 32, 1));
        let pool = cases(&["--profile=loader", "--engine=pread"], false);
        assert_eq!(
            pool.iter().map(|case| (case.route, case.depth)).collect::<Vec<_>>(),
            [(Route::Bounce, 8), (Route::Cached, 8), (Route::Cached, 8)]
        );
        let own = cases(&["--profile=loader"], false);
        assert!(own.iter().all(|case| case.pattern == Pattern::Loader), "{own:?}");
        assert_eq!(own.iter().filter(|case| case.route == Route::Bounce).count(), 4);
        let caches: Vec<Cache> = own.iter().filter(|case| case.route == Route::Cached).map(|case| case.cache).collect();
        assert_eq!(caches, [Cache::Cold, Cache::Warm]);
    }
}
