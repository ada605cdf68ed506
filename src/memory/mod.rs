//! Host memory that bytes land in: one arena of a fixed budget, lent out in slots.
//!
//! Owns: the mapping, who has which part of it, and who waits. May touch: nothing above it. The storage engines
//! register the arena with their rings; a later device layer registers the same memory with its driver.

mod arena;
mod copy;
mod error;
mod mapping;
mod pool;
mod slot;

pub use arena::{Arena, PageKind};
pub(crate) use copy::copy;
pub use error::MemoryError;
pub(crate) use pool::{Lease, Pool, Queued};
pub(crate) use slot::HoldsSlot;
pub use slot::{Loan, Slot};
