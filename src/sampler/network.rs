use super::key::{Key, Random};

/// Rounds of a network. Luby and Rackoff, "How to Construct Pseudorandom Permutations", 1988, need four with perfect
/// functions; ours are plain, and the halves as short as six bits.
const ROUNDS: usize = 8;

/// A permutation of any number of numbers in the memory of a few keys: a Feistel network over the least power of two that
/// holds them all, walked again while it leads outside (Black and Rogaway, "Ciphers with Arbitrary Finite Domains", 2002).
/// Fewer than half of its numbers lie outside, so fewer than two walks are taken on average.
#[derive(Clone, Debug, Default)]
pub(super) struct Network {
    len: u64,
    low_bits: u32,
    high_bits: u32,
    keys: [u64; ROUNDS],
}

impl Network {
    /// Becomes the permutation of the first `len` numbers that follows from the key.
    pub(super) fn fill(&mut self, len: u64, key: Key) {
        // A half of no bits would be mixed with nothing.
        let bits = (u64::BITS - len.saturating_sub(1).leading_zeros()).max(2);
        let mut random = Random::new(key);
        *self =
            Self { len, low_bits: bits / 2, high_bits: bits - bits / 2, keys: std::array::from_fn(|_| random.next()) };
    }

    /// What stands at a position, which is below the number of numbers.
    pub(super) fn at(&self, position: u64) -> u64 {
        self.walk(position, |number| {
            let (mut low, mut high) = self.split(number);
            for pair in self.keys.chunks_exact(2) {
                high ^= mixed(low, pair[0], self.high_bits);
                low ^= mixed(high, pair[1], self.low_bits);
            }
            self.join(low, high)
        })
    }

    /// Where a number stands.
    pub(super) fn inverse(&self, number: u64) -> u64 {
        self.walk(number, |number| {
            let (mut low, mut high) = self.split(number);
            for pair in self.keys.chunks_exact(2).rev() {
                low ^= mixed(high, pair[1], self.low_bits);
                high ^= mixed(low, pair[0], self.high_bits);
            }
            self.join(low, high)
        })
    }

    /// Ends, since a permutation leads back to where it began, and that is a number below `len`.
    fn walk(&self, from: u64, round: impl Fn(u64) -> u64) -> u64 {
        if from >= self.len {
            return from;
        }
        let mut number = round(from);
        while number >= self.len {
            number = round(number);
        }
        number
    }

    fn split(&self, number: u64) -> (u64, u64) {
        (number & ((1 << self.low_bits) - 1), number >> self.low_bits)
    }

    fn join(&self, low: u64, high: u64) -> u64 {
        high << self.low_bits | low
    }
}

/// So many bits, from 1 to 32, in which every bit of the half and of the key has its part: the high ones of two products
/// with odd constants of SplitMix64, whose high bits feed the second.
fn mixed(half: u64, key: u64, bits: u32) -> u64 {
    let mixed = (half ^ key).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    (mixed ^ (mixed >> 32)).wrapping_mul(0x94d0_49bb_1331_11eb) >> (u64::BITS - bits)
}
