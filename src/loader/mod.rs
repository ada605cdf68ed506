//! The pipeline from a dataset to batches in the memory of a device: plan ahead, read, transform, copy, deliver in order.
//!
//! [`Loader::builder`] begins one. What is done to samples on their way is in [`transform`].

// Owns: the loader's threads, the memory of its batches, and what it tells of itself. May touch: `route`, `storage`,
// `device`, `dataset`, `sampler`.
#![forbid(unsafe_code)]

mod account;
mod assemble;
mod batch;
mod builder;
mod caught;
mod course;
#[cfg(test)]
mod delivered;
mod depth;
mod error;
mod flight;
#[doc(hidden)]
pub mod left_out;
#[expect(clippy::module_inception, reason = "the type that the room is named after")]
mod loader;
mod means;
mod memory;
mod missing;
#[cfg(test)]
mod mutants;
mod pipeline;
mod plan;
mod pool;
mod prometheus;
mod rows;
mod shared;
mod stage;
mod stats;
mod tensor;
mod timeline;
pub mod transform;
mod watchdog;

pub use batch::Batch;
pub use builder::LoaderBuilder;
pub use error::{LoaderError, LoaderFault};
pub use loader::{Blocking, Loader, Monitor, Stopper};
pub use missing::Missing;
pub use rows::Ragged;
pub use stage::Stage;
pub use stats::{LoaderStats, StageStats, Stages, Stalls};
pub use tensor::BatchTensor;
