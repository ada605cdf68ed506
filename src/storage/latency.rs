//! How long reads took, from the time that they were begun until the kernel had answered the whole of them.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Buckets of equal width in each power of two of nanoseconds: a quantile is at most a sixteenth off.
const STEPS: usize = 16;
/// Up to 2^40 ns, which is 18 minutes.
const POWERS: usize = 41;
const BUCKETS: usize = POWERS * STEPS;

/// How long the reads of a [`Reader`](super::Reader) took. A read is what the kernel is asked for at once, a chunk at most;
/// its time is from when it was given to the engine's ring or thread until all of it had landed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Latencies {
    /// Reads in each bucket.
    counts: Vec<u64>,
}

impl Latencies {
    /// How many reads.
    pub fn reads(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// The time that this share of all reads, from 0 to 1, took at most, to a sixteenth; `None` where there were none.
    pub fn quantile(&self, share: f64) -> Option<Duration> {
        let rank = (share.clamp(0.0, 1.0) * self.reads() as f64).ceil().max(1.0) as u64;
        let mut seen = 0;
        let bucket = self.counts.iter().position(|count| {
            seen += count;
            seen >= rank
        })?;
        Some(Duration::from_nanos(end_of(bucket)))
    }

    /// What came since `earlier`, which is of the same reader.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        let before = |i: usize| earlier.counts.get(i).copied().unwrap_or(0);
        let counts = self.counts.iter().enumerate().map(|(i, count)| count.saturating_sub(before(i))).collect();
        Self { counts }
    }

    /// Both together.
    #[must_use]
    pub fn and(&self, other: &Self) -> Self {
        let (long, short) = if self.counts.len() < other.counts.len() { (other, self) } else { (self, other) };
        let more = |i: usize| short.counts.get(i).copied().unwrap_or(0);
        Self { counts: long.counts.iter().enumerate().map(|(i, count)| count + more(i)).collect() }
    }
}

/// Where engines count.
#[derive(Debug)]
pub(crate) struct Histogram(Box<[AtomicU64]>);

impl Histogram {
    pub(crate) fn new() -> Self {
        Self((0..BUCKETS).map(|_| AtomicU64::new(0)).collect())
    }

    pub(crate) fn note(&self, time: Duration) {
        self.0[bucket_of(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX))].fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn now(&self) -> Latencies {
        Latencies { counts: self.0.iter().map(|count| count.load(Ordering::Relaxed)).collect() }
    }
}

fn bucket_of(nanos: u64) -> usize {
    const SHIFT: u32 = STEPS.ilog2();
    let power = nanos.max(1).ilog2();
    match power.checked_sub(SHIFT) {
        None => nanos as usize,
        Some(above) => {
            let step = (nanos >> above) as usize - STEPS;
            ((above as usize + 1) * STEPS + step).min(BUCKETS - 1)
        }
    }
}

/// The last nanosecond of a bucket.
fn end_of(bucket: usize) -> u64 {
    match (bucket / STEPS).checked_sub(1) {
        None => bucket as u64,
        Some(above) => (((STEPS + bucket % STEPS + 1) as u64) << above) - 1,
    }
}

#[cfg(all(test, not(forebay_loom)))]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// The oracle sorts all of them.
        #[test]
        fn a_quantile_is_a_sixteenth_off_at_most(
            mut nanos in prop::collection::vec(prop_oneof![0_u64..100, 0_u64..1 << 40], 1..200), share in 0.0..=1.0_f64,
        ) {
            let histogram = Histogram::new();
            nanos.iter().for_each(|&nanos| histogram.note(Duration::from_nanos(nanos)));
            nanos.sort_unstable();
            let exact = nanos[((share * nanos.len() as f64).ceil() as usize).max(1) - 1];
            let told = histogram.now().quantile(share).unwrap().as_nanos() as u64;
            prop_assert!(told >= exact && told - exact <= exact / 16, "{told} for {exact}");
            prop_assert_eq!(histogram.now().reads(), nanos.len() as u64);
        }
    }

    #[test]
    fn what_takes_for_ever_is_counted_and_nothing_has_no_quantile() {
        let histogram = Histogram::new();
        let before = histogram.now();
        assert_eq!(before.quantile(0.5), None);
        histogram.note(Duration::MAX);
        let after = histogram.now();
        assert!(after.quantile(0.5) > Some(Duration::from_secs(600)));
        assert_eq!(after.since(&before).reads(), 1);
        assert_eq!(after.since(&after).reads(), 0);
        assert_eq!(after.and(&after).reads(), 2);
        assert_eq!(after.and(&Latencies::default()), after);
    }
}
