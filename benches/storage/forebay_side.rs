//! Our side of a run, through the public interface, as a loader would use it.

use std::collections::VecDeque;
use std::time::Instant;

use forebay::{EngineChoice, EngineKind, Extent, File, Mode, Read, Reader};

use crate::machine;
use crate::random::Random;
use crate::workload::{Outcome, Pattern, Workload};

/// Requests under way at once: the queue stays full while one is taken, and no more memory goes round than that needs.
const REQUESTS: usize = 2;

pub fn run(engine: &str, mode: &str, budget: u64, work: &Workload) -> Result<Outcome, String> {
    let engine = match engine {
        "uring" => EngineChoice::Uring,
        "pread" => EngineChoice::Pread,
        other => return Err(format!("unknown engine {other}")),
    };
    let mode = match mode {
        "auto" => Mode::Auto,
        "direct" => Mode::Direct,
        "buffered" => Mode::Buffered,
        other => return Err(format!("unknown mode {other}")),
    };
    let mut builder = Reader::builder().engine(engine).mode(mode).budget(budget).depth(work.depth).prefault(true);
    if engine == EngineChoice::Uring {
        builder = builder.rings(work.jobs);
    }
    if work.pattern == Pattern::Sequential {
        builder = builder.chunk(work.block);
    }
    let reader = builder.build().map_err(|e| e.to_string())?;
    let file = reader.open(&work.file).map_err(|e| e.to_string())?;

    let cpu_before = machine::own_cpu_seconds();
    let start = Instant::now();
    let bytes = match work.pattern {
        Pattern::Sequential => sequential(&reader, &file, work)?,
        Pattern::Random => random(&reader, &file, work)?,
    };
    let seconds = start.elapsed().as_secs_f64();
    let cpu_seconds = machine::own_cpu_seconds() - cpu_before;

    let note = note(&reader, mode, work);
    Ok(Outcome { bytes, seconds, cpu_seconds, peak_rss: machine::peak_rss(), note })
}

/// One stream over the file, again and again.
fn sequential(reader: &Reader, file: &File, work: &Workload) -> Result<u64, String> {
    let passes = (0..work.bytes).step_by(work.file_len as usize);
    let extents = passes.map(|done| Extent::new(file, 0, (work.bytes - done).min(work.file_len)));
    let mut stream = reader.stream(extents);
    let mut bytes = 0;
    while let Some(part) = stream.next_blocking() {
        bytes += part.map_err(|e| e.to_string())?.len() as u64;
    }
    Ok(bytes)
}

/// Requests of many blocks each, as for a batch of samples.
fn random(reader: &Reader, file: &File, work: &Workload) -> Result<u64, String> {
    // At least the depth, and small enough that the requests under way stay within a processor's cache, as fio's do.
    let per_request = ((1 << 20) / work.block).clamp(u64::from(work.depth), 256);
    let mut blocks = Blocks::new(work);
    let mut extents = Vec::with_capacity(per_request as usize);
    let mut under_way: VecDeque<Read> = VecDeque::with_capacity(REQUESTS);
    let (mut bytes, mut asked) = (0, 0);
    while asked < work.bytes || !under_way.is_empty() {
        if asked < work.bytes && under_way.len() < REQUESTS {
            let count = per_request.min((work.bytes - asked) / work.block);
            extents.clear();
            extents.extend(blocks.request(count).map(|block| Extent::new(file, block * work.block, work.block)));
            asked += count * work.block;
            under_way.push_back(reader.read(&extents));
            continue;
        }
        let Some(read) = under_way.pop_front() else { break };
        let pieces = read.wait().map_err(|e| e.to_string())?;
        bytes += pieces.iter().map(|piece| piece.len() as u64).sum::<u64>();
    }
    Ok(bytes)
}

/// Uniformly random blocks. Within one request no two are the same or neighbours, or we would read them at once and
/// fio would not.
struct Blocks {
    random: Random,
    count: u64,
    /// A bit per block that the request has.
    taken: Vec<u64>,
    request: Vec<u64>,
}

impl Blocks {
    fn new(work: &Workload) -> Self {
        let count = work.file_len / work.block;
        // A block of room at both ends.
        let taken = vec![0; (count as usize + 2).div_ceil(64)];
        Self { random: Random::new(work.seed), count, taken, request: Vec::new() }
    }

    fn request(&mut self, count: u64) -> impl Iterator<Item = u64> {
        self.request.clear();
        while (self.request.len() as u64) < count {
            let block = self.random.below(self.count);
            if !(block..=block + 2).any(|bit| self.taken[bit as usize / 64] & (1 << (bit % 64)) != 0) {
                self.taken[(block + 1) as usize / 64] |= 1 << ((block + 1) % 64);
                self.request.push(block);
            }
        }
        for block in &self.request {
            self.taken[(block + 1) as usize / 64] = 0;
        }
        self.request.iter().copied()
    }
}

/// What would make the comparison another one than the table says.
fn note(reader: &Reader, mode: Mode, work: &Workload) -> Option<String> {
    let stats = reader.stats();
    let through_cache = stats.bytes_buffered as f64 / (stats.bytes_buffered + stats.bytes_direct).max(1) as f64;
    let mut notes = Vec::new();
    if mode == Mode::Auto && (work.warm && through_cache < 0.99 || !work.warm && through_cache > 0.01) {
        notes.push(format!("{:.0} % of our bytes came through the page cache", through_cache * 100.0));
    }
    if reader.engine() == EngineKind::Uring
        && reader.ring_features().is_some_and(|ring| !ring.fixed_buffers || !ring.fixed_files)
    {
        notes.push("our ring has no fixed buffers or no fixed files".into());
    }
    (!notes.is_empty()).then(|| notes.join("; "))
}
