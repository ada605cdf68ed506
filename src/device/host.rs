//! Host memory as a device: what is carried there with a place of its own is copied once, by the CPU.

use std::ops::Deref;
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard};

use super::backend::{Copier, Memory, Ordered, Span, Ticket};
use super::error::{DeviceError, DeviceFault};
use crate::memory::{Arena, HoldsSlot, MemoryError, Slot};

#[derive(Debug)]
pub(crate) struct HostMemory {
    /// Written to only while a request owns the buffer, so that no look at it waits, nor one beside another.
    bytes: RwLock<Slot>,
    len: usize,
}

impl HostMemory {
    pub(crate) fn new(len: usize) -> Result<Self, MemoryError> {
        // What is too much to be rounded up is too much for the machine, too.
        let whole = len.max(1).checked_next_multiple_of(4096).unwrap_or(len);
        let arena = Arena::new(whole as u64)?;
        match arena.try_loan(len)? {
            Some(slot) => Ok(Self { bytes: RwLock::new(slot), len }),
            None => Err(MemoryError::OverBudget { asked: len as u64, budget: arena.budget() }),
        }
    }

    /// The bytes, for as long as what is returned lives.
    pub(crate) fn read(&self) -> impl Deref<Target = [u8]> {
        Reading(self.bytes.read().unwrap_or_else(PoisonError::into_inner))
    }
}

struct Reading<'a>(RwLockReadGuard<'a, Slot>);

impl Deref for Reading<'_> {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.0
    }
}

impl Memory for HostMemory {
    fn address(&self) -> u64 {
        self.read().as_ptr() as u64
    }

    fn len(&self) -> usize {
        self.len
    }

    fn as_host(&self) -> Option<&HostMemory> {
        Some(self)
    }
}

/// Copies at once.
#[derive(Debug, Default)]
pub(crate) struct HostCopier {
    done: Ticket,
}

impl Copier for HostCopier {
    fn bind(&mut self) -> Result<(), DeviceError> {
        Ok(())
    }

    fn to_device(
        &mut self,
        source: Box<dyn HoldsSlot>,
        memory: &Arc<dyn Memory>,
        spans: &[Span],
    ) -> Result<Ordered, DeviceError> {
        let outside = || DeviceError { device: "host".into(), fault: DeviceFault::Outside };
        let bytes = &memory.as_host().ok_or_else(outside)?.bytes;
        let mut bytes = bytes.write().unwrap_or_else(PoisonError::into_inner);
        for &Span { from, to, len } in spans {
            let to = to.checked_add(len).and_then(|end| bytes.get_mut(to..end)).ok_or_else(outside)?;
            let from = from.checked_add(len).and_then(|end| source.slot().get(from..end)).ok_or_else(outside)?;
            to.copy_from_slice(from);
        }
        self.done += 1;
        Ok(Ordered { ticket: self.done - 1, is_pinned: true })
    }

    fn first_pending(&mut self) -> Result<Ticket, DeviceError> {
        Ok(self.done)
    }

    /// Nothing ever is in flight.
    fn give_up(&mut self) {}

    fn copies_at_once(&self) -> bool {
        true
    }

    fn to_host(&mut self, memory: &Arc<dyn Memory>, at: usize, mut slot: Slot) -> Result<Slot, DeviceError> {
        let outside = || DeviceError { device: "host".into(), fault: DeviceFault::Outside };
        let bytes = memory.as_host().ok_or_else(outside)?.read();
        let end = at.checked_add(slot.len()).ok_or_else(outside)?;
        slot.copy_from_slice(bytes.get(at..end).ok_or_else(outside)?);
        Ok(slot)
    }
}
