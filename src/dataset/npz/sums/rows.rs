//! Which rows of an array were read: a bit for each row of a block, until all of the block were; then a whole block is a part of a
//! run of such blocks. Rows that come in order take next to nothing, and rows in any other order at most a bit each.

use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Rows of a block.
pub(super) const BLOCK: u64 = 4096;

/// What the checks of one dataset may keep in memory: a bit for each of 500 million rows. It is beside the budget of a loader, which
/// a dataset knows nothing of.
const MOST: u64 = 64 << 20;

/// How much of that is kept, and whether it was said that it is not enough.
#[derive(Debug, Default)]
pub(in super::super) struct Room {
    used: AtomicU64,
    has_warned: AtomicBool,
}

impl Room {
    fn take(self: &Arc<Self>, bytes: u64) -> Option<Held> {
        let taken = |used: u64| used.checked_add(bytes).filter(|&used| used <= MOST);
        self.used.fetch_update(Ordering::Relaxed, Ordering::Relaxed, taken).ok()?;
        Some(Held { room: Arc::clone(self), bytes })
    }

    /// Whether this is the first time that it is asked.
    pub(super) fn is_first_warning(&self) -> bool {
        !self.has_warned.swap(true, Ordering::Relaxed)
    }
}

/// A part of the room, until it is dropped.
#[derive(Debug)]
struct Held {
    room: Arc<Room>,
    bytes: u64,
}

impl Held {
    fn shrink(&mut self, bytes: u64) {
        let less = self.bytes.saturating_sub(bytes);
        self.room.used.fetch_sub(less, Ordering::Relaxed);
        self.bytes -= less;
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.shrink(0);
    }
}

/// There is no room to keep more.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct NoRoom;

#[derive(Debug)]
pub(super) struct SeenRows {
    rows: u64,
    seen: u64,
    /// Blocks of which some rows were seen, by number.
    partial: HashMap<u64, Block>,
    /// Runs of blocks of which all were: the first, and where the run ends.
    whole: BTreeMap<u64, (u64, Held)>,
    room: Arc<Room>,
}

#[derive(Debug)]
struct Block {
    bits: Box<[u64]>,
    /// Rows that are not seen yet.
    left: u64,
    held: Held,
}

impl SeenRows {
    /// None of `rows`.
    pub(super) fn new(rows: u64, room: &Arc<Room>) -> Self {
        Self { rows, seen: 0, partial: HashMap::new(), whole: BTreeMap::new(), room: Arc::clone(room) }
    }

    pub(super) fn are_all(&self) -> bool {
        self.seen == self.rows
    }

    /// Whether these rows, all of one block, would be the last ones.
    pub(super) fn would_be_all(&self, first: u64, count: u64) -> bool {
        let number = first / BLOCK;
        let is_new = |row: u64| match self.partial.get(&number) {
            Some(block) => !block.has(row % BLOCK),
            None => !self.is_whole(number),
        };
        self.rows - self.seen <= count
            && (first..first + count).filter(|&row| is_new(row)).count() as u64 == self.rows - self.seen
    }

    /// Notes these rows, all of one block, and calls `each` for every one in order with whether it is new.
    pub(super) fn note(&mut self, first: u64, count: u64, mut each: impl FnMut(bool)) -> Result<(), NoRoom> {
        let number = first / BLOCK;
        if self.is_whole(number) {
            (0..count).for_each(|_| each(false));
            return Ok(());
        }
        let block = match self.partial.entry(number) {
            Entry::Occupied(entry) => entry.into_mut(),
            Entry::Vacant(entry) => entry.insert(Block::new(BLOCK.min(self.rows - number * BLOCK), &self.room)?),
        };
        for row in first..first + count {
            let is_new = block.note(row % BLOCK);
            self.seen += u64::from(is_new);
            each(is_new);
        }
        if block.left == 0
            && let Some(block) = self.partial.remove(&number)
        {
            self.join(number, block.held);
        }
        Ok(())
    }

    fn is_whole(&self, number: u64) -> bool {
        self.whole.range(..=number).next_back().is_some_and(|(_, (end, _))| number < *end)
    }

    /// Adds a whole block to the runs beside it.
    fn join(&mut self, number: u64, mut held: Held) {
        /// What a run costs, about.
        const RUN: u64 = 64;
        let mut end = number + 1;
        if let Some((after, _)) = self.whole.remove(&end) {
            end = after;
        }
        match self.whole.range_mut(..number).next_back() {
            Some((_, (before, _))) if *before == number => *before = end,
            _ => {
                held.shrink(RUN);
                self.whole.insert(number, (end, held));
            }
        }
    }
}

impl Block {
    fn new(rows: u64, room: &Arc<Room>) -> Result<Self, NoRoom> {
        /// What a block costs beside its bits, about.
        const BESIDE: u64 = 96;
        let words = rows.div_ceil(64);
        let held = room.take(words * 8 + BESIDE).ok_or(NoRoom)?;
        Ok(Self { bits: vec![0; words as usize].into(), left: rows, held })
    }

    fn has(&self, at: u64) -> bool {
        self.bits[(at / 64) as usize] >> (at % 64) & 1 == 1
    }

    /// Whether the row is new.
    fn note(&mut self, at: u64) -> bool {
        let is_new = !self.has(at);
        self.bits[(at / 64) as usize] |= 1 << (at % 64);
        self.left -= u64::from(is_new);
        is_new
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use proptest::prelude::*;

    use super::*;

    impl Room {
        pub(in super::super) fn used(&self) -> u64 {
            self.used.load(Ordering::Relaxed)
        }

        pub(in super::super) fn full() -> Arc<Self> {
            Arc::new(Self { used: AtomicU64::new(MOST), ..Self::default() })
        }
    }

    proptest! {
        /// Against a set of numbers.
        #[test]
        fn each_row_is_new_once(rows in 1_u64..5 * BLOCK, asks in prop::collection::vec((any::<prop::sample::Index>(), 1_u64..5000), 1..60)) {
            let room = Arc::<Room>::default();
            let (mut seen, mut model) = (SeenRows::new(rows, &room), HashSet::new());
            for (at, count) in asks {
                let first = at.index(rows as usize) as u64;
                let count = count.min(rows - first).min(BLOCK - first % BLOCK);
                let expected: Vec<bool> = (first..first + count).map(|row| model.insert(row)).collect();
                let would_be_all = model.len() as u64 == rows && expected.contains(&true);
                prop_assert_eq!(seen.would_be_all(first, count), would_be_all || model.len() as u64 == rows && seen.are_all());
                let mut got = Vec::new();
                seen.note(first, count, |is_new| got.push(is_new)).unwrap();
                prop_assert_eq!(got, expected);
                prop_assert_eq!(seen.are_all(), model.len() as u64 == rows);
            }
            drop(seen);
            prop_assert_eq!(room.used(), 0);
        }
    }

    #[test]
    fn rows_in_order_take_one_block_and_in_any_other_order_a_bit_each() {
        const ROWS: u64 = 1 << 20;
        let room = Arc::<Room>::default();
        let most = |order: &mut dyn Iterator<Item = u64>| {
            let mut seen = SeenRows::new(ROWS, &room);
            let most = order.map(|row| {
                seen.note(row, 1, |_| ()).unwrap();
                room.used()
            });
            let most = most.max().unwrap();
            assert!(seen.are_all() && room.used() < 100, "{}", room.used());
            most
        };
        assert!(most(&mut (0..ROWS)) < 1000);
        // Every 4,099th, which is a prime.
        assert!(most(&mut (0..ROWS).map(|i| i * 4099 % ROWS)) < ROWS / 8 * 5 / 4);
    }
}
