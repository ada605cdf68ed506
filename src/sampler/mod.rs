//! The order of training: which samples make the next batch of this rank. A pure function of the data, the seed and the
//! settings; nothing here reads a byte or starts a thread.
//!
//! An [`Order`] is the order of every epoch, the same for all ranks. A [`Sampler`] deals it out in batches, to one rank of
//! a [`World`], and a [`State`] is where it stood, to go on from there with as many ranks as there are then.
//!
//! ```
//! use forebay::dataset::Fingerprint;
//! use forebay::sampler::{Order, Remainder, Sampler, Shuffle, State, World};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let fingerprint = Fingerprint::new("example", "", 1000, &[]); // of a dataset: `dataset.fingerprint()`
//! let order = Order::new(&fingerprint, 1000, 7, Shuffle::Full);
//! let mut sampler = Sampler::new(order, World::new(0, 4)?, 32, Remainder::Pad, false, Some(1))?;
//! let mut indices = Vec::new();
//! while let Some(step) = sampler.next_step(&mut indices) {
//!     println!("epoch {} batch {}: samples {indices:?}", step.at.epoch, step.at.batch);
//!     let state = State::new(fingerprint.clone(), 7, Shuffle::Full, step.next);
//!     println!("to go on behind it: {}", serde_json::to_string(&state)?);
//!     indices.clear();
//! }
//! # Ok(())
//! # }
//! ```
#![forbid(unsafe_code)]

// Owns: the permutations, what each rank is dealt, the state that is saved. May touch: `dataset::Fingerprint`, and nothing
// else of this crate.

mod detect;
mod error;
mod key;
mod launcher;
mod network;
mod order;
mod permutation;
mod remainder;
mod shuffle;
mod state;
mod steps;
mod table;
mod world;

pub use error::SamplerError;
pub use launcher::WorldSource;
pub use order::{EpochOrder, Order};
pub use remainder::{Remainder, UnknownRemainder};
pub use shuffle::{Shuffle, UnknownShuffle};
pub use state::State;
pub use steps::{Cursor, Sampler, Step};
pub use world::World;
