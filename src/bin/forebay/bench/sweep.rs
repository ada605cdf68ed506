//! Which cases are measured: a profile's, with what was asked for in place of its own.

use clap::ValueEnum;
use forebay::{DeviceKind, EngineChoice, Route};

use super::case::{Cache, Case, Pattern};
use crate::args;

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
}

/// Patterns with their chunks, depths and threads.
struct Grid {
    pattern: Pattern,
    chunks: &'static [u64],
    depths: &'static [u32],
    threads: &'static [u32],
}

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;

impl Profile {
    fn grids(self) -> Vec<Grid> {
        let sequential = |chunks, depths, threads| Grid { pattern: Pattern::Sequential, chunks, depths, threads };
        let random = |chunks, depths, threads| Grid { pattern: Pattern::Random, chunks, depths, threads };
        match self {
            Self::All => vec![
                sequential(&[MIB], &[1, 8, 32], &[1]),
                random(&[4 * KIB], &[1, 32], &[1, 2]),
                random(&[128 * KIB], &[8, 32], &[1]),
            ],
            Self::Sequential => vec![sequential(&[256 * KIB, MIB, 4 * MIB], &[2, 8, 32], &[1])],
            Self::Random => vec![random(&[4 * KIB, 16 * KIB, 128 * KIB], &[1, 8, 32], &[1, 2])],
            Self::Tokens => vec![random(&[4 * KIB], &[32, 128], &[1, 2])],
            Self::Images => vec![random(&[152 * KIB], &[8, 32], &[1, 2])],
            Self::Checkpoint => vec![sequential(&[MIB, 4 * MIB], &[8, 32], &[1, 2])],
        }
    }
}

/// All that is to be measured, in an order in which neighbours can be compared.
pub fn cases(common: &args::Common, bench: &args::Bench, device: &forebay::Device) -> Vec<Case> {
    let engines = match common.engine {
        args::Engine::Auto => match forebay::Reader::builder().budget(1 << 20).build() {
            Ok(reader) if reader.engine() == forebay::EngineKind::Uring => vec![EngineChoice::Uring],
            _ => vec![EngineChoice::Pread],
        },
        args::Engine::Uring => vec![EngineChoice::Uring],
        args::Engine::Pread => vec![EngineChoice::Pread],
    };
    let routes = match common.route {
        args::Route::Auto if device.kind() == DeviceKind::Host => vec![Route::Bounce, Route::Cached],
        args::Route::Auto => vec![Route::Direct, Route::Bounce, Route::Cached],
        args::Route::Direct => vec![Route::Direct],
        args::Route::Bounce => vec![Route::Bounce],
        args::Route::Cached => vec![Route::Cached],
    };
    let mut cases: Vec<Case> = Vec::new();
    for grid in bench.profile.grids() {
        let chunks: Vec<u64> = match bench.chunk.is_empty() {
            true => grid.chunks.to_vec(),
            false => bench.chunk.iter().map(|chunk| chunk.0).collect(),
        };
        let depths = if bench.depth.is_empty() { grid.depths.to_vec() } else { bench.depth.clone() };
        let threads = if bench.threads.is_empty() { grid.threads.to_vec() } else { bench.threads.clone() };
        let deepest = depths.iter().copied().max().unwrap_or(1);
        let most = threads.iter().copied().max().unwrap_or(1);
        for &engine in &engines {
            for &route in &routes {
                for &chunk in &chunks {
                    for &depth in &depths {
                        for &threads in &threads {
                            let case =
                                |cache| Case { pattern: grid.pattern, route, engine, chunk, depth, threads, cache };
                            match route {
                                // How deep does not change much of what memory gives: only at the ends of the grid.
                                Route::Cached if depth == deepest && threads == most => {
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
    }
    let mut kept: Vec<Case> = Vec::new();
    for case in cases {
        // Reads in order are cut where a reader cuts them.
        let fits = case.pattern == Pattern::Random || case.chunk.is_multiple_of(64 * KIB);
        // The pool has no rings: threads are its depth.
        let is_own = case.engine != EngineChoice::Pread || (case.threads == 1 && case.depth <= 16);
        if fits && is_own && !kept.contains(&case) {
            kept.push(case);
        }
    }
    // So that the page cache is filled once a round.
    kept.sort_by_key(|case| case.cache == Cache::Warm);
    kept
}
