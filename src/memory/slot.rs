use std::fmt;
use std::future::Future;
use std::ops::{Deref, DerefMut};
use std::pin::Pin;
use std::ptr::NonNull;
use std::sync::Arc;
use std::task::{Context, Poll};

use super::arena::{Arena, NotThere};
use super::error::MemoryError;
use super::mapping::Mapping;
use super::pool::{Lease, Queued};

/// A piece of an [`Arena`](super::Arena) in use: page-aligned memory of the length asked for, for its holder alone,
/// released on drop.
///
/// Its bytes are whatever was there before. A process that is forked while it is in use does not have them: there it is empty.
pub struct Slot {
    lease: Lease,
    mapping: Arc<Mapping>,
    len: usize,
}

impl Slot {
    pub(super) fn new(lease: Lease, mapping: Arc<Mapping>, len: usize) -> Self {
        Self { lease, mapping, len }
    }

    /// The slot's first byte. The memory stays where it is for as long as the slot lives.
    pub(crate) fn address(&self) -> NonNull<u8> {
        self.mapping.at(self.lease.start())
    }

    /// The first `len` bytes, and those from the next multiple of `align` on, which is one of 4096: two slots.
    pub(crate) fn split(self, len: usize, align: usize) -> (Self, Self) {
        let at = len.next_multiple_of(align).min(self.len);
        let (first, rest) = self.lease.split(at);
        let rest = Self { lease: rest, mapping: Arc::clone(&self.mapping), len: self.len - at };
        (Self { lease: first, mapping: self.mapping, len: len.min(at) }, rest)
    }

    /// Says that this will never be released, to those that wait for it.
    pub(crate) fn lose(&self) {
        self.lease.lose();
    }
}

/// What keeps one slot, the same all its life, and its bytes as they are.
pub(crate) trait HoldsSlot: Send {
    /// The slot.
    fn slot(&self) -> &Slot;
}

impl HoldsSlot for Slot {
    fn slot(&self) -> &Slot {
        self
    }
}

impl Deref for Slot {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        if !self.mapping.is_here() {
            return &[];
        }
        // SAFETY: the pool gives `start..start + len` to this slot alone, inside the mapping, which the slot keeps
        // alive; anonymous memory is always initialised. A reader that lets the kernel write here owns the slot until
        // the kernel is done (see `storage::request`), so no reference exists meanwhile.
        unsafe { std::slice::from_raw_parts(self.address().as_ptr(), self.len) }
    }
}

impl DerefMut for Slot {
    fn deref_mut(&mut self) -> &mut [u8] {
        if !self.mapping.is_here() {
            return &mut [];
        }
        // SAFETY: as for `deref`, and `&mut self` excludes every other reference.
        unsafe { std::slice::from_raw_parts_mut(self.address().as_ptr(), self.len) }
    }
}

impl AsRef<[u8]> for Slot {
    fn as_ref(&self) -> &[u8] {
        self
    }
}

impl fmt::Debug for Slot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Slot").field("start", &self.lease.start()).field("len", &self.len).finish()
    }
}

/// A [`Slot`] to come: ready once enough memory is free and every request before it has been served. An error where the
/// machine has less than the budget says, and not as much as this asks for.
#[derive(Debug)]
#[must_use = "a loan that is not awaited is given up"]
pub struct Loan {
    queued: Queued,
    arena: Arena,
    len: usize,
}

impl Loan {
    pub(super) fn new(queued: Queued, arena: Arena, len: usize) -> Self {
        Self { queued, arena, len }
    }

    /// Whether so much of the arena was lost to a ring that broke, or to a device, that this can never come. A waiter that looks
    /// after its poll was pending is woken when something is lost.
    pub(crate) fn is_hopeless(&self) -> bool {
        self.queued.is_hopeless()
    }
}

impl Future for Loan {
    type Output = Result<Slot, MemoryError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let this = &mut *self;
        this.arena.check(this.len)?;
        loop {
            let Poll::Ready(lease) = Pin::new(&mut this.queued).poll(context) else {
                this.arena.watch();
                return Poll::Pending;
            };
            match this.arena.slot(lease, this.len) {
                Ok(Ok(slot)) => return Poll::Ready(Ok(slot)),
                // Its turn had come, and still has.
                Ok(Err(NotThere { lease, limit })) => this.queued.requeue(lease, limit),
                Err(error) => return Poll::Ready(Err(error)),
            }
        }
    }
}
