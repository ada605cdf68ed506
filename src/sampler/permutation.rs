use super::key::Key;
use super::network::Network;
use super::table::Table;

/// A permutation of the first `len` numbers that follows from a key.
#[derive(Clone, Debug, Default)]
pub(super) struct Permutation {
    len: u64,
    table: Table,
    network: Network,
}

impl Permutation {
    pub(super) fn new(len: u64, key: Key) -> Self {
        let mut made = Self::default();
        made.fill(len, key);
        made
    }

    /// One of nothing, which allocates nothing when it is filled with up to `len` numbers.
    pub(super) fn with_room(len: u64) -> Self {
        Self { table: Table::with_room(len), ..Self::default() }
    }

    pub(super) fn fill(&mut self, len: u64, key: Key) {
        self.len = len;
        match self.is_table() {
            true => self.table.fill(len, key),
            false => self.network.fill(len, key),
        }
    }

    /// What stands at a position below `len`.
    pub(super) fn at(&self, position: u64) -> u64 {
        match self.is_table() {
            true => self.table.at(position),
            false => self.network.at(position),
        }
    }

    /// Where a number below `len` stands.
    pub(super) fn inverse(&self, number: u64) -> u64 {
        match self.is_table() {
            true => self.table.inverse(number),
            false => self.network.inverse(number),
        }
    }

    fn is_table(&self) -> bool {
        self.len <= Table::MOST
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn key(seed: u64) -> Key {
        Key::of([seed, 0, 0, 0, 0])
    }

    /// Every number comes once, and the inverse leads back.
    fn is_permutation(len: u64, key: Key) {
        let permutation = Permutation::new(len, key);
        let mut seen = vec![false; len as usize];
        for position in 0..len {
            let number = permutation.at(position);
            assert!(!std::mem::replace(&mut seen[number as usize], true), "{number} of {len} comes twice");
            if len > Table::MOST || position % 61 == 0 {
                assert_eq!(permutation.inverse(number), position, "of {len}");
            }
        }
    }

    #[test]
    fn each_size_around_powers_of_two_is_permuted_and_inverted() {
        for power in 0..=17 {
            for len in ((1_u64 << power).saturating_sub(3)..=(1 << power) + 3).filter(|len| *len < 140_000) {
                is_permutation(len, key(len));
            }
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(200))]

        #[test]
        fn any_size_is_permuted_and_inverted(len in 0_u64..20_000, seed: u64) {
            is_permutation(len, key(seed));
        }

        #[test]
        fn places_of_the_largest_sizes_stay_inside_and_lead_back(
            len in prop_oneof![4097_u64.., (u64::MAX - 3)..=u64::MAX, (1_u64 << 62)..=(1 << 63) + 3],
            at: u64,
            seed: u64,
        ) {
            let permutation = Permutation::new(len, key(seed));
            let position = at % len;
            let number = permutation.at(position);
            prop_assert!(number < len);
            prop_assert_eq!(permutation.inverse(number), position);
        }

        /// The network as it is, in sizes that are otherwise a table's.
        #[test]
        fn a_network_of_any_small_size_permutes_and_inverts(len in 1_u64..300, seed: u64) {
            let mut network = Network::default();
            network.fill(len, key(seed));
            let mut all: Vec<u64> = (0..len).map(|position| network.at(position)).collect();
            for (position, number) in all.iter().enumerate() {
                prop_assert_eq!(network.inverse(*number), position as u64);
            }
            all.sort_unstable();
            prop_assert!(all.into_iter().eq(0..len));
        }
    }

    #[test]
    fn filled_again_it_is_the_same_as_made_anew() {
        let mut used = Permutation::default();
        for (len, seed) in [(5000, 1), (10, 2), (0, 3), (4096, 4), (4097, 5), (1, 6)] {
            used.fill(len, key(seed));
            let new = Permutation::new(len, key(seed));
            assert!((0..len).all(|position| used.at(position) == new.at(position)), "{len}");
        }
    }
}
