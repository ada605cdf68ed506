//! One run of a case: what was read, how long it took, and what that cost.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use forebay::{Carrier, Carry, Device, Extent, File, Latencies, Reader, RouteBytes};

use super::bytes::Random;
use super::cache;
use super::case::{Cache, Case, Pattern, REQUESTS};
use super::usage::{Usage, Used};
use crate::failure::Failure;

/// A carrier that does what a case says, with the file opened.
pub struct Rig {
    pub carrier: Carrier,
    pub file: File,
}

/// What one run came to.
#[derive(Clone, Debug, Default)]
pub struct Run {
    pub bytes: u64,
    pub seconds: f64,
    pub used: Used,
    pub latencies: Latencies,
    pub routes: RouteBytes,
    pub direct_bytes: u64,
    pub buffered_bytes: u64,
}

impl Run {
    pub fn rate(&self) -> f64 {
        if self.seconds > 0.0 { self.bytes as f64 / self.seconds } else { 0.0 }
    }
}

impl Rig {
    pub fn new(case: &Case, device: &Device, path: &std::path::Path) -> Result<Self, Failure> {
        const GRAIN: u64 = 64 << 10;
        let reader = Reader::builder()
            .engine(case.engine)
            .depth(case.depth)
            .rings(case.threads)
            .chunk(case.chunk.next_multiple_of(GRAIN))
            .coalesce_gap(0)
            .latencies(true);
        let memory = case.memory();
        let carrier = Carrier::builder().device(device).reader(reader).route(case.route).budget(memory);
        let carrier = carrier.device_budget(memory).build().map_err(Failure::of)?;
        let file = carrier.open(path).map_err(Failure::of)?;
        Ok(Self { carrier, file })
    }

    /// Reads for `time`; a cold page cache no more than once over. `more` is asked between requests.
    pub fn run(&self, case: &Case, time: Duration, seed: u64, more: &dyn Fn() -> bool) -> Result<Run, Failure> {
        let once = case.route == forebay::Route::Cached && case.cache == Cache::Cold;
        let mut order = Order::new(case, self.file.len(), seed, once);
        let mut under_way: VecDeque<Carry> = VecDeque::with_capacity(REQUESTS);
        let mut extents = Vec::new();
        let mut run = Run::default();
        let (reader, before) = (self.carrier.reader(), Usage::now());
        let (latencies, stats) = (reader.latencies().unwrap_or_default(), reader.stats());
        let start = Instant::now();
        loop {
            let go_on = start.elapsed() < time && more();
            if go_on && under_way.len() < REQUESTS && order.next(&self.file, &mut extents) {
                under_way.push_back(self.carrier.carry(&extents));
                continue;
            }
            let Some(carry) = under_way.pop_front() else { break };
            let landed = carry.wait().map_err(Failure::of)?;
            run.bytes += landed.carried().total();
            run.routes += landed.carried();
        }
        run.seconds = start.elapsed().as_secs_f64();
        run.used = before.until(&Usage::now(), run.seconds);
        run.latencies = reader.latencies().unwrap_or_default().since(&latencies);
        run.direct_bytes = reader.stats().bytes_direct - stats.bytes_direct;
        run.buffered_bytes = reader.stats().bytes_buffered - stats.bytes_buffered;
        Ok(run)
    }
}

/// Which reads come next.
struct Order {
    pattern: Pattern,
    chunk: u64,
    /// Whole chunks in the file; the rest of it is read in order only.
    chunks: u64,
    len: u64,
    reads: u64,
    /// Where the next request begins, or how many reads there were.
    at: u64,
    random: Random,
    once: bool,
    /// Reads of the request that is made, sorted.
    taken: Vec<u64>,
}

impl Order {
    fn new(case: &Case, len: u64, seed: u64, once: bool) -> Self {
        let chunks = (len / case.chunk).max(1);
        Self {
            pattern: case.pattern,
            chunk: case.chunk.min(len),
            chunks,
            len,
            // No two neighbours in one request, or they would be read at once: a third of all can be had.
            reads: case.reads_a_request().min((chunks / 4).max(1)),
            at: 0,
            random: Random::new(seed),
            once,
            taken: Vec::new(),
        }
    }

    /// The next request; false at the end.
    fn next(&mut self, file: &File, extents: &mut Vec<Extent>) -> bool {
        extents.clear();
        match self.pattern {
            Pattern::Sequential => {
                if self.at == self.len {
                    if self.once {
                        return false;
                    }
                    self.at = 0;
                }
                let len = (self.reads * self.chunk).min(self.len - self.at);
                extents.push(Extent::new(file, self.at, len));
                self.at += len;
            }
            Pattern::Random => {
                // The first request repeats nothing, however large it is.
                if self.once && self.at > 0 && self.at + self.reads > cache::drawn_while_cold(self.chunks) {
                    return false;
                }
                self.at += self.reads;
                self.taken.clear();
                while (self.taken.len() as u64) < self.reads {
                    let chunk = self.random.below(self.chunks);
                    let place = self.taken.partition_point(|&other| other < chunk);
                    let near = |other: Option<&u64>| other.is_some_and(|other| other.abs_diff(chunk) <= 1);
                    if self.reads > 1
                        && (near(self.taken.get(place)) || near(place.checked_sub(1).and_then(|i| self.taken.get(i))))
                    {
                        continue;
                    }
                    self.taken.insert(place, chunk);
                    extents.push(Extent::new(file, chunk * self.chunk, self.chunk));
                }
            }
        }
        true
    }
}

#[cfg(test)]
mod tests;
