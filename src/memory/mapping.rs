//! The pages of an arena.

use std::io;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use memmap2::{Advice, MmapMut, MmapOptions};

use super::arena::PageKind;
use super::error::MemoryError;

const HUGE: usize = 2 << 20;

/// The memory itself. Unmapped when the arena, and everything lent from it, is gone.
#[derive(Debug)]
pub(super) struct Mapping {
    base: NonNull<u8>,
    pages: PageKind,
    /// Where `base` lies in `map`, and how many bytes are used from there.
    shift: usize,
    len: usize,
    /// No byte is touched through this handle once it is made: `base` points into it.
    map: MmapMut,
}

// SAFETY: `base` points into `map`, which lives as long and never moves; access through it is divided by the pool,
// which lends every byte to one slot at a time.
unsafe impl Send for Mapping {}
// SAFETY: as above; a shared `Mapping` only hands out addresses.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Maps `len` bytes and touches none.
    pub(super) fn new(len: usize) -> Result<Self, MemoryError> {
        Self::reserved_huge(len).map_or_else(|| Self::transparent(len), Ok)
    }

    /// Maps `len` bytes and touches all.
    pub(super) fn touched(len: usize) -> Result<Self, MemoryError> {
        // The process may be allowed fewer reserved pages than there are.
        if let Some(mapping) = Self::reserved_huge(len).filter(|mapping| mapping.touch().is_ok()) {
            return Ok(mapping);
        }
        let mapping = Self::transparent(len)?;
        mapping.touch().map_err(|source| MemoryError::Refused { bytes: len as u64, source })?;
        Ok(mapping)
    }

    fn transparent(len: usize) -> Result<Self, MemoryError> {
        let refused = |source| MemoryError::Refused { bytes: len as u64, source };
        let mapped = len.checked_add(HUGE).ok_or_else(|| refused(io::ErrorKind::OutOfMemory.into()))?;
        let map = MmapOptions::new().len(mapped).map_anon().map_err(refused)?;
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
        Self { base, pages, shift, len, map }
    }

    pub(super) fn pages(&self) -> PageKind {
        self.pages
    }

    pub(super) fn at(&self, offset: usize) -> NonNull<u8> {
        // SAFETY: the pool only lends offsets inside the mapping, so the address stays inside it.
        unsafe { self.base.add(offset) }
    }

    /// Has every page given now, on several threads: the first touch of memory can cost more than the read into it.
    fn touch(&self) -> io::Result<()> {
        const SHARE: usize = 64 << 20;
        let threads = processors().min(self.len.div_ceil(SHARE)).min(MOST_THREADS);
        let share = self.len.div_ceil(threads).next_multiple_of(HUGE);
        thread::scope(|scope| {
            let touching: Vec<_> = (0..self.len)
                .step_by(share)
                .map(|from| {
                    let work = move || self.populate(from, share);
                    // Where no thread can be had, this one does its work.
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
            answer => answer,
        }
    }
}

/// More of them only wait for each other in the kernel.
const MOST_THREADS: usize = 16;

fn processors() -> usize {
    thread::available_parallelism().map_or(1, usize::from)
}

/// Has the pages given from the start on, by threads that end when all are, or when nobody has the memory any more. What
/// is used before they come to it is given at its first use; that its content stays is the kernel's promise.
pub(super) fn touch_meanwhile(mapping: &Arc<Mapping>) {
    /// Small enough that whoever fills the memory does not come to it first.
    const STEP: usize = 8 << 20;
    let next = Arc::new(AtomicUsize::new(0));
    // One processor is for whoever fills it.
    for _ in 0..(processors() - 1).clamp(1, MOST_THREADS).min(mapping.len.div_ceil(STEP)) {
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
