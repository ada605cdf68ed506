//! `forebay order`: which samples make which batch, without reading one of them.

use std::time::Instant;

use forebay::dataset::{Dataset, DatasetError, DatasetFault, Fields, SampleSpec, open};
use forebay::loader::left_out::{Tally, all_skipped};
use forebay::sampler::{Cursor, State, Step};

use crate::args::{self, Common};
use crate::batches::{Batch, Lines, Summary};
use crate::failure::{Failure, Outcome};
use crate::interrupt::Interrupt;
use crate::loader_flags::Missing;
use crate::stderr::{self, one_line};

pub fn run(common: &Common, order: &args::Order) -> Outcome {
    let start = Instant::now();
    let dataset = open(&order.paths, &order.flags.dataset.options()).map_err(Failure::of)?;
    let beginning = order.flags.begin(&dataset)?;
    let mut sampler = order.flags.sampler(&beginning, dataset.len())?;
    let state = |cursor| State::new(beginning.fingerprint.clone(), beginning.seed, beginning.shuffle, cursor);
    let saver = beginning.saver(|| state(sampler.cursor()))?;
    let mut lines = Lines::open(common.json, saver.clone())?;
    let interrupt = Interrupt::stopping(|| (), saver.clone())?;
    let mut summary = Summary::default();
    let mut indices = Vec::new();
    let mut located = Located::new(&dataset, order.flags.missing);
    let mut print = || {
        while order.flags.max_batches.is_none_or(|most| summary.batches < most) {
            indices.clear();
            let Some(step) = sampler.next_step(&mut indices) else { break };
            let is_last_of_epoch = step.at.batch + 1 == sampler.steps_an_epoch();
            let batch = located.batch(step, &mut indices)?;
            located.check_epoch(&batch, step.at, is_last_of_epoch)?;
            if batch.ids.is_empty() {
                continue;
            }
            summary.count(&batch);
            lines.batch(&batch, || state(step.next))?;
            if interrupt.has_come() {
                lines.flush()?;
                return Err(Failure::Interrupted);
            }
        }
        lines.flush()?;
        // Behind the last batch there may have been some of which all samples were left out.
        Ok(state(sampler.cursor()))
    };
    let (end, outcome) = match print() {
        Ok(end) => (Some(end), Ok(())),
        Err(failure) => (None, Err(failure)),
    };
    let saved = saver.map_or(Ok(()), |saver| saver.finish(end));
    if let Err(Failure::Error(_)) = outcome {
        return outcome;
    }
    saved?;
    if let Err(Failure::StdoutClosed) = outcome {
        return outcome;
    }
    summary.skipped_missing = located.left_out;
    summary.seconds = start.elapsed().as_secs_f64();
    lines.summary(&summary, &in_words(&summary))?;
    outcome
}

/// Finds the samples of batches, and those that lack a field among them.
struct Located<'a> {
    dataset: &'a dyn Dataset,
    fields: Option<Fields>,
    missing: Missing,
    left_out: u64,
    tally: Tally,
    /// How many had been left out when an epoch began that has given no batch so far.
    before_epoch: Option<u64>,
    spec: SampleSpec,
}

impl<'a> Located<'a> {
    fn new(dataset: &'a dyn Dataset, missing: Missing) -> Self {
        Self {
            dataset,
            fields: dataset.fields(),
            missing,
            left_out: 0,
            tally: Tally::default(),
            before_epoch: None,
            spec: SampleSpec::new(),
        }
    }

    /// An epoch that gives no batch ends the order, as it ends a loader.
    fn check_epoch(&mut self, batch: &Batch<'_>, at: Cursor, is_last: bool) -> Outcome {
        if let Some(warning) = self.tally.warning(self.dataset, is_last) {
            stderr::line(&format!("warning: {}", one_line(&warning)));
        }
        if !batch.ids.is_empty() {
            self.before_epoch = None;
        }
        match self.before_epoch {
            Some(before) if is_last && self.left_out > before => {
                Err(Failure::of(all_skipped(self.dataset, self.left_out - before, at)))
            }
            _ => Ok(()),
        }
    }

    /// What the loader would give for a step; it takes those from `indices` that are left out.
    fn batch(&mut self, step: Step, indices: &mut Vec<u64>) -> Result<Batch<'a>, Failure> {
        if step.at.batch == 0 {
            self.before_epoch = Some(self.left_out);
        }
        let (mut bytes, mut padded, mut kept) = (0_u64, step.padded, 0);
        self.tally.add_samples(indices.len() as u64);
        let real = (indices.len() as u64).saturating_sub(padded);
        for row in 0..indices.len() {
            let index = indices[row];
            self.spec.clear();
            self.dataset.locate(index, &mut self.spec).map_err(Failure::of)?;
            match self.fields.as_ref().map_or(Ok(()), |fields| fields.check(self.dataset, &self.spec)) {
                Err(error) if is_missing(&error) && self.missing == Missing::Skip => {
                    if self.left_out == 0 {
                        let error = one_line(&named(&error, self.dataset, index, step));
                        stderr::line(&format!("warning: left out, like every sample that lacks a field: {error}"));
                    }
                    self.left_out += 1;
                    if let DatasetFault::MissingField { field, .. } = &error.fault {
                        self.tally.add_left_out(field, 1);
                    }
                    padded -= u64::from(row as u64 >= real);
                    continue;
                }
                Err(error) if is_missing(&error) && self.missing == Missing::Allow => {}
                Err(error) => return Err(Failure::Error(named(&error, self.dataset, index, step))),
                Ok(()) => {}
            }
            bytes = bytes.saturating_add(self.spec.bytes());
            indices[kept] = index;
            kept += 1;
        }
        indices.truncate(kept);
        let ids = indices.iter().map(|index| self.dataset.id(*index)).collect();
        Ok(Batch { epoch: step.at.epoch, batch: step.at.batch, ids, bytes, padded, sha256: None })
    }
}

fn is_missing(error: &DatasetError) -> bool {
    matches!(error.fault, DatasetFault::MissingField { .. })
}

/// As an error of the loader's says it.
fn named(error: &DatasetError, dataset: &dyn Dataset, index: u64, step: Step) -> String {
    format!("{error} (sample {}, in batch {} of epoch {})", dataset.id(index), step.at.batch, step.at.epoch)
}

fn in_words(summary: &Summary) -> String {
    format!("{}; none was read{}", summary.in_words(), summary.missing_in_words())
}
