//! Reads as a carrier is asked for them: two requests under way, so that the queue is full while one is taken.

use std::collections::VecDeque;
use std::path::Path;
use std::time::{Duration, Instant};

use forebay::{Carrier, Carry, Device, Extent, File, Reader};

use super::bytes::Random;
use super::cache;
use super::case::{Case, Pattern, REQUESTS};
use super::measure::Run;
use super::usage::Usage;
use crate::failure::Failure;

/// A carrier that does what a case says, with the file opened.
pub struct Requests {
    pub carrier: Carrier,
    pub file: File,
}

impl Requests {
    pub fn new(case: &Case, device: &Device, path: &Path) -> Result<Self, Failure> {
        const GRAIN: u64 = 64 << 10;
        let reader = Reader::builder()
            .engine(case.engine)
            .depth(case.depth)
            .rings(case.threads)
            .chunk(case.chunk.next_multiple_of(GRAIN))
            .coalesce_gap(0)
            .iopoll(case.iopoll)
            .latencies(true)
            // What the first touch of memory costs is no part of a rate.
            .prefault(true);
        let memory = case.memory();
        let carrier = Carrier::builder().device(device).reader(reader).route(case.route).budget(memory);
        // What is copied at once bounds what is read at once.
        let carrier = carrier.chunk(case.chunk.max(4 << 20));
        let carrier = carrier.device_budget(memory).build().map_err(Failure::of)?;
        let file = carrier.open(path).map_err(Failure::of)?;
        Ok(Self { carrier, file })
    }

    /// Whether what a case is about can be had, by doing it.
    pub fn try_out(&self, case: &Case) -> Result<(), Failure> {
        if !case.iopoll {
            return Ok(());
        }
        let first = Extent::new(&self.file, 0, case.chunk.min(4096));
        self.carrier.carry_blocking(&[first]).map_err(Failure::of)?;
        match self.carrier.reader().stats().polled {
            0 => {
                let system = self.file.file_system();
                Err(Failure::Error(format!("{system}, or its ring, does not poll; name a block device")))
            }
            _ => Ok(()),
        }
    }

    /// Reads for `time`; a cold page cache no more than once over. `more` is asked between requests.
    pub fn run(&self, case: &Case, time: Duration, seed: u64, more: &dyn Fn() -> bool) -> Result<Run, Failure> {
        if !case.is_once_over() {
            // What the first read of a file costs beside itself, such as making it known to the ring, is no part of its rate.
            let first = Extent::new(&self.file, 0, case.chunk.min(self.file.len()));
            self.carrier.carry_blocking(&[first]).map_err(Failure::of)?;
        }
        let mut order = Order::new(case, self.file.len(), seed);
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
        run.count(&stats, &reader.stats());
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
    fn new(case: &Case, len: u64, seed: u64) -> Self {
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
            once: case.is_once_over(),
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
            Pattern::Random | Pattern::Loader => {
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
