//! Where the rows of a window's batches are.

use std::fmt;
use std::ops::Range;
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use cudarc::driver::CudaStream;

use crate::device::DeviceError;
#[cfg(test)]
use crate::emulated::mutant;
use crate::memory::Slot;
use crate::route::Landed;
use crate::sync::lock;

/// One piece of memory that the batches of a window share. Cloning gives another handle.
#[derive(Clone)]
pub(super) enum Memory {
    /// Of a window without samples.
    Nothing,
    Host(Arc<Slot>),
    Device(Arc<OnDevice>),
}

pub(super) struct OnDevice {
    landed: Mutex<Landed>,
    address: Option<u64>,
}

impl Memory {
    pub(super) fn on_host(slot: Slot) -> Self {
        Self::Host(Arc::new(slot))
    }

    pub(super) fn on_device(landed: Landed) -> Self {
        let address = landed.device_address(0);
        Self::Device(Arc::new(OnDevice { landed: Mutex::new(landed), address }))
    }

    pub(super) fn host(&self, range: Range<usize>) -> Option<&[u8]> {
        match self {
            Self::Host(slot) => slot.get(range),
            Self::Device(_) | Self::Nothing => None,
        }
    }

    /// The same as a handle that keeps the memory.
    pub(super) fn host_bytes(&self, range: Range<usize>) -> Option<Bytes> {
        match self {
            Self::Host(slot) => {
                slot.get(range.clone())?;
                Some(Bytes::from_owner(Shared { slot: Arc::clone(slot), range }))
            }
            Self::Device(_) | Self::Nothing => None,
        }
    }

    pub(super) fn device_address(&self) -> Option<u64> {
        match self {
            Self::Host(_) | Self::Nothing => None,
            Self::Device(there) => there.address,
        }
    }

    pub(super) fn to_host(&self, range: Range<usize>) -> Result<Vec<u8>, DeviceError> {
        match self {
            Self::Nothing => Ok(Vec::new()),
            Self::Host(slot) => Ok(slot.get(range).unwrap_or_default().to_vec()),
            Self::Device(there) => lock(&there.landed).part_to_host(0, range),
        }
    }

    /// Somebody may use it for ever: it is never lent again, and whoever waits for memory hears of it.
    pub(super) fn keep_for_ever(&self) {
        if let Self::Device(there) = self {
            lock(&there.landed).keep_for_ever();
        }
    }

    pub(super) fn used_on(&self, stream: &CudaStream) -> Result<(), DeviceError> {
        #[cfg(test)]
        if mutant::is_planted(mutant::REUSED_EARLY) {
            return Ok(());
        }
        match self {
            Self::Host(_) | Self::Nothing => Ok(()),
            Self::Device(there) => lock(&there.landed).used_on(stream),
        }
    }
}

struct Shared {
    slot: Arc<Slot>,
    range: Range<usize>,
}

impl AsRef<[u8]> for Shared {
    fn as_ref(&self) -> &[u8] {
        &self.slot[self.range.clone()]
    }
}

impl fmt::Debug for Memory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Nothing => f.write_str("Nothing"),
            Self::Host(slot) => f.debug_tuple("Host").field(slot).finish(),
            Self::Device(there) => f.debug_tuple("Device").field(&there.address).finish(),
        }
    }
}
