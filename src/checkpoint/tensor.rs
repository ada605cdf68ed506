use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

use crate::dataset::{DType, Shape, TensorSpec};
use crate::device::{Device, DeviceBuffer, DeviceError};
use crate::route::{Carrier, Landed, RouteBytes};

/// A whole checkpoint, or what was asked of it, in the memory of a device.
pub struct Checkpoint {
    pub(super) carrier: Carrier,
    /// By name.
    pub(super) tensors: Vec<Tensor>,
    pub(super) carried: RouteBytes,
    pub(super) files: usize,
}

impl Checkpoint {
    /// The tensors, by name.
    pub fn tensors(&self) -> &[Tensor] {
        &self.tensors
    }

    /// The tensor of that name.
    pub fn tensor(&self, name: &str) -> Option<&Tensor> {
        let found = self.tensors.binary_search_by(|tensor| tensor.name().cmp(name));
        found.ok().map(|i| &self.tensors[i])
    }

    /// The tensors by themselves, which then keep nothing but the memory that they lie in.
    pub fn into_tensors(self) -> Vec<Tensor> {
        self.tensors
    }

    /// Bytes by the route that carried them: their sum is that of the tensors.
    pub fn carried(&self) -> RouteBytes {
        self.carried
    }

    /// The device that it is on.
    pub fn device(&self) -> &Device {
        self.carrier.device()
    }

    /// Files that tensors came from.
    pub fn files(&self) -> usize {
        self.files
    }

    /// Copies a tensor's bytes to the heap, from wherever they are. For a look at them, or a check.
    ///
    /// # Errors
    /// [`DeviceError`] where the device fails.
    pub fn to_host(&self, tensor: &Tensor) -> Result<Vec<u8>, DeviceError> {
        match &tensor.memory {
            Block::Buffer(buffer) => self.carrier.to_host(buffer, tensor.at..tensor.at + tensor.len),
            Block::Landed(..) | Block::Nothing => Ok(tensor.host().map(|bytes| bytes.to_vec()).unwrap_or_default()),
        }
    }
}

impl fmt::Debug for Checkpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Checkpoint")
            .field("device", self.carrier.device())
            .field("tensors", &self.tensors.len())
            .field("carried", &self.carried)
            .finish_non_exhaustive()
    }
}

/// A tensor in the memory of a device: a view of what was loaded of its file. Cloning gives another handle on the same
/// bytes, which are freed when the last tensor of their file is dropped.
#[derive(Clone)]
pub struct Tensor {
    pub(super) spec: TensorSpec,
    pub(super) memory: Block,
    pub(super) at: usize,
    pub(super) len: usize,
}

/// What a tensor is a view of.
#[derive(Clone)]
pub(super) enum Block {
    /// A piece of what has landed on the host.
    Landed(Arc<Landed>, usize),
    Buffer(Arc<DeviceBuffer>),
    /// It has no bytes.
    Nothing,
}

impl Tensor {
    /// Name, type and shape; the shape is that of the share, where only one was loaded.
    pub fn spec(&self) -> &TensorSpec {
        &self.spec
    }

    /// The name.
    pub fn name(&self) -> &str {
        &self.spec.name
    }

    /// The type of its elements.
    pub fn dtype(&self) -> DType {
        self.spec.dtype
    }

    /// The lengths of its dimensions.
    pub fn shape(&self) -> &Shape {
        &self.spec.shape
    }

    /// Bytes.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether it has no bytes.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Where it begins in the memory of the CUDA device, a `CUdeviceptr`; `None` on the host and for one without bytes.
    /// It is valid for as long as this tensor, or another of the same file, is there, and whoever drops the last of them
    /// sees to it that no work of the device's is using it any more.
    ///
    /// It lies as far from a multiple of 256 as it does in its file, where it is a view of the file; shares that were
    /// put together of many runs begin at a multiple of 256.
    pub fn device_address(&self) -> Option<u64> {
        match &self.memory {
            Block::Buffer(buffer) => buffer.device_address().map(|address| address + self.at as u64),
            Block::Landed(..) | Block::Nothing => None,
        }
    }

    /// Its bytes, little-endian and row by row, where they are in host memory. They lie as far from a multiple of 64 as in
    /// the file, so that those of a type that is aligned there, as every known writer has it, can be cast to a slice of
    /// numbers (with `bytemuck`, for one).
    pub fn host(&self) -> Option<impl Deref<Target = [u8]> + use<'_>> {
        let range = self.at..self.at + self.len;
        match &self.memory {
            Block::Landed(landed, piece) => {
                landed.host().and_then(|pieces| pieces.get(*piece)?.get(range)).map(HostBytes::Plain)
            }
            Block::Buffer(buffer) => buffer.host().map(|bytes| HostBytes::Guarded { bytes: Box::new(bytes), range }),
            Block::Nothing => Some(HostBytes::Plain(&[])),
        }
    }
}

impl fmt::Debug for Tensor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tensor").field("spec", &self.spec).field("len", &self.len).finish_non_exhaustive()
    }
}

enum HostBytes<'a> {
    Plain(&'a [u8]),
    Guarded { bytes: Box<dyn Deref<Target = [u8]> + 'a>, range: std::ops::Range<usize> },
}

impl Deref for HostBytes<'_> {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            Self::Plain(bytes) => bytes,
            Self::Guarded { bytes, range } => &bytes[range.clone()],
        }
    }
}
