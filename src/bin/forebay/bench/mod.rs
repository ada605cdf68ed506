//! `forebay bench`: how fast a file comes to a device by each way of reading it, and what holds each back.
//!
//! All that is measured is measured in turns: every round runs each case once, and the peer once beside it, so that what
//! the machine does meanwhile falls on all of them.

mod bound;
mod bytes;
mod cache;
mod case;
mod ceilings;
mod compare;
mod fio;
mod gdsio;
mod hardware;
mod html;
mod measure;
mod peer;
mod row;
mod sweep;
mod table;
mod target;
mod usage;
mod verify;

pub use sweep::Profile;

use std::path::Path;
use std::time::{Duration, Instant};

use forebay::{Device, Route};
use serde::Serialize;

use crate::args::{self, Common};
use crate::byte_count::shown;
use crate::failure::{Failure, Outcome};
use crate::interrupt::Interrupt;
use crate::stderr::{self, Progress};
use crate::stdout::Stdout;
use crate::{carrier, json};
use cache::Proven;
use case::{Cache, Case};
use ceilings::Ceilings;
use hardware::Hardware;
use measure::{Rig, Run};
use peer::Peer;
use row::{Latency, Row, VERSION, cache_name, median};
use target::Target;

/// Rounds, unless so many would leave each run too short: so few that chance is seen, and enough to compare reports by.
const ROUNDS: usize = 5;
/// A run shorter than this measures its beginning and its end.
const SHORTEST: Duration = Duration::from_millis(150);

pub fn run(common: &Common, bench: &args::Bench) -> Outcome {
    if let [before, after] = &bench.compare[..] {
        return compare::run(common.json, before, after);
    }
    let device = carrier::device(common)?;
    let interrupt = Interrupt::watching()?;
    let time = Duration::from_secs_f64(bench.seconds);
    let target = match &bench.path {
        Some(path) => Target::named(path)?,
        None => {
            let bar = std::cell::OnceCell::new();
            let progress = |done, all| bar.get_or_init(|| Progress::start(all)).reach(done);
            let size = bench.size.map(|size| size.0);
            Target::own(Path::new("."), size, time / 4, &|| interrupt.has_come(), &progress)?
        }
    };
    let page = bench.html.as_ref().map(|path| html::Page::at(path, &target)).transpose()?;
    let (mut contest, skipped) = Contest::new(common, bench, &device, target)?;
    skipped.iter().for_each(|why| stderr::line(&format!("warning: {why}")));
    if contest.entries.is_empty() {
        let why = skipped.first().map_or("nothing to measure", String::as_str);
        return Err(Failure::Error(format!("{}: no case can be measured: {why}", contest.target.name)));
    }
    contest.run(time, &interrupt)?;
    let (rows, summary) = contest.report(bench.verify, &interrupt)?;
    // Before stdout, which may be closed; a page that fails takes nothing from stdout.
    let written = page.map_or(Ok(()), |page| page.write(&rows, &summary));
    let mut stdout = Stdout::open()?;
    if common.json {
        for row in &rows {
            stdout.write(format!("{}\n", json::line(row)?).as_bytes())?;
        }
        stdout.write(format!("{}\n", json::line(&Last { summary: &summary })?).as_bytes())?;
    } else {
        stdout.write(summary.head().as_bytes())?;
        stdout.write(table::table(&rows, &summary.ceilings).as_bytes())?;
        stdout.write(summary.foot().as_bytes())?;
    }
    match rows.iter().find(|row| row.verified == Some(false)) {
        Some(row) => Err(Failure::Error(format!(
            "{}: the bytes that route {} with engine {} brought are not those of the file; report this",
            summary.target, row.route, row.engine
        ))),
        None if written.is_err() => written,
        None if summary.interrupted => Err(Failure::Interrupted),
        None => Ok(()),
    }
}

