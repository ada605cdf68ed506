//! What is measured: one way of reading.

use serde::{Deserialize, Serialize};

/// The order in which a file is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Pattern {
    Sequential,
    Random,
    /// By a loader: batches of records that it shuffles, reads ahead and puts together.
    Loader,
}

impl Pattern {
    pub const ALL: [Self; 3] = [Self::Sequential, Self::Random, Self::Loader];

    /// How reads lie, in a sentence.
    pub fn in_words(self) -> &'static str {
        match self {
            Self::Sequential => "in order",
            Self::Random => "at random",
            Self::Loader => "by the loader",
        }
    }
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
    /// Where bytes end up: its number among the devices that are measured.
    pub device: usize,
    pub route: forebay::Route,
    pub engine: forebay::EngineChoice,
    /// Bytes of a read, or of a loader's record.
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

    pub fn engine_name(&self) -> &'static str {
        match self.engine {
            forebay::EngineChoice::Pread => "pread",
            _ => "uring",
        }
    }

    /// Whether what is read changes what the next run would find: a page cache that was cold.
    pub fn is_once_over(&self) -> bool {
        self.route == forebay::Route::Cached && self.cache == Cache::Cold
    }

    /// Bytes of the whole blocks that a read takes, which another program is asked for: a record's may be more than its own.
    pub fn block(&self) -> u64 {
        self.chunk.next_multiple_of(4096)
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

    /// Host memory that it takes, and as much of the device's: what is under way, and what is being taken. A loader takes what
    /// one has that nobody set, and more for records so large that it would hold few batches.
    pub fn memory(&self) -> u64 {
        if self.pattern == Pattern::Loader {
            return (256 << 20).max(8 * BATCH * self.block());
        }
        // A read may begin and end inside a block.
        let read = self.chunk.next_multiple_of(4096) + 8192;
        // A carrier reads no more at once than a third of what it has.
        (REQUESTS as u64 * self.reads_a_request()).max(3) * read + (4 << 20)
    }
}

/// Samples of a loader's batch, where a file has enough of them.
pub const BATCH: u64 = 32;

/// Requests under way at once.
pub const REQUESTS: usize = 2;
