//! What is measured: one way of reading.

use serde::{Deserialize, Serialize};

/// The order in which a file is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Pattern {
    Sequential,
    Random,
}

/// What the page cache holds of the file before.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Cache {
    Cold,
    Warm,
}

/// One row before it is measured.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Case {
    pub pattern: Pattern,
    pub route: forebay::Route,
    pub engine: forebay::EngineChoice,
    /// Bytes of a read.
    pub chunk: u64,
    /// Reads under way at once, for each ring.
    pub depth: u32,
    /// Rings, each with its thread.
    pub threads: u32,
    pub cache: Cache,
    /// Whether answers are polled for in place of waiting for interrupts.
    pub iopoll: bool,
}

impl Case {
    /// Whether the kernel has a way to poll for it: for reads past the page cache, through io_uring.
    pub fn may_poll(&self) -> bool {
        self.engine == forebay::EngineChoice::Uring && self.route == forebay::Route::Bounce
    }

    /// Reads under way at once, in all.
    pub fn in_flight(&self) -> u64 {
        match self.engine {
            forebay::EngineChoice::Pread => u64::from(self.depth),
            _ => u64::from(self.depth) * u64::from(self.threads),
        }
    }

    /// Reads that are asked for at once: with two such requests under way the queue is full while one is taken.
    pub fn reads_a_request(&self) -> u64 {
        self.in_flight().max(((1 << 20) / self.chunk).min(64))
    }

    /// Host memory that it takes: what is under way, and what is being taken.
    pub fn memory(&self) -> u64 {
        // A read may begin and end inside a block.
        let read = self.chunk.next_multiple_of(4096) + 8192;
        // A carrier reads no more at once than a third of what it has.
        (REQUESTS as u64 * self.reads_a_request()).max(3) * read + (4 << 20)
    }
}

/// Requests under way at once.
pub const REQUESTS: usize = 2;
