use std::borrow::Cow;
use std::fmt;

use super::error::{TransformError, TransformFault};
use super::random::mixed;
use crate::dataset::{TensorSpec, brief};
use crate::element::{Element, numbers};

/// A sample as it was read.
#[derive(Clone, Copy)]
pub struct Sample<'a> {
    specs: &'a [TensorSpec],
    fields: &'a [&'a [u8]],
    index: u64,
    epoch: u64,
    seed: u64,
}

impl<'a> Sample<'a> {
    /// The sample numbered `index` of these tensors, whose bytes are `fields`, in `epoch` of a loader of that `seed`.
    pub fn new(specs: &'a [TensorSpec], fields: &'a [&'a [u8]], index: u64, epoch: u64, seed: u64) -> Self {
        Self { specs, fields, index, epoch, seed }
    }

    /// What its tensors are.
    pub fn specs(&self) -> &'a [TensorSpec] {
        self.specs
    }

    /// How many tensors it has.
    pub fn len(&self) -> usize {
        self.specs.len()
    }

    /// Whether it has none.
    pub fn is_empty(&self) -> bool {
        self.specs.is_empty()
    }

    /// The bytes of tensor `i`, little-endian and row by row. They may begin at any address.
    ///
    /// # Panics
    /// Where there is no such tensor.
    pub fn bytes(&self, i: usize) -> &'a [u8] {
        self.fields[i]
    }

    /// The bytes of the tensor of that name, the first where several have it.
    pub fn named(&self, name: &str) -> Option<&'a [u8]> {
        self.fields.get(self.position(name)?).copied()
    }

    /// Which tensor has that name, the first where several do.
    pub fn position(&self, name: &str) -> Option<usize> {
        self.specs.iter().position(|spec| &*spec.name == name)
    }

    /// The elements of tensor `i`, row by row. Bytes begin where they do in their file, which need not be a multiple of an
    /// element's size: where it is not they are copied, and otherwise lent as they lie.
    ///
    /// # Errors
    /// [`TransformFault`] where there is no such tensor, it is of another type, or its bytes are not as many as its shape
    /// says.
    pub fn slice<T: Element>(&self, i: usize) -> Result<Cow<'a, [T]>, TransformError> {
        let (spec, bytes) = self.field(i)?;
        if spec.dtype != T::DTYPE {
            let name = brief(spec.name.to_string());
            return Err(TransformFault::OtherType { name, asked: T::DTYPE, present: spec.dtype }.into());
        }
        Ok(numbers(bytes).ok_or_else(|| TransformFault::length(spec, bytes.len()))?)
    }

    /// The sample's number in the dataset.
    pub fn index(&self) -> u64 {
        self.index
    }

    /// The epoch it is read in, the first being 0.
    pub fn epoch(&self) -> u64 {
        self.epoch
    }

    /// A number to draw random ones from, as the seed of a generator: well mixed, the same whenever this sample is read in
    /// this epoch with the loader's seed, and another for every other sample or epoch. In a [`Chain`](super::Chain) each
    /// transform has its own.
    pub fn random(&self) -> u64 {
        mixed(mixed(mixed(self.seed) ^ self.epoch) ^ self.index)
    }

    pub(super) fn seed(&self) -> u64 {
        self.seed
    }

    /// The same of a loader with another seed.
    pub(super) fn seeded(self, seed: impl FnOnce(u64) -> u64) -> Self {
        Self { seed: seed(self.seed), ..self }
    }

    /// Tensor `i` with its bytes, which are as many as its type and shape say.
    pub(super) fn field(&self, i: usize) -> Result<(&'a TensorSpec, &'a [u8]), TransformFault> {
        let (Some(spec), Some(bytes)) = (self.specs.get(i), self.fields.get(i)) else {
            return Err(TransformFault::NoTensor { index: i, count: self.specs.len().min(self.fields.len()) });
        };
        match spec.bytes() == Some(bytes.len() as u64) {
            true => Ok((spec, bytes)),
            false => Err(TransformFault::length(spec, bytes.len())),
        }
    }
}

impl fmt::Debug for Sample<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { specs, index, epoch, seed, .. } = self;
        f.debug_struct("Sample")
            .field("specs", specs)
            .field("index", index)
            .field("epoch", epoch)
            .field("seed", seed)
            .finish_non_exhaustive()
    }
}