/// All cases, with what was measured of each.
struct Contest {
    target: Target,
    device: Device,
    file_system: String,
    entries: Vec<Entry>,
    peer: Option<Peer>,
    rounds: usize,
    /// Where time is short; not where so many were asked for.
    may_have_fewer: bool,
    hardware: Hardware,
    ceilings: Ceilings,
    warnings: Vec<String>,
    interrupted: bool,
}

struct Entry {
    case: Case,
    runs: Vec<Run>,
    peer: Vec<peer::Outcome>,
    before: Option<f64>,
    after: Option<f64>,
    proven: Proven,
    verified: Option<bool>,
}

impl Contest {
    fn new(
        common: &Common,
        bench: &args::Bench,
        device: &Device,
        target: Target,
    ) -> Result<(Self, Vec<String>), Failure> {
        let budget = common.budget.map_or(1 << 30, |budget| budget.0);
        let mut skipped = Vec::new();
        let mut entries = Vec::new();
        let mut file_system = None;
        for case in sweep::cases(common, bench, device) {
            if case.memory() > budget {
                let what = "takes more than the budget; raise it (--budget)";
                skipped.push(format!("{} at depth {}: {} {what}", shown(case.chunk), case.depth, shown(case.memory())));
                continue;
            }
            if case.chunk > target.len {
                skipped.push(format!("{}: larger than the file; name a larger one", shown(case.chunk)));
                continue;
            }
            match Rig::new(&case, device, &target.path) {
                Ok(rig) => file_system = Some(rig.file.file_system()),
                Err(Failure::Error(why)) => {
                    let what = format!("route {} is left out: {why}", case.route);
                    if !skipped.contains(&what) {
                        skipped.push(what);
                    }
                    continue;
                }
                Err(failure) => return Err(failure),
            }
            let (runs, peer) = (Vec::new(), Vec::new());
            entries.push(Entry {
                case,
                runs,
                peer,
                before: None,
                after: None,
                proven: Proven::Unknown,
                verified: None,
            });
        }
        let peer = bench.peers.then(|| Peer::of(device)).flatten();
        let contest = Self {
            hardware: Hardware::of(&target, device),
            device: device.clone(),
            file_system: file_system.unwrap_or_default(),
            entries,
            peer,
            rounds: bench.rounds.unwrap_or(ROUNDS),
            may_have_fewer: bench.rounds.is_none(),
            ceilings: Ceilings::default(),
            warnings: Vec::new(),
            interrupted: false,
            target,
        };
        Ok((contest, skipped))
    }

    /// As many rounds as `time` allows of runs that are long enough, in all.
    fn run(&mut self, time: Duration, interrupt: &Interrupt) -> Outcome {
        let sides = if self.peer.is_some() { 2 } else { 1 };
        let (memory, all) = ceilings::memory(Duration::from_millis(200));
        (self.ceilings.memory_copy, self.ceilings.memory_copy_all) = (memory, all);
        match self.device.link_rates(ceilings::LINK_CHUNK, Duration::from_millis(200)) {
            Ok(rates) => {
                self.ceilings.to_device = rates.map(|rates| rates.to_device);
                self.ceilings.to_host = rates.map(|rates| rates.to_host);
            }
            Err(error) => self.warnings.push(format!("the link to the device could not be measured: {error}")),
        }
        let turns = self.entries.len() * sides;
        let fitting = (time.as_secs_f64() / SHORTEST.as_secs_f64() / turns as f64) as usize;
        if fitting < self.rounds && self.may_have_fewer {
            self.warnings.push(format!(
                "{} cases in {:.0} s leave time for {} rounds in place of {}; give more (--seconds), or ask for fewer cases",
                self.entries.len(),
                time.as_secs_f64(),
                fitting.max(1),
                self.rounds
            ));
            self.rounds = fitting.max(1);
        }
        let each = (time / (turns * self.rounds) as u32).max(SHORTEST);
        let bar = Progress::of_steps((turns * self.rounds) as u64);
        let start = Instant::now();
        for round in 0..self.rounds {
            // What lies between the runs, such as filling the page cache, takes its time, too.
            if self.may_have_fewer && round > 0 && start.elapsed() / round as u32 * (round as u32 + 1) > time * 5 / 4 {
                self.warnings.push(format!(
                    "{round} rounds took {:.0} s of {:.0}, and no more were begun; give more (--seconds), or ask for \
                     fewer cases",
                    start.elapsed().as_secs_f64(),
                    time.as_secs_f64()
                ));
                self.rounds = round;
                break;
            }
            for number in 0..self.entries.len() {
                if interrupt.has_come() {
                    self.interrupted = true;
                    return Ok(());
                }
                self.turn(number, round as u64, each, interrupt)?;
                bar.advance(sides as u64);
            }
        }
        Ok(())
    }

