//! What bounded a row: the first of these that it ran into.
//!
//! A link that goes no faster, to the device or to the drive; processors that others used; a copy of the page cache as fast as
//! memory goes; a thread of ours that had no time left; else the drive, where all the reads that were allowed waited for it: at
//! the best that it gave in any row it is the drive itself, below that the number of reads that it was given at once.

use forebay::Route;

use super::case::{Cache, Case, Pattern};
use super::ceilings::{self, Ceilings, LINK_CHUNK};
use super::measure::Run;
use super::pcie::{self, Together, What};
use super::row::{Bound, By};
use super::sentence::Figure::{Percent, Rate};
use super::sentence::Sentence;
use crate::byte_count::{counted, shown};

/// A thread that was busy for so much of the time had none left.
const BUSY: f64 = 0.90;
/// Others use the processors when they have so much of them, and nothing is left.
const CROWDED: f64 = 0.20;
const LEFT: f64 = 0.08;
/// So near to a ceiling is at it.
const NEAR: f64 = 0.90;
/// What goes so much faster than the link by itself shows that something disturbed the link when it was measured.
const BEYOND: f64 = 1.25;

/// Of all runs of a row together. `best` is the most that any row got that differs from this one in having more reads
/// under way, or in nothing.
pub fn bound(case: &Case, rate_now: f64, runs: &[Run], ceilings: &Ceilings, best: f64) -> Bound {
    let busy = Busy::of(runs);
    let bound = link(case, rate_now, ceilings).unwrap_or_else(|| beside_links(case, rate_now, &busy, ceilings, best));
    Bound { cpu_ceiling: busy.ceiling(rate_now, ceilings::processors()), ..bound }
}

/// What the runs of a row cost the processors.
#[derive(Default)]
struct Busy {
    seconds_a_byte: f64,
    /// `None` where the kernel does not tell.
    idle: Option<f64>,
    others: f64,
    /// Of the time, by the thread that had the most of it.
    busiest: f64,
    name: String,
}

impl Busy {
    fn of(runs: &[Run]) -> Self {
        let mean = |of: &dyn Fn(&Run) -> f64| runs.iter().map(of).sum::<f64>() / runs.len().max(1) as f64;
        let bytes: u64 = runs.iter().map(|run| run.bytes).sum();
        Self {
            seconds_a_byte: runs.iter().map(|run| run.used.cpu_seconds).sum::<f64>() / bytes.max(1) as f64,
            idle: runs.iter().all(|run| run.used.idle.is_some()).then(|| mean(&|run| run.used.idle.unwrap_or(0.0))),
            others: mean(&|run| run.used.others),
            busiest: mean(&|run| run.used.busiest.as_ref().map_or(0.0, |(_, share)| *share)),
            name: runs
                .iter()
                .find_map(|run| run.used.busiest.as_ref().map(|(name, _)| name.clone()))
                .unwrap_or_default(),
        }
    }

    /// What `processors` could carry if nothing else bounded it: all of them at work, or the busiest thread all the time,
    /// whichever is less.
    fn ceiling(&self, rate_now: f64, processors: usize) -> Option<f64> {
        let all = (self.seconds_a_byte > 0.0).then(|| processors as f64 / self.seconds_a_byte);
        let one = (self.busiest > 0.0).then(|| rate_now / self.busiest);
        all.into_iter().chain(one).reduce(f64::min)
    }
}

fn held(by: By, share: Option<f64>, why: impl Into<Sentence>, fix: impl Into<String>) -> Bound {
    Bound { by, share, why: why.into(), fix: fix.into(), cpu_ceiling: None }
}

/// Bytes that are copied to a device at once: whole reads of a request, as many as fit.
fn copied_at_once(case: &Case) -> u64 {
    case.chunk.max(LINK_CHUNK.min(case.reads_a_request() * case.chunk))
}

/// Whoever goes as fast as a link alone is held back by nothing else.
fn link(case: &Case, rate_now: f64, ceilings: &Ceilings) -> Option<Bound> {
    let near = |ceiling: &f64| (NEAR..=BEYOND).contains(&(rate_now / ceiling));
    let share = |ceiling: f64| Some((rate_now / ceiling).min(1.0));
    let copies = ceilings.copies_to_device(copied_at_once(case)).filter(near).filter(|_| case.route != Route::Direct);
    if let Some(ceiling) = copies {
        return Some(held(
            By::Link,
            share(ceiling),
            Sentence::new("copies to the GPU, which go at ").with(Rate(ceiling)).and(" by themselves"),
            "a faster or wider slot, a GPU on the drive's socket, or reads straight to the GPU (--route direct)",
        ));
    }
    // More than lanes carry came from elsewhere, or was less on its way: compressed files.
    let is_at = |link: &Together| near(&link.bytes_per_second) && rate_now <= link.bytes_per_second;
    let of = |what| pcie::together(&ceilings.pcie, what, rate_now).filter(is_at);
    if let Some(link) = of(What::Gpu) {
        let fix = "a faster or wider slot for the GPU, or a share of the data for each of several";
        return Some(held(By::Link, share(link.bytes_per_second), link.name, fix));
    }
    let link = of(What::Drive).filter(|_| case.cache == Cache::Cold)?;
    Some(held(By::Link, share(link.bytes_per_second), link.name, "a faster or wider slot, or several drives"))
}

