//! A billion samples: what it takes to begin, and that memory stays as it is.

use std::sync::Arc;
use std::time::Instant;

use forebay::dataset::{DType, DataFile, Dataset, DatasetError, FileRange, Fingerprint, SampleSpec, TensorSpec};
use forebay::sampler::{Order as Permutation, Remainder, Sampler, Shuffle, World};

use crate::figures::Figures;
use crate::order::Order;
use crate::ours;

const SAMPLES: u64 = 1_000_000_000;
const SAMPLE: u64 = 4096;
const STEPS: u64 = 10_000;
const BATCHES: u32 = 2000;

/// Blocks of one file, again and again: samples that need no table.
#[derive(Debug)]
struct Synthetic {
    files: [DataFile; 1],
    block: TensorSpec,
}

impl Dataset for Synthetic {
    fn len(&self) -> u64 {
        SAMPLES
    }

    fn files(&self) -> &[DataFile] {
        &self.files
    }

    fn locate(&self, index: u64, sample: &mut SampleSpec) -> Result<(), DatasetError> {
        if index >= SAMPLES {
            return Err(DatasetError::no_sample(index, SAMPLES));
        }
        let offset = index % (self.files[0].len() / SAMPLE) * SAMPLE;
        sample.push(self.block.clone(), [FileRange { file: 0, offset, len: SAMPLE }]);
        Ok(())
    }

    fn fingerprint(&self) -> Fingerprint {
        Fingerprint::new("synthetic", "", SAMPLES, &self.files)
    }
}

pub fn run(order: &Order) -> Result<Figures, String> {
    let told = |e: &dyn std::fmt::Display| e.to_string();
    let file = order.files.first().ok_or("no file")?;
    let start = Instant::now();
    let block = TensorSpec::new("block", DType::U8, [SAMPLE]);
    let files = [DataFile::new(file).map_err(|e| told(&e))?];
    let dataset: Arc<dyn Dataset> = Arc::new(Synthetic { files, block });
    let opened = start.elapsed();

    let permutation = Permutation::new(&dataset.fingerprint(), SAMPLES, order.seed, Shuffle::Full);
    let sampler = Sampler::new(permutation, World::single(), order.batch, Remainder::Drop, false, None);
    let mut sampler = sampler.map_err(|e| told(&e))?;
    let mut indices = Vec::with_capacity(order.batch as usize);
    let before = resident();
    let start = Instant::now();
    let mut sum = 0_u64;
    for _ in 0..STEPS {
        indices.clear();
        sampler.next_step(&mut indices).ok_or("the order has ended")?;
        sum = indices.iter().fold(sum, |sum, index| sum.wrapping_add(*index));
    }
    let ordered = start.elapsed().as_secs_f64();
    let of_order = resident() - before;

    let start = Instant::now();
    let builder = ours::builder(&dataset, order).shuffle(Shuffle::Full).endless();
    let mut loader = builder.build().map_err(|e| told(&e))?;
    let built = (opened + start.elapsed()).as_secs_f64() * 1e3;
    let after_build = resident();

    // What the pipeline takes while it fills is not growth.
    for _ in 0..BATCHES / 10 {
        ours::next(&mut loader)?;
    }
    let filled = resident();
    for _ in 0..BATCHES {
        ours::next(&mut loader)?;
    }
    let after = resident();
    ours::check(&ours::next(&mut loader)?, &dataset)?;
    // The sum is used, so that the loop is not left out.
    let mean = sum as f64 / (STEPS * order.batch) as f64 / SAMPLES as f64;
    if !(0.4..0.6).contains(&mean) {
        return Err(format!("the mean of the order's samples is {mean:.3} of all, and should be 0.5"));
    }
    let mib = |bytes: f64| bytes / f64::from(1 << 20);
    Ok(vec![
        ("build with its dataset, ms".into(), built),
        ("resident after build, MiB".into(), mib(after_build)),
        ("grown over 10000 steps of order, MiB".into(), mib(of_order)),
        ("order, ns/sample".into(), ordered * 1e9 / (STEPS * order.batch) as f64),
        ("grown over 200 batches, MiB".into(), mib(filled - after_build)),
        ("grown over 2000 more, MiB".into(), mib(after - filled)),
    ])
}

/// Bytes of memory that this process has of its own now: pages of its program that it runs for the first time are no growth.
fn resident() -> f64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let kib = status.lines().find_map(|line| line.strip_prefix("RssAnon:"));
    let kib = kib.and_then(|text| text.trim().strip_suffix(" kB")?.trim().parse::<f64>().ok());
    kib.map_or(f64::NAN, |kib| kib * 1024.0)
}