    fn turn(&mut self, number: usize, round: u64, time: Duration, interrupt: &Interrupt) -> Outcome {
        let (target, entry) = (&self.target, &mut self.entries[number]);
        let told = |error: std::io::Error| Failure::Error(format!("{}: its page cache: {error}", target.name));
        let rig = Rig::new(&entry.case, &self.device, &target.path)?;
        // Once warm, a file stays so: only where somebody else empties the cache does this read it again.
        entry.proven =
            worse(entry.proven, cache::prepare(target, entry.case.cache).map_err(told)?, entry.runs.is_empty());
        if entry.case.cache == Cache::Warm && self.ceilings.page_cache_copy.is_none() {
            self.ceilings.page_cache_copy = ceilings::page_cache(target, Duration::from_millis(200));
        }
        let before = cache::share(target);
        let run = rig.run(&entry.case, time, round, &|| !interrupt.has_come())?;
        let after = cache::share(target);
        drop(rig);
        if interrupt.has_come() {
            return Ok(());
        }
        entry.before = most(entry.before, before);
        entry.after = most(entry.after, after);
        entry.runs.push(run);
        let Some(peer) = &self.peer else { return Ok(()) };
        cache::prepare(target, entry.case.cache).map_err(told)?;
        match peer.run(target, &entry.case, time, round + 1) {
            Ok(outcome) => entry.peer.extend(outcome),
            // It was interrupted with us.
            Err(_) if interrupt.has_come() => {}
            Err(why) => {
                self.warnings.push(format!("the comparison is left out: {why}"));
                self.peer = None;
            }
        }
        Ok(())
    }

    fn report(mut self, verify: bool, interrupt: &Interrupt) -> Result<(Vec<Row>, Summary), Failure> {
        if verify && !interrupt.has_come() {
            self.verify()?;
        }
        let before = &self.hardware;
        let now = Hardware::of(&self.target, &self.device);
        self.warnings.extend(now.warnings(before));
        let measured: Vec<&Entry> = self.entries.iter().filter(|entry| !entry.runs.is_empty()).collect();
        let rate = |entry: &Entry| median(&entry.runs.iter().map(Run::rate).collect::<Vec<_>>());
        let past_cache = |entry: &&&Entry| entry.case.route != Route::Cached;
        self.ceilings.drive = measured.iter().filter(past_cache).map(|entry| rate(entry)).reduce(f64::max);
        let rows: Vec<Row> = measured
            .iter()
            .map(|entry| {
                let alike = |other: &&&Entry| {
                    let (a, b) = (&entry.case, &other.case);
                    (a.pattern, a.chunk, a.route, a.cache) == (b.pattern, b.chunk, b.route, b.cache)
                        && b.in_flight() >= a.in_flight()
                };
                let best = measured.iter().filter(alike).map(|other| rate(other)).fold(0.0, f64::max);
                self.row(entry, best)
            })
            .collect();
        for row in &rows {
            let (before, after) = (row.cached_share_before.unwrap_or(0.0), row.cached_share_after.unwrap_or(0.0));
            if row.mode == "direct" && after > before + 0.05 {
                self.warnings.push(format!(
                    "direct reads of {} filled the page cache: the file system reads through it ({})",
                    shown(row.chunk),
                    self.file_system
                ));
            }
            if row.cache == "unproven" && before > 0.0 {
                self.warnings.push(format!(
                    "{:.1} % of the file stayed in the page cache: these rows are not cold; see who maps or locks it",
                    before * 100.0
                ));
            }
        }
        self.warnings.dedup();
        let summary = Summary {
            version: VERSION,
            target: self.target.name.clone(),
            target_bytes: self.target.len,
            file_system: self.file_system.clone(),
            drives: now.drives(),
            device: self.device.to_string(),
            kernel: forebay::facts::kernel_release(forebay::facts::proc()).unwrap_or_default(),
            processors: std::thread::available_parallelism().map_or(1, usize::from),
            rounds: self.rounds,
            peer: self.peer.as_ref().map(|peer| peer.name().to_owned()),
            ceilings: self.ceilings,
            rows: rows.len(),
            warnings: self.warnings.clone(),
            interrupted: self.interrupted || interrupt.has_come(),
        };
        Ok((rows, summary))
    }

