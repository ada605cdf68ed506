//! What there is to try: settings, and the reads that they are tried with.

use std::fmt;

use forebay::{EngineChoice, EngineKind, ReaderSettings, Route};

use crate::args::{self, Common};
use crate::bench::case::{Cache, Case, Pattern};
use crate::bench::contest::Contest;
use crate::bench::sweep::{self, Work};
use crate::failure::Failure;

/// One setting that is varied while the others stay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dimension {
    Depth,
    Rings,
    Chunk,
    Engine,
    Polling,
}

impl Dimension {
    /// Those first that change most.
    pub const ALL: [Self; 5] = [Self::Depth, Self::Rings, Self::Chunk, Self::Engine, Self::Polling];
}

impl fmt::Display for Dimension {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Depth => "the depth",
            Self::Rings => "the number of rings",
            Self::Chunk => "the chunk",
            Self::Engine => "the engine",
            Self::Polling => "polling",
        })
    }
}

/// What is varied, between which values, and what it is tried with.
pub struct Plan {
    pub works: Vec<Work>,
    pub defaults: ReaderSettings,
    route: Route,
    engines: Vec<EngineKind>,
    depths: Vec<u32>,
    rings: Vec<u32>,
    chunks: Vec<u64>,
    polling: Vec<bool>,
    budget: u64,
}

const DEPTHS: [u32; 7] = [4, 8, 16, 32, 64, 128, 256];
/// No more than a carrier copies at once.
const CHUNKS: [u64; 5] = [256 << 10, 512 << 10, 1 << 20, 2 << 20, 4 << 20];
/// More threads than this the pool has not.
const POOL: u32 = 16;
const POOL_DEPTHS: [u32; 5] = [1, 2, 4, 8, POOL];
const MOST_RINGS: u32 = 8;

impl Plan {
    pub fn new(common: &Common, bench: &args::Bench, contest: &Contest) -> Result<Self, Failure> {
        let engines = match (common.engine, sweep::engines(common)[0]) {
            (args::Engine::Auto, EngineChoice::Uring) => vec![EngineKind::Uring, EngineKind::Pread],
            (_, EngineChoice::Uring) => vec![EngineKind::Uring],
            _ => vec![EngineKind::Pread],
        };
        let is_pool = engines[0] == EngineKind::Pread;
        let processors = std::thread::available_parallelism().map_or(1, usize::from) as u32;
        let or = |asked: &[u32], usual: Vec<u32>| if asked.is_empty() { usual } else { asked.to_vec() };
        let depths = or(&bench.depth, if is_pool { POOL_DEPTHS.to_vec() } else { DEPTHS.to_vec() });
        let rings = (0..).map(|power| 1 << power).take_while(|&rings| rings <= processors.min(MOST_RINGS));
        let rings = or(&bench.threads, rings.collect());
        let grain = |chunk: &u64| chunk.is_multiple_of(64 << 10);
        let works = bench.profile.works(&bench.chunk);
        let is_cut = works.iter().any(|work| work.pattern == Pattern::Sequential);
        // Of reads at random the flag says how long they are, which is none of a reader's settings.
        let asked = bench.chunk.iter().map(|chunk| chunk.0).filter(|chunk| is_cut && grain(chunk));
        let asked: Vec<u64> = asked.collect();
        let is_only_cut = works.iter().all(|work| work.pattern == Pattern::Sequential);
        if is_only_cut && asked.is_empty() && !bench.chunk.is_empty() {
            return Err(Failure::Error(
                "reads in order are cut at multiples of 64 KiB; give --chunk some of those".into(),
            ));
        }
        let chunks = if asked.is_empty() { CHUNKS.to_vec() } else { asked };
        let longest =
            works.iter().map(|work| work.len).chain(chunks.iter().copied().filter(|_| is_cut)).max().unwrap_or(4096);
        let polling = match (&bench.iopoll[..], contest.hardware.can_poll_for(longest)) {
            ([], Ok(())) => vec![false, true],
            ([], Err(_)) => vec![false],
            (asked, _) => asked.to_vec(),
        };
        let mut plan = Self {
            defaults: ReaderSettings::DEFAULT,
            route: match common.route {
                args::Route::Direct => {
                    let why = "cuFile reads with threads of its own, and of a reader nothing is to be tuned for it";
                    return Err(Failure::Error(format!("{why}; tune --route bounce or cached")));
                }
                args::Route::Cached => Route::Cached,
                args::Route::Auto | args::Route::Bounce => Route::Bounce,
            },
            chunks,
            works,
            engines,
            depths,
            rings,
            polling,
            budget: common.budget.map_or(1 << 30, |budget| budget.0),
        };
        if is_cut {
            plan.chunks.retain(|chunk| *chunk <= contest.target.len);
        }
        plan.defaults = plan.usual();
        plan.see_route(common, contest)?;
        match Dimension::ALL.iter().any(|&dimension| plan.field(dimension, plan.defaults).len() > 1) {
            true => Ok(plan),
            false => Err(Failure::Error(
                "the flags leave one value of each setting, and nothing to choose between; give several with commas \
                 (--depth 8,32), or leave some flags out"
                    .into(),
            )),
        }
    }

