//! How the rows of a batch lie: one beside the other where their shapes are the same, else packed with offsets, or padded.

use std::sync::Arc;

use super::error::LoaderFault;
use crate::dataset::{DType, Fields, Shape, TensorSpec, brief};

/// How a field is laid out whose rows have different shapes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Ragged {
    /// One row behind the other, with [offsets](super::BatchTensor::offsets); one that is absent has no bytes.
    #[default]
    Packed,
    /// Every row as long in its first dimension as the longest of the batch, filled up with zeros. The other dimensions must
    /// be the same. A row that is [absent](super::BatchTensor::is_present) is zeros, too.
    Padded,
}

/// One tensor of a batch: a row for each sample.
#[derive(Clone, Debug)]
pub(crate) struct Field {
    pub(crate) name: Arc<str>,
    pub(crate) dtype: DType,
    /// Of all rows as one tensor, where they are one.
    pub(crate) shape: Option<Shape>,
    pub(crate) shapes: Shapes,
    pub(crate) offsets: Offsets,
    /// Where the first row begins, from the start of the memory.
    pub(crate) at: usize,
}

/// The shapes of rows.
#[derive(Clone, Debug)]
pub(crate) enum Shapes {
    Same(Shape),
    /// None where the sample lacks this field.
    Each(Vec<Option<Shape>>),
}

/// Where rows lie, from the first.
#[derive(Clone, Debug)]
pub(crate) enum Offsets {
    /// So many rows of so many bytes each.
    Equal { rows: usize, bytes: usize },
    /// Where each begins, and where the last ends.
    Each(Vec<usize>),
}

impl Field {
    pub(crate) fn rows(&self) -> usize {
        match &self.offsets {
            Offsets::Equal { rows, .. } => *rows,
            Offsets::Each(offsets) => offsets.len().saturating_sub(1),
        }
    }

    /// Where a row lies in the memory; `None` past the last one.
    pub(crate) fn row(&self, row: usize) -> Option<std::ops::Range<usize>> {
        match &self.offsets {
            &Offsets::Equal { rows, bytes } => (row < rows).then(|| self.at + row * bytes..self.at + (row + 1) * bytes),
            Offsets::Each(offsets) => Some(self.at + offsets.get(row)?..self.at + offsets.get(row + 1)?),
        }
    }

    /// Its bytes, without what is padded.
    pub(crate) fn row_shape(&self, row: usize) -> Option<&Shape> {
        match &self.shapes {
            Shapes::Same(shape) => (row < self.rows()).then_some(shape),
            Shapes::Each(shapes) => shapes.get(row)?.as_ref(),
        }
    }

    pub(crate) fn range(&self) -> std::ops::Range<usize> {
        self.at..self.at + self.bytes()
    }

    fn bytes(&self) -> usize {
        match &self.offsets {
            Offsets::Equal { rows, bytes } => rows * bytes,
            Offsets::Each(offsets) => offsets.last().copied().unwrap_or(0),
        }
    }

    /// The same with the rows for which `keep` says so.
    pub(crate) fn keeping(mut self, keep: &[bool]) -> Self {
        let kept = keep.iter().filter(|keep| **keep).count();
        let mut number = 0..;
        if let Shapes::Each(shapes) = &mut self.shapes {
            shapes.retain(|_| number.next().and_then(|i: usize| keep.get(i)).is_none_or(|keep| *keep));
        }
        self.offsets = match &self.offsets {
            Offsets::Equal { bytes, .. } => Offsets::Equal { rows: kept, bytes: *bytes },
            Offsets::Each(offsets) => {
                let lens = offsets.windows(2).zip(keep).filter(|(_, keep)| **keep).map(|(pair, _)| pair[1] - pair[0]);
                Offsets::Each(ends(lens))
            }
        };
        if let Some(shape) = &mut self.shape {
            let row = shape.row().unwrap_or_default();
            *shape = std::iter::once(kept as u64).chain(row.iter().copied()).collect();
        }
        self
    }
}

/// Where things of these lengths begin, one behind the other, and where the last ends.
fn ends(lens: impl Iterator<Item = usize>) -> Vec<usize> {
    let mut offsets = vec![0];
    offsets.extend(lens.scan(0, |at, len| {
        *at += len;
        Some(*at)
    }));
    offsets
}

/// Fields that begin at multiples of this where they have as many bytes, so that a device can take whole blocks there.
const COARSE: usize = 4096;
/// And of this where they have fewer, which is what a CUDA device gives memory in.
const FINE: usize = 256;

/// Lays out the tensors of a batch from `at` on, one of each of `fields`. `tensors` are those of its samples, one sample after
/// the other; `ends` says where each ends. Gives which tensor is whose, the fields, and where they end.
pub(crate) fn lay_out(
    fields: &Fields,
    tensors: &[TensorSpec],
    ends: &[usize],
    ragged: Ragged,
    at: usize,
) -> Result<(Table, Vec<Field>, usize), LoaderFault> {
    let table = Table::new(fields, tensors, ends);
    let mut laid_out = Vec::with_capacity(fields.len());
    let mut end = at;
    for column in 0..fields.len() {
        let Some(example) = fields.example(column) else { continue };
        let mut field = table.field(column, example, tensors, ends.len(), ragged)?;
        let bytes = field.bytes();
        field.at = end.checked_next_multiple_of(if bytes < COARSE { FINE } else { COARSE }).ok_or_else(too_large)?;
        end = field.at.checked_add(bytes).ok_or_else(too_large)?;
        laid_out.push(field);
    }
    Ok((table, laid_out, end))
}