fn beside_links(case: &Case, rate_now: f64, busy: &Busy, ceilings: &Ceilings, best: f64) -> Bound {
    let Busy { others, busiest, .. } = *busy;
    let name = &busy.name;
    // Where the kernel counts nothing, nothing is known to be used up.
    let is_used_up = busy.idle.is_some_and(|idle| idle < LEFT);
    if is_used_up && others > CROWDED {
        return held(
            By::Cpu,
            Some(others),
            Sentence::new("other programs had ").with(Percent(others)).and(" of the processors, and none were idle"),
            "measure again when the machine is quiet",
        );
    }
    let copied = ceilings.page_cache_copy.filter(|copied| case.route == Route::Cached && rate_now >= NEAR * copied);
    if let Some(ceiling) = copied {
        return held(
            By::Memory,
            Some((rate_now / ceiling).min(1.0)),
            Sentence::new("copies out of the page cache: one thread gets ").with(Rate(ceiling)),
            "more threads, or read past the page cache",
        );
    }
    // A thread that polls is busy however little it has to do.
    if !case.iopoll && (busiest >= BUSY || is_used_up) {
        let used = 1.0 - busy.idle.unwrap_or(0.0);
        let (share, what) = match busiest >= BUSY {
            true => {
                (busiest, Sentence::new(format!("thread {name} had ")).with(Percent(busiest)).and(" of one processor"))
            }
            false => (
                used,
                Sentence::new("all processors were busy, ").with(Percent(used - others)).and(" of them with this"),
            ),
        };
        let fix = match (case.route, case.chunk < 64 << 10) {
            _ if case.pattern == Pattern::Loader => {
                "a ring more (--threads) where it is a ring's, else more processors"
            }
            (Route::Cached, _) => "more threads, or read past the page cache (--route bounce)",
            (_, true) => "larger reads, a ring more (--threads), or polling (--iopoll true)",
            (_, false) => "a ring more (--threads), where a processor is left for it",
        };
        return held(By::Cpu, Some(share), what, fix);
    }
    if case.route == Route::Cached {
        return through_the_cache(case, rate_now, ceilings);
    }
    let share = if best > 0.0 { (rate_now / best).min(1.0) } else { 1.0 };
    let what = case.pattern.in_words();
    match share >= NEAR {
        true => held(
            By::Drive,
            Some(share),
            Sentence::new(format!(
                "the drive: with as many or more reads of {} {what} under way it gave ",
                shown(case.chunk)
            ))
            .with(Rate(best))
            .and(" at most, with processors idle"),
            "a faster drive, several of them, or larger reads",
        ),
        false => held(
            By::Depth,
            Some(share),
            Sentence::new(format!(
                "{} of {} {what} under way at once, each waiting for the drive, which gives ",
                counted(case.in_flight(), "read"),
                shown(case.chunk),
            ))
            .with(Rate(best))
            .and(" to more of them"),
            "more reads at once (--depth), or larger ones (--chunk)",
        ),
    }
}

/// The same of a row of the loader's, where another program got `peer` from the drive with as many reads under way: then it is
/// neither the drive nor their number.
pub fn beside_peer(bound: Bound, case: &Case, rate_now: f64, peer: f64) -> Bound {
    let is_the_drives = matches!(bound.by, By::Drive | By::Depth);
    if case.pattern != Pattern::Loader || !is_the_drives || rate_now >= NEAR * peer {
        return bound;
    }
    let why = Sentence::new("the loader itself: with as many reads under way another program got ")
        .with(Rate(peer))
        .and(", and processors were left");
    let fix = "records of whole blocks, which take one read each, or more reads at once (--depth)";
    Bound { cpu_ceiling: bound.cpu_ceiling, ..held(By::Unknown, Some(rate_now / peer), why, fix) }
}

/// The same where the drive gave `own` to no more reads that went the same way to the same device, and `other` to such as did not:
/// then it is neither the drive nor their number.
pub fn beside_way(bound: Bound, own: f64, other: f64) -> Bound {
    if !matches!(bound.by, By::Drive | By::Depth) || own >= NEAR * other {
        return bound;
    }
    let why = Sentence::new("the way itself: by another, or to another device, the drive gave ")
        .with(Rate(other))
        .and(" to no more reads");
    let fix = "take that way where it leads to the same; `forebay doctor` says what is in the way of this one";
    Bound { cpu_ceiling: bound.cpu_ceiling, ..held(By::Unknown, Some(own / other), why, fix) }
}

/// With processors left.
fn through_the_cache(case: &Case, rate_now: f64, ceilings: &Ceilings) -> Bound {
    let share = ceilings.drive.map(|drive| (rate_now / drive).min(1.0));
    match case.cache {
        Cache::Warm => held(
            By::Unknown,
            None,
            "reads of a warm page cache wait for each other: neither memory nor the processors are at their end",
            "more threads, or larger reads",
        ),
        Cache::Cold if share.is_some_and(|share| share >= NEAR) => held(
            By::Drive,
            share,
            Sentence::new("the drive, of which the page cache gets as much as reads past it: ").with(Rate(rate_now)),
            "a faster drive, or several of them",
        ),
        Cache::Cold => held(
            By::Depth,
            share,
            {
                let why = Sentence::new("the page cache, which asks the drive for less at once than reads past it");
                match ceilings.drive {
                    Some(drive) => why.and(", that get up to ").with(Rate(drive)),
                    None => why,
                }
            },
            "read past it (--route bounce)",
        ),
    }
}

#[cfg(test)]
mod tests;
