//! A device's memory as an arena: allocated once, given out in pieces, like the host's.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use super::backend::Memory;
use crate::memory::{Lease, MemoryError, Pool, Queued};

/// Cloning gives another handle.
#[derive(Clone, Debug)]
pub(crate) struct DeviceArena {
    memory: Arc<dyn Memory>,
    pool: Pool,
}

impl DeviceArena {
    /// The first `len` bytes of an allocation.
    pub(crate) fn new(memory: Arc<dyn Memory>, len: usize) -> Self {
        let pool = Pool::new(len.min(memory.len()));
        Self { memory, pool }
    }

    /// The one allocation that all loans are of.
    pub(crate) fn memory(&self) -> &Arc<dyn Memory> {
        &self.memory
    }

    /// Bytes in all.
    pub(crate) fn budget(&self) -> u64 {
        self.pool.len() as u64
    }

    pub(crate) fn on_loan(&self) -> u64 {
        self.pool.in_use() as u64
    }

    /// `len` bytes, if they are free in one piece now and no request waits for memory.
    pub(crate) fn try_loan(&self, len: usize, align: usize) -> Option<DeviceSlot> {
        let lease = self.pool.try_acquire(len, align)?;
        Some(DeviceSlot { lease, arena: self.clone(), len })
    }

    /// `len` bytes as soon as they are free in one piece, in the order of asking.
    pub(crate) fn loan(&self, len: usize, align: usize) -> Result<DeviceLoan, MemoryError> {
        if len > self.pool.len() {
            let budget = self.budget();
            return Err(MemoryError::OverDeviceBudget { asked: len as u64, budget });
        }
        Ok(DeviceLoan { queued: self.pool.acquire(len, align), arena: self.clone(), len })
    }
}

/// Device memory to come.
#[derive(Debug)]
pub(crate) struct DeviceLoan {
    queued: Queued,
    arena: DeviceArena,
    len: usize,
}

impl DeviceLoan {
    /// Whether so much was lost to a device that failed that this can never come. A waiter that looks after its poll was pending
    /// is woken when something is lost.
    pub(crate) fn is_hopeless(&self) -> bool {
        self.queued.is_hopeless()
    }
}

impl Future for DeviceLoan {
    type Output = DeviceSlot;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<DeviceSlot> {
        let lease = ready!(Pin::new(&mut self.queued).poll(context));
        Poll::Ready(DeviceSlot { lease, arena: self.arena.clone(), len: self.len })
    }
}

/// A piece of a device's arena in use, released on drop.
pub(crate) struct DeviceSlot {
    lease: Lease,
    arena: DeviceArena,
    len: usize,
}

impl DeviceSlot {
    /// Where it begins in the arena.
    pub(crate) fn start(&self) -> usize {
        self.lease.start()
    }
}

impl Memory for DeviceSlot {
    fn address(&self) -> u64 {
        self.arena.memory.address() + self.lease.start() as u64
    }

    fn len(&self) -> usize {
        self.len
    }

    fn lose(&self) {
        self.lease.lose();
    }
}

impl fmt::Debug for DeviceSlot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DeviceSlot").field("start", &self.lease.start()).field("len", &self.len).finish_non_exhaustive()
    }
}
