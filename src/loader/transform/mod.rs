//! What becomes of a sample between the disk and its batch.
//!
//! A [`Transform`] says what tensors come out of those that go in, before anything is read, and then fills rows that lie in
//! the batch's own memory. [`Map`] makes one of a closure, [`Chain`] one of two.

// Owns: the trait, what it is given, and those that everybody needs. May touch: `dataset` for types and shapes, `element`,
// and nothing else of the loader.

mod caught;
mod chain;
mod error;
mod interface;
mod map;
mod output;
mod random;
mod sample;

pub(crate) use caught::{apply_caught, specs_caught};
pub use chain::Chain;
pub use error::{TransformError, TransformFault};
pub use interface::Transform;
pub use map::Map;
pub use output::Output;
pub use sample::Sample;