fn too_large() -> LoaderFault {
    LoaderFault::Fields { what: "a batch has more bytes than there is memory".into(), fix: "make batches smaller" }
}

/// Which tensor of which sample is which field's.
#[derive(Debug)]
pub(crate) enum Table {
    /// Every sample has the same tensors in the same order: so many.
    Regular(usize),
    /// For each field, and each sample, which of all tensors.
    Irregular(Vec<Vec<Option<usize>>>),
}

impl Default for Table {
    fn default() -> Self {
        Self::Regular(0)
    }
}

impl Table {
    /// Every tensor is one of `fields`.
    fn new(fields: &Fields, tensors: &[TensorSpec], ends: &[usize]) -> Self {
        let starts = || std::iter::once(0).chain(ends.iter().copied());
        if starts().zip(ends).all(|(start, &end)| fields.has_order_of(&tensors[start..end])) {
            return Self::Regular(fields.len());
        }
        let mut columns = vec![vec![None; ends.len()]; fields.len()];
        let mut found = vec![false; fields.len()];
        for (sample, (start, &end)) in starts().zip(ends).enumerate() {
            found.fill(false);
            let put = |tensor, field: usize| columns[field][sample] = Some(start + tensor);
            // Samples with other tensors were refused before.
            let _ = fields.assign(&tensors[start..end], &mut found, put);
        }
        Self::Irregular(columns)
    }

    pub(crate) fn columns(&self) -> usize {
        match self {
            Self::Regular(width) => *width,
            Self::Irregular(columns) => columns.len(),
        }
    }

    /// Which of all tensors is a sample's for a field.
    pub(crate) fn tensor(&self, column: usize, sample: usize) -> Option<usize> {
        match self {
            Self::Regular(width) => Some(sample * width + column),
            Self::Irregular(columns) => columns[column].get(sample).copied().flatten(),
        }
    }

    fn field(
        &self,
        column: usize,
        example: &TensorSpec,
        tensors: &[TensorSpec],
        samples: usize,
        ragged: Ragged,
    ) -> Result<Field, LoaderFault> {
        let of = |sample: usize| self.tensor(column, sample).map(|tensor| &tensors[tensor]);
        // Where no sample of the batch has it, it is of the type that it is of in another.
        let first = (0..samples).find_map(of).unwrap_or(example);
        let (name, dtype) = (Arc::clone(&first.name), first.dtype);
        if let Some(other) = (0..samples).filter_map(of).find(|tensor| tensor.dtype != dtype) {
            let what = format!("the field {name} is {dtype} in one sample of the batch and {} in another", other.dtype);
            let fix = "cast it by a transform, or give one kind of samples";
            return Err(LoaderFault::Fields { what: brief(what), fix });
        }
        let bytes_of =
            |shape: &Shape| shape.bytes(dtype).and_then(|bytes| usize::try_from(bytes).ok()).ok_or_else(too_large);
        if (0..samples).all(|sample| of(sample).is_some_and(|tensor| tensor.shape == first.shape)) {
            let (shape, bytes) = (first.shape.clone(), bytes_of(&first.shape)?);
            bytes.checked_mul(samples).ok_or_else(too_large)?;
            let offsets = Offsets::Equal { rows: samples, bytes };
            return Ok(Field {
                name,
                dtype,
                shape: Some(stacked(samples, &shape)),
                shapes: Shapes::Same(shape),
                offsets,
                at: 0,
            });
        }
        let shapes: Vec<Option<Shape>> =
            (0..samples).map(|sample| of(sample).map(|tensor| tensor.shape.clone())).collect();
        let (shape, offsets) = match ragged {
            Ragged::Packed => {
                let mut offsets = Vec::with_capacity(samples + 1);
                let mut end = 0_usize;
                offsets.push(0);
                for shape in &shapes {
                    let bytes = shape.as_ref().map_or(Ok(0), bytes_of)?;
                    end = end.checked_add(bytes).ok_or_else(too_large)?;
                    offsets.push(end);
                }
                (None, Offsets::Each(offsets))
            }
            Ragged::Padded => {
                let longest = longest(&name, &shapes)?.unwrap_or_else(|| empty(&example.shape));
                let bytes = bytes_of(&longest)?;
                bytes.checked_mul(samples).ok_or_else(too_large)?;
                (Some(stacked(samples, &longest)), Offsets::Equal { rows: samples, bytes })
            }
        };
        Ok(Field { name, dtype, shape, shapes: Shapes::Each(shapes), offsets, at: 0 })
    }
}

/// The shape of so many rows as one tensor.
fn stacked(rows: usize, row: &Shape) -> Shape {
    std::iter::once(rows as u64).chain(row.iter().copied()).collect()
}

/// The shape that every row is padded to, where there is a row.
fn longest(name: &str, shapes: &[Option<Shape>]) -> Result<Option<Shape>, LoaderFault> {
    let mut longest: Option<Shape> = None;
    for shape in shapes.iter().flatten() {
        let Some(so_far) = &longest else {
            longest = Some(shape.clone());
            continue;
        };
        if shape.is_empty() || so_far.is_empty() || shape.row() != so_far.row() {
            let what = format!(
                "the field {name} has rows of {so_far} and {shape}, which differ in more than their first dimension"
            );
            return Err(LoaderFault::Fields { what: brief(what), fix: "have rows packed instead of padded" });
        }
        if shape[0] > so_far[0] {
            longest = Some(shape.clone());
        }
    }
    Ok(longest)
}

/// A row of no length; a scalar has none to shorten.
fn empty(shape: &Shape) -> Shape {
    shape.row().map_or_else(|| shape.clone(), |row| std::iter::once(0).chain(row.iter().copied()).collect())
}