    /// What a reader, or a loader, does without being told; where that is not among what may be tried, what is next to it.
    fn usual(&self) -> ReaderSettings {
        let is_loader = self.works.iter().all(|work| work.pattern == Pattern::Loader);
        let mut usual = ReaderSettings::DEFAULT;
        usual.engine = self.engines[0];
        usual.depth = match usual.engine {
            EngineKind::Pread => nearest(&self.depths, POOL).min(POOL),
            _ => nearest(&self.depths, usual.depth),
        };
        usual.rings = match usual.engine {
            EngineKind::Pread => 1,
            _ => nearest(&self.rings, if is_loader { 2 } else { usual.rings }),
        };
        usual.chunk = nearest(&self.chunks, usual.chunk);
        usual.iopoll = self.polling[0];
        usual
    }

    /// Takes the page cache where there is nothing to read past it, and that was not asked for.
    fn see_route(&mut self, common: &Common, contest: &Contest) -> Result<(), Failure> {
        let Some(work) = self.works.first() else {
            return Err(Failure::Error("there is nothing to tune with; ask for another --profile".into()));
        };
        let try_out = |case: &Case| contest.try_out(case).map(drop).map_err(Failure::from);
        let tried = try_out(&self.case(work, &self.defaults));
        match tried {
            Err(why) if common.route == args::Route::Auto => {
                self.route = Route::Cached;
                // What holds for every route is told of the first.
                try_out(&self.case(work, &self.defaults)).map_err(|_| why)
            }
            tried => tried,
        }
    }

    /// Candidates that differ in one dimension, those with `best` among them, and that the machine has room for.
    pub fn field(&self, dimension: Dimension, best: ReaderSettings) -> Vec<ReaderSettings> {
        let is_pool = best.engine == EngineKind::Pread;
        let with = |change: &dyn Fn(&mut ReaderSettings)| {
            let mut settings = best;
            change(&mut settings);
            settings
        };
        let mut field: Vec<ReaderSettings> = match dimension {
            Dimension::Depth => {
                let depths = self.depths.iter().filter(|&&depth| !is_pool || depth <= POOL);
                depths.map(|&depth| with(&|settings| settings.depth = depth)).collect()
            }
            Dimension::Rings if !is_pool => {
                self.rings.iter().map(|&rings| with(&|settings| settings.rings = rings)).collect()
            }
            Dimension::Chunk if self.works.iter().any(|work| work.pattern == Pattern::Sequential) => {
                self.chunks.iter().map(|&chunk| with(&|settings| settings.chunk = chunk)).collect()
            }
            Dimension::Engine => self.engines.iter().map(|&engine| of_engine(best, engine)).collect(),
            Dimension::Polling if !is_pool && self.route == Route::Bounce => {
                self.polling.iter().map(|&iopoll| with(&|settings| settings.iopoll = iopoll)).collect()
            }
            Dimension::Rings | Dimension::Chunk | Dimension::Polling => Vec::new(),
        };
        if !field.contains(&best) {
            field.push(best);
        }
        field.retain(|settings| *settings == best || self.fits(settings));
        field
    }

    fn fits(&self, settings: &ReaderSettings) -> bool {
        self.works.iter().all(|work| self.case(work, settings).memory() <= self.budget)
    }

    /// A case for each kind of read.
    pub fn entries(&self, contest: &mut Contest, settings: &ReaderSettings) -> Result<Vec<usize>, Failure> {
        self.works.iter().map(|work| contest.entry(&self.case(work, settings)).map_err(Failure::from)).collect()
    }

    fn case(&self, work: &Work, settings: &ReaderSettings) -> Case {
        Case {
            pattern: work.pattern,
            device: 0,
            route: self.route,
            engine: match settings.engine {
                EngineKind::Pread => EngineChoice::Pread,
                _ => EngineChoice::Uring,
            },
            chunk: if work.pattern == Pattern::Sequential { settings.chunk } else { work.len },
            depth: settings.depth,
            threads: settings.rings,
            cache: Cache::Cold,
            iopoll: settings.iopoll,
        }
    }
}

/// The same for another engine: the pool has no rings, and no more than so many threads.
fn of_engine(settings: ReaderSettings, engine: EngineKind) -> ReaderSettings {
    let mut other = settings;
    other.engine = engine;
    if engine == EngineKind::Pread {
        other.depth = other.depth.min(POOL);
        other.rings = 1;
        other.iopoll = false;
    }
    other
}

fn nearest<T: Copy + PartialOrd + std::ops::Sub<Output = T>>(values: &[T], to: T) -> T {
    let apart = |value: T| if value > to { value - to } else { to - value };
    values.iter().copied().reduce(|a, b| if apart(b) < apart(a) { b } else { a }).unwrap_or(to)
}
