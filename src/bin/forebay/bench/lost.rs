//! Runs that could not be measured: what a row lost, and why.

use serde::Serialize;

use super::case::{Cache, Case, Pattern};

/// A row of which some runs, or all, were lost.
#[derive(Clone, Debug, Serialize)]
pub struct Lost {
    pub pattern: Pattern,
    pub route: String,
    pub engine: &'static str,
    pub device: String,
    pub chunk: u64,
    pub depth: u32,
    pub threads: u32,
    pub iopoll: bool,
    /// What the page cache was to be.
    pub cache: Cache,
    /// Runs that were measured, and that were not.
    pub runs: usize,
    pub lost: usize,
    /// Of the first.
    pub why: String,
}

impl Lost {
    /// `losses` has the reasons; there is one at least, or nothing was lost.
    pub fn of(case: &Case, device: &forebay::Device, runs: usize, losses: &[String]) -> Option<Self> {
        Some(Self {
            pattern: case.pattern,
            route: case.route.to_string(),
            engine: case.engine_name(),
            device: device.to_string(),
            chunk: case.chunk,
            depth: case.depth,
            threads: case.threads,
            iopoll: case.iopoll,
            cache: case.cache,
            runs,
            lost: losses.len(),
            why: losses.first()?.clone(),
        })
    }

    /// Whether nothing of the row is left.
    pub fn is_whole(&self) -> bool {
        self.runs == 0
    }
}

/// The reasons, each once, for a sentence.
pub fn reasons<'a>(lost: impl Iterator<Item = &'a Lost>) -> String {
    let mut reasons: Vec<&str> = Vec::new();
    for lost in lost {
        if !reasons.contains(&lost.why.as_str()) {
            reasons.push(&lost.why);
        }
    }
    reasons.join("; ")
}
