//! What is read next: samples of a few batches, where they lie in their files, and where in memory they are to lie.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use super::caught;
use super::error::{LoaderError, LoaderFault};
use super::missing::{Columns, Missing, Verdict};
use super::rows::{Field, Ragged, Table, lay_out};
use super::transform::{Transform, specs_caught};
use crate::dataset::{DataFile, Dataset, SampleSpec, TensorSpec, brief};
use crate::route::Carrier;
use crate::sampler::{Cursor, Sampler, Step};
use crate::storage::{Extent, File, Place};

/// A few batches that are read at once, into one piece of memory.
#[derive(Debug, Default)]
pub(super) struct Window {
    pub(super) batches: Vec<BatchPlan>,
    /// The tensors of all samples as they lie in the files, one sample after the other.
    pub(super) input: SampleSpec,
    /// The same after the transform; of no use where there is none.
    pub(super) output: Vec<TensorSpec>,
    pub(super) samples: Vec<SamplePlan>,
    /// Where each range of `input` lies.
    pub(super) extents: Vec<Extent>,
    /// Bytes of the memory.
    pub(super) len: usize,
}

#[derive(Debug)]
pub(super) struct BatchPlan {
    pub(super) step: Step,
    pub(super) indices: Vec<u64>,
    /// How many of the last samples are repeated.
    pub(super) padded: u64,
    pub(super) left_out: LeftOut,
    pub(super) corrupt: Vec<Corrupt>,
    /// Which tensor of which sample is which field's.
    pub(super) table: Table,
    pub(super) fields: Vec<Field>,
    /// Which of the window's samples.
    pub(super) samples: Range<usize>,
    /// Bytes of its samples in the files.
    pub(super) bytes: u64,
}

/// Samples of a batch that are not in it, since they lack a field.
#[derive(Debug, Default)]
pub(super) struct LeftOut {
    pub(super) samples: u64,
    /// How many of them lack each field.
    pub(super) lacking: BTreeMap<String, u64>,
    /// What the first of them lacks.
    pub(super) first: Option<Box<LoaderError>>,
}

/// A sample that is in no batch, since it could not be located or read.
#[derive(Debug)]
pub(super) struct Corrupt {
    pub(super) index: u64,
    pub(super) fault: LoaderFault,
}

/// Where the tensors and ranges of a sample end in their lists.
#[derive(Clone, Copy, Debug)]
pub(super) struct SamplePlan {
    pub(super) index: u64,
    input: usize,
    output: usize,
    ranges: usize,
}

impl Window {
    /// Where its first batch begins.
    pub(super) fn start(&self) -> Cursor {
        self.batches.first().map(|batch| batch.step.at).unwrap_or_default()
    }

    /// Where to go on behind its last batch.
    pub(super) fn end(&self) -> Cursor {
        self.batches.last().map(|batch| batch.step.next).unwrap_or_default()
    }

    /// Takes out what does not belong to its first so many samples.
    fn truncate(&mut self, samples: usize) {
        self.samples.truncate(samples);
        let ends = self.samples.last().copied().unwrap_or(SamplePlan { index: 0, input: 0, output: 0, ranges: 0 });
        self.input.truncate(ends.input);
        self.output.truncate(ends.output);
        self.extents.truncate(ends.ranges);
    }

    /// The tensors of a sample of this window as they are in the files.
    pub(super) fn input_of(&self, sample: usize) -> Range<usize> {
        self.before(sample).map_or(0, |before| before.input)..self.samples[sample].input
    }

    /// The tensors of a sample after the transform.
    pub(super) fn output_of(&self, sample: usize) -> Range<usize> {
        self.before(sample).map_or(0, |before| before.output)..self.samples[sample].output
    }

    /// The extents of a sample.
    pub(super) fn extents_of(&self, sample: usize) -> Range<usize> {
        self.before(sample).map_or(0, |before| before.ranges)..self.samples[sample].ranges
    }

    fn before(&self, sample: usize) -> Option<&SamplePlan> {
        sample.checked_sub(1).map(|before| &self.samples[before])
    }

    /// Bytes of a sample in its files.
    pub(super) fn bytes_of(&self, sample: usize) -> u64 {
        self.extents[self.extents_of(sample)].iter().map(Extent::len).fold(0, u64::saturating_add)
    }

