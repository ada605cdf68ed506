//! What was measured as rows, each with what bounded it, and a summary of all.

use std::collections::HashSet;

use forebay::{DeviceKind, Route};

use super::bound;
use super::cache::Proven;
use super::case::Case;
use super::ceilings;
use super::contest::{Contest, Entry};
use super::hardware::Hardware;
use super::invocation;
use super::measure::Run;
use super::row::{self, Latency, Row, VERSION, cache_name, median};
use super::summary::Summary;
use super::tune::Tuned;
use crate::byte_count::shown;
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
            warnings: each_once(&self.warnings),
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
        let engine = match case.engine {
            forebay::EngineChoice::Pread => "pread",
            _ => "uring",
        };
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
            engine: engine.into(),
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

/// Names of several, each once.
fn listed(names: impl Iterator<Item = String>) -> String {
    each_once(&names.collect::<Vec<_>>()).join(", ")
}

/// In the order in which they came first.
fn each_once(warnings: &[String]) -> Vec<String> {
    let mut known = HashSet::new();
    warnings.iter().filter(|warning| known.insert(*warning)).cloned().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_warning_is_told_once_however_often_it_came() {
        let told = each_once(&["a", "b", "a", "a", "c", "b"].map(str::to_owned));
        assert_eq!(told, ["a", "b", "c"]);
    }
}
