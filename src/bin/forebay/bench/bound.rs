//! What bounded a row: the first of these that it ran into.
//!
//! A link to the device that goes no faster; processors that others used; a copy of the page cache as fast as memory goes; a
//! thread of ours that had no time left; else the drive, where all the reads that were allowed waited for it: at the best that
//! it gave in any row it is the drive itself, below that the number of reads that it was given at once.

use forebay::Route;

use super::case::{Cache, Case, Pattern};
use super::ceilings::Ceilings;
use super::measure::Run;
use super::row::{Bound, By};
use crate::byte_count::{counted, rate, shown};

/// A thread that was busy for so much of the time had none left.
const BUSY: f64 = 0.90;
/// Others use the processors when they have so much of them, and nothing is left.
const CROWDED: f64 = 0.20;
const LEFT: f64 = 0.08;
/// So near to a ceiling is at it.
const NEAR: f64 = 0.90;

/// Of all runs of a row together. `best` is the most that any row got that differs from this one in having more reads
/// under way, or in nothing.
pub fn bound(case: &Case, rate_now: f64, runs: &[Run], ceilings: &Ceilings, best: f64) -> Bound {
    let mean = |of: &dyn Fn(&Run) -> f64| runs.iter().map(of).sum::<f64>() / runs.len().max(1) as f64;
    let idle = mean(&|run| run.used.idle);
    let others = mean(&|run| run.used.others);
    let busiest = mean(&|run| run.used.busiest.as_ref().map_or(0.0, |(_, share)| *share));
    let name = runs.iter().find_map(|run| run.used.busiest.as_ref().map(|(name, _)| name.clone())).unwrap_or_default();
    let percent = |share: f64| format!("{:.0} %", share * 100.0);

    // Whoever goes as fast as the link alone is held back by nothing else.
    let link = ceilings.to_device.filter(|link| case.route != Route::Direct && rate_now >= NEAR * link);
    if let Some(link) = link {
        return Bound {
            by: By::Link,
            share: Some((rate_now / link).min(1.0)),
            why: format!("copies to the GPU, which go at {} by themselves", rate(link)),
            fix: "a faster or wider slot, a GPU on the drive's socket, or reads straight to the GPU (--route direct)"
                .into(),
        };
    }
    if idle < LEFT && others > CROWDED {
        return Bound {
            by: By::Cpu,
            share: Some(others),
            why: format!("other programs had {} of the processors, and none were idle", percent(others)),
            fix: "measure again when the machine is quiet".into(),
        };
    }
    let copied = ceilings.page_cache_copy.filter(|copied| case.route == Route::Cached && rate_now >= NEAR * copied);
    if let Some(ceiling) = copied {
        return Bound {
            by: By::Memory,
            share: Some((rate_now / ceiling).min(1.0)),
            why: format!("copies out of the page cache: one thread gets {}", rate(ceiling)),
            fix: "more threads, or read past the page cache".into(),
        };
    }
    // A thread that polls is busy however little it has to do.
    if !case.iopoll && (busiest >= BUSY || idle < LEFT) {
        let (share, what) = match busiest >= BUSY {
            true => (busiest, format!("thread {name} had {} of one processor", percent(busiest))),
            false => {
                (1.0 - idle, format!("all processors were busy, {} of them with this", percent(1.0 - idle - others)))
            }
        };
        let fix = match (case.route, case.chunk < 64 << 10) {
            _ if case.pattern == Pattern::Loader => {
                "a ring more (--threads) where it is a ring's, else more processors"
            }
            (Route::Cached, _) => "more threads, or read past the page cache (--route bounce)",
            (_, true) => "larger reads, a ring more (--threads), or polling (--iopoll true)",
            (_, false) => "a ring more (--threads), where a processor is left for it",
        };
        return Bound { by: By::Cpu, share: Some(share), why: what, fix: fix.into() };
    }
    if case.route == Route::Cached {
        return through_the_cache(case, rate_now, ceilings);
    }
    let share = if best > 0.0 { (rate_now / best).min(1.0) } else { 1.0 };
    let what = case.pattern.in_words();
    match share >= NEAR {
        true => Bound {
            by: By::Drive,
            share: Some(share),
            why: format!(
                "the drive: with as many or more reads of {} {what} under way it gave {} at most, with processors idle",
                shown(case.chunk),
                rate(best)
            ),
            fix: "a faster drive, several of them, or larger reads".into(),
        },
        false => Bound {
            by: By::Depth,
            share: Some(share),
            why: format!(
                "{} of {} {what} under way at once, each waiting for the drive, which gives {} to more of them",
                counted(case.in_flight(), "read"),
                shown(case.chunk),
                rate(best)
            ),
            fix: "more reads at once (--depth), or larger ones (--chunk)".into(),
        },
    }
}

/// The same of a row of the loader's, where another program got `peer` from the drive with as many reads under way: then it is
/// neither the drive nor their number.
pub fn beside_peer(bound: Bound, case: &Case, rate_now: f64, peer: f64) -> Bound {
    let is_the_drives = matches!(bound.by, By::Drive | By::Depth);
    if case.pattern != Pattern::Loader || !is_the_drives || rate_now >= NEAR * peer {
        return bound;
    }
    Bound {
        by: By::Unknown,
        share: Some(rate_now / peer),
        why: format!(
            "the loader itself: with as many reads under way another program got {}, and processors were left",
            rate(peer)
        ),
        fix: "records of whole blocks, which take one read each, or more reads at once (--depth)".into(),
    }
}

/// With processors left.
fn through_the_cache(case: &Case, rate_now: f64, ceilings: &Ceilings) -> Bound {
    let share = ceilings.drive.map(|drive| (rate_now / drive).min(1.0));
    match case.cache {
        Cache::Warm => Bound {
            by: By::Unknown,
            share: None,
            why: "reads of a warm page cache wait for each other: neither memory nor the processors are at their end"
                .into(),
            fix: "more threads, or larger reads".into(),
        },
        Cache::Cold if share.is_some_and(|share| share >= NEAR) => Bound {
            by: By::Drive,
            share,
            why: format!("the drive, of which the page cache gets as much as reads past it: {}", rate(rate_now)),
            fix: "a faster drive, or several of them".into(),
        },
        Cache::Cold => Bound {
            by: By::Depth,
            share,
            why: format!(
                "the page cache, which asks the drive for less at once than reads past it{}",
                ceilings.drive.map_or(String::new(), |drive| format!(", that get up to {}", rate(drive)))
            ),
            fix: "read past it (--route bounce)".into(),
        },
    }
}

#[cfg(test)]
mod tests {
    use forebay::EngineChoice;

    use super::super::usage::Used;
    use super::*;

    #[test]
    fn a_loader_that_gets_less_than_another_program_does_not_blame_the_drive() {
        let of = |pattern, rate_now, peer| {
            let (route, engine, cache) = (Route::Bounce, EngineChoice::Uring, Cache::Cold);
            let case = Case { pattern, route, engine, chunk: 150 << 10, depth: 8, threads: 1, cache, iopoll: false };
            let run = Run { used: Used { idle: 0.5, ..Used::default() }, ..Run::default() };
            let alone = bound(&case, rate_now, &[run], &Ceilings::default(), rate_now);
            beside_peer(alone, &case, rate_now, peer).by
        };
        assert_eq!(of(Pattern::Loader, 1e9, 2e9), By::Unknown);
        assert_eq!(of(Pattern::Loader, 1e9, 1.05e9), By::Drive);
        assert_eq!(of(Pattern::Random, 1e9, 2e9), By::Drive);
    }
}
