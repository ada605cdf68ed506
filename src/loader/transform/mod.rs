//! What becomes of a sample between the disk and its batch.
//!
//! A [`Transform`] says what tensors come out of those that go in, before anything is read, and then fills rows that lie in
//! the batch's own memory. [`Map`] makes one of a closure, [`Chain`] one of two. Ready ones: [`ToFloat`], [`Cast`] and
//! [`ShiftTokens`]; with the feature `images`, `DecodeImage`.

// Owns: the trait, what it is given, and those that everybody needs. May touch: `dataset` for types and shapes, `element`,
// and nothing else of the loader.

mod cast;
mod caught;
mod chain;
mod error;
mod fields;
#[cfg(feature = "images")]
mod images;
mod interface;
mod map;
mod number;
mod output;
mod random;
mod sample;
mod shift_tokens;
#[cfg(test)]
mod tests;
mod to_float;

pub use cast::Cast;
pub(crate) use caught::{apply_caught, panicking, specs_caught};
pub use chain::Chain;
pub use error::{TransformError, TransformFault};
pub use fields::Channels;
#[cfg(feature = "images")]
pub use images::{DecodeImage, Fit};
pub use interface::Transform;
pub use map::Map;
pub use output::Output;
pub use sample::Sample;
pub use shift_tokens::ShiftTokens;
pub use to_float::ToFloat;