    /// One case of each route and engine.
    fn verify(&mut self) -> Outcome {
        let mut seen: Vec<(Route, forebay::EngineChoice, bool)> = Vec::new();
        for number in 0..self.entries.len() {
            let case = self.entries[number].case.clone();
            let what = (case.route, case.engine, self.entries[number].verified.unwrap_or(true));
            let done = seen.iter().find(|(route, engine, _)| (*route, *engine) == (what.0, what.1)).copied();
            let right = match done {
                Some((.., right)) => right,
                None => {
                    let rig = Rig::new(&case, &self.device, &self.target.path)?;
                    let right = verify::verify(&rig, &self.target, number as u64)?.is_none();
                    seen.push((what.0, what.1, right));
                    right
                }
            };
            self.entries[number].verified = Some(right);
        }
        Ok(())
    }

    fn row(&self, entry: &Entry, best: f64) -> Row {
        let (case, runs) = (&entry.case, &entry.runs);
        let rates: Vec<f64> = runs.iter().map(Run::rate).collect();
        let bytes: u64 = runs.iter().map(|run| run.bytes).sum();
        let cpu_seconds: f64 = runs.iter().map(|run| run.used.cpu_seconds).sum();
        let latencies = runs.iter().fold(forebay::Latencies::default(), |all, run| all.and(&run.latencies));
        let quantile = |share| latencies.quantile(share).map(|time| time.as_secs_f64());
        let latency = quantile(0.5).zip(quantile(0.99)).zip(quantile(0.999));
        let (direct, buffered) =
            runs.iter().fold((0, 0), |sum, run| (sum.0 + run.direct_bytes, sum.1 + run.buffered_bytes));
        let routes = runs.iter().fold(forebay::RouteBytes::default(), |mut all, run| {
            all += run.routes;
            all
        });
        let engine = match case.engine {
            forebay::EngineChoice::Pread => "pread",
            _ => "uring",
        };
        let bytes_per_second = median(&rates);
        Row {
            version: VERSION,
            pattern: case.pattern,
            route: routes
                .by_name()
                .max_by_key(|(_, bytes)| *bytes)
                .map_or(case.route.to_string(), |(name, _)| name.into()),
            engine: engine.into(),
            device: self.device.to_string(),
            mode: match (direct, buffered) {
                (_, 0) => "direct",
                (0, _) => "buffered",
                _ => "mixed",
            }
            .into(),
            chunk: case.chunk,
            depth: case.depth,
            threads: case.threads,
            cache: self.cache_of(entry).into(),
            bytes,
            seconds: runs.iter().map(|run| run.seconds).sum(),
            bytes_per_second,
            runs: rates,
            cpu_seconds,
            cpu_seconds_per_gb: cpu_seconds / (bytes.max(1) as f64 / 1e9),
            latency_seconds: latency.map(|((p50, p99), p999)| Latency { p50, p99, p999 }),
            cached_share_before: entry.before,
            cached_share_after: entry.after,
            emulated: self.device.name().starts_with("Emulated"),
            peer: self.peer_of(entry),
            verified: entry.verified,
            bound: bound::bound(case, bytes_per_second, runs, &self.ceilings, best),
        }
    }

