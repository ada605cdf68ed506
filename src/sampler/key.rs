//! Keys of permutations, and the random numbers that follow from a key.

use xxhash_rust::xxh3::xxh3_128;

/// 128 bits from which a permutation follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Key(u128);

impl Key {
    /// The key that follows from these words: another for any others.
    pub(super) fn of(words: [u64; 5]) -> Self {
        Self(xxh3_128(bytes_of(words).as_flattened()))
    }

    /// A key of its own for each use of this one: for each epoch, and for each block in it.
    pub(super) fn derive(self, purpose: Purpose, number: u64) -> Self {
        let [low, high] = self.words();
        Self(xxh3_128(bytes_of([low, high, purpose as u64, number]).as_flattened()))
    }

    fn words(self) -> [u64; 2] {
        [self.0 as u64, (self.0 >> 64) as u64]
    }
}

/// What a key is derived for.
#[derive(Clone, Copy, Debug)]
pub(super) enum Purpose {
    Epoch = 1,
    Block = 2,
}

fn bytes_of<const WORDS: usize>(words: [u64; WORDS]) -> [[u8; 8]; WORDS] {
    words.map(u64::to_le_bytes)
}

/// A generator of random numbers that follow from a key: xoshiro256++ 1.0 by Blackman and Vigna
/// (<https://prng.di.unimi.it/>), seeded by their SplitMix64.
#[derive(Clone, Debug)]
pub(super) struct Random([u64; 4]);

impl Random {
    pub(super) fn new(key: Key) -> Self {
        let [low, high] = key.words();
        let [mut of_low, mut of_high] = [SplitMix(low), SplitMix(high)];
        Self([of_low.next(), of_high.next(), of_low.next(), of_high.next()])
    }

    pub(super) fn next(&mut self) -> u64 {
        let [a, b, c, d] = self.0;
        let answer = a.wrapping_add(d).rotate_left(23).wrapping_add(a);
        let (c, d) = (c ^ a, d ^ b);
        self.0 = [a ^ d, b ^ c, c ^ (b << 17), d.rotate_left(45)];
        answer
    }

    /// A number below `bound`, each equally likely, where `bound` is above 0: Lemire, "Fast Random Integer Generation in an
    /// Interval", 2019.
    pub(super) fn below(&mut self, bound: u64) -> u64 {
        // Of 2^64 numbers as many are refused as are left over when they are dealt out to `bound` answers.
        let refused = bound.wrapping_neg().checked_rem(bound).unwrap_or(0);
        loop {
            let product = u128::from(self.next()) * u128::from(bound);
            if product as u64 >= refused {
                return (product >> 64) as u64;
            }
        }
    }
}

struct SplitMix(u64);

impl SplitMix {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }
}
