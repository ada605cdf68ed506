//! What a stretch of time cost the processors: ours, by thread, and others'.

use std::collections::HashMap;
use std::fs;

use nix::sys::resource::{UsageWho, getrusage};

/// Clock ticks a second, in which /proc counts: 100 on every Linux that people run.
const TICKS: f64 = 100.0;

/// Counts at one moment.
pub struct Usage {
    own: f64,
    /// By thread: its name and its time, in ticks.
    threads: HashMap<String, (String, u64)>,
    /// Of the processors that we may run on: all ticks, and idle ones.
    all: u64,
    idle: u64,
}

/// What was used between two moments.
#[derive(Clone, Debug, Default)]
pub struct Used {
    /// Processor seconds of this process, the kernel's workers for it included.
    pub cpu_seconds: f64,
    /// The busiest thread, and its share of one processor.
    pub busiest: Option<(String, f64)>,
    /// The share of the processors that we may run on that was idle, where the kernel tells; and that others used.
    pub idle: Option<f64>,
    pub others: f64,
}

impl Usage {
    pub fn now() -> Self {
        let (all, idle) = processors();
        Self { own: own_seconds(), threads: threads(), all, idle }
    }

    pub fn until(&self, later: &Self, seconds: f64) -> Used {
        let cpu_seconds = later.own - self.own;
        let all = later.all.saturating_sub(self.all) as f64 / TICKS;
        let idle = later.idle.saturating_sub(self.idle) as f64 / TICKS;
        let busiest = later
            .threads
            .iter()
            .map(|(id, (name, ticks))| {
                let before = self.threads.get(id).map_or(0, |(_, before)| *before);
                (name, ticks.saturating_sub(before) as f64 / TICKS / seconds.max(1e-9))
            })
            .max_by(|a, b| a.1.total_cmp(&b.1))
            .map(|(name, share)| (name.clone(), share.min(1.0)));
        let share = |time: f64| (all > 0.0).then(|| (time / all).clamp(0.0, 1.0));
        Used { cpu_seconds, busiest, idle: share(idle), others: share(all - idle - cpu_seconds).unwrap_or(0.0) }
    }
}

fn own_seconds() -> f64 {
    getrusage(UsageWho::RUSAGE_SELF).map_or(0.0, |usage| {
        let (user, system) = (usage.user_time(), usage.system_time());
        (user.tv_sec() + system.tv_sec()) as f64 + (user.tv_usec() + system.tv_usec()) as f64 * 1e-6
    })
}

/// Threads of this process, the kernel's workers for its rings included.
fn threads() -> HashMap<String, (String, u64)> {
    let entries = fs::read_dir("/proc/self/task").into_iter().flatten().flatten();
    entries
        .filter_map(|entry| {
            let stat = fs::read_to_string(entry.path().join("stat")).ok()?;
            // The name stands in brackets and may hold anything.
            let (head, tail) = stat.rsplit_once(')')?;
            let name = head.split_once('(')?.1.to_owned();
            let mut fields = tail.split_whitespace().skip(11).map(|field| field.parse::<u64>().ok());
            Some((entry.file_name().to_string_lossy().into_owned(), (name, fields.next()?? + fields.next()??)))
        })
        .collect()
}

/// Ticks of the processors that this process may run on: all, and idle ones.
fn processors() -> (u64, u64) {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let allowed = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:")).unwrap_or("").trim();
    let is_ours = |number: u32| {
        allowed.is_empty()
            || allowed.split(',').any(|range| {
                let (from, to) = range.split_once('-').unwrap_or((range, range));
                from.parse().is_ok_and(|from: u32| from <= number) && to.parse().is_ok_and(|to: u32| number <= to)
            })
    };
    let stat = fs::read_to_string("/proc/stat").unwrap_or_default();
    let mut sums = (0, 0);
    for line in stat.lines() {
        let Some((number, counts)) = line.strip_prefix("cpu").and_then(|line| line.split_once(' ')) else { continue };
        if !number.parse().is_ok_and(is_ours) {
            continue;
        }
        // user nice system idle iowait irq softirq steal; guest time is in user time.
        let counts: Vec<u64> = counts.split_whitespace().take(8).filter_map(|count| count.parse().ok()).collect();
        sums.0 += counts.iter().sum::<u64>();
        sums.1 += counts.iter().skip(3).take(2).sum::<u64>();
    }
    sums
}
