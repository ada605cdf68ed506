use std::sync::Arc;

use super::dtype::DType;
use super::error::DatasetError;
use super::shape::Shape;
use crate::storage::{Extent, File};

/// What a tensor is, without its bytes.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct TensorSpec {
    /// Its name; shared, so that cloning a spec copies no text.
    pub name: Arc<str>,
    /// The type of its elements.
    pub dtype: DType,
    /// The lengths of its dimensions.
    pub shape: Shape,
}

impl TensorSpec {
    /// A tensor of that name, type and shape.
    pub fn new(name: impl Into<Arc<str>>, dtype: DType, shape: impl Into<Shape>) -> Self {
        Self { name: name.into(), dtype, shape: shape.into() }
    }

    /// Bytes, little-endian and row by row; `None` where they do not fill whole bytes or are more than a `u64` counts.
    pub fn bytes(&self) -> Option<u64> {
        self.shape.bytes(self.dtype)
    }
}

/// A run of bytes in one of a dataset's files.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FileRange {
    /// Which of [`Dataset::files`](super::Dataset::files).
    pub file: u32,
    /// Where it begins in the file, in bytes.
    pub offset: u64,
    /// Bytes.
    pub len: u64,
}

/// What one sample is made of: tensors, and where in the dataset's files the bytes of each lie.
///
/// Made to be filled again and again: once it has held the largest sample, filling it allocates nothing.
#[derive(Clone, Debug, Default)]
pub struct SampleSpec {
    tensors: Vec<TensorSpec>,
    /// For each tensor where its ranges end in `ranges`.
    ends: Vec<usize>,
    ranges: Vec<FileRange>,
}

impl SampleSpec {
    /// A sample of no tensors.
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes everything out.
    pub fn clear(&mut self) {
        self.tensors.clear();
        self.ends.clear();
        self.ranges.clear();
    }

    /// Adds a tensor whose bytes are those of `ranges`, one after the other.
    pub fn push(&mut self, tensor: TensorSpec, ranges: impl IntoIterator<Item = FileRange>) {
        self.tensors.push(tensor);
        self.ranges.extend(ranges);
        self.ends.push(self.ranges.len());
    }

    /// Keeps the first so many tensors.
    pub(crate) fn truncate(&mut self, tensors: usize) {
        self.tensors.truncate(tensors);
        self.ends.truncate(tensors);
        self.ranges.truncate(self.ends.last().copied().unwrap_or(0));
    }

    /// The tensors, in the dataset's order.
    pub fn tensors(&self) -> &[TensorSpec] {
        &self.tensors
    }

    /// Each tensor with the places of its bytes.
    pub fn fields(&self) -> impl ExactSizeIterator<Item = (&TensorSpec, &[FileRange])> {
        self.tensors.iter().enumerate().map(|(i, tensor)| {
            let start = if i == 0 { 0 } else { self.ends[i - 1] };
            (tensor, &self.ranges[start..self.ends[i]])
        })
    }

    /// The places of the bytes of tensor number `tensor`.
    pub(crate) fn ranges_of(&self, tensor: usize) -> &[FileRange] {
        let start = if tensor == 0 { 0 } else { self.ends[tensor - 1] };
        &self.ranges[start..self.ends[tensor]]
    }

    /// All places, in the order of the tensors.
    pub fn ranges(&self) -> &[FileRange] {
        &self.ranges
    }

    /// The places as a carrier takes them, in the order of [`ranges`](Self::ranges). `files` are all of the dataset's, as
    /// [`DataFile::open`](super::DataFile::open) opens them.
    ///
    /// # Panics
    /// Where `files` has fewer.
    pub fn extents(&self, files: &[File]) -> Vec<Extent> {
        self.ranges.iter().map(|range| Extent::new(&files[range.file as usize], range.offset, range.len)).collect()
    }

    /// Bytes in all; where they are more than a `u64` counts, as many as it does.
    pub fn bytes(&self) -> u64 {
        self.ranges.iter().map(|range| range.len).fold(0, u64::saturating_add)
    }

    /// Adds `by` to the number of every range's file, from the range numbered `first` on: for datasets made of others.
    pub fn shift_files(&mut self, first: usize, by: u32) {
        // What cannot be numbered is no file's, and must not become another's.
        self.ranges.iter_mut().skip(first).for_each(|range| range.file = range.file.saturating_add(by));
    }

    /// Which tensor has that name, the first where several do.
    pub fn position(&self, name: &str) -> Option<usize> {
        self.tensors.iter().position(|tensor| &*tensor.name == name)
    }
}

/// A tensor as it lies in a dataset's files, whatever samples are made of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredTensor {
    /// What it is.
    pub spec: TensorSpec,
    /// Where its bytes are.
    pub range: FileRange,
}

/// The tensors of a dataset, which may be many and found one by one.
pub type StoredTensors<'a> = Box<dyn Iterator<Item = Result<StoredTensor, DatasetError>> + 'a>;

#[cfg(test)]
mod tests {
    use super::*;

    /// As a dataset of somebody's own may give them.
    #[test]
    fn places_that_no_file_has_overflow_nothing() {
        let range = |file| FileRange { file, offset: u64::MAX, len: u64::MAX };
        let mut sample = SampleSpec::new();
        sample.push(TensorSpec::new("x", DType::U8, [1]), [range(7), range(u32::MAX)]);
        assert_eq!(sample.bytes(), u64::MAX);
        sample.shift_files(0, 3);
        assert_eq!(sample.ranges(), [range(10), range(u32::MAX)]);
    }
}
