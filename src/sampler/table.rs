use super::key::{Key, Random};

/// A permutation of a few numbers, written out. All are equally likely.
#[derive(Clone, Debug, Default)]
pub(super) struct Table(Vec<u16>);

impl Table {
    /// The most numbers: 8 KiB.
    pub(super) const MOST: u64 = 4096;

    pub(super) fn with_room(len: u64) -> Self {
        Self(Vec::with_capacity(len.min(Self::MOST) as usize))
    }

    /// Becomes the permutation of the first `len` numbers, at most [`MOST`](Self::MOST), that follows from the key: the
    /// shuffle of Fisher and Yates, as Durstenfeld gave it (Algorithm 235, 1964).
    pub(super) fn fill(&mut self, len: u64, key: Key) {
        let len = len.min(Self::MOST) as u16;
        self.0.clear();
        self.0.extend(0..len);
        let mut random = Random::new(key);
        for last in (1..len).rev() {
            let other = random.below(u64::from(last) + 1) as usize;
            self.0.swap(usize::from(last), other);
        }
    }

    /// What stands at a position, which is below the number of entries.
    pub(super) fn at(&self, position: u64) -> u64 {
        let entry = usize::try_from(position).ok().and_then(|position| self.0.get(position));
        entry.map_or(position, |entry| u64::from(*entry))
    }

    /// Where a number stands.
    pub(super) fn inverse(&self, number: u64) -> u64 {
        self.0.iter().position(|entry| u64::from(*entry) == number).map_or(number, |position| position as u64)
    }
}
