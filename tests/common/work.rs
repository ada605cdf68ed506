//! What work costs, told without a clock: a machine that does other things as well makes every wall-clock bound wrong.
use std::hint::black_box;
use std::sync::OnceLock;
use std::time::Duration;

use nix::sys::resource::{UsageWho, getrusage};

/// Runs `work`, which may take as much of the CPU as so many units: a unit is what a million steps of a generator take here,
/// in this process and as it was built, some ten milliseconds without optimisation.
///
/// It is this thread's time that counts. What it waits for, and what other threads do, is free: a hang is the business of
/// `watchdog`.
pub fn within<T>(units: u32, what: &str, work: impl FnOnce() -> T) -> T {
    let before = spent();
    let result = work();
    let took = spent() - before;
    if took > *UNIT.get_or_init(unit) * units {
        // Perhaps the machine is slower now than it was then.
        let allowed = unit() * units;
        assert!(took <= allowed, "{what}: {took:?} of the CPU, and {units} units are {allowed:?}");
    }
    result
}

/// Runs `work`, which may take as many times the CPU as `reference` does: what does the same, and is known to be linear.
#[allow(dead_code)]
pub fn beside<T, U>(times: u32, what: &str, reference: impl FnOnce() -> U, work: impl FnOnce() -> T) -> T {
    let before = spent();
    black_box(reference());
    let allowed = (spent() - before) * times;
    let before = spent();
    let result = work();
    let took = spent() - before;
    assert!(took <= allowed, "{what}: {took:?} of the CPU, and {times} times the reference are {allowed:?}");
    result
}

/// As it was when it was first asked for.
static UNIT: OnceLock<Duration> = OnceLock::new();

/// The most of some tries, since what runs beside this one takes caches from some of them.
fn unit() -> Duration {
    let tries = (0..3).map(|_| {
        let before = spent();
        let mut state = 1_u64;
        for _ in 0..1_000_000 {
            state ^= state << 13;
            state ^= state >> 7;
            state = black_box(state ^ (state << 17));
        }
        spent() - before
    });
    tries.max().unwrap_or_default()
}

/// CPU time of this thread.
fn spent() -> Duration {
    let usage = getrusage(UsageWho::RUSAGE_THREAD).expect("the kernel counts for each thread");
    let time =
        |of: nix::sys::time::TimeVal| Duration::from_micros(of.tv_sec() as u64 * 1_000_000 + of.tv_usec() as u64);
    time(usage.user_time()) + time(usage.system_time())
}
