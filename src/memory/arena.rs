use std::fmt;
use std::ptr::NonNull;
use std::sync::Arc;
use std::thread;

use memmap2::{Advice, MmapMut, MmapOptions};

use super::error::MemoryError;
use super::pool::{GRAIN, Pool};
use super::slot::{Loan, Slot};
use crate::sys::memory_left;

const HUGE: usize = 2 << 20;

/// A fixed budget of host memory, mapped and touched once, lent out in [`Slot`]s of any length.
///
/// The memory is anonymous, cacheable, 2 MiB-aligned and never moves, so that io_uring and a GPU driver can both
/// register it once. It lies in reserved huge pages where there are enough, else in transparent ones where the kernel
/// gives them. A forked child does not see it: the kernel may be writing there.
///
/// Cloning gives another handle on the same memory.
#[derive(Clone)]
pub struct Arena {
    mapping: Arc<Mapping>,
    pool: Pool,
}

/// The pages that an arena was given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum PageKind {
    /// Huge pages of 2 MiB that the administrator had reserved.
    ReservedHuge,
    /// Ordinary pages, which the kernel was asked to join into huge ones.
    Transparent,
}

impl Arena {
    /// Maps and touches `budget` bytes, rounded down to whole 4 KiB; nothing more is ever allocated.
    ///
    /// # Errors
    /// [`MemoryError`] where the budget is below 4 KiB, exceeds what the machine or the process's control group has
    /// left, or is refused by the kernel.
    pub fn new(budget: u64) -> Result<Self, MemoryError> {
        let len = usize::try_from(budget).map_or(usize::MAX, |budget| budget - budget % GRAIN);
        if len == 0 {
            return Err(MemoryError::TooSmall { budget, least: GRAIN as u64 });
        }
        if let Some(left) = memory_left::bytes().filter(|&left| left < budget) {
            return Err(MemoryError::NotThere { budget, left });
        }
        Ok(Self { mapping: Arc::new(Mapping::new(len)?), pool: Pool::new(len) })
    }

    /// Bytes in all.
    pub fn budget(&self) -> u64 {
        self.pool.len() as u64
    }

    /// Bytes on loan now, counted in whole 4 KiB.
    pub fn on_loan(&self) -> u64 {
        self.pool.lent() as u64
    }

    /// The pages that the arena lies in.
    pub fn page_kind(&self) -> PageKind {
        self.mapping.pages
    }

    /// Lends `len` bytes as soon as they are free in one piece, in the order of asking.
    ///
    /// Whoever holds slots and awaits more than what is left waits for itself.
    ///
    /// # Errors
    /// [`MemoryError::OverBudget`] at once where `len` exceeds the budget.
    pub fn loan(&self, len: usize) -> Result<Loan, MemoryError> {
        self.loan_aligned(len, GRAIN)
    }

    /// Lends `len` bytes if they are free in one piece now and nobody waits for memory.
    ///
    /// # Errors
    /// [`MemoryError::OverBudget`] where `len` exceeds the budget.
    pub fn try_loan(&self, len: usize) -> Result<Option<Slot>, MemoryError> {
        self.try_loan_aligned(len, GRAIN)
    }

    pub(crate) fn loan_aligned(&self, len: usize, align: usize) -> Result<Loan, MemoryError> {
        self.check(len)?;
        Ok(Loan::new(self.pool.lend(len, align), Arc::clone(&self.mapping), len))
    }

    pub(crate) fn try_loan_aligned(&self, len: usize, align: usize) -> Result<Option<Slot>, MemoryError> {
        self.check(len)?;
        Ok(self.pool.try_lend(len, align).map(|lease| Slot::new(lease, Arc::clone(&self.mapping), len)))
    }

    /// The whole memory, for registration with a ring or a driver: start and length in bytes.
    pub(crate) fn span(&self) -> (NonNull<u8>, usize) {
        (self.mapping.base, self.pool.len())
    }

    /// Whether some of it was lost to a ring that broke. Whoever asks after a loan was pending is woken when it is.
    pub(crate) fn has_lost(&self) -> bool {
        self.pool.has_lost()
    }

    fn check(&self, len: usize) -> Result<(), MemoryError> {
        if len > self.pool.len() {
            return Err(MemoryError::OverBudget { asked: len as u64, budget: self.budget() });
        }
        Ok(())
    }
}

impl fmt::Debug for Arena {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Arena")
            .field("budget", &self.budget())
            .field("on_loan", &self.on_loan())
            .field("page_kind", &self.page_kind())
            .finish()
    }
}

/// The memory itself. Unmapped when the arena, and everything lent from it, is gone.
#[derive(Debug)]
pub(super) struct Mapping {
    base: NonNull<u8>,
    pages: PageKind,
    /// Never touched through this handle once it is made: `base` points into it.
    _map: MmapMut,
}

// SAFETY: `base` points into `_map`, which lives as long and never moves; access through it is divided by the pool,
// which lends every byte to one slot at a time.
unsafe impl Send for Mapping {}
// SAFETY: as above; a shared `Mapping` only hands out addresses.
unsafe impl Sync for Mapping {}

