use bytes::Bytes;

use super::memory::Memory;
use super::rows::{Field, Offsets};
use crate::dataset::{DType, Shape};
use crate::device::DeviceError;
use crate::element::Element;

/// One tensor of a batch: a row for each sample.
///
/// Rows of one shape lie one beside the other, and are one tensor whose first dimension counts the samples. Rows of
/// different shapes lie one behind the other, with [`offsets`](Self::offsets), or are padded with zeros to one shape, as
/// [`Ragged`](super::Ragged) says.
#[derive(Clone, Copy, Debug)]
pub struct BatchTensor<'a> {
    memory: &'a Memory,
    field: &'a Field,
}

impl<'a> BatchTensor<'a> {
    pub(super) fn new(memory: &'a Memory, field: &'a Field) -> Self {
        Self { memory, field }
    }

    /// Its name.
    pub fn name(&self) -> &'a str {
        &self.field.name
    }

    /// The type of its elements.
    pub fn dtype(&self) -> DType {
        self.field.dtype
    }

    /// Its shape, the first dimension being the number of samples; `None` where the rows of this batch are of different
    /// shapes and packed.
    pub fn shape(&self) -> Option<&'a Shape> {
        self.field.shape.as_ref()
    }

    /// How many rows it has: one for each sample.
    pub fn rows(&self) -> usize {
        self.field.rows()
    }

    /// Whether the sample of that row has this field: always, unless the loader [allows](super::Missing::Allow) that one is
    /// missing. An absent row has no bytes where rows are packed, and is zeros where they are padded.
    pub fn is_present(&self, row: usize) -> bool {
        self.row_shape(row).is_some()
    }

    /// The same of every row, in their order.
    pub fn present(&self) -> impl ExactSizeIterator<Item = bool> + 'a {
        let field = self.field;
        (0..field.rows()).map(move |row| field.row_shape(row).is_some())
    }

    /// The shape of one row, without padding; `None` past the last one, and where it is [absent](Self::is_present).
    pub fn row_shape(&self, row: usize) -> Option<&'a Shape> {
        self.field.row_shape(row)
    }

    /// Where each row begins, in bytes from the first, and where the last one ends: one number more than there are rows.
    pub fn offsets(&self) -> impl ExactSizeIterator<Item = usize> + 'a {
        let field = self.field;
        (0..field.rows() + 1).map(move |row| match &field.offsets {
            Offsets::Equal { bytes, .. } => row * bytes,
            Offsets::Each(offsets) => offsets[row],
        })
    }

    /// Bytes of all rows, with what is padded.
    pub fn len(&self) -> usize {
        self.field.range().len()
    }

    /// Whether it has no bytes.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The bytes of all rows, where they are in host memory.
    pub fn host(&self) -> Option<&'a [u8]> {
        self.memory.host(self.field.range())
    }

    /// The same as a shared handle, which keeps the memory of the batch and of those that were read with it.
    pub fn bytes(&self) -> Option<Bytes> {
        self.memory.host_bytes(self.field.range())
    }

    /// The elements of all rows, where they are in host memory and `T` is their type.
    pub fn slice<T: Element>(&self) -> Option<&'a [T]> {
        let bytes = self.host().filter(|_| self.field.dtype == T::DTYPE)?;
        bytemuck::try_cast_slice(bytes).ok()
    }

    /// The bytes of one row without padding, where they are in host memory; `None` past the last one, and where it is
    /// [absent](Self::is_present).
    pub fn row(&self, row: usize) -> Option<&'a [u8]> {
        self.memory.host(self.row_range(row)?)
    }

    /// Where the first row begins in the memory of the CUDA device, a `CUdeviceptr` that is a multiple of 256; `None` on the
    /// host. It is valid for as long as the batch is.
    pub fn device_address(&self) -> Option<u64> {
        self.memory.device_address().map(|address| address + self.field.at as u64)
    }

    /// Copies all rows to the heap, from wherever they are, and waits for that. For a look at the bytes, or a check.
    ///
    /// # Errors
    /// [`DeviceError`] where the device fails.
    pub fn to_host(&self) -> Result<Vec<u8>, DeviceError> {
        self.memory.to_host(self.field.range())
    }

    /// The bytes of one row without padding, copied as [`to_host`](Self::to_host) does; `None` past the last one, and where it
    /// is [absent](Self::is_present).
    ///
    /// # Errors
    /// [`DeviceError`] where the device fails.
    pub fn row_to_host(&self, row: usize) -> Result<Option<Vec<u8>>, DeviceError> {
        self.row_range(row).map(|range| self.memory.to_host(range)).transpose()
    }

    fn row_range(&self, row: usize) -> Option<std::ops::Range<usize>> {
        let range = self.field.row(row)?;
        let bytes = self.field.row_shape(row)?.bytes(self.field.dtype).unwrap_or(0);
        Some(range.start..range.start + range.len().min(bytes as usize))
    }
}
