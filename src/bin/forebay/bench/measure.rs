//! One run of a case: what was read, how long it took, and what that cost.

use std::path::Path;
use std::time::Duration;

use forebay::{Device, Latencies, RouteBytes, Stats};

use super::batches::Batches;
use super::case::{Case, Pattern};
use super::requests::Requests;
use super::usage::Used;
use crate::failure::{Failure, Outcome};

/// What does as a case says, with the file opened.
pub enum Rig {
    /// A carrier that is asked for reads.
    Requests(Requests),
    /// A loader that is asked for batches.
    Batches(Batches),
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
    /// Answers that were polled for.
    pub polled: u64,
}

impl Run {
    pub fn rate(&self) -> f64 {
        if self.seconds > 0.0 { self.bytes as f64 / self.seconds } else { 0.0 }
    }

    /// What a reader says that it has done between two times.
    pub fn count(&mut self, before: &Stats, after: &Stats) {
        self.direct_bytes = after.bytes_direct - before.bytes_direct;
        self.buffered_bytes = after.bytes_buffered - before.bytes_buffered;
        self.polled = after.polled - before.polled;
    }
}

impl Rig {
    pub fn new(case: &Case, device: &Device, path: &Path) -> Result<Self, Failure> {
        match case.pattern {
            Pattern::Loader => Batches::new(case, device, path).map(Self::Batches),
            Pattern::Sequential | Pattern::Random => Requests::new(case, device, path).map(Self::Requests),
        }
    }

    /// Tries by doing whether a case can be measured. The file system that the file is on.
    pub fn try_out(case: &Case, device: &Device, path: &Path) -> Result<String, Failure> {
        let requests = Requests::new(case, device, path)?;
        requests.try_out(case)?;
        let file_system = requests.file.file_system();
        // Both at once would take twice the memory.
        drop(requests);
        if let Self::Batches(batches) = Self::new(case, device, path)? {
            batches.try_out()?;
        }
        Ok(file_system)
    }

    /// Takes all memory that a run with this seed will need, which might cost the page cache some of what it is to hold then.
    pub fn get_ready(&self, seed: u64) -> Outcome {
        match self {
            Self::Requests(_) => Ok(()),
            Self::Batches(batches) => batches.get_ready(seed),
        }
    }

    /// Reads for `time`; a cold page cache no more than once over. `more` is asked meanwhile.
    pub fn run(&self, case: &Case, time: Duration, seed: u64, more: &dyn Fn() -> bool) -> Result<Run, Failure> {
        match self {
            Self::Requests(requests) => requests.run(case, time, seed, more),
            Self::Batches(batches) => batches.run(time, seed, more),
        }
    }
}
