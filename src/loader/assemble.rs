//! The processor's part of a window: checks, transforms, padding, and copies of what could not be read to its place.

use std::sync::Arc;

use smallvec::SmallVec;

use super::caught;
use super::error::LoaderFault;
use super::plan::Window;
use super::transform::{Output, Sample, Transform, apply_caught};
use crate::dataset::{Dataset, Verified, brief};
use crate::memory::{Slot, copy};
use crate::route::{Carrier, FillPlan, Filled, RouteBytes};
use crate::storage::Pieces;

/// What is done to the samples of a window.
#[derive(Clone)]
pub(super) struct Work {
    pub(super) dataset: Arc<dyn Dataset>,
    pub(super) transform: Option<Arc<dyn Transform>>,
    pub(super) seed: u64,
    /// Whether a window goes on behind a sample that failed.
    pub(super) goes_on: bool,
}

/// Where the bytes of a window's samples come from.
pub(super) enum From {
    /// They were read to their place, or beside it.
    Filled(Filled),
    /// They are here, one piece for each of the window's extents, and become rows of the slot.
    Gathered(Pieces, Slot),
    /// They are read here, sample by sample, since reading them at once has failed: in memory that the largest of them was
    /// planned for.
    OneByOne(Carrier, Slot, FillPlan),
}

impl From {
    /// What was read beside the slot, all of it.
    pub(super) fn beside(filled: Filled) -> Self {
        let (slot, pieces) = filled.into_parts();
        Self::Gathered(pieces, slot)
    }
}

/// A window whose rows are in its memory.
pub(super) struct Assembled {
    pub(super) window: Box<Window>,
    pub(super) slot: Slot,
    pub(super) failures: Vec<Failure>,
    /// Bytes that were read here.
    pub(super) carried: RouteBytes,
}

/// A sample that is in none of the rows.
#[derive(Debug)]
pub(super) struct Failure {
    pub(super) batch: usize,
    /// Which of the batch's samples.
    pub(super) row: usize,
    pub(super) index: u64,
    pub(super) fault: LoaderFault,
}

impl Work {
    pub(super) fn assemble(&self, mut window: Box<Window>, from: From) -> Assembled {
        let mut carried = RouteBytes::default();
        let (mut slot, mut source) = match from {
            From::Filled(filled) => {
                return Assembled { slot: filled.finish(), window, failures: Vec::new(), carried };
            }
            From::Gathered(pieces, slot) => (slot, Source::Here(pieces)),
            // What was taken with the slot is free for the reads: nothing else is begun meanwhile.
            From::OneByOne(carrier, slot, plan) => (plan.divide(slot).0, Source::There(carrier)),
        };
        let mut failures: Vec<Failure> = Vec::new();
        for number in 0..window.batches.len() {
            self.batch(number, &window, &mut source, &mut slot, &mut failures, &mut carried);
            if !failures.is_empty() && !self.goes_on {
                break;
            }
        }
        if self.goes_on {
            close_gaps(&mut window, &mut slot, &failures);
        }
        Assembled { window, slot, failures, carried }
    }

    fn batch(
        &self,
        number: usize,
        window: &Window,
        source: &mut Source,
        slot: &mut Slot,
        failures: &mut Vec<Failure>,
        carried: &mut RouteBytes,
    ) {
        let batch = &window.batches[number];
        for (row, sample) in batch.samples.clone().enumerate() {
            let index = window.samples[sample].index;
            let outcome = source.read(window, sample, slot.len(), carried).and_then(|read| {
                let mut joined = Vec::new();
                let fields = fields_of(window, sample, &read, &mut joined);
                let fields = caught::verified(&*self.dataset, index, &fields)?;
                let mut rows = rows_of(row, batch, slot);
                self.fill(window, sample, batch.step.at.epoch, &fields, &mut rows)
            });
            if let Err(fault) = outcome {
                failures.push(Failure { batch: number, row, index, fault });
                if !self.goes_on {
                    return;
                }
            }
        }
    }

    /// Fills the rows of a sample, each as long as its tensor at least; what is longer is padded.
    fn fill(
        &self,
        window: &Window,
        sample: usize,
        epoch: u64,
        fields: &Verified<&[&[u8]]>,
        rows: &mut [&mut [u8]],
    ) -> Result<(), LoaderFault> {
        let fields = *fields.bytes();
        let transformed = self.transform.is_some();
        let range = if transformed { window.output_of(sample) } else { window.input_of(sample) };
        let specs = &window.tensors(transformed)[range];
        let mut exact: Rows<'_> = SmallVec::new();
        for (row, spec) in rows.iter_mut().zip(specs) {
            let len = spec.bytes().and_then(|bytes| usize::try_from(bytes).ok()).unwrap_or(0).min(row.len());
            let (row, padding) = row.split_at_mut(len);
            padding.fill(0);
            exact.push(row);
        }
        let Some(transform) = &self.transform else {
            exact.iter_mut().zip(fields).for_each(|(row, field)| copy(row, field));
            return Ok(());
        };
        let input = &window.input.tensors()[window.input_of(sample)];
        let index = window.samples[sample].index;
        let given = Sample::new(input, fields, index, epoch, self.seed);
        apply_caught(&**transform, &given, &mut Output::new(specs, &mut exact)).map_err(|error| {
            let first = window.extents.get(window.extents_of(sample).start);
            LoaderFault::Transform {
                path: first.map(|first| first.file().path().to_owned()).unwrap_or_default(),
                offset: first.map_or(0, |first| first.offset()),
                reason: brief(error.to_string()),
            }
        })
    }
}

