//! The pages of an arena.

use std::io;
use std::mem::ManuallyDrop;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;

use memmap2::{Advice, MmapMut, MmapOptions};

use super::arena::PageKind;
use super::error::MemoryError;
use super::growth::{self, HUGE, Refused};
use super::owner::Owner;
use crate::sync::lock;
use crate::sys::memory_left;

/// The memory itself. Unmapped when the arena, and every slot of it, is gone.
#[derive(Debug)]
pub(super) struct Mapping {
    base: NonNull<u8>,
    pages: PageKind,
    /// Where `base` lies in `map`, and how many bytes are used from there.
    shift: usize,
    len: usize,
    /// Bytes from `base` on whose pages are there.
    touched: AtomicUsize,
    /// Held while more are touched.
    growing: Mutex<()>,
    #[cfg(test)]
    pub(super) left: Mutex<Option<u64>>,
    owner: Owner,
    /// No byte is touched through this handle once it is made: `base` points into it.
    map: ManuallyDrop<MmapMut>,
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // A forked child does not have these pages, and may have others at their addresses by now.
        if self.owner.is_here() {
            // SAFETY: it is dropped here and nowhere else, and not used after.
            unsafe { ManuallyDrop::drop(&mut self.map) };
        }
    }
}

// SAFETY: `base` points into `map`, which lives as long and never moves; access through it is divided by the pool,
// which gives every byte to one slot at a time.
unsafe impl Send for Mapping {}
// SAFETY: as above; a shared `Mapping` only hands out addresses.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Reserves `len` bytes of address space and touches the first of them.
    pub(super) fn growing(len: usize) -> Result<Self, Refused> {
        // The process may be allowed fewer reserved pages than there are.
        if let Some(mapping) = Self::reserved_huge(len).filter(|mapping| mapping.touch_to(1).is_ok()) {
            return Ok(mapping);
        }
        let mapping = Self::transparent(len)?;
        mapping.touch_to(1)?;
        Ok(mapping)
    }

    /// The same for memory that other threads touch than those that acquire it, see [`touch_meanwhile`].
    pub(super) fn untouched(len: usize) -> Result<Self, MemoryError> {
        let mapping = Self::reserved_huge(len).map_or_else(|| Self::transparent(len), Ok)?;
        mapping.touched.store(len, Ordering::Release);
        Ok(mapping)
    }

    fn transparent(len: usize) -> Result<Self, MemoryError> {
        let refused = |source| MemoryError::Refused { bytes: len as u64, source };
        let mapped = len.checked_add(HUGE).ok_or_else(|| refused(io::ErrorKind::OutOfMemory.into()))?;
        let map = MmapOptions::new().len(mapped).no_reserve_swap().map_anon().map_err(refused)?;
        let shift = map.as_ptr().align_offset(HUGE);
        // Where the kernel has no transparent huge pages, ordinary ones do.
        let _ = map.advise_range(Advice::HugePage, shift, len);
        Ok(Self::at_offset(shift, len, PageKind::Transparent, map))
    }

    /// Fails where too few huge pages are reserved, which is the usual case.
    fn reserved_huge(len: usize) -> Option<Self> {
        let mapped = len.checked_next_multiple_of(HUGE)?;
        let map = MmapOptions::new().len(mapped).huge(Some(21)).map_anon().ok()?;
        Some(Self::at_offset(0, len, PageKind::ReservedHuge, map))
    }

    fn at_offset(shift: usize, len: usize, pages: PageKind, mut map: MmapMut) -> Self {
        // A child that shared these pages would split them from the ones that the kernel holds.
        let _ = map.advise(Advice::DontFork);
        let base = NonNull::from(&mut map[shift..]).cast();
        Self {
            base,
            pages,
            shift,
            len,
            touched: AtomicUsize::new(0),
            growing: Mutex::default(),
            #[cfg(test)]
            left: Mutex::default(),
            owner: Owner::this(),
            map: ManuallyDrop::new(map),
        }
    }

    pub(super) fn pages(&self) -> PageKind {
        self.pages
    }

    /// Whether this process has the memory, and is not one forked from the one that has.
    pub(super) fn is_here(&self) -> bool {
        self.owner.is_here()
    }

    pub(super) fn at(&self, offset: usize) -> NonNull<u8> {
        // SAFETY: the pool only gives offsets inside the mapping, so the address stays inside it.
        unsafe { self.base.add(offset) }
    }

    /// Bytes from the start on whose pages are there. It only grows.
    pub(super) fn touched(&self) -> usize {
        self.touched.load(Ordering::Acquire)
    }

    /// Sees that the pages of the first `end` bytes are there, and asks the kernel for more than that at once where there is
    /// more, so that it is asked seldom. After a refusal what was there is there still.
    pub(super) fn touch_to(&self, end: usize) -> Result<(), Refused> {
        if end <= self.touched() {
            return Ok(());
        }
        let _growing = lock(&self.growing);
        let from = self.touched();
        if end <= from {
            return Ok(());
        }
        let (least, wish) = growth::step(from, end, self.len);
        let mut to = growth::affordable(from, least, wish, self.left())?;
        let mut outcome = self.touch(from, to);
        if outcome.is_err() && to > least {
            to = least;
            outcome = self.touch(from, to);
        }
        outcome.map_err(|source| Refused {
            error: MemoryError::Refused { bytes: (to - from) as u64, source },
            reachable: from,
        })?;
        self.touched.store(to, Ordering::Release);
        Ok(())
    }

    /// Bytes that the machine has left for this memory, where it says.
    pub(super) fn left(&self) -> Option<u64> {
        #[cfg(test)]
        if let Some(left) = *lock(&self.left) {
            return Some(left);
        }
        match self.pages {
            // They are set aside for us already.
            PageKind::ReservedHuge => None,
            PageKind::Transparent => memory_left::bytes(),
        }
    }

    /// Has the pages from `from` to `to` given now, on several threads: the first touch of memory can cost more than the read
    /// into it.
    fn touch(&self, from: usize, to: usize) -> io::Result<()> {
        const SHARE: usize = 64 << 20;
        let threads = cpus().min((to - from).div_ceil(SHARE)).min(MOST_THREADS);
        if threads <= 1 {
            return self.populate(from, to - from);
        }
        let share = (to - from).div_ceil(threads).next_multiple_of(HUGE);
        thread::scope(|scope| {
            let touching: Vec<_> = (from..to)
                .step_by(share)
                .map(|at| {
                    let work = move || self.populate(at, share.min(to - at));
                    // Where no thread starts, this one does its work.
                    thread::Builder::new().spawn_scoped(scope, work).map_err(|_| work())
                })
                .collect();
            touching.into_iter().try_for_each(|thread| match thread {
                Ok(thread) => {
                    thread.join().unwrap_or_else(|_| Err(io::Error::other("a thread that touches memory panicked")))
                }
                Err(done) => done,
            })
        })
    }

    /// Has the pages of at most `len` bytes given.
    fn populate(&self, from: usize, len: usize) -> io::Result<()> {
        let len = len.min(self.len - from);
        match self.map.advise_range(Advice::PopulateWrite, self.shift + from, len) {
            // Before Linux 5.14 pages are given at first use instead.
            Err(error) if error.kind() == io::ErrorKind::InvalidInput => Ok(()),
            outcome => outcome,
        }
    }
}

/// More of them only wait for each other in the kernel.
const MOST_THREADS: usize = 16;

fn cpus() -> usize {
    thread::available_parallelism().map_or(1, usize::from)
}

/// Has the pages given from the start on, by threads that end when all are, or when the memory is released. What is used before
/// they come to it is given at its first use; that its content stays is the kernel's promise.
pub(super) fn touch_meanwhile(mapping: &Arc<Mapping>) {
    /// Small enough that the reads that fill the memory do not come to it first.
    const STEP: usize = 8 << 20;
    let next = Arc::new(AtomicUsize::new(0));
    // One CPU is for the reads that fill it.
    for _ in 0..(cpus() - 1).clamp(1, MOST_THREADS).min(mapping.len.div_ceil(STEP)) {
        let (mapping, next) = (Arc::downgrade(mapping), Arc::clone(&next));
        let touch = move || {
            while let Some(mapping) = mapping.upgrade() {
                let from = next.fetch_add(STEP, Ordering::Relaxed);
                if from >= mapping.len || mapping.populate(from, STEP).is_err() {
                    return;
                }
            }
        };
        // Without one, memory is given at its first use.
        let _ = thread::Builder::new().name("forebay-touch".into()).spawn(touch);
    }
}
