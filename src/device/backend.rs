//! What a device must be able to do for bytes to be carried to it.

use std::fmt;
use std::sync::Arc;

use super::error::DeviceError;
use super::host::HostMemory;
use crate::memory::{HoldsSlot, Slot};

/// Bytes on a device, freed when the last handle is dropped.
pub(crate) trait Memory: fmt::Debug + Send + Sync {
    /// Where they begin, in the device's own addresses.
    fn address(&self) -> u64;

    /// How many they are.
    fn len(&self) -> usize;

    /// Says that these may never be released, to those that wait for some.
    fn lose(&self) {}

    /// Themselves, where they are in host memory.
    fn as_host(&self) -> Option<&HostMemory> {
        None
    }
}

/// A run of bytes to copy: from where in the slot, to where in the device's memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Span {
    pub(crate) from: usize,
    pub(crate) to: usize,
    pub(crate) len: usize,
}

/// Numbers the orders given to one [`Copier`], in the order they are carried out.
pub(crate) type Ticket = u64;

/// An order that a [`Copier`] took.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ordered {
    pub(crate) ticket: Ticket,
    /// All that is read for it is pinned, where that matters.
    pub(crate) is_pinned: bool,
}

/// A stream of copies between slots and one device. Copies are carried out in the order given, while the caller does
/// something else; what they read and write is kept until they are done, also when the copier is dropped.
///
/// All but `to_host` is for one thread, which calls [`bind`](Self::bind) first.
pub(crate) trait Copier: fmt::Debug + Send {
    /// Makes this thread, one of our own, one that may use the device.
    fn bind(&mut self) -> Result<(), DeviceError>;

    /// Orders `spans` of a slot to be copied. After an error nothing of them is in flight any more.
    fn to_device(
        &mut self,
        source: Box<dyn HoldsSlot>,
        memory: &Arc<dyn Memory>,
        spans: &[Span],
    ) -> Result<Ordered, DeviceError>;

    /// Lets go of what is done and says which ticket is the first that is not.
    fn first_pending(&mut self) -> Result<Ticket, DeviceError>;

    /// The device has failed: says of all that is in flight that it may never be released. It is kept all the same.
    fn give_up(&mut self);

    /// Whether many spans are ordered in one call, so that packing them first gains nothing.
    fn copies_at_once(&self) -> bool;

    /// Fills the slot with the bytes from `at` on, and waits for that.
    fn to_host(&mut self, memory: &Arc<dyn Memory>, at: usize, slot: Slot) -> Result<Slot, DeviceError>;
}
