use crate::dataset::DatasetError;
use crate::device::DeviceError;
use crate::error::BuildError;
use crate::route::CarryError;
use crate::storage::ReadError;
use crate::units::Size;

/// A checkpoint that could not be loaded. Nothing of it is delivered.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CheckpointError {
    /// Its files are not sound, or not those that were looked at.
    #[error(transparent)]
    Dataset(#[from] DatasetError),
    /// A tensor was asked for that is not there.
    #[error("{path}: there is no tensor {name:?}; ask for one that `forebay inspect` lists")]
    NoTensor {
        /// The checkpoint's path.
        path: String,
        /// The name asked for.
        name: String,
    },
    /// Two files hold a tensor of one name.
    #[error("{path}: tensor {name:?} is in {other}, too; give the model's index, or files that belong together")]
    Twice {
        /// The later file's path.
        path: String,
        /// The tensor's name.
        name: String,
        /// The earlier file's path.
        other: String,
    },
    /// A tensor cannot be divided as asked.
    #[error("tensor {name:?}: {what}; choose another axis for it, or none")]
    Slice {
        /// The tensor's name.
        name: String,
        /// What is wrong.
        what: String,
    },
    /// A rank that does not exist was asked for.
    #[error("rank {rank} of {world} does not exist; ranks count from 0, and there must be one at least")]
    Rank {
        /// The rank asked for.
        rank: u64,
        /// How many there are.
        world: u64,
    },
    /// The carrier that was given is another device's.
    #[error("the carrier carries to {carrier} and the checkpoint is to be on {device}; give both the same device")]
    OtherDevice {
        /// The carrier's.
        carrier: String,
        /// The one that the checkpoint is to be on.
        device: String,
    },
    /// The budget, or the carrier that was given, has too little memory free.
    #[error("the checkpoint takes {} and {} of a budget of {} are free; raise it, or load fewer tensors at once", Size(*need), Size(*free), Size(*budget))]
    NoRoom {
        /// Bytes that are needed at once.
        need: u64,
        /// Bytes that are not on loan.
        free: u64,
        /// Bytes in all.
        budget: u64,
    },
    /// The carrier that was given has enough memory free, but not in pieces that are large enough.
    #[error("the checkpoint takes {} and {} of a budget of {} are free, but in pieces that are too small; drop what lies between them, or give a carrier of its own", Size(*need), Size(*free), Size(*budget))]
    Scattered {
        /// Bytes that are needed at once.
        need: u64,
        /// Bytes that are not on loan.
        free: u64,
        /// Bytes in all.
        budget: u64,
    },
    /// The memory cannot be had, or the engine not started.
    #[error(transparent)]
    Build(#[from] BuildError),
    /// The device failed, or has too little memory.
    #[error(transparent)]
    Device(#[from] DeviceError),
    /// Bytes did not arrive.
    #[error(transparent)]
    Carry(#[from] CarryError),
}

impl From<ReadError> for CheckpointError {
    fn from(error: ReadError) -> Self {
        Self::Carry(error.into())
    }
}
