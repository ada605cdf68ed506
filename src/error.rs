//! One error for callers that do not tell operations apart; each operation has a type of its own.

use crate::checkpoint::CheckpointError;
use crate::dataset::DatasetError;
use crate::device::DeviceError;
use crate::loader::LoaderError;
use crate::memory::MemoryError;
use crate::route::CarryError;
use crate::sampler::SamplerError;
use crate::storage::{EngineError, OpenError, ReadError};
use crate::sync::ThreadError;
use crate::tuning::TuningError;

/// Anything that can go wrong in this crate, from the error of each operation.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A reader could not be built.
    #[error(transparent)]
    Build(#[from] BuildError),
    /// A file could not be opened.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// A read failed.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// Memory could not be had.
    #[error(transparent)]
    Memory(#[from] MemoryError),
    /// A device could not be used.
    #[error(transparent)]
    Device(#[from] DeviceError),
    /// A dataset could not be opened, or a sample not found.
    #[error(transparent)]
    Dataset(#[from] DatasetError),
    /// A checkpoint could not be loaded.
    #[error(transparent)]
    Checkpoint(#[from] CheckpointError),
    /// Bytes did not reach their device.
    #[error(transparent)]
    Carry(#[from] CarryError),
    /// A batch could not be made.
    #[error(transparent)]
    Loader(#[from] LoaderError),
    /// An order of training that cannot be had, or a state that does not belong to it.
    #[error(transparent)]
    Sampler(#[from] SamplerError),
    /// Tuned settings could not be found again, or saved.
    #[error(transparent)]
    Tuning(#[from] TuningError),
}

/// A reader, a carrier or a loader that could not be built.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BuildError {
    /// Its memory could not be had.
    #[error(transparent)]
    Memory(#[from] MemoryError),
    /// Its engine could not be started.
    #[error(transparent)]
    Engine(#[from] EngineError),
    /// Its device could not be used.
    #[error(transparent)]
    Device(#[from] DeviceError),
    /// Threads beside those of its engine could not be started.
    #[error("{of}: {error}")]
    Threads {
        /// What they were for, as in "the loader's workers".
        of: &'static str,
        /// How many, and why.
        #[source]
        error: ThreadError,
    },
}
