//! Loaders that are built and dropped, again and again: seconds, and what they leave behind.

use std::fs;
use std::time::Instant;

use forebay::loader::LoaderBuilder;
use forebay::sampler::Shuffle;

use crate::figures::Figures;
use crate::order::Order;
use crate::ours;

const CYCLES: u32 = 30;

pub fn run(order: &Order) -> Result<Figures, String> {
    let dataset = ours::open(&order.case, &order.files)?;
    let small = || ours::builder(&dataset, order).shuffle(Shuffle::Full).endless().budget(32 << 20);
    let usual = || ours::builder(&dataset, order).shuffle(Shuffle::Full).endless();
    // What is made once in a process is not left behind by a loader.
    cycle(&small, 1)?;
    let before = (count("task"), count("fd"));
    let mut figures: Figures = vec![
        ("build and drop, 32 MiB, ms".into(), cycle(&small, 0)?),
        ("with one batch, 32 MiB, ms".into(), cycle(&small, 1)?),
        ("build and drop, default budget, ms".into(), cycle(&usual, 0)?),
        ("with one batch, default budget, ms".into(), cycle(&usual, 1)?),
    ];
    figures.push(("threads left".into(), count("task") - before.0));
    figures.push(("descriptors left".into(), count("fd") - before.1));
    Ok(figures)
}

/// Milliseconds of one build and drop, with so many batches between.
fn cycle(builder: &dyn Fn() -> LoaderBuilder, batches: u32) -> Result<f64, String> {
    let start = Instant::now();
    for _ in 0..CYCLES {
        let mut loader = builder().build().map_err(|e| e.to_string())?;
        for _ in 0..batches {
            ours::next(&mut loader)?;
        }
    }
    Ok(start.elapsed().as_secs_f64() * 1e3 / f64::from(CYCLES))
}

/// Entries of one of this process's folders in /proc.
fn count(folder: &str) -> f64 {
    fs::read_dir(format!("/proc/self/{folder}")).map_or(f64::NAN, |entries| entries.count() as f64)
}
