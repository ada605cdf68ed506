//! `forebay order`: which samples make which batch, without reading one of them.

use std::time::Instant;

use forebay::dataset::{Dataset, DatasetError, SampleSpec, open};
use forebay::sampler::{State, Step};

use crate::args::{self, Common};
use crate::batches::{Batch, Lines, Summary};
use crate::failure::{Failure, Outcome};

pub fn run(common: &Common, order: &args::Order) -> Outcome {
    let start = Instant::now();
    let dataset = open(&order.paths, &order.flags.dataset.options()).map_err(Failure::of)?;
    let beginning = order.flags.begin(&dataset)?;
    let mut sampler = order.flags.sampler(&beginning, dataset.len())?;
    let mut lines = Lines::open(common.json)?;
    let mut summary = Summary::default();
    let (mut indices, mut spec) = (Vec::new(), SampleSpec::new());
    while order.flags.max_batches.is_none_or(|most| summary.batches < most) {
        indices.clear();
        let Some(step) = sampler.next_step(&mut indices) else { break };
        let batch = batch(&dataset, step, &indices, &mut spec).map_err(Failure::of)?;
        summary.count(&batch);
        lines.batch(&batch)?;
    }
    summary.seconds = start.elapsed().as_secs_f64();
    lines.summary(&summary, &in_words(&summary))?;
    let Some(file) = &beginning.save else { return Ok(()) };
    file.save(&State::new(beginning.fingerprint, beginning.seed, beginning.shuffle, sampler.cursor()))
}

fn batch<'a>(
    dataset: &'a dyn Dataset,
    step: Step,
    indices: &[u64],
    spec: &mut SampleSpec,
) -> Result<Batch<'a>, DatasetError> {
    let mut bytes = 0_u64;
    for index in indices {
        spec.clear();
        dataset.locate(*index, spec)?;
        bytes = bytes.saturating_add(spec.bytes());
    }
    let ids = indices.iter().map(|index| dataset.id(*index)).collect();
    Ok(Batch { epoch: step.at.epoch, batch: step.at.batch, ids, bytes, padded: step.padded, sha256: None })
}

fn in_words(summary: &Summary) -> String {
    format!("{}; none was read", summary.in_words())
}