    fn cache_of(&self, entry: &Entry) -> &'static str {
        const IN_MEMORY: [&str; 2] = ["tmpfs", "ramfs"];
        match entry.proven {
            _ if IN_MEMORY.contains(&self.file_system.as_str()) => "memory",
            Proven::Yes => cache_name(entry.case.cache),
            Proven::Unknown | Proven::No(_) => "unproven",
        }
    }

    fn peer_of(&self, entry: &Entry) -> Option<row::Peer> {
        let name = self.peer.as_ref()?.name().to_owned();
        let runs: Vec<f64> = entry.peer.iter().map(|outcome| outcome.bytes_per_second).collect();
        let ratios: Vec<f64> = entry.runs.iter().zip(&runs).map(|(ours, theirs)| ours.rate() / theirs).collect();
        let latencies: Vec<[f64; 3]> = entry.peer.iter().filter_map(|outcome| outcome.latencies).collect();
        let latency = |which: usize| median(&latencies.iter().map(|run| run[which]).collect::<Vec<_>>());
        (!runs.is_empty()).then(|| row::Peer {
            name,
            bytes_per_second: median(&runs),
            latency_seconds: (!latencies.is_empty()).then(|| Latency {
                p50: latency(0),
                p99: latency(1),
                p999: latency(2),
            }),
            runs,
            ratio: median(&ratios),
        })
    }
}

/// What all runs together have proven.
fn worse(so_far: Proven, now: Proven, is_first: bool) -> Proven {
    match (so_far, now) {
        (_, now) if is_first => now,
        (Proven::No(share), Proven::No(other)) => Proven::No(share.max(other)),
        (Proven::No(share), _) | (_, Proven::No(share)) => Proven::No(share),
        (Proven::Unknown, _) | (_, Proven::Unknown) => Proven::Unknown,
        (Proven::Yes, Proven::Yes) => Proven::Yes,
    }
}

fn most(a: Option<f64>, b: Option<f64>) -> Option<f64> {
    match (a, b) {
        (Some(a), Some(b)) => Some(a.max(b)),
        (a, b) => a.or(b),
    }
}

#[derive(Serialize)]
struct Last<'a> {
    summary: &'a Summary,
}

#[derive(Serialize)]
struct Summary {
    version: u32,
    target: String,
    target_bytes: u64,
    file_system: String,
    drives: Vec<String>,
    device: String,
    kernel: String,
    processors: usize,
    rounds: usize,
    /// The program that was measured beside us, `null` where there was none.
    peer: Option<String>,
    ceilings: Ceilings,
    rows: usize,
    warnings: Vec<String>,
    /// SIGINT came before all rounds were done.
    interrupted: bool,
}

impl Summary {
    fn head(&self) -> String {
        let drives =
            if self.drives.is_empty() { "no drive that the kernel names".into() } else { self.drives.join(", ") };
        format!(
            "{}, {} on {}, {drives}; to {}; Linux {}, {} processors; {} rounds{}\n\n",
            self.target,
            shown(self.target_bytes),
            self.file_system,
            self.device,
            self.kernel,
            self.processors,
            self.rounds,
            self.peer.as_ref().map_or(String::new(), |peer| format!(", {peer} in turns")),
        )
    }

    fn foot(&self) -> String {
        let mut text: String = self.warnings.iter().map(|warning| format!("warning: {warning}\n")).collect();
        if self.interrupted {
            text.push_str("interrupted: this is what was measured until then\n");
        }
        text
    }
}

/// How long the whole takes, at most a day.
pub fn seconds(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(seconds) if seconds.is_finite() && (0.1..=86_400.0).contains(&seconds) => Ok(seconds),
        _ => Err("from 0.1 to 86400 seconds".into()),
    }
}
