//! What was left out of the batches that were handed over, and when that ends the loader.

use std::sync::Arc;

use super::batch::Origin;
use super::error::{LoaderError, LoaderFault};
use super::left_out::{Tally, all_skipped};
use super::plan::LeftOut;
use super::shared::Shared;
use crate::route::CarryFault;
use crate::sampler::{Cursor, Sampler};
use crate::storage::ReadFault;

pub(super) struct Account {
    /// How many corrupt samples may be skipped; `None` where the first one is an error.
    limit: Option<u64>,
    steps_an_epoch: u64,
    epochs: Option<u64>,
    skipped: u64,
    missing: u64,
    tally: Tally,
    /// Of the epoch that is being handed over, where it is whole and has given no batch so far.
    barren: Option<Barren>,
    origin: Arc<Origin>,
    shared: Arc<Shared>,
}

#[derive(Clone, Copy, Default)]
struct Barren {
    samples: u64,
    /// How many of them lack a field.
    missing: u64,
}

/// What became of the samples of one batch.
pub(super) struct Accounted {
    /// Those that were read, or skipped.
    pub(super) samples: u64,
    pub(super) left_out: LeftOut,
    /// Nothing is left of it.
    pub(super) is_empty: bool,
}

impl Account {
    pub(super) fn new(limit: Option<u64>, sampler: &Sampler, origin: Arc<Origin>, shared: Arc<Shared>) -> Self {
        Self {
            limit,
            steps_an_epoch: sampler.steps_an_epoch(),
            epochs: sampler.epochs(),
            skipped: 0,
            missing: 0,
            tally: Tally::default(),
            barren: None,
            origin,
            shared,
        }
    }

    /// Counts a corrupt sample.
    ///
    /// # Errors
    /// Where no more may be skipped, or the sample is not to blame.
    pub(super) fn skip(&mut self, error: LoaderError) -> Result<(), LoaderError> {
        match self.limit {
            None => Err(error),
            Some(_) if !is_of_sample(&error.fault) => Err(error),
            Some(limit) if self.skipped >= limit => {
                let fault = LoaderFault::TooManySkipped { limit, last: Box::new(error.fault) };
                Err(LoaderError { fault, ..error })
            }
            Some(_) => {
                self.skipped += 1;
                self.shared.state().stats.skipped = self.skipped;
                tracing::warn!("skipped: {error}");
                Ok(())
            }
        }
    }

    /// Counts the samples of the batch that begins there, and warns of the first that lacks a field, and where such samples
    /// are most.
    ///
    /// # Errors
    /// Where it ends an epoch that gave no batch.
    pub(super) fn note(&mut self, at: Cursor, batch: Accounted) -> Result<(), LoaderError> {
        let Accounted { samples, left_out, is_empty } = batch;
        let missing = left_out.samples;
        let epoch_ends = at.batch + 1 == self.steps_an_epoch;
        self.note_left_out(samples, left_out, epoch_ends);
        if at == (Cursor { epoch: at.epoch, ..Cursor::default() }) {
            self.barren = Some(Barren::default());
        }
        self.barren = self
            .barren
            .filter(|_| is_empty)
            .map(|before| Barren { samples: before.samples + samples + missing, missing: before.missing + missing });
        // Nothing limits how many epochs would give nothing, nor how many samples are left out.
        let goes_on = self.epochs.is_none_or(|epochs| at.epoch.saturating_add(1) < epochs);
        match self.barren {
            Some(barren) if epoch_ends && (goes_on || barren.missing > 0) => {
                Err(all_skipped(&*self.origin.dataset, barren.samples, at))
            }
            _ => Ok(()),
        }
    }

    fn note_left_out(&mut self, others: u64, left_out: LeftOut, epoch_ends: bool) {
        if let Some(first) = left_out.first.filter(|_| self.missing == 0) {
            tracing::warn!("left out, like every sample that lacks a field: {first}");
        }
        if left_out.samples > 0 {
            self.missing += left_out.samples;
            self.shared.state().stats.missing = self.missing;
        }
        self.tally.add_samples(others + left_out.samples);
        left_out.lacking.iter().for_each(|(field, samples)| self.tally.add_left_out(field, *samples));
        if let Some(warning) = self.tally.warning(&*self.origin.dataset, epoch_ends) {
            tracing::warn!("{warning}");
        }
    }
}

/// Whether another sample may fare better.
fn is_of_sample(fault: &LoaderFault) -> bool {
    match fault {
        LoaderFault::Carry(error) => !matches!(
            error.fault,
            CarryFault::Device(_)
                | CarryFault::Read(ReadFault::EngineEnded | ReadFault::DeviceGone | ReadFault::Forked)
        ),
        _ => true,
    }
}
