//! Bytes that say where they belong: each block of 4 KiB is made from its number in the file, so that any of them can be
//! checked wherever it has got to, and none can be taken for another. They do not compress.

/// Bytes of a block.
pub const BLOCK: usize = 4096;

/// Fills whole blocks, of which the first has this number in the file.
pub fn fill(blocks: &mut [u8], seed: u64, first: u64) {
    for (block, number) in blocks.chunks_exact_mut(BLOCK).zip(first..) {
        let mut state = mixed(seed ^ mixed(number));
        for word in block.chunks_exact_mut(8) {
            state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
            word.copy_from_slice(&mixed(state).to_le_bytes());
        }
    }
}

/// The output function of SplitMix64 (Steele, Lea and Flood, 2014).
fn mixed(state: u64) -> u64 {
    let state = (state ^ state >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let state = (state ^ state >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
    state ^ state >> 31
}

/// Numbers for which no library is needed: they only have to be spread well, and the same in every run.
pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        ((u128::from(mixed(self.0)) * u128::from(end)) >> 64) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_is_made_from_its_number_alone_and_no_two_are_alike() {
        let mut all = vec![0; 8 * BLOCK];
        fill(&mut all, 7, 100);
        for (number, block) in all.chunks_exact(BLOCK).enumerate() {
            let mut one = vec![0; BLOCK];
            fill(&mut one, 7, 100 + number as u64);
            assert!(one == block);
            assert_eq!(all.chunks_exact(BLOCK).filter(|other| *other == block).count(), 1);
            fill(&mut one, 8, 100 + number as u64);
            assert!(one != block, "another seed, another file");
        }
    }

    #[test]
    fn numbers_below_an_end_are_all_met_and_none_beyond() {
        let mut random = Random::new(1);
        let mut met = [0; 10];
        (0..10_000).for_each(|_| met[random.below(10) as usize] += 1);
        assert!(met.iter().all(|count| (800..1200).contains(count)), "{met:?}");
    }
}