enum Source {
    Here(Pieces),
    There(Carrier),
}

/// The extents of one sample.
enum Read<'a> {
    Here(&'a Pieces, std::ops::Range<usize>),
    There(Pieces),
}

impl Source {
    fn read(
        &mut self,
        window: &Window,
        sample: usize,
        held: usize,
        carried: &mut RouteBytes,
    ) -> Result<Read<'_>, LoaderFault> {
        let extents = window.extents_of(sample);
        match self {
            Self::Here(pieces) => Ok(Read::Here(pieces, extents)),
            Self::There(carrier) => {
                let gathered = carrier.gather_now(&window.extents[extents], held).map_err(LoaderFault::from)?;
                let (pieces, bytes) = gathered;
                *carried += bytes;
                Ok(Read::There(pieces))
            }
        }
    }
}

impl Read<'_> {
    fn piece(&self, number: usize) -> &[u8] {
        match self {
            Self::Here(pieces, extents) => pieces.get(extents.start + number),
            Self::There(pieces) => pieces.get(number),
        }
        .unwrap_or_default()
    }
}

/// The bytes of each tensor of a sample; those that lie in several ranges are joined in `joined`.
fn fields_of<'a>(
    window: &Window,
    sample: usize,
    read: &'a Read<'_>,
    joined: &'a mut Vec<u8>,
) -> SmallVec<[&'a [u8]; FEW]> {
    let tensors = window.input_of(sample);
    let mut first = 0;
    for tensor in tensors.clone() {
        let ranges = window.input.ranges_of(tensor).len();
        if ranges > 1 {
            (first..first + ranges).for_each(|piece| joined.extend_from_slice(read.piece(piece)));
        }
        first += ranges;
    }
    let mut joined = &joined[..];
    let mut first = 0;
    tensors
        .map(|tensor| {
            let ranges = window.input.ranges_of(tensor);
            let number = first;
            first += ranges.len();
            match ranges.len() {
                0 => &[][..],
                1 => read.piece(number),
                _ => {
                    let len: u64 = ranges.iter().map(|range| range.len).sum();
                    let (field, rest) = joined.split_at(len as usize);
                    joined = rest;
                    field
                }
            }
        })
        .collect()
}

/// Tensors of a sample that need no list on the heap.
const FEW: usize = 8;

type Rows<'a> = SmallVec<[&'a mut [u8]; FEW]>;

/// The memory of one row of every field of a batch that the sample has, in the order of its tensors.
fn rows_of<'a>(row: usize, batch: &super::plan::BatchPlan, slot: &'a mut [u8]) -> Rows<'a> {
    let mut rows: SmallVec<[(usize, &mut [u8]); FEW]> = SmallVec::new();
    let (mut rest, mut done) = (slot, 0);
    for (column, field) in batch.fields.iter().enumerate() {
        let Some(range) = field.row(row) else { continue };
        // Fields lie in their order in the memory.
        let (_, behind) = rest.split_at_mut(range.start - done);
        let (bytes, behind) = behind.split_at_mut(range.len());
        (rest, done) = (behind, range.end);
        match batch.table.tensor(column, row) {
            Some(tensor) => rows.push((tensor, bytes)),
            None => bytes.fill(0),
        }
    }
    rows.sort_unstable_by_key(|(tensor, _)| *tensor);
    rows.into_iter().map(|(_, bytes)| bytes).collect()
}

/// Moves rows up over those of samples that failed, which then are in no batch.
fn close_gaps(window: &mut Window, slot: &mut Slot, failures: &[Failure]) {
    for failure in failures {
        let sample = window.batches[failure.batch].samples.start + failure.row;
        let bytes = window.bytes_of(sample);
        window.batches[failure.batch].bytes -= bytes;
    }
    for (number, batch) in window.batches.iter_mut().enumerate() {
        let failed = || failures.iter().filter(|failure| failure.batch == number);
        if failed().next().is_none() {
            continue;
        }
        let mut keep = vec![true; batch.indices.len()];
        for failure in failed() {
            keep[failure.row] = false;
        }
        for field in &mut batch.fields {
            let kept = field.clone().keeping(&keep);
            let rows = keep.iter().enumerate().filter(|(_, keep)| **keep);
            for (to, (row, _)) in rows.enumerate() {
                if let (Some(from), Some(place)) = (field.row(row), kept.row(to)) {
                    slot.copy_within(from, place.start);
                }
            }
            *field = kept;
        }
        let mut number = 0..;
        batch.indices.retain(|_| number.next().and_then(|i: usize| keep.get(i)).is_none_or(|keep| *keep));
    }
}
