use std::fmt;

use super::error::{TransformError, TransformFault};
use super::fields::unfit;
use crate::dataset::{DType, Shape, TensorSpec, brief};
use crate::element::Element;

/// The rows that a sample becomes, which lie in the batch's own memory.
///
/// What they hold at first is left from others: whoever fills them fills them whole.
pub struct Output<'o, 'r> {
    specs: &'o [TensorSpec],
    rows: &'o mut [&'r mut [u8]],
}

impl<'o, 'r> Output<'o, 'r> {
    /// Rows of these tensors.
    pub fn new(specs: &'o [TensorSpec], rows: &'o mut [&'r mut [u8]]) -> Self {
        Self { specs, rows }
    }

    /// What the tensors are, as [`Transform::specs`](super::Transform::specs) told.
    pub fn specs(&self) -> &'o [TensorSpec] {
        self.specs
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.specs.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.specs.is_empty()
    }

    /// The bytes of tensor `i`, to be written little-endian and row by row.
    ///
    /// # Panics
    /// Where there is no such tensor.
    pub fn bytes(&mut self, i: usize) -> &mut [u8] {
        self.rows[i]
    }

    /// The bytes of every tensor, for those who fill several at once.
    pub fn rows(&mut self) -> impl ExactSizeIterator<Item = &mut [u8]> {
        self.rows.iter_mut().map(|row| &mut **row)
    }

    /// The elements of tensor `i`, row by row. The loader's rows are aligned.
    ///
    /// # Errors
    /// [`TransformFault`] where there is no such tensor, it is of another type, its memory is not as long as its shape says,
    /// or is not aligned.
    pub fn slice<T: Element>(&mut self, i: usize) -> Result<&mut [T], TransformError> {
        let (spec, row) = self.row(i)?;
        let name = || brief(spec.name.to_string());
        if spec.dtype != T::DTYPE {
            return Err(TransformFault::OtherType { name: name(), asked: T::DTYPE, present: spec.dtype }.into());
        }
        // No elements may lie anywhere.
        if row.is_empty() {
            return Ok(&mut []);
        }
        let misaligned = || TransformFault::Misaligned { name: name(), dtype: spec.dtype };
        Ok(bytemuck::try_cast_slice_mut(row).map_err(|_| misaligned())?)
    }

    /// Tensor `i` with its memory, which is as long as its type and shape say.
    pub(super) fn row(&mut self, i: usize) -> Result<(&'o TensorSpec, &mut [u8]), TransformFault> {
        let count = self.specs.len().min(self.rows.len());
        let (Some(spec), Some(row)) = (self.specs.get(i), self.rows.get_mut(i)) else {
            return Err(TransformFault::NoTensor { index: i, count });
        };
        match spec.bytes() == Some(row.len() as u64) {
            true => Ok((spec, row)),
            false => Err(TransformFault::length(spec, row.len())),
        }
    }

    /// The memory of tensor `i`, which must be of that type and shape.
    pub(super) fn row_of(&mut self, i: usize, dtype: DType, shape: &Shape) -> Result<&mut [u8], TransformFault> {
        let (spec, row) = self.row(i)?;
        match spec.dtype == dtype && spec.shape == *shape {
            true => Ok(row),
            false => {
                Err(unfit(spec, format_args!("{dtype} {shape} is to be written"), "give rows of what `specs` tells"))
            }
        }
    }
}

impl fmt::Debug for Output<'_, '_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Output").field("specs", &self.specs).finish_non_exhaustive()
    }
}
