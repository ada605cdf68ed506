//! Where bytes end up: host memory or the memory of a CUDA device, with the streams, events and copies that take them
//! there.
//!
//! Owns: contexts, device memory, the registration of the arena with the driver, copies in flight. May touch: `memory`
//! and `sys`. Knows nothing of files.

mod arena;
mod backend;
mod buffer;
mod cuda;
mod error;
mod handle;
mod host;
mod link;

pub(crate) use arena::{DeviceArena, DeviceLoan, DeviceSlot};
pub(crate) use backend::{Copier, Memory, Ordered, Span, Ticket};
pub use buffer::DeviceBuffer;
#[cfg(test)]
pub(crate) use cuda::kept_or_not;
pub(crate) use cuda::{CudaDevice, Event, EventPool, PinnedArena, cufile};
pub use error::{DeviceError, DeviceFault};
pub use handle::{Device, DeviceKind};
pub(crate) use host::HostCopier;
pub use link::LinkRates;
