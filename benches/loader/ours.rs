//! Our side of a race, through the public interface.

use std::collections::HashSet;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

use forebay::dataset::{self, DType, Dataset, Format, OpenOptions};
use forebay::loader::{Batch, Loader, LoaderBuilder};
use forebay::sampler::Shuffle;
use forebay::{Carrier, Device, Reader, ReaderBuilder};
use serde_json::Value;

use crate::data::RECORD;
use crate::machine;
use crate::order::Order;
use crate::outcome::Outcome;

/// Batches that are checked behind the measured time.
const CHECKED: usize = 4;

pub fn run(order: &Order) -> Result<Value, String> {
    let dataset = open(&order.case, &order.files)?;
    let shuffle = if order.case == "tar" { Shuffle::None } else { Shuffle::Full };
    // As fio's buffers, its memory is there before the clock runs; what it costs to have it is a case of its own, `first`.
    let carrier = Carrier::builder().reader(reader(order).prefault(true));
    let builder = builder(&dataset, order).carrier(carrier).shuffle(shuffle).endless();
    let mut loader = builder.build().map_err(|e| e.to_string())?;

    let (mut samples, mut bytes) = (0, 0);
    let threads_before = cpu_by_thread();
    let cpu_before = machine::own_cpu_seconds();
    let start = Instant::now();
    let mut last = None;
    while samples < order.samples {
        // Given back before the next is waited for, as by a loop that is done with it.
        drop(last.take());
        let batch = next(&mut loader)?;
        samples += batch.len() as u64;
        bytes += batch.bytes();
        last = Some(batch);
    }
    let seconds = start.elapsed().as_secs_f64();
    let cpu_seconds = machine::own_cpu_seconds() - cpu_before;
    let mut threads = cpu_by_thread();
    for (thread, seconds) in &mut threads {
        *seconds -= threads_before.iter().filter(|(name, _)| name == thread).map(|(_, before)| before).sum::<f64>();
    }
    let stats = loader.stats();
    let peak = machine::peak_rss();

    let mut notes = Vec::new();
    if let Some(batch) = last {
        check(&batch, &dataset)?;
    }
    for _ in 1..CHECKED {
        check(&next(&mut loader)?, &dataset)?;
    }
    notes.extend(through_the_cache(&stats));
    let outcome = Outcome { samples, bytes, seconds, cpu_seconds: Some(cpu_seconds), peak, threads, notes };
    Ok(outcome.to_json())
}

pub fn next(loader: &mut Loader) -> Result<Batch, String> {
    loader.blocking().next().ok_or("the loader has ended")?.map_err(|e| e.to_string())
}

/// The dataset of a case.
pub fn open(case: &str, files: &[PathBuf]) -> Result<Arc<dyn Dataset>, String> {
    let options = OpenOptions::new();
    let options = match case {
        "tar" | "first-tar" => options.format(Format::WebDataset).keep_index(true),
        "tokens" | "first-tokens" => options.format(Format::Tokens).dtype(DType::U16).seq_len(1024),
        "whole-tokens" => options.format(Format::Tokens).dtype(DType::U16).seq_len(1023).stride(1024),
        _ => options.format(Format::Records).record_bytes(RECORD),
    };
    dataset::open(files, &options).map(Arc::from).map_err(|e| e.to_string())
}

/// A loader for the host with what the order sets.
pub fn builder(dataset: &Arc<dyn Dataset>, order: &Order) -> LoaderBuilder {
    let builder = Loader::builder(Arc::clone(dataset)).device(&Device::host()).batch_size(order.batch).seed(order.seed);
    let builder = match order.budget {
        Some(bytes) => builder.budget(bytes),
        None => builder,
    };
    let builder = match order.prefetch {
        Some(batches) => builder.prefetch(batches as usize),
        None => builder,
    };
    builder.carrier(Carrier::builder().reader(reader(order)))
}

fn reader(order: &Order) -> ReaderBuilder {
    match order.depth {
        Some(depth) => Reader::builder().depth(depth).rings(1),
        None => Reader::builder(),
    }
}

/// The CPU seconds of this process's threads by name, so far; of one name together.
fn cpu_by_thread() -> Vec<(String, f64)> {
    let mut threads: Vec<(String, f64)> = Vec::new();
    for task in std::fs::read_dir("/proc/self/task").into_iter().flatten().flatten() {
        let read = |name: &str| std::fs::read_to_string(task.path().join(name)).unwrap_or_default();
        // Nanoseconds on a processor come first.
        let Some(spent) = read("schedstat").split(' ').next().and_then(|spent| spent.parse::<f64>().ok()) else {
            continue;
        };
        let name = read("comm").trim().to_owned();
        match threads.iter_mut().find(|(known, _)| *known == name) {
            Some((_, seconds)) => *seconds += spent / 1e9,
            None => threads.push((name, spent / 1e9)),
        }
    }
    threads
}

/// Sees that every row of a batch has the bytes of its sample's places.
pub fn check(batch: &Batch, dataset: &dyn Dataset) -> Result<(), String> {
    let files: Result<Vec<File>, _> = dataset.files().iter().map(|file| File::open(file.path())).collect();
    let files = files.map_err(|e| e.to_string())?;
    let mut seen = HashSet::new();
    for (row, &index) in batch.indices().iter().enumerate() {
        if !seen.insert(index) {
            return Err(format!("sample {index} is twice in a batch"));
        }
        let sample = dataset.sample(index).map_err(|e| e.to_string())?;
        for (spec, ranges) in sample.fields() {
            let mut wanted = Vec::new();
            for range in ranges {
                let from = wanted.len();
                wanted.resize(from + range.len as usize, 0);
                files[range.file as usize]
                    .read_exact_at(&mut wanted[from..], range.offset)
                    .map_err(|e| e.to_string())?;
            }
            let tensor = batch.tensor(&spec.name).ok_or(format!("a batch without {}", spec.name))?;
            if tensor.row(row) != Some(&wanted[..]) {
                return Err(format!("sample {index}: {} has wrong bytes", spec.name));
            }
        }
    }
    Ok(())
}

/// What would make the comparison another one than the table says.
fn through_the_cache(stats: &forebay::loader::LoaderStats) -> Option<String> {
    let share = stats.routes.cached as f64 / stats.routes.total().max(1) as f64;
    (share > 0.01).then(|| format!("{:.0} % of our bytes came through the page cache", share * 100.0))
}