    /// What the rows are: of what is in the files, or what that becomes.
    pub(super) fn tensors(&self, transformed: bool) -> &[TensorSpec] {
        if transformed { &self.output } else { self.input.tensors() }
    }

    /// The places of all samples' bytes in the window's memory, where rows are the bytes as they are in the files.
    pub(super) fn places(&self) -> Vec<Place> {
        let mut places = Vec::with_capacity(self.extents.len());
        for batch in &self.batches {
            let table = &batch.table;
            for column in 0..table.columns() {
                for row in 0..batch.samples.len() {
                    let Some(tensor) = table.tensor(column, row) else { continue };
                    let Some(to) = batch.fields[column].row(row) else { continue };
                    let tensor = self.input_of_all(&batch.samples).start + tensor;
                    let mut at = to.start;
                    let first = self.first_range(batch.samples.start + row, tensor);
                    for extent in &self.extents[first..first + self.input.ranges_of(tensor).len()] {
                        places.push((extent.clone(), at));
                        at += extent.len() as usize;
                    }
                }
            }
        }
        places
    }

    /// Where the extents of a sample's tensor begin.
    fn first_range(&self, sample: usize, tensor: usize) -> usize {
        let before: usize = (self.input_of(sample).start..tensor).map(|other| self.input.ranges_of(other).len()).sum();
        self.extents_of(sample).start + before
    }

    fn input_of_all(&self, samples: &Range<usize>) -> Range<usize> {
        match samples.is_empty() {
            true => 0..0,
            false => self.input_of(samples.start).start..self.input_of(samples.end - 1).end,
        }
    }

    fn output_of_all(&self, samples: &Range<usize>) -> Range<usize> {
        match samples.is_empty() {
            true => 0..0,
            false => self.output_of(samples.start).start..self.output_of(samples.end - 1).end,
        }
    }

    /// The tensors of a batch's samples.
    pub(super) fn tensors_of_all(&self, batch: &BatchPlan, transformed: bool) -> Range<usize> {
        if transformed { self.output_of_all(&batch.samples) } else { self.input_of_all(&batch.samples) }
    }

    /// Where each sample's tensors end, counted from the batch's first.
    pub(super) fn ends(&self, batch: &BatchPlan, transformed: bool) -> Vec<usize> {
        let start = self.tensors_of_all(batch, transformed).start;
        let end = |sample: &SamplePlan| if transformed { sample.output } else { sample.input };
        self.samples[batch.samples.clone()].iter().map(|sample| end(sample) - start).collect()
    }
}

/// Plans windows, each from where it is told: a window is planned whole, or nothing has happened.
pub(super) struct Planner {
    pub(super) dataset: Arc<dyn Dataset>,
    pub(super) transform: Option<Arc<dyn Transform>>,
    pub(super) ragged: Ragged,
    columns: Columns,
    sampler: Sampler,
    /// Samples that cannot be located are left out, and become [`Corrupt`].
    skips_corrupt: bool,
    /// Those opened so far, by number.
    files: Vec<Option<File>>,
    carrier: Carrier,
    /// One sample as it is in the files, and after the transform: nobody else's dataset or transform is given those of the
    /// samples before it.
    sample: SampleSpec,
    made: Vec<TensorSpec>,
}

/// How much one window may hold; one batch it always does.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    pub(super) batches: usize,
    pub(super) samples: usize,
    /// Bytes of samples.
    pub(super) bytes: u64,
    /// Bytes of memory that reading them can take beside their own.
    pub(super) memory: u64,
}

impl Planner {
    pub(super) fn new(
        dataset: Arc<dyn Dataset>,
        transform: Option<Arc<dyn Transform>>,
        ragged: Ragged,
        missing: Missing,
        skips_corrupt: bool,
        sampler: Sampler,
        carrier: Carrier,
    ) -> Self {
        let files = vec![None; dataset.files().len()];
        let (sample, made) = (SampleSpec::new(), Vec::new());
        let columns = Columns::new(missing);
        Self { dataset, transform, ragged, columns, sampler, skips_corrupt, files, carrier, sample, made }
    }