impl Mapping {
    fn new(len: usize) -> Result<Self, MemoryError> {
        let refused = |source| MemoryError::Refused { bytes: len as u64, source };
        if let Some(mapping) = Self::reserved_huge(len) {
            return Ok(mapping);
        }
        let mapped = len.checked_add(HUGE).ok_or_else(|| refused(std::io::ErrorKind::OutOfMemory.into()))?;
        let mut map = MmapOptions::new().len(mapped).map_anon().map_err(refused)?;
        let shift = map.as_ptr().align_offset(HUGE);
        // Where the kernel has no transparent huge pages, ordinary ones do.
        let _ = map.advise_range(Advice::HugePage, shift, len);
        touch(&map, shift, len).map_err(refused)?;
        Ok(Self::at_offset(map_base(&mut map, shift), PageKind::Transparent, map))
    }

    /// Fails where too few huge pages are reserved, which is the usual case.
    fn reserved_huge(len: usize) -> Option<Self> {
        let mapped = len.checked_next_multiple_of(HUGE)?;
        let mut map = MmapOptions::new().len(mapped).huge(Some(21)).map_anon().ok()?;
        touch(&map, 0, mapped).ok()?;
        Some(Self::at_offset(map_base(&mut map, 0), PageKind::ReservedHuge, map))
    }

    fn at_offset(base: NonNull<u8>, pages: PageKind, map: MmapMut) -> Self {
        // A child that shared these pages would split them from the ones that the kernel holds.
        let _ = map.advise(Advice::DontFork);
        Self { base, pages, _map: map }
    }

    pub(super) fn at(&self, offset: usize) -> NonNull<u8> {
        // SAFETY: the pool only lends offsets inside the mapping, so the address stays inside it.
        unsafe { self.base.add(offset) }
    }
}

fn map_base(map: &mut MmapMut, shift: usize) -> NonNull<u8> {
    NonNull::from(&mut map[shift..]).cast()
}

/// Has every page given now, on several threads: the first touch of memory can cost more than the read into it.
fn touch(map: &MmapMut, start: usize, len: usize) -> std::io::Result<()> {
    const SHARE: usize = 64 << 20;
    let threads = thread::available_parallelism().map_or(1, usize::from).min(len.div_ceil(SHARE)).min(16);
    let share = len.div_ceil(threads).next_multiple_of(HUGE);
    thread::scope(|scope| {
        let touching: Vec<_> = (0..len)
            .step_by(share)
            .map(|from| {
                let work = move || populate(map, start + from, share.min(len - from));
                // Where no thread can be had, this one does its work.
                thread::Builder::new().spawn_scoped(scope, work).map_err(|_| work())
            })
            .collect();
        touching.into_iter().try_for_each(|thread| match thread {
            Ok(thread) => {
                thread.join().unwrap_or_else(|_| Err(std::io::Error::other("a thread that touches memory panicked")))
            }
            Err(done) => done,
        })
    })
}

fn populate(map: &MmapMut, start: usize, len: usize) -> std::io::Result<()> {
    match map.advise_range(Advice::PopulateWrite, start, len) {
        // Before Linux 5.14 pages are given at first use instead.
        Err(error) if error.kind() == std::io::ErrorKind::InvalidInput => Ok(()),
        answer => answer,
    }
}

#[cfg(all(test, not(forebay_loom)))]
mod tests {
    use super::*;

    #[test]
    fn slots_are_as_long_as_asked_and_cost_at_most_a_grain_more() {
        let arena = Arena::new(16 << 20).unwrap();
        let len = (1 << 20) + 1;
        let mut slot = arena.try_loan(len).unwrap().unwrap();
        assert_eq!(slot.len(), len);
        assert_eq!(arena.on_loan() as usize, len.next_multiple_of(GRAIN));
        assert_eq!(slot.as_ptr() as usize % GRAIN, 0);
        slot.fill(0xa5);
        assert!(slot.iter().all(|&byte| byte == 0xa5));
        drop(slot);
        assert_eq!(arena.on_loan(), 0);
    }

    #[test]
    fn the_arena_is_aligned_to_huge_pages() {
        let arena = Arena::new(5 << 20).unwrap();
        assert_eq!(arena.span().0.as_ptr() as usize % HUGE, 0);
    }

    #[test]
    fn what_cannot_fit_is_refused_with_the_numbers() {
        let arena = Arena::new(1 << 20).unwrap();
        let error = arena.loan(2 << 20).unwrap_err().to_string();
        assert!(error.contains("2 MiB") && error.contains("1 MiB"), "{error}");
        let error = Arena::new(1 << 60).unwrap_err();
        assert!(matches!(error, MemoryError::NotThere { .. }), "{error}");
        assert!(matches!(Arena::new(100).unwrap_err(), MemoryError::TooSmall { .. }));
    }

    #[test]
    fn memory_outlives_the_arena_while_a_slot_holds_it() {
        let arena = Arena::new(1 << 20).unwrap();
        let mut slot = pollster::block_on(arena.loan(4096).unwrap());
        drop(arena);
        slot.fill(1);
        assert_eq!(slot[4095], 1);
    }
}
