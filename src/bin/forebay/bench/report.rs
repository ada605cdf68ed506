//! What was measured as rows, each with what bounded it, and a summary of all.

use forebay::{DeviceKind, Route};

use super::bound;
use super::cache::Proven;
use super::case::{Cache, Case};
use super::ceilings;
use super::contest::{Contest, Entry};
use super::hardware::Hardware;
use super::invocation;
use super::lost::Lost;
use super::measure::Run;
use super::row::{self, Latency, Row, VERSION, cache_name, median};
use super::sentence::Figure::Percent;
use super::sentence::Sentence;
use super::summary::Summary;
use super::tune::Tuned;
use crate::failure::Failure;
use crate::interrupt::Interrupt;

impl Contest {
    pub fn report(
        mut self,
        verify: bool,
        tuned: Option<Tuned>,
        interrupt: &Interrupt,
    ) -> Result<(Vec<Row>, Summary), Failure> {
        if verify && !interrupt.has_come() {
            self.verify()?;
        }
        let before = &self.hardware;
        let now = Hardware::of(&self.target, &self.ends[0].device);
        now.warnings(before).into_iter().for_each(|warning| self.warnings.say(warning));
        let places: Vec<usize> =
            (0..self.entries.len()).filter(|&place| !self.entries[place].runs.is_empty()).collect();
        let measured: Vec<&Entry> = places.iter().map(|&place| &self.entries[place]).collect();
        let rate = |entry: &Entry| median(&entry.runs.iter().map(Run::rate).collect::<Vec<_>>());
        let past_cache = |entry: &&&Entry| entry.case.route != Route::Cached;
        self.ceilings.drive = measured.iter().filter(past_cache).map(|entry| rate(entry)).reduce(f64::max);
        let rows: Vec<Row> = measured
            .iter()
            .map(|entry| {
                let alike = |other: &&&Entry| {
                    let (a, b) = (&entry.case, &other.case);
                    let way =
                        |case: &Case| (case.device, case.pattern, case.chunk, case.route, case.cache, case.iopoll);
                    way(a) == way(b) && b.in_flight() >= a.in_flight()
                };
                let best = measured.iter().filter(alike).map(|other| rate(other)).fold(0.0, f64::max);
                let no_more_reads = |other: &&&Entry| {
                    let (a, b) = (&entry.case, &other.case);
                    (a.pattern, a.chunk, a.iopoll) == (b.pattern, b.chunk, b.iopoll) && b.in_flight() <= a.in_flight()
                };
                let is_same_way =
                    |other: &Entry| (other.case.device, other.case.route) == (entry.case.device, entry.case.route);
                let most = |same: bool| {
                    let all = measured.iter().filter(past_cache).filter(no_more_reads);
                    all.filter(|other| is_same_way(other) == same).map(|other| rate(other)).fold(0.0, f64::max)
                };
                let row = self.row(entry, best);
                let bound = match entry.case.route {
                    Route::Cached => row.bound,
                    _ => bound::beside_way(row.bound, most(true), most(false)),
                };
                Row { bound, ..row }
            })
            .collect();
        for ((row, &place), entry) in rows.iter().zip(&places).zip(&measured) {
            let (before, after) = (row.cached_share_before.unwrap_or(0.0), row.cached_share_after.unwrap_or(0.0));
            if row.mode == "direct" && after > before + 0.05 {
                let what = format!("filled the page cache: the file system reads through it ({})", self.file_system);
                self.warnings.say_of(place, format!("direct reads {what}"));
            }
            if row.cache == "unproven" && before > 0.0 {
                let (what, fix) = match entry.case.cache {
                    Cache::Cold => ("stayed in the page cache: these rows are not cold", "see who maps or locks it"),
                    Cache::Warm => ("was in the page cache: these rows are not warm", "see who takes the memory"),
                };
                let share = Sentence::new("").with(Percent(before)).and(format!(" of the file {what}; {fix}"));
                self.warnings.say_of(place, share);
            }
        }
        let lost: Vec<Lost> = self
            .entries
            .iter()
            .filter_map(|entry| Lost::of(&entry.case, self.device_of(&entry.case), entry.runs.len(), &entry.lost))
            .collect();
        let summary = Summary {
            version: VERSION,
            began: invocation::utc(self.began),
            command: invocation::quoted(std::env::args_os()),
            target: self.target.name.clone(),
            target_bytes: self.target.len,
            file_system: self.file_system.clone(),
            drives: now.drives(),
            device: listed(self.ends.iter().map(|end| end.device.to_string())),
            kernel: forebay::facts::kernel_release(forebay::facts::proc()).unwrap_or_default(),
            processors: ceilings::processors(),
            rounds: self.rounds,
            peer: Some(listed(self.ends.iter().filter_map(|end| Some(end.peer.as_ref()?.name().to_owned()))))
                .filter(|names| !names.is_empty()),
            ceilings: self.ceilings.clone(),
            tuned,
            rows: rows.len(),
            lost,
            fault: self.fault.clone(),
            warnings: self.warnings.told(|entry| places.iter().position(|place| *place == entry).map(|row| row + 1)),
            interrupted: self.interrupted || interrupt.has_come(),
        };
        Ok((rows, summary))
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
        let bytes_per_second = median(&rates);
        let peer = self.peer_of(entry);
        let device = self.device_of(case);
        let is_host = device.kind() == DeviceKind::Host;
        let ceilings = if is_host { &self.ceilings.beside_gpus() } else { &self.ceilings };
        let bound = bound::bound(case, bytes_per_second, runs, ceilings, best);
        let bound = match &peer {
            Some(peer) => bound::beside_peer(bound, case, bytes_per_second, peer.bytes_per_second),
            None => bound,
        };
        Row {
            version: VERSION,
            pattern: case.pattern,
            route: routes
                .by_name()
                .max_by_key(|(_, bytes)| *bytes)
                .map_or(case.route.to_string(), |(name, _)| name.into()),
            engine: case.engine_name().into(),
            device: device.to_string(),
            mode: match (direct, buffered) {
                (_, 0) => "direct",
                (0, _) => "buffered",
                _ => "mixed",
            }
            .into(),
            chunk: case.chunk,
            depth: case.depth,
            threads: case.threads,
            iopoll: runs.iter().all(|run| run.polled > 0),
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
            // What the tests' stand-in calls itself, and no GPU does.
            emulated: device.name().starts_with("Emulated"),
            peer,
            verified: entry.verified,
            bound,
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
        let name = self.ends[entry.case.device].peer.as_ref()?.name().to_owned();
        let runs: Vec<f64> = entry.peer.iter().map(|(_, outcome)| outcome.bytes_per_second).collect();
        let ours = entry.peer.iter().filter_map(|(run, theirs)| Some((entry.runs.get(*run)?, theirs)));
        let ratios: Vec<f64> = ours.map(|(ours, theirs)| ours.rate() / theirs.bytes_per_second).collect();
        let latencies: Vec<[f64; 3]> = entry.peer.iter().filter_map(|(_, outcome)| outcome.latencies).collect();
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

/// Names of several, each once, in the order in which they came first.
fn listed(names: impl Iterator<Item = String>) -> String {
    let mut known = Vec::new();
    for name in names {
        if !known.contains(&name) {
            known.push(name);
        }
    }
    known.join(", ")
}
