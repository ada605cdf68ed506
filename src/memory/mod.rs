//! Host memory that bytes land in: one arena within a budget, given out in slots.
//!
//! Owns: the mapping, how much of it has pages, which parts are in use, and which requests wait. May touch: nothing above it. The
//! storage engines register the arena with their rings, and the device layer the same memory with its driver, as it grows.

mod arena;
mod copy;
mod error;
mod growth;
mod mapping;
mod owner;
mod pool;
mod slot;
#[cfg(all(test, not(forebay_loom)))]
mod tests;

pub use arena::{Arena, PageKind};
pub(crate) use copy::copy;
pub use error::MemoryError;
pub(crate) use owner::Owner;
pub(crate) use pool::{Lease, Pool, Queued};
pub(crate) use slot::HoldsSlot;
pub use slot::{Loan, Slot};
