//! Seeded disorder: how late bytes land, and which entry goes first.

use crate::script;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

static DRAWN: AtomicU64 = AtomicU64::new(0);

/// A number below `bound`, or 0 where `bound` is 0. The sequence depends on the setting `seed` alone.
pub fn below(bound: u64) -> u64 {
    let seed = script::number("seed", 1.0) as u64;
    let drawn = DRAWN.fetch_add(1, Ordering::Relaxed);
    mixed(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15).wrapping_add(drawn)) % bound.max(1)
}

/// Sleeps up to the setting `cufile_late_us`, so that nothing is done by the time a call or a submission returns
/// unless someone waited for it.
pub fn dawdle() {
    let most = super::settings::number("cufile_late_us", super::settings::number("jitter_us", 200));
    if most > 0 {
        std::thread::sleep(Duration::from_micros(below(most + 1)));
    }
}

pub fn restart() {
    DRAWN.store(0, Ordering::Relaxed);
}

/// The finaliser of SplitMix64.
fn mixed(mut x: u64) -> u64 {
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}
