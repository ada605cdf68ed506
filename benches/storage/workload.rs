//! What both sides are asked to do, and what each did.

use std::path::PathBuf;

use serde_json::{Value, json};

/// The order in which blocks are asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pattern {
    /// One block after the other, from the start again at the end of the file.
    Sequential,
    /// Uniformly random blocks; a block may come again.
    Random,
}

/// One amount of work, the same for every contender.
#[derive(Clone, Debug)]
pub struct Workload {
    pub file: PathBuf,
    pub file_len: u64,
    pub pattern: Pattern,
    /// Bytes per read.
    pub block: u64,
    /// Reads in flight per job.
    pub depth: u32,
    /// fio's jobs; rings or threads on our side.
    pub jobs: u32,
    /// Read through the page cache, which holds the whole file; else past it, and it holds nothing.
    pub warm: bool,
    /// Bytes to read, over all jobs.
    pub bytes: u64,
    pub seed: u64,
}

impl Workload {
    pub fn to_json(&self) -> Value {
        json!({
            // The paths are made by this program from a UTF-8 command line.
            "file": self.file.to_string_lossy(),
            "file_len": self.file_len,
            "random": self.pattern == Pattern::Random,
            "block": self.block,
            "depth": self.depth,
            "jobs": self.jobs,
            "warm": self.warm,
            "bytes": self.bytes,
            "seed": self.seed,
        })
    }

    pub fn from_json(value: &Value) -> Option<Self> {
        let number = |name: &str| value.get(name)?.as_u64();
        Some(Self {
            file: PathBuf::from(value.get("file")?.as_str()?),
            file_len: number("file_len")?,
            pattern: if value.get("random")?.as_bool()? { Pattern::Random } else { Pattern::Sequential },
            block: number("block")?,
            depth: number("depth")? as u32,
            jobs: number("jobs")? as u32,
            warm: value.get("warm")?.as_bool()?,
            bytes: number("bytes")?,
            seed: number("seed")?,
        })
    }
}

/// What one contender did in its measured section.
#[derive(Clone, Debug)]
pub struct Outcome {
    pub bytes: u64,
    pub seconds: f64,
    /// User and system time of all threads, kernel workers included, without start-up.
    pub cpu_seconds: f64,
    /// Peak resident bytes of the whole process, where it was read.
    pub peak_rss: Option<u64>,
    /// Whatever a reader of the table must know.
    pub note: Option<String>,
}

impl Outcome {
    pub fn bytes_per_second(&self) -> f64 {
        self.bytes as f64 / self.seconds
    }

    pub fn cpu_seconds_per_gb(&self) -> f64 {
        self.cpu_seconds / (self.bytes as f64 / 1e9)
    }

    pub fn to_json(&self) -> Value {
        json!({
            "bytes": self.bytes,
            "seconds": self.seconds,
            "cpu_seconds": self.cpu_seconds,
            "peak_rss": self.peak_rss,
            "note": self.note,
        })
    }

    pub fn from_json(value: &Value) -> Option<Self> {
        Some(Self {
            bytes: value.get("bytes")?.as_u64()?,
            seconds: value.get("seconds")?.as_f64()?,
            cpu_seconds: value.get("cpu_seconds")?.as_f64()?,
            peak_rss: value.get("peak_rss")?.as_u64(),
            note: value.get("note")?.as_str().map(str::to_owned),
        })
    }
}
