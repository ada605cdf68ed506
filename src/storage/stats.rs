use std::sync::atomic::{AtomicU64, Ordering};

use super::latency::Histogram;

/// What a [`Reader`](super::Reader) has done since it was built. Bytes are those of the extents that were delivered,
/// not those that alignment and gaps between neighbours added: their sum is the sum of what was asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Stats {
    /// Bytes read past the page cache, by what was seen of their file: reads that fill it are not among them.
    pub bytes_direct: u64,
    /// Bytes read through the page cache.
    pub bytes_buffered: u64,
    /// Answers of the kernel to reads.
    pub answers: u64,
    /// Answers that were short, or asked to try again, so that another read had to follow.
    pub repeats: u64,
    /// Answers that were polled for: those of reads that a device without polled queues refused are not among them.
    pub polled: u64,
}

#[derive(Debug, Default)]
pub(crate) struct Counters {
    direct: AtomicU64,
    buffered: AtomicU64,
    answers: AtomicU64,
    repeats: AtomicU64,
    polled: AtomicU64,
    arrived: AtomicU64,
    /// Only where they were asked for: it takes two looks at the clock a read.
    latencies: Option<Histogram>,
}

impl Counters {
    pub(crate) fn with_latencies() -> Self {
        Self { latencies: Some(Histogram::new()), ..Self::default() }
    }

    pub(crate) fn latencies(&self) -> Option<&Histogram> {
        self.latencies.as_ref()
    }

    pub(crate) fn add(&self, stats: &Stats) {
        self.direct.fetch_add(stats.bytes_direct, Ordering::Relaxed);
        self.buffered.fetch_add(stats.bytes_buffered, Ordering::Relaxed);
        self.answers.fetch_add(stats.answers, Ordering::Relaxed);
        self.repeats.fetch_add(stats.repeats, Ordering::Relaxed);
        self.polled.fetch_add(stats.polled, Ordering::Relaxed);
    }

    /// Counts bytes as read through the page cache that were counted as read past it.
    pub(crate) fn turn_buffered(&self, bytes: u64) {
        let bytes = bytes.min(self.direct.load(Ordering::Relaxed));
        self.direct.fetch_sub(bytes, Ordering::Relaxed);
        self.buffered.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Bytes that have landed, also of requests that are not whole yet, or never will be.
    pub(crate) fn arrived(&self) -> u64 {
        self.arrived.load(Ordering::Relaxed)
    }

    pub(crate) fn note_arrived(&self, bytes: u64) {
        self.arrived.fetch_add(bytes, Ordering::Relaxed);
    }

    pub(crate) fn now(&self) -> Stats {
        Stats {
            bytes_direct: self.direct.load(Ordering::Relaxed),
            bytes_buffered: self.buffered.load(Ordering::Relaxed),
            answers: self.answers.load(Ordering::Relaxed),
            repeats: self.repeats.load(Ordering::Relaxed),
            polled: self.polled.load(Ordering::Relaxed),
        }
    }
}
