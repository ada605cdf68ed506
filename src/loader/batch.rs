use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use cudarc::driver::CudaStream;

use super::memory::Memory;
use super::rows::Field;
use super::tensor::BatchTensor;
use crate::dataset::{Dataset, Fingerprint};
use crate::device::DeviceError;
use crate::route::RouteBytes;
use crate::sampler::{Shuffle, State, Step};

/// Some samples in the memory of the device, field by field.
///
/// All bytes are there: any stream may read them. The memory is made into another batch only after this one is dropped
/// and every stream that it [was used on](Self::used_on) has come that far, however long it is kept.
pub struct Batch {
    pub(super) origin: Arc<Origin>,
    pub(super) step: Step,
    pub(super) indices: Vec<u64>,
    pub(super) fields: Vec<Field>,
    pub(super) memory: Memory,
    pub(super) bytes: u64,
    pub(super) carried: RouteBytes,
    pub(super) padded: u64,
}

/// What all batches of a loader come from.
pub(super) struct Origin {
    pub(super) dataset: Arc<dyn Dataset>,
    pub(super) fingerprint: Fingerprint,
    pub(super) seed: u64,
    pub(super) shuffle: Shuffle,
    /// The stream on which the consumer works, where he has named one.
    pub(super) stream: Option<Arc<CudaStream>>,
}

impl Batch {
    /// How many samples it has.
    pub fn len(&self) -> usize {
        self.indices.len()
    }

    /// Whether it has none: never of what a loader gives.
    pub fn is_empty(&self) -> bool {
        self.indices.is_empty()
    }

    /// The numbers of its samples in the dataset, in the order of the rows.
    pub fn indices(&self) -> &[u64] {
        &self.indices
    }

    /// The ids of its samples, in the order of the rows.
    pub fn ids(&self) -> impl ExactSizeIterator<Item = Cow<'_, str>> {
        self.indices.iter().map(|&index| self.origin.dataset.id(index))
    }

    /// The epoch, from 0.
    pub fn epoch(&self) -> u64 {
        self.step.at.epoch
    }

    /// Which batch of the epoch it is, from 0.
    pub fn number(&self) -> u64 {
        self.step.at.batch
    }

    /// How many samples of the epoch's order all ranks together have before this batch's step.
    pub fn position(&self) -> u64 {
        self.step.at.position
    }

    /// How many of its samples, the last ones, are repeated so that every rank has as many.
    pub fn padded(&self) -> u64 {
        self.padded
    }

    /// Bytes of its samples in their files.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Those bytes by the route that carried them.
    pub fn carried(&self) -> RouteBytes {
        self.carried
    }

    /// Where to go on after this batch: what [`LoaderBuilder::resume`](super::LoaderBuilder::resume) takes.
    pub fn state(&self) -> State {
        self.origin.state(self.step.next)
    }

    /// Its tensors, in the dataset's or the transform's order.
    pub fn tensors(&self) -> impl ExactSizeIterator<Item = BatchTensor<'_>> {
        self.fields.iter().map(|field| BatchTensor::new(&self.memory, field))
    }

    /// The tensor of that name, the first where several have it.
    pub fn tensor(&self, name: &str) -> Option<BatchTensor<'_>> {
        let field = self.fields.iter().find(|field| &*field.name == name)?;
        Some(BatchTensor::new(&self.memory, field))
    }

    /// Says that `stream` has been given work that reads or writes this batch: after a drop its memory is lent again only
    /// when that stream has passed this point. To be called after the work was ordered; nothing waits for it here. Of no
    /// use on the host. A [stream named to the loader](super::LoaderBuilder::consumer_stream) is noted when the batch is
    /// dropped, without this call.
    ///
    /// # Errors
    /// [`DeviceError`] where the device fails; then the batch must be kept until the stream was synchronised.
    pub fn used_on(&self, stream: &CudaStream) -> Result<(), DeviceError> {
        self.memory.used_on(stream)
    }
}

impl Origin {
    pub(super) fn state(&self, at: crate::sampler::Cursor) -> State {
        State::new(self.fingerprint.clone(), self.seed, self.shuffle, at)
    }
}

impl Drop for Batch {
    fn drop(&mut self) {
        let Some(stream) = &self.origin.stream else { return };
        if let Err(error) = self.memory.used_on(stream) {
            tracing::warn!("a batch's memory is kept for good, since its use cannot be followed: {error}");
            self.memory.keep_for_ever();
        }
    }
}

impl fmt::Debug for Batch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Batch")
            .field("epoch", &self.epoch())
            .field("number", &self.number())
            .field("len", &self.len())
            .field("tensors", &self.fields.iter().map(|field| &*field.name).collect::<Vec<_>>())
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Origin").field("seed", &self.seed).field("shuffle", &self.shuffle).finish_non_exhaustive()
    }
}
