//! One row of the report: what was asked for, what came of it, and what bounded it. This is the JSON, too: version 1 of
//! what `schema.json` describes.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::case::{Cache, Pattern};
use super::sentence::Sentence;

/// The version of the JSON: raised when a field changes its meaning or goes away.
pub const VERSION: u32 = 1;

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Row {
    pub version: u32,
    pub pattern: Pattern,
    /// The way that the bytes took, by proof: `direct`, `direct_compat`, `bounce` or `cached`.
    pub route: String,
    pub engine: String,
    pub device: String,
    /// Past the page cache, through it, or both.
    pub mode: String,
    pub chunk: u64,
    pub depth: u32,
    pub threads: u32,
    /// Whether the drive was polled for answers, by proof; reports from before it was counted say nothing of it.
    #[serde(default)]
    pub iopoll: bool,
    /// `cold` and `warm` are proven; `unproven` is neither; `memory` is a file system in memory.
    pub cache: String,
    /// Of all runs.
    pub bytes: u64,
    pub seconds: f64,
    /// The median of the runs.
    pub bytes_per_second: f64,
    /// Bytes per second of each run.
    pub runs: Vec<f64>,
    pub cpu_seconds: f64,
    pub cpu_seconds_per_gb: f64,
    /// Of reads, as the kernel answered them: `null` where none were counted.
    pub latency_seconds: Option<Latency>,
    pub cached_share_before: Option<f64>,
    pub cached_share_after: Option<f64>,
    pub emulated: bool,
    /// The same by another program, in turns with ours.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub peer: Option<Peer>,
    /// Whether the bytes were those of the file; `null` where that was not looked at.
    pub verified: Option<bool>,
    pub bound: Bound,
}

#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct Latency {
    pub p50: f64,
    pub p99: f64,
    pub p999: f64,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Peer {
    pub name: String,
    /// The median of its runs, and each of them.
    pub bytes_per_second: f64,
    pub runs: Vec<f64>,
    pub latency_seconds: Option<Latency>,
    /// The median of the ratios of ours to its, run by run.
    pub ratio: f64,
}

/// What held a row back.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Bound {
    pub by: By,
    /// How near the row is to it, from 0 to 1, where that can be told.
    pub share: Option<f64>,
    /// In words, and what would move it.
    pub why: Sentence,
    pub fix: String,
    /// Bytes per second that the processors could carry at most at what they took for these; `null` where that was too
    /// little to be counted.
    #[serde(default)]
    pub cpu_ceiling: Option<f64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum By {
    Drive,
    Depth,
    Cpu,
    Memory,
    Link,
    Unknown,
}

impl fmt::Display for By {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Drive => "drive",
            Self::Depth => "depth",
            Self::Cpu => "cpu",
            Self::Memory => "memory",
            Self::Link => "link",
            Self::Unknown => "unknown",
        })
    }
}

/// As a row's device has it.
const HOST: &str = "host";

/// What does not change a row: two reports are compared row by row where all of this is the same.
pub type Key = (Pattern, String, String, String, u64, u32, u32, bool, String);

impl Row {
    pub fn key(&self) -> Key {
        (
            self.pattern,
            self.route.clone(),
            self.engine.clone(),
            self.device.clone(),
            self.chunk,
            self.depth,
            self.threads,
            self.iopoll,
            self.cache.clone(),
        )
    }

    /// The way in words, as short as a table needs it; with the host where `rows` are to a GPU, too.
    pub fn way(&self, rows: &[Row]) -> String {
        let is_beside = self.device == HOST && rows.iter().any(|row| row.device != HOST);
        let host = if is_beside { " host" } else { "" };
        let engine = if self.engine == "pread" { " pread" } else { "" };
        format!("{}{host}{engine}", way(&self.route, self.iopoll))
    }
}

/// Who did the same as we, of all rows.
pub fn peers(rows: &[Row]) -> Option<String> {
    let mut names: Vec<&str> = Vec::new();
    for peer in rows.iter().filter_map(|row| row.peer.as_ref()) {
        if !names.contains(&&*peer.name) {
            names.push(&peer.name);
        }
    }
    (!names.is_empty()).then(|| names.join(", "))
}

pub fn way(route: &str, iopoll: bool) -> String {
    format!("{}{}", route.replace('_', " "), if iopoll { " polled" } else { "" })
}

pub fn cache_name(cache: Cache) -> &'static str {
    match cache {
        Cache::Cold => "cold",
        Cache::Warm => "warm",
    }
}

/// The middle of some numbers; 0 of none.
pub fn median(numbers: &[f64]) -> f64 {
    let mut sorted = numbers.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    match (sorted.get(sorted.len() / 2), sorted.len() % 2) {
        (Some(middle), 1) => *middle,
        (Some(above), _) => f64::midpoint(sorted[sorted.len() / 2 - 1], *above),
        (None, _) => 0.0,
    }
}

#[cfg(test)]
pub mod tests {
    use super::*;

    /// A row that was held back by this.
    pub fn row(by: By, why: Sentence, fix: &str) -> Row {
        Row {
            version: VERSION,
            pattern: Pattern::Random,
            route: "bounce".into(),
            engine: "uring".into(),
            device: HOST.into(),
            mode: "direct".into(),
            chunk: 4096,
            depth: 1,
            threads: 1,
            iopoll: false,
            cache: "cold".into(),
            bytes: 4096,
            seconds: 1.0,
            bytes_per_second: 4096.0,
            runs: vec![4096.0],
            cpu_seconds: 0.1,
            cpu_seconds_per_gb: 0.1,
            latency_seconds: None,
            cached_share_before: None,
            cached_share_after: None,
            emulated: false,
            peer: None,
            verified: None,
            bound: Bound { by, share: None, why, fix: fix.into(), cpu_ceiling: None },
        }
    }
}
