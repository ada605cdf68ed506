//! Whole files of weights: the data of each in large reads to one piece of the device's memory, and tensors as views of it.
#![forbid(unsafe_code)]

// Owns: what is loaded of a checkpoint, and where each tensor lies. May touch: `dataset` for what is in the files,
// `route` for the way, and nothing above itself.

mod arrange;
mod carrier;
mod error;
mod load;
mod options;
mod plan;
mod slice;
mod tensor;
mod under_way;

pub use error::CheckpointError;
pub use load::load;
pub use options::{LoadOptions, Progress};
pub use tensor::{Checkpoint, Tensor};
