use std::num::NonZeroU64;

use super::key::{Key, Purpose};
use super::permutation::Permutation;
use super::shuffle::Shuffle;
use crate::dataset::Fingerprint;

/// The order of a dataset's samples in every epoch: a permutation that follows from the dataset (whatever the times of its
/// files), the number of samples, the seed, the shuffle and the epoch, and from nothing else. It is the same in every
/// version of this crate whose [`State`](super::State) has the same version.
#[derive(Clone, Copy, Debug)]
pub struct Order {
    key: Key,
    samples: u64,
    seed: u64,
    shuffle: Shuffle,
}

impl Order {
    /// The order of so many samples of the dataset that has this fingerprint. Takes no time and no memory, however many
    /// they are.
    pub fn new(fingerprint: &Fingerprint, samples: u64, seed: u64, shuffle: Shuffle) -> Self {
        let mode = match shuffle {
            Shuffle::None | Shuffle::Full => 0,
            Shuffle::Blocks(samples) => samples.get(),
        };
        // None has no use for a key.
        let key = Key::of([fingerprint.order_key(), samples, seed, mode, VERSION]);
        Self { key, samples, seed, shuffle }
    }

    /// How many samples an epoch has.
    pub fn samples(&self) -> u64 {
        self.samples
    }

    /// What the order was made from, beside the dataset.
    pub fn seed(&self) -> u64 {
        self.seed
    }

    /// How samples are mixed.
    pub fn shuffle(&self) -> Shuffle {
        self.shuffle
    }

    /// The order of one epoch, from 0.
    pub fn epoch(&self, epoch: u64) -> EpochOrder {
        let mut order = EpochOrder { samples: self.samples, mixing: Mixing::None };
        order.become_epoch(self, epoch);
        order
    }
}

/// Of the way from a seed to an order. A change is a change of the states that are saved, too.
const VERSION: u64 = 1;

/// The order of one epoch, in at most some 16 KiB.
#[derive(Clone, Debug)]
pub struct EpochOrder {
    samples: u64,
    mixing: Mixing,
}

#[derive(Clone, Debug)]
enum Mixing {
    None,
    Full(Permutation),
    Blocks(Blocks),
}

impl EpochOrder {
    /// The dataset's number of the sample at a position of the epoch, from 0. Positions behind the last one begin again
    /// with the first. Of no samples it is 0.
    ///
    /// A few tens of nanoseconds. With [`Shuffle::Blocks`] the first position asked for in another block costs as much for
    /// every sample of the block, where it has at most 4096: best asked for in order.
    pub fn sample(&mut self, position: u64) -> u64 {
        let Some(position) = position.checked_rem(self.samples) else { return 0 };
        match &mut self.mixing {
            Mixing::None => position,
            Mixing::Full(permutation) => permutation.at(position),
            Mixing::Blocks(blocks) => blocks.at(position),
        }
    }

    /// The position of the sample with this number, which is below the number of samples: the inverse of
    /// [`sample`](Self::sample).
    pub fn position(&mut self, sample: u64) -> u64 {
        let Some(sample) = sample.checked_rem(self.samples) else { return 0 };
        match &mut self.mixing {
            Mixing::None => sample,
            Mixing::Full(permutation) => permutation.inverse(sample),
            Mixing::Blocks(blocks) => blocks.inverse(sample),
        }
    }

    /// As [`Order::epoch`], with the memory of this one.
    pub(super) fn become_epoch(&mut self, order: &Order, epoch: u64) {
        self.samples = order.samples;
        let key = order.key.derive(Purpose::Epoch, epoch);
        match (order.shuffle, &mut self.mixing) {
            (Shuffle::None, mixing) => *mixing = Mixing::None,
            (Shuffle::Full, Mixing::Full(permutation)) => permutation.fill(order.samples, key),
            (Shuffle::Full, mixing) => *mixing = Mixing::Full(Permutation::new(order.samples, key)),
            (Shuffle::Blocks(length), Mixing::Blocks(blocks)) => blocks.fill(order.samples, length, key),
            (Shuffle::Blocks(length), mixing) => *mixing = Mixing::Blocks(Blocks::new(order.samples, length, key)),
        }
    }
}

/// Blocks in permuted order, each permuted in itself. All are as long as `length` but the last in the dataset, whose place
/// in the order is known, so that every other place follows by division.
#[derive(Clone, Debug)]
struct Blocks {
    key: Key,
    length: NonZeroU64,
    order: Permutation,
    /// What the short block holds, 0 where all are full; its number, and its place in the order.
    short: u64,
    short_block: u64,
    short_place: u64,
    /// The order within the block that was asked for last.
    inner: Permutation,
    inner_block: Option<u64>,
}

impl Blocks {
    fn new(samples: u64, length: NonZeroU64, key: Key) -> Self {
        let order = Permutation::default();
        let inner = Permutation::with_room(length.get().min(samples));
        let (short, short_block, short_place) = (0, 0, 0);
        let mut blocks = Self { key, length, order, short, short_block, short_place, inner, inner_block: None };
        blocks.fill(samples, length, key);
        blocks
    }

    fn fill(&mut self, samples: u64, length: NonZeroU64, key: Key) {
        let (full, short) = (samples / length, samples % length);
        self.order.fill(full + u64::from(short > 0), key);
        (self.key, self.length, self.short, self.short_block) = (key, length, short, full);
        self.short_place = if short > 0 { self.order.inverse(full) } else { full };
        self.inner_block = None;
    }

    fn at(&mut self, position: u64) -> u64 {
        // The products below are of whole blocks before a sample, and so no larger than the number of samples.
        let short_start = self.short_place * self.length.get();
        let (place, within) = match position {
            before if before < short_start => (before / self.length, before % self.length),
            inside if inside - short_start < self.short => (self.short_place, inside - short_start),
            behind => {
                let full = behind - self.short;
                (full / self.length + u64::from(self.short > 0), full % self.length)
            }
        };
        let block = self.order.at(place);
        self.enter(block);
        block * self.length.get() + self.inner.at(within)
    }

    fn inverse(&mut self, sample: u64) -> u64 {
        let block = sample / self.length;
        self.enter(block);
        let place = self.order.inverse(block);
        let start = match place > self.short_place {
            true => (place - 1) * self.length.get() + self.short,
            false => place * self.length.get(),
        };
        start + self.inner.inverse(sample % self.length)
    }

    /// Makes `inner` the order within that block.
    fn enter(&mut self, block: u64) {
        if self.inner_block != Some(block) {
            let is_short = self.short > 0 && block == self.short_block;
            let length = if is_short { self.short } else { self.length.get() };
            self.inner.fill(length, self.key.derive(Purpose::Block, block));
            self.inner_block = Some(block);
        }
    }
}
