//! `forebay cat`: bytes of a file to stdout.

use std::collections::BTreeMap;
use std::time::Instant;

use forebay::{Extent, File, Mode, Reader};
use serde::Serialize;

use crate::args::{self, Common};
use crate::failure::{Failure, Outcome};
use crate::stderr::Progress;
use crate::stdout::Stdout;
use crate::{json, reader, stderr};

pub fn run(common: &Common, cat: &args::Cat) -> Outcome {
    common.require_host()?;
    let reader = reader::build(common, usual_budget(cat))?;
    let file = reader.open(&cat.file).map_err(Failure::of)?;
    let (offset, length) = range(&file, cat)?;
    let stdout = Stdout::open()?;
    let start = Instant::now();
    copy(&reader, Extent::new(&file, offset, length), stdout)?;
    if common.json {
        let summary = Summary::new(common, &reader, &file, length, start.elapsed().as_secs_f64());
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

fn copy(reader: &Reader, extent: Extent, mut stdout: Stdout) -> Outcome {
    let progress = Progress::start(extent.len());
    let mut parts = reader.stream(vec![extent]);
    while let Some(part) = parts.next_blocking() {
        let part = part.map_err(Failure::of)?;
        stdout.write(&part)?;
        progress.advance(part.len() as u64);
    }
    Ok(())
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
    mode: &'static str,
    routes: BTreeMap<&'static str, u64>,
}

impl Summary {
    fn new(common: &Common, reader: &Reader, file: &File, bytes: u64, seconds: f64) -> Self {
        let stats = reader.stats();
        let carried = [("bounce", stats.bytes_direct), ("cached", stats.bytes_buffered)];
        let mode = match carried {
            [(_, 0), (_, 0)] => mode_of_no_bytes(common, file),
            [(_, _), (_, 0)] => "direct",
            [(_, 0), (_, _)] => "buffered",
            _ => "mixed",
        };
        Self {
            bytes,
            seconds,
            bytes_per_second: if seconds > 0.0 { bytes as f64 / seconds } else { 0.0 },
            engine: reader.engine().to_string(),
            mode,
            routes: carried.into_iter().filter(|(_, bytes)| *bytes > 0).collect(),
        }
    }
}

/// How bytes would have been read, had there been any.
fn mode_of_no_bytes(common: &Common, file: &File) -> &'static str {
    match reader::mode(common.route) {
        Mode::Direct => "direct",
        Mode::Buffered => "buffered",
        _ if file.direct().is_ok() => "direct",
        _ => "buffered",
    }
}