    /// The window that begins there, where a step of the order does; `None` behind the last epoch. Where a batch behind the
    /// first fails, the window ends before it, and the next one, which begins with it, fails unless it has healed. `opening`
    /// is told of every file before it is opened.
    pub(super) fn plan(
        &mut self,
        from: Cursor,
        limits: Limits,
        opening: impl Fn(&DataFile),
    ) -> Result<Option<Box<Window>>, LoaderError> {
        self.sampler.go_to(from);
        let mut window = Box::<Window>::default();
        let (mut bytes, mut memory, mut left_out) = (0_u64, 0_u64, 0_usize);
        while window.batches.is_empty()
            || window.batches.len() < limits.batches
                && window.samples.len() + left_out < limits.samples
                && bytes < limits.bytes
                && memory < limits.memory
        {
            match self.add_batch(&mut window, &opening) {
                Ok(true) => {}
                Ok(false) => break,
                Err(error) if window.batches.is_empty() => return Err(error),
                Err(_) => break,
            }
            if let Some(batch) = window.batches.last() {
                /// A read may be a block longer at both ends.
                const EDGES: u64 = 2 * 4096;
                bytes = bytes.saturating_add(batch.bytes);
                left_out = left_out.saturating_add(batch.left_out.samples as usize + batch.corrupt.len());
                memory = memory.saturating_add(batch.bytes).saturating_add(EDGES * batch.samples.len() as u64);
            }
        }
        Ok((!window.batches.is_empty()).then_some(window))
    }

    /// Whether there is one more batch, which then is in the window. After an error the window is as it was before.
    fn add_batch(&mut self, window: &mut Window, opening: &impl Fn(&DataFile)) -> Result<bool, LoaderError> {
        let mut indices = Vec::new();
        let Some(step) = self.sampler.next_step(&mut indices) else { return Ok(false) };
        let (first, extents) = (window.samples.len(), window.extents.len());
        let mut batch = BatchPlan {
            padded: step.padded,
            step,
            indices,
            left_out: LeftOut::default(),
            corrupt: Vec::new(),
            table: Table::default(),
            fields: Vec::new(),
            samples: first..first,
            bytes: 0,
        };
        let outcome = self.add_samples(window, &mut batch, opening).and_then(|()| {
            let transformed = self.transform.is_some();
            batch.samples.end = window.samples.len();
            batch.bytes = window.extents[extents..].iter().map(Extent::len).fold(0, u64::saturating_add);
            let Some(columns) = self.columns.of_rows(transformed).filter(|_| !batch.samples.is_empty()) else {
                return Ok(batch);
            };
            let tensors = &window.tensors(transformed)[window.tensors_of_all(&batch, transformed)];
            let ends = window.ends(&batch, transformed);
            let laid_out = lay_out(columns, tensors, &ends, self.ragged, window.len);
            let laid_out = laid_out.map_err(|fault| self.failed_at(&batch.step, None, fault))?;
            (batch.table, batch.fields, window.len) = laid_out;
            Ok(batch)
        });
        match outcome {
            Ok(batch) => {
                window.batches.push(batch);
                Ok(true)
            }
            Err(error) => {
                window.truncate(first);
                Err(error)
            }
        }
    }

    /// Adds the samples of a batch, and takes those out of it that lack a field or are corrupt where that is asked for.
    fn add_samples(
        &mut self,
        window: &mut Window,
        batch: &mut BatchPlan,
        opening: &impl Fn(&DataFile),
    ) -> Result<(), LoaderError> {
        let indices = std::mem::take(&mut batch.indices);
        let real = (indices.len() as u64).saturating_sub(batch.padded);
        for (&index, row) in indices.iter().zip(0..) {
            let verdict = self.add_sample(window, index, opening);
            match verdict.map_err(|fault| self.failed_at(&batch.step, Some(index), fault))? {
                Verdict::Kept => batch.indices.push(index),
                Verdict::LeftOut(fault, field) => {
                    batch.padded -= u64::from(row >= real);
                    batch.left_out.samples += 1;
                    *batch.left_out.lacking.entry(field).or_default() += 1;
                    let error = || Box::new(self.failed_at(&batch.step, Some(index), fault));
                    batch.left_out.first.get_or_insert_with(error);
                }
                Verdict::Corrupt(fault) => {
                    batch.padded -= u64::from(row >= real);
                    batch.corrupt.push(Corrupt { index, fault });
                }
            }
        }
        Ok(())
    }

