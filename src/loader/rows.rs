//! How the rows of a batch lie: one beside the other where their shapes are the same, else packed with offsets, or padded.

use std::sync::Arc;

use super::error::LoaderFault;
use crate::dataset::{DType, Shape, TensorSpec, brief};

/// How a field is laid out whose rows have different shapes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Ragged {
    /// One row behind the other, with [offsets](super::BatchTensor::offsets).
    #[default]
    Packed,
    /// Every row as long in its first dimension as the longest of the batch, what is missing filled with zeros. The other
    /// dimensions must be the same.
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
    /// None where the sample does not have this field.
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

/// Lays out the tensors of a batch from `at` on. `tensors` are those of its samples, one sample after the other;
/// `ends` says where each ends. Gives the fields, and where they end.
pub(crate) fn lay_out(
    tensors: &[TensorSpec],
    ends: &[usize],
    ragged: Ragged,
    at: usize,
) -> Result<(Vec<Field>, usize), LoaderFault> {
    let table = Table::new(tensors, ends);
    let mut fields = Vec::with_capacity(table.columns());
    let mut end = at;
    for column in 0..table.columns() {
        let mut field = table.field(column, tensors, ends.len(), ragged)?;
        let bytes = field.bytes();
        field.at = end.checked_next_multiple_of(if bytes < COARSE { FINE } else { COARSE }).ok_or_else(too_large)?;
        end = field.at.checked_add(bytes).ok_or_else(too_large)?;
        fields.push(field);
    }
    Ok((fields, end))
}

fn too_large() -> LoaderFault {
    LoaderFault::Fields { what: "a batch has more bytes than there is memory".into(), fix: "make batches smaller" }
}

/// Which tensor of which sample is which field's.
pub(crate) enum Table {
    /// Every sample has the same tensors in the same order: so many.
    Regular(usize),
    /// For each field, and each sample, which of all tensors.
    Irregular(Vec<Vec<Option<usize>>>),
}

impl Table {
    pub(crate) fn new(tensors: &[TensorSpec], ends: &[usize]) -> Self {
        let width = ends.first().copied().unwrap_or(0);
        let alike = |a: &TensorSpec, b: &TensorSpec| Arc::ptr_eq(&a.name, &b.name) || a.name == b.name;
        let even = ends.iter().enumerate().all(|(i, &end)| end == (i + 1) * width);
        if even && width > 0 && tensors.iter().enumerate().all(|(i, tensor)| alike(tensor, &tensors[i % width])) {
            return Self::Regular(width);
        }
        let mut columns: Vec<(&str, usize, Vec<Option<usize>>)> = Vec::new();
        let mut start = 0;
        for (sample, &end) in ends.iter().enumerate() {
            for i in start..end {
                let name = &*tensors[i].name;
                // Of several of one name the first is the first field of that name's.
                let earlier = tensors[start..i].iter().filter(|other| &*other.name == name).count();
                match columns.iter_mut().find(|(known, nth, _)| *known == name && *nth == earlier) {
                    Some((.., column)) => {
                        column.resize(sample, None);
                        column.push(Some(i));
                    }
                    None => {
                        let mut column = vec![None; sample];
                        column.push(Some(i));
                        columns.push((name, earlier, column));
                    }
                }
            }
            start = end;
        }
        columns.iter_mut().for_each(|(.., column)| column.resize(ends.len(), None));
        Self::Irregular(columns.into_iter().map(|(.., column)| column).collect())
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
        tensors: &[TensorSpec],
        samples: usize,
        ragged: Ragged,
    ) -> Result<Field, LoaderFault> {
        let of = |sample: usize| self.tensor(column, sample).map(|tensor| &tensors[tensor]);
        let Some(first) = (0..samples).find_map(of) else {
            return Err(LoaderFault::Fields { what: "a field has no rows".into(), fix: "report this" });
        };
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
                let longest = longest(&name, &shapes)?;
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

/// The shape that every row is padded to.
fn longest(name: &str, shapes: &[Option<Shape>]) -> Result<Shape, LoaderFault> {
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
    Ok(longest.unwrap_or_default())
}
