//! CUDA: contexts, memory, copies, and the arena as pinned memory. All calls go through `sys::cuda`; cudarc brings the
//! context, so that what lands here is at home in programs that use it.

mod batch;
mod context;
mod copier;
pub(crate) mod cufile;
mod event;
mod memory;
mod pinned;

pub(crate) use context::CudaDevice;
pub(crate) use event::{Event, EventPool};
#[cfg(test)]
pub(crate) use memory::kept_or_not;
pub(crate) use pinned::PinnedArena;
