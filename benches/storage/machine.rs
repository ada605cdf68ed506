//! Facts about the machine, and how much of it others took while we measured.

use std::fs;
use std::thread;
use std::time::Instant;

use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeValLike;

/// One line for the head of the table.
pub fn describe(fio: &str) -> String {
    let read = |path: &str| fs::read_to_string(path).map(|text| text.trim().to_owned()).unwrap_or("unknown".into());
    let cpuinfo = read("/proc/cpuinfo");
    let model = cpuinfo
        .lines()
        .find_map(|line| line.strip_prefix("model name"))
        .map(|m| m.trim_start_matches([' ', '\t', ':']));
    format!(
        "machine: Linux {}, {} CPUs ({}), {}, load {}",
        read("/proc/sys/kernel/osrelease"),
        cpus(),
        model.unwrap_or("model unknown"),
        fio,
        read("/proc/loadavg").split(' ').next().unwrap_or("unknown"),
    )
}

pub fn cpus() -> usize {
    thread::available_parallelism().map_or(1, |n| n.get())
}

/// User and system seconds of every thread and kernel worker of this process so far.
pub fn own_cpu_seconds() -> f64 {
    cpu_seconds(UsageWho::RUSAGE_SELF)
}

/// User and system seconds of all children that have ended.
pub fn children_cpu_seconds() -> f64 {
    cpu_seconds(UsageWho::RUSAGE_CHILDREN)
}

fn cpu_seconds(who: UsageWho) -> f64 {
    // Cannot fail: `who` is valid and the result is written to our own stack.
    getrusage(who).map_or(f64::NAN, |usage| {
        (usage.user_time().num_microseconds() + usage.system_time().num_microseconds()) as f64 / 1e6
    })
}

/// Peak resident bytes of this process.
pub fn peak_rss() -> Option<u64> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let kib = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    Some(kib.trim().strip_suffix(" kB")?.trim().parse::<u64>().ok()? << 10)
}

/// Watches how much CPU time processes other than our children take.
#[derive(Debug)]
pub struct Neighbours {
    start: Instant,
    busy: f64,
    children: f64,
}

impl Neighbours {
    pub fn watch() -> Self {
        Self { start: Instant::now(), busy: busy_seconds().unwrap_or(0.0), children: children_cpu_seconds() }
    }

    /// The share of all CPU time since [`Neighbours::watch`] that others took, from 0 to 1.
    pub fn share(&self) -> f64 {
        let busy = busy_seconds().unwrap_or(0.0) - self.busy;
        let ours = children_cpu_seconds() - self.children;
        ((busy - ours) / (self.start.elapsed().as_secs_f64() * cpus() as f64)).clamp(0.0, 1.0)
    }
}

/// User, nice, system and stolen seconds of the whole machine. Interrupts are left out: they may be our own reads.
fn busy_seconds() -> Option<f64> {
    // /proc/stat counts in USER_HZ, which is 100 on every Linux.
    const USER_HZ: f64 = 100.0;
    let stat = fs::read_to_string("/proc/stat").ok()?;
    let ticks: Vec<f64> = stat.lines().next()?.split_whitespace().skip(1).filter_map(|n| n.parse().ok()).collect();
    let [user, nice, system, _idle, _iowait, _irq, _softirq, steal, ..] = ticks[..] else {
        return None;
    };
    Some((user + nice + system + steal) / USER_HZ)
}