    /// After an error, and where the sample is not kept, the window is as it was before.
    fn add_sample(
        &mut self,
        window: &mut Window,
        index: u64,
        opening: &impl Fn(&DataFile),
    ) -> Result<Verdict, LoaderFault> {
        self.sample.clear();
        if let Err(fault) = caught::locate(&*self.dataset, index, &mut self.sample) {
            return self.corrupt(fault);
        }
        let verdict = self.columns.check_input(&*self.dataset, self.transform.as_deref(), &self.sample)?;
        if !matches!(verdict, Verdict::Kept) {
            return Ok(verdict);
        }
        check_bytes(&self.sample)?;
        self.made.clear();
        if let Some(transform) = &self.transform {
            let refused = |reason: &str| refused(&*self.dataset, &self.sample, reason);
            if let Err(error) = specs_caught(&**transform, self.sample.tensors(), &mut self.made) {
                return self.corrupt(refused(&error.to_string()));
            }
            let verdict = self.columns.check_output(&self.made, refused)?;
            if !matches!(verdict, Verdict::Kept) {
                return Ok(verdict);
            }
        }
        for number in 0..self.sample.ranges().len() {
            let range = self.sample.ranges()[number];
            match self.file(range.file, opening) {
                Ok(file) => window.extents.push(Extent { file, offset: range.offset, len: range.len }),
                Err(fault) => {
                    window.truncate(window.samples.len());
                    return self.corrupt(fault);
                }
            }
        }
        for (tensor, ranges) in self.sample.fields() {
            window.input.push(tensor.clone(), ranges.iter().copied());
        }
        window.output.append(&mut self.made);
        window.samples.push(SamplePlan {
            index,
            input: window.input.tensors().len(),
            output: window.output.len(),
            ranges: window.extents.len(),
        });
        Ok(Verdict::Kept)
    }

    fn corrupt(&self, fault: LoaderFault) -> Result<Verdict, LoaderFault> {
        if self.skips_corrupt { Ok(Verdict::Corrupt(fault)) } else { Err(fault) }
    }

    fn file(&mut self, number: u32, opening: &impl Fn(&DataFile)) -> Result<File, LoaderFault> {
        let (Some(open), Some(file)) = (self.files.get_mut(number as usize), self.dataset.files().get(number as usize))
        else {
            let what = format!("the dataset names file {number}, and has {}", self.dataset.files().len());
            return Err(LoaderFault::Fields { what, fix: "mend its implementation" });
        };
        match open {
            Some(file) => Ok(file.clone()),
            none => {
                opening(file);
                let opened = self.carrier.open(file.path()).map_err(LoaderFault::from)?;
                file.check(&opened).map_err(LoaderFault::from)?;
                Ok(none.insert(opened).clone())
            }
        }
    }

    fn failed_at(&self, step: &Step, sample: Option<u64>, fault: LoaderFault) -> LoaderError {
        let sample = sample.map(|index| caught::id(&*self.dataset, index));
        LoaderError { sample, epoch: step.at.epoch, batch: step.at.batch, fault }
    }
}

fn refused(dataset: &dyn Dataset, sample: &SampleSpec, reason: &str) -> LoaderFault {
    let first = sample.ranges().first();
    let path = first.and_then(|range| dataset.files().get(range.file as usize));
    LoaderFault::Transform {
        path: path.map(|file| file.path().to_owned()).unwrap_or_default(),
        offset: first.map_or(0, |range| range.offset),
        reason: brief(reason.to_owned()),
    }
}

/// Sees that the tensors of a sample have as many bytes in the files as their types and shapes say.
fn check_bytes(sample: &SampleSpec) -> Result<(), LoaderFault> {
    for (tensor, ranges) in sample.fields() {
        let there = ranges.iter().try_fold(0_u64, |sum, range| sum.checked_add(range.len));
        if tensor.bytes().is_none() || there != tensor.bytes() {
            let what = format!(
                "the tensor {} is {} {}, and the dataset gives it {} bytes",
                tensor.name,
                tensor.dtype,
                tensor.shape,
                there.map_or("too many".to_owned(), |there| there.to_string())
            );
            return Err(LoaderFault::Fields { what: brief(what), fix: "mend the dataset's implementation" });
        }
    }
    Ok(())
}
