//! `forebay cat`: bytes of a file to stdout.

use std::collections::{BTreeMap, VecDeque};
use std::time::Instant;

use forebay::{Carrier, Carry, Decision, DeviceKind, Extent, File};
use serde::Serialize;

use crate::args::{self, Common};
use crate::failure::{Failure, Outcome};
use crate::stderr::Progress;
use crate::stdout::Stdout;
use crate::{carrier, json, stderr};

pub fn run(common: &Common, cat: &args::Cat) -> Outcome {
    let device = carrier::device_and_back(common)?;
    let carrier = carrier::build(common, &device, Some(&cat.file), usual_budget(cat))?;
    let file = carrier.open(&cat.file).map_err(Failure::of)?;
    let (offset, length) = range(&file, cat)?;
    let stdout = Stdout::open()?;
    let start = Instant::now();
    let extent = Extent::new(&file, offset, length);
    match device.kind() {
        DeviceKind::Host => copy(&carrier, extent, stdout)?,
        _ => copy_by_device(&carrier, extent, stdout)?,
    }
    if common.json {
        let summary = Summary::new(&carrier, &file, length, start.elapsed().as_secs_f64());
        stderr::line(&json::line(&Line { summary })?);
    }
    Ok(())
}

/// Room for the reads ahead of a large file; a small one is not worth the time that so much memory takes.
fn usual_budget(cat: &args::Cat) -> u64 {
    const LARGE: u64 = 64 << 20;
    const SMALL: u64 = 1 << 20;
    let size = std::fs::metadata(&cat.file).map_or(0, |file| file.len());
    // A block device says 0.
    let size = if size == 0 { u64::MAX } else { size };
    let bytes = cat.length.map_or(size, |length| length.0.min(size));
    bytes.saturating_mul(2).clamp(SMALL, LARGE)
}

/// Straight from where the bytes landed.
fn copy(carrier: &Carrier, extent: Extent, mut stdout: Stdout) -> Outcome {
    let progress = Progress::of_output(extent.len());
    let mut parts = carrier.reader().stream(vec![extent]);
    while let Some(part) = parts.next_blocking() {
        let part = part.map_err(Failure::of)?;
        stdout.write(&part)?;
        progress.advance(part.len() as u64);
    }
    Ok(())
}

/// Up to the device and back, so that what lands there can be checked byte for byte.
fn copy_by_device(carrier: &Carrier, extent: Extent, mut stdout: Stdout) -> Outcome {
    const MOST: u64 = 16 << 20;
    const AHEAD: usize = 2;
    let progress = Progress::of_output(extent.len());
    // Whole blocks, and room on the device for those ahead with what alignment adds to each.
    let part = (carrier.reader().arena().budget() / (AHEAD as u64 + 1) / 2).clamp(4096, MOST) / 4096 * 4096;
    let end = extent.offset() + extent.len();
    let mut next = extent.offset();
    let mut under_way: VecDeque<Carry> = VecDeque::new();
    loop {
        while under_way.len() < AHEAD && next < end {
            let len = (part - next % part).min(end - next);
            under_way.push_back(carrier.carry(&[Extent::new(extent.file(), next, len)]));
            next += len;
        }
        let Some(carry) = under_way.pop_front() else { return Ok(()) };
        let landed = carry.wait().map_err(Failure::of)?;
        let bytes = landed.to_host(0).map_err(Failure::of)?;
        drop(landed);
        stdout.write(&bytes)?;
        progress.advance(bytes.len() as u64);
    }
}

/// The range asked for, refused whole if any of it lies past the end: nothing is to be written before that is known.
fn range(file: &File, cat: &args::Cat) -> Result<(u64, u64), Failure> {
    let (size, offset) = (file.len(), cat.offset.0);
    let failed = |what: String, fix: &str| {
        let path = file.path().display();
        Err(Failure::Error(format!("{path} at {offset}: {what} the end of the file, which has {size} bytes; {fix}")))
    };
    let Some(rest) = size.checked_sub(offset) else {
        return failed("the range begins past".to_owned(), "begin inside it");
    };
    match cat.length {
        Some(length) if length.0 > rest => failed(format!("a range of {} bytes passes", length.0), "ask for less"),
        Some(length) => Ok((offset, length.0)),
        None => Ok((offset, rest)),
    }
}

#[derive(Serialize)]
struct Line {
    summary: Summary,
}

#[derive(Serialize)]
struct Summary {
    bytes: u64,
    seconds: f64,
    bytes_per_second: f64,
    engine: String,
    device: String,
    mode: &'static str,
    routes: BTreeMap<&'static str, u64>,
    decision: Option<Decided>,
}

#[derive(Serialize)]
struct Decided {
    chosen: String,
    compat: bool,
    rejected: Vec<Rejected>,
}

#[derive(Serialize)]
struct Rejected {
    route: String,
    reason: String,
    fix: String,
}

impl Summary {
    fn new(carrier: &Carrier, file: &File, bytes: u64, seconds: f64) -> Self {
        let decision = carrier.decision(file);
        Self {
            bytes,
            seconds,
            bytes_per_second: if seconds > 0.0 { bytes as f64 / seconds } else { 0.0 },
            engine: carrier.reader().engine().to_string(),
            device: carrier.device().to_string(),
            mode: mode(carrier, decision.as_ref()),
            routes: routes(carrier),
            decision: decision.map(Decided::new),
        }
    }
}

impl Decided {
    fn new(decision: Decision) -> Self {
        let rejected = decision.rejected.iter().map(|rejected| Rejected {
            route: rejected.route.to_string(),
            reason: rejected.reason.to_string(),
            fix: rejected.fix(),
        });
        Self { chosen: decision.chosen.to_string(), compat: decision.compat, rejected: rejected.collect() }
    }
}

/// Bytes by the route that carried them: on the host those of the reader, whose stream delivered them.
fn routes(carrier: &Carrier) -> BTreeMap<&'static str, u64> {
    if carrier.device().kind() != DeviceKind::Host {
        return carrier.carried().by_name().collect();
    }
    let stats = carrier.reader().stats();
    let carried = [("bounce", stats.bytes_direct), ("cached", stats.bytes_buffered)];
    carried.into_iter().filter(|(_, bytes)| *bytes > 0).collect()
}

/// Past the page cache, through it or both; of no bytes, what would have been.
fn mode(carrier: &Carrier, decision: Option<&Decision>) -> &'static str {
    let routes = routes(carrier);
    let buffered = routes.contains_key("cached") || routes.contains_key("direct (compat)");
    let direct = routes.contains_key("bounce") || routes.contains_key("direct");
    match (direct, buffered) {
        (true, true) => "mixed",
        (true, false) => "direct",
        (false, true) => "buffered",
        (false, false) if decision.is_some_and(|decision| decision.chosen == forebay::Route::Cached) => "buffered",
        (false, false) => "direct",
    }
}
