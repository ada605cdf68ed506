//! `forebay bench`: how fast a file comes to a device by each way of reading it, and what holds each back.
//!
//! Owns: the flags' meaning and the order of the work. contest.rs measures, report.rs says what that comes to.

mod batches;
mod bound;
mod bytes;
mod cache;
mod case;
mod ceilings;
mod compare;
mod contest;
mod fio;
mod gdsio;
mod hardware;
mod html;
mod invocation;
mod lost;
mod measure;
mod pcie;
mod peer;
mod records;
mod report;
mod requests;
mod row;
mod sentence;
mod summary;
mod sweep;
mod table;
mod target;
mod tune;
mod usage;
mod verify;
mod warnings;

pub use sweep::Profile;

use std::path::Path;
use std::time::Duration;

use forebay::tuning::Profiles;
use forebay::{Device, DeviceKind};
use serde::Serialize;

use crate::args::{self, Common};
use crate::failure::{Failure, Outcome};
use crate::interrupt::Interrupt;
use crate::stderr::{self, Progress};
use crate::stdout::Stdout;
use crate::{carrier, json};
use contest::Contest;
use row::Row;
use summary::Summary;
use target::Target;

pub fn run(common: &Common, bench: &args::Bench) -> Outcome {
    if let [before, after] = &bench.compare[..] {
        return compare::run(common.json, before, after);
    }
    sweep::check(bench)?;
    check_used(common, bench)?;
    let devices = devices(common, bench)?;
    let interrupt = Interrupt::watching()?;
    let time = Duration::from_secs_f64(bench.seconds);
    // Seen before anything is measured, as the page is.
    let profiles = bench.save.then(profiles).transpose()?;
    let target = target(bench, time, &interrupt)?;
    let page = bench.html.as_ref().map(|path| html::Page::at(path, &target)).transpose()?;
    let mut contest = Contest::new(common, bench, &devices, target);
    if bench.tune {
        let tuned = tune::tune(common, bench, &mut contest, time, &interrupt)?;
        let (rows, mut summary) = contest.report(bench.verify, tuned, &interrupt)?;
        let is_good = !summary.interrupted && rows.iter().all(|row| row.verified != Some(false));
        let saved = match (&mut summary.tuned, &profiles) {
            (Some(tuned), Some(profiles)) if is_good => tuned.save(profiles),
            _ => Ok(()),
        };
        return tell(common, bench, (rows, summary), page).and(saved);
    }
    let skipped = contest.enter_all(common, bench)?;
    skipped.iter().for_each(|why| stderr::line(&format!("warning: {why}")));
    if contest.entries.is_empty() {
        let why = skipped.first().map_or("nothing to measure", String::as_str);
        return Err(Failure::Error(format!("{}: no case can be measured: {why}", contest.target.name)));
    }
    contest.run(time, &interrupt)?;
    tell(common, bench, contest.report(bench.verify, None, &interrupt)?, page)
}

/// Refuses flags that would have no effect.
fn check_used(common: &Common, bench: &args::Bench) -> Outcome {
    let unused = |flag: &str, why: &str| Err(Failure::Usage(format!("{flag} has no effect {why}; leave it out")));
    if common.tuned {
        return unused("--tuned", "on bench, which measures the settings that it is given");
    }
    if common.strict_ctime {
        return unused("--strict-ctime", "on bench, which opens its file for each case");
    }
    if bench.tune && bench.peers == Some(true) {
        return unused("--peers", "beside --tune, which compares settings of forebay alone");
    }
    Ok(())
}

/// What is asked for. Unasked, the host beside a GPU: what ends there is what a copy to the GPU adds to.
fn devices(common: &Common, bench: &args::Bench) -> Result<Vec<Device>, Failure> {
    let first = carrier::device(common)?;
    let is_beside = common.device == args::Device::Auto && first.kind() != DeviceKind::Host;
    let has_host = is_beside && !bench.tune && common.route != args::Route::Direct;
    Ok(if has_host { vec![first, Device::host()] } else { vec![first] })
}

/// What is named, or a file of our own in the folder that is.
fn target(bench: &args::Bench, time: Duration, interrupt: &Interrupt) -> Result<Target, Failure> {
    let named = bench.path.as_deref().unwrap_or(Path::new("."));
    if !named.is_dir() {
        return match bench.size {
            None => Target::named(named),
            Some(_) => Err(Failure::Usage(format!(
                "--size is of a file of our own, and {} is none; name a folder for one, or leave --size out",
                named.display()
            ))),
        };
    }
    let bar = std::cell::OnceCell::new();
    let progress = |done, all| bar.get_or_init(|| Progress::start(all)).reach(done);
    let size = bench.size.map(|size| size.0);
    let own = Target::own(named, size, time / 4, &|| interrupt.has_come(), &progress);
    own.inspect_err(|failure| {
        if matches!(failure, Failure::Interrupted) {
            nothing_measured("interrupted before anything was measured", bench.html.as_deref());
        }
    })
}

/// Where what is found best is kept.
fn profiles() -> Result<Profiles, Failure> {
    let profiles = Profiles::usual().map_err(Failure::of)?;
    profiles.check().map_err(Failure::of)?;
    Ok(profiles)
}

/// The report, as it is wanted.
fn tell(
    common: &Common,
    bench: &args::Bench,
    (rows, summary): (Vec<Row>, Summary),
    page: Option<html::Page>,
) -> Outcome {
    // Before stdout, which may be closed; a page that fails takes nothing from stdout.
    let written = match page {
        _ if rows.is_empty() => {
            let why = if summary.lost.is_empty() {
                "interrupted before anything was measured"
            } else {
                "no row was measured"
            };
            nothing_measured(why, bench.html.as_deref());
            Ok(())
        }
        Some(page) => page.write(&rows, &summary),
        None => Ok(()),
    };
    let mut stdout = Stdout::open()?;
    if common.json {
        for row in &rows {
            stdout.write(format!("{}\n", json::line(row)?).as_bytes())?;
        }
        stdout.write(format!("{}\n", json::line(&Last { summary: &summary })?).as_bytes())?;
    } else {
        stdout.write(summary.head().as_bytes())?;
        stdout.write(table::table(&rows, &summary).as_bytes())?;
        stdout.write(summary.foot().as_bytes())?;
    }
    match rows.iter().find(|row| row.verified == Some(false)) {
        Some(row) => Err(Failure::Error(format!(
            "{}: the bytes that route {} with engine {} brought are not those of the file; report this",
            summary.target, row.route, row.engine
        ))),
        None if written.is_err() => written,
        None if summary.interrupted => Err(Failure::Interrupted),
        None if summary.fault.is_some() => Err(Failure::Error(summary.fault.unwrap_or_default())),
        None if rows.is_empty() && !summary.lost.is_empty() => {
            let reasons = lost::reasons(summary.lost.iter());
            Err(Failure::Error(format!("{}: no row was measured: {reasons}", summary.target)))
        }
        None => Ok(()),
    }
}

/// Of a run without a row: a page that is there may hold an older report, and is not replaced by an empty one.
fn nothing_measured(why: &str, page: Option<&Path>) {
    let page = page.map_or(String::new(), |page| format!("; {} is not written", page.display()));
    stderr::line(&format!("warning: {why}{page}"));
}

#[derive(Serialize)]
struct Last<'a> {
    summary: &'a Summary,
}

/// How long the whole takes, at most a day.
pub fn seconds(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(seconds) if seconds.is_finite() && (0.1..=86_400.0).contains(&seconds) => Ok(seconds),
        _ => Err("from 0.1 to 86400 seconds".into()),
    }
}
