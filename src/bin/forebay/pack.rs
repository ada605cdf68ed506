//! `forebay pack`: a dataset as safetensors files whose data begins on a block.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, OnceLock};
use std::time::Instant;

use forebay::dataset::{DataFile, Dataset, Format, Safetensors, Stored, open_stored, shown as shown_path};
use forebay::pack::{PackOptions, Packed, PackedFile, pack, pack_tensors};
use serde::Serialize;

use crate::args::{self, Common, Device};
use crate::byte_count::{counted, rate, shown};
use crate::failure::{Failure, Outcome};
use crate::stderr::{Progress, one_line};
use crate::stdout::Stdout;
use crate::{carrier, json};

pub fn run(common: &Common, pack: &args::Pack) -> Outcome {
    let start = Instant::now();
    let stored = open_stored(&pack.inputs, &pack.dataset.options()).map_err(Failure::of)?;
    let packed = write(&stored, &pack.out, options(common, pack, &stored)?)?;
    let summary = Summary::new(&packed, start.elapsed().as_secs_f64());
    let mut text = String::new();
    for file in &packed.files {
        text += &match common.json {
            true => json::line(&Shard::new(file))?,
            false => in_words(file),
        };
        text.push('\n');
    }
    text += &match common.json {
        true => json::line(&Line { summary })?,
        false => summary.in_words(folder_of(&packed, &pack.out)),
    };
    text.push('\n');
    Stdout::open()?.write(text.as_bytes())
}

/// The folder that shards were written to, where it is not one file that was asked for.
fn folder_of<'a>(packed: &Packed, out: &'a Path) -> Option<&'a Path> {
    packed.files.iter().any(|file| file.path != out).then_some(out)
}

/// Samples where there are some; the tensors of most models are packed as they are.
fn write(stored: &Stored, out: &Path, options: PackOptions) -> Result<Packed, Failure> {
    let dataset: &dyn Dataset = &stored.dataset;
    let packed = match stored.samples {
        Some(_) => pack(dataset, out, &options),
        None => pack_tensors(dataset, dataset.stored(), out, &options),
    };
    packed.map_err(Failure::of)
}

fn options(common: &Common, pack: &args::Pack, stored: &Stored) -> Result<PackOptions, Failure> {
    const BUDGET: u64 = 64 << 20;
    if matches!(common.device, Device::Cuda(_)) {
        let what = "packing reads to host memory, whose bytes go to files; leave --device out, or give --device host";
        return Err(Failure::Error(what.to_owned()));
    }
    let input = stored.dataset.files().first().map(DataFile::path);
    let carrier = carrier::build(common, &forebay::Device::host(), input, BUDGET)?;
    let mut options = PackOptions::new().with(&carrier).overwrite(pack.overwrite);
    if let Some(bytes) = pack.shard_bytes {
        options = options.shard_bytes(bytes.0);
    }
    for (key, value) in metadata(stored)? {
        options = options.metadata(key, value);
    }
    let bar = Arc::new(OnceLock::new());
    Ok(options.progress(move |progress| {
        bar.get_or_init(|| Progress::start(progress.total)).reach(progress.bytes);
    }))
}

/// What the input says of itself, such as the framework that a checkpoint is of; what a pack has said is said anew.
fn metadata(stored: &Stored) -> Result<BTreeMap<String, String>, Failure> {
    if stored.format != Format::Safetensors {
        return Ok(BTreeMap::new());
    }
    let paths: Vec<&Path> = stored.dataset.files().iter().map(DataFile::path).collect();
    let mut metadata = Safetensors::open(&paths).map_err(Failure::of)?.metadata().clone();
    metadata.retain(|key, _| !key.starts_with("forebay."));
    Ok(metadata)
}

fn in_words(file: &PackedFile) -> String {
    let path = one_line(&shown_path(&file.path));
    let samples = if file.samples > 0 { counted(file.samples, "sample") + ", " } else { String::new() };
    format!("{path}: {samples}{}, {}", counted(file.tensors, "tensor"), shown(file.bytes))
}

#[derive(Serialize)]
struct Shard {
    file: String,
    samples: u64,
    tensors: u64,
    bytes: u64,
}

impl Shard {
    fn new(file: &PackedFile) -> Self {
        let PackedFile { path, samples, tensors, bytes, .. } = file;
        Self { file: shown_path(path).into_owned(), samples: *samples, tensors: *tensors, bytes: *bytes }
    }
}

#[derive(Serialize)]
struct Line {
    summary: Summary,
}

#[derive(Serialize)]
struct Summary {
    layout: &'static str,
    files: u64,
    samples: u64,
    tensors: u64,
    bytes: u64,
    seconds: f64,
    bytes_per_second: f64,
    /// Whether all of it was written past the page cache.
    direct: bool,
}

impl Summary {
    fn new(packed: &Packed, seconds: f64) -> Self {
        Self {
            layout: packed.layout.name(),
            files: packed.files.len() as u64,
            samples: packed.samples,
            tensors: packed.tensors,
            bytes: packed.bytes,
            seconds,
            bytes_per_second: if seconds > 0.0 { packed.bytes as f64 / seconds } else { 0.0 },
            direct: packed.direct,
        }
    }

    fn in_words(&self, folder: Option<&Path>) -> String {
        let way = if self.direct { "past the page cache" } else { "through the page cache" };
        let place = folder.map_or(String::new(), |folder| format!("; in folder {}", one_line(&shown_path(folder))));
        format!(
            "{} as {}, {} in {:.3} s {way}: {}{place}",
            counted(self.files, "file"),
            self.layout,
            shown(self.bytes),
            self.seconds,
            rate(self.bytes_per_second)
        )
    }
}
