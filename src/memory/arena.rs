use std::fmt;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use super::error::MemoryError;
use super::growth::{self, Refused};
use super::mapping::{self, Mapping};
use super::pool::{GRAIN, Lease, Pool};
use super::slot::{Loan, Slot};
use crate::sys::memory_left;

/// Host memory within a budget, given out as [`Slot`]s of any length.
///
/// The budget is a limit: its addresses are reserved at once, and its pages are touched when they are first needed, by the
/// thread that acquires a slot that reaches into them. The lowest free addresses are used first, so that memory stays at the
/// most that was ever held at once, and a little more. It is not returned to the system before the arena is dropped.
///
/// The memory is anonymous, cacheable, 2 MiB-aligned and never moves, so that io_uring and a GPU driver can both
/// register it, as it grows. It lies in reserved huge pages where there are enough for the whole budget, else in transparent
/// ones where the kernel gives them. A forked child does not see it: the kernel may be writing there.
///
/// Cloning gives another handle on the same memory.
#[derive(Clone)]
pub struct Arena {
    mapping: Arc<Mapping>,
    pool: Pool,
    is_touched: bool,
    /// Whether a thread [looks](Self::watch) for memory.
    is_watched: Arc<AtomicBool>,
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
    /// Reserves `budget` bytes of addresses, rounded down to whole 4 KiB, and touches the first 2 MiB of them.
    ///
    /// # Errors
    /// [`MemoryError`] where the budget is below 4 KiB or the kernel does not reserve as much, or where there is no memory at
    /// all.
    pub fn new(budget: u64) -> Result<Self, MemoryError> {
        let len = Self::len_of(budget)?;
        let mapping = Mapping::growing(len).map_err(|refused| refused.error)?;
        Ok(Self { mapping: Arc::new(mapping), pool: Pool::new(len), is_touched: true, is_watched: Arc::default() })
    }

    /// The same for memory of which all is filled once, from its start to its end: threads touch it ahead of the reads that fill
    /// it. It must not be registered with a ring or a driver, which would touch it first.
    pub(crate) fn touched_meanwhile(budget: u64) -> Result<Self, MemoryError> {
        let len = Self::len_of(budget)?;
        if let Some(left) = memory_left::bytes().filter(|&left| left < budget) {
            return Err(MemoryError::NotThere { budget, left });
        }
        let mapping = Arc::new(Mapping::untouched(len)?);
        mapping::touch_meanwhile(&mapping);
        Ok(Self { mapping, pool: Pool::new(len), is_touched: false, is_watched: Arc::default() })
    }

    /// The budget in whole grains.
    fn len_of(budget: u64) -> Result<usize, MemoryError> {
        match usize::try_from(budget).map_or(usize::MAX, |budget| budget) / GRAIN * GRAIN {
            0 => Err(MemoryError::TooSmall { budget, least: GRAIN as u64 }),
            len => Ok(len),
        }
    }

    /// Whether memory is touched before it is in a slot.
    pub(crate) fn is_touched(&self) -> bool {
        self.is_touched
    }

    /// Touches the first `len` bytes now, or all where that is more.
    ///
    /// # Errors
    /// [`MemoryError`] where they are not there.
    pub(crate) fn touch(&self, len: usize) -> Result<(), MemoryError> {
        self.mapping.touch_to(len.min(self.pool.len())).map_err(|refused| refused.error)
    }

    /// The most bytes that may be in use at once.
    pub fn budget(&self) -> u64 {
        self.pool.len() as u64
    }

    /// Bytes in use now, counted in whole 4 KiB.
    pub fn on_loan(&self) -> u64 {
        self.pool.in_use() as u64
    }

    /// Bytes whose pages are there: the most that were ever in use at once, and a little more. Never less than it was.
    pub fn touched(&self) -> u64 {
        self.mapping.touched() as u64
    }

    /// The pages that the arena lies in.
    pub fn page_kind(&self) -> PageKind {
        self.mapping.pages()
    }

    /// Acquires `len` bytes as soon as they are free in one piece, in the order of asking. Where their pages are not there yet,
    /// the thread that acquires the slot touches them.
    ///
    /// A task that holds slots and awaits more than what is left waits for itself.
    ///
    /// # Errors
    /// [`MemoryError::OverBudget`] at once where `len` exceeds the budget.
    pub fn loan(&self, len: usize) -> Result<Loan, MemoryError> {
        self.loan_aligned(len, GRAIN)
    }

    /// Acquires `len` bytes if they are free in one piece now and no request waits for memory.
    ///
    /// # Errors
    /// [`MemoryError::OverBudget`] where `len` exceeds the budget, and [`MemoryError::NotLeft`] or [`MemoryError::Refused`]
    /// where the machine does not have as much, whatever is released.
    pub fn try_loan(&self, len: usize) -> Result<Option<Slot>, MemoryError> {
        self.try_loan_aligned(len, GRAIN)
    }

    pub(crate) fn loan_aligned(&self, len: usize, align: usize) -> Result<Loan, MemoryError> {
        self.check(len)?;
        Ok(Loan::new(self.pool.acquire(len, align), self.clone(), len))
    }

    pub(crate) fn try_loan_aligned(&self, len: usize, align: usize) -> Result<Option<Slot>, MemoryError> {
        self.check(len)?;
        let lease = self.pool.try_acquire(len, align).or_else(|| {
            if self.pool.is_limited() {
                self.look_again();
            }
            self.pool.try_acquire(len, align)
        });
        let Some(lease) = lease else { return Ok(None) };
        match self.slot(lease, len)? {
            Ok(slot) => Ok(Some(slot)),
            Err(NotThere { lease, limit }) => {
                self.pool.limit(limit);
                drop(lease);
                Ok(None)
            }
        }
    }

    /// The slot of a lease, where its pages are there or can be; else the lease, which must wait for what others hold.
    pub(super) fn slot(&self, lease: Lease, len: usize) -> Result<Result<Slot, NotThere>, MemoryError> {
        let Err(Refused { error, reachable }) = self.mapping.touch_to(lease.end()) else {
            return Ok(Ok(Slot::new(lease, Arc::clone(&self.mapping), len)));
        };
        // Another thread may have touched more meanwhile.
        let limit = reachable.max(self.mapping.touched());
        if len.max(1).next_multiple_of(GRAIN) <= reachable {
            return Ok(Err(NotThere { lease, limit }));
        }
        self.pool.limit(limit);
        Err(error)
    }

    /// While a request waits for what the machine did not have, a thread looks whether it has it by now: no event of ours says so.
    pub(super) fn watch(&self) {
        /// Before each look, since memory that is there for a moment may be refused again and again.
        const PAUSE: Duration = Duration::from_millis(100);
        if !self.pool.is_limited() || self.is_watched.swap(true, Ordering::SeqCst) {
            return;
        }
        let arena = self.clone();
        let look = move || {
            loop {
                thread::sleep(PAUSE);
                arena.look_again();
                if arena.pool.is_limited() && arena.pool.has_waiting() {
                    continue;
                }
                arena.is_watched.store(false, Ordering::SeqCst);
                // A request that came to wait before that was stored relies on this thread.
                let is_done = !arena.pool.is_limited() || !arena.pool.has_waiting();
                if is_done || arena.is_watched.swap(true, Ordering::SeqCst) {
                    return;
                }
            }
        };
        // Without a thread it waits until others release what they hold.
        if thread::Builder::new().name("forebay-memory".into()).spawn(look).is_err() {
            self.is_watched.store(false, Ordering::SeqCst);
        }
    }

    /// Allows again what the machine did not have, where it has it by now.
    fn look_again(&self) {
        let len = self.pool.len();
        let left = self.mapping.left();
        self.pool.limit(left.map_or(len, |left| growth::reachable(self.mapping.touched(), left, len)));
    }

    /// What may be registered with a ring or a driver by now: start and length in bytes. All slots lie in it.
    pub(crate) fn touched_span(&self) -> (NonNull<u8>, usize) {
        (self.mapping.at(0), self.mapping.touched())
    }

    /// Whether some of it was lost to a ring that broke, or to a device.
    pub(crate) fn has_lost(&self) -> bool {
        self.pool.has_lost()
    }

    /// As if the machine had so much left.
    #[cfg(test)]
    pub(super) fn pretend_left(&self, left: Option<u64>) {
        *crate::sync::lock(&self.mapping.left) = left;
    }

    /// Sees that so much can be lent at all.
    pub(crate) fn check(&self, len: usize) -> Result<(), MemoryError> {
        if !self.mapping.is_here() {
            return Err(MemoryError::Forked);
        }
        if len > self.pool.len() {
            return Err(MemoryError::OverBudget { asked: len as u64, budget: self.budget() });
        }
        Ok(())
    }
}

/// A lease whose pages the machine does not have now, and up to where it has them.
#[derive(Debug)]
pub(super) struct NotThere {
    pub(super) lease: Lease,
    pub(super) limit: usize,
}

impl fmt::Debug for Arena {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Arena")
            .field("budget", &self.budget())
            .field("touched", &self.touched())
            .field("on_loan", &self.on_loan())
            .field("page_kind", &self.page_kind())
            .finish()
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
        assert_eq!(arena.touched_span().0.as_ptr() as usize % (2 << 20), 0);
    }

    #[test]
    fn memory_that_is_touched_meanwhile_is_as_good_at_once() {
        let arena = Arena::touched_meanwhile(200 << 20).unwrap();
        assert!(!arena.is_touched());
        let mut slot = arena.try_loan(200 << 20).unwrap().unwrap();
        for (i, page) in slot.chunks_mut(4096).enumerate() {
            page[0] = i as u8;
        }
        drop(arena);
        // What was written before a page was touched stays.
        std::thread::sleep(std::time::Duration::from_millis(50));
        assert!(slot.chunks(4096).enumerate().all(|(i, page)| page[0] == i as u8 && page[1..].iter().all(|&b| b == 0)));
    }

    #[test]
    fn what_cannot_fit_is_refused_with_the_numbers() {
        let arena = Arena::new(1 << 20).unwrap();
        let error = arena.loan(2 << 20).unwrap_err().to_string();
        assert!(error.contains("2 MiB") && error.contains("1 MiB"), "{error}");
        for budget in [1 << 60, u64::MAX] {
            let error = Arena::new(budget).unwrap_err();
            assert!(matches!(error, MemoryError::Refused { .. }), "{error}");
        }
        let error = Arena::touched_meanwhile(1 << 60).unwrap_err();
        assert!(matches!(error, MemoryError::NotThere { .. }), "{error}");
        assert!(matches!(Arena::new(100).unwrap_err(), MemoryError::TooSmall { .. }));
    }

    #[test]
    fn memory_outlives_the_arena_while_a_slot_holds_it() {
        let arena = Arena::new(1 << 20).unwrap();
        let mut slot = pollster::block_on(arena.loan(4096).unwrap()).unwrap();
        drop(arena);
        slot.fill(1);
        assert_eq!(slot[4095], 1);
    }
}
