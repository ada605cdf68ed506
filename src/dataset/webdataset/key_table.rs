use std::hash::{BuildHasher, RandomState};

use xxhash_rust::xxh3::xxh3_64_with_seed;

/// The low bits of a slot hold a key's number, from 1; those above some of its hash, so that few other keys are looked at.
const NUMBER_BITS: u32 = 40;
const NUMBER: u64 = (1 << NUMBER_BITS) - 1;

/// Finds keys by their bytes. It holds their numbers only: the keys lie where the caller keeps them.
///
/// An open table with linear steps, at most half full. Its hashes are seeded by chance, since names in an archive may be
/// chosen to collide.
#[derive(Debug)]
pub(super) struct KeyTable {
    slots: Vec<u64>,
    keys: u64,
    seed: u64,
}

impl KeyTable {
    /// An empty table, which does not grow while it has no more than `keys`.
    pub(super) fn with_room_for(keys: u64) -> Self {
        let slots = usize::try_from(keys.saturating_mul(2)).ok().and_then(usize::checked_next_power_of_two);
        Self { slots: vec![0; slots.unwrap_or(0).max(64)], keys: 0, seed: RandomState::new().hash_one(0_u8) }
    }

    /// The number of this key, if it is there; otherwise it is put in, as `number`. Numbers are below 2^40. `key_of` gives
    /// the keys of numbers that were put in.
    pub(super) fn find_or_put<'k>(&mut self, key: &[u8], number: u64, key_of: impl Fn(u64) -> &'k [u8]) -> Option<u64> {
        if (self.keys + 1) * 2 > self.slots.len() as u64 {
            self.grow(&key_of);
        }
        let hash = xxh3_64_with_seed(key, self.seed);
        let slot = self.search(hash, |other| key_of(other) == key);
        match self.slots[slot] {
            0 => {
                self.slots[slot] = hash & !NUMBER | (number + 1) & NUMBER;
                self.keys += 1;
                None
            }
            found => Some((found & NUMBER) - 1),
        }
    }

    /// The slot that holds the key, or the free one where it would be.
    fn search(&self, hash: u64, is_it: impl Fn(u64) -> bool) -> usize {
        let mask = self.slots.len() - 1;
        let mut slot = hash as usize & mask;
        loop {
            match self.slots[slot] {
                0 => return slot,
                other if (other ^ hash) & !NUMBER == 0 && is_it((other & NUMBER) - 1) => return slot,
                _ => slot = (slot + 1) & mask,
            }
        }
    }

    fn grow<'k>(&mut self, key_of: &impl Fn(u64) -> &'k [u8]) {
        let doubled = vec![0; self.slots.len() * 2];
        for slot in std::mem::replace(&mut self.slots, doubled) {
            if slot != 0 {
                let hash = xxh3_64_with_seed(key_of((slot & NUMBER) - 1), self.seed);
                let free = self.search(hash, |_| false);
                self.slots[free] = slot;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_found_again_and_others_are_not() {
        let keys: Vec<Vec<u8>> = (0..50_000_u32).map(|i| format!("{:x}", i.wrapping_mul(77)).into_bytes()).collect();
        let mut table = KeyTable::with_room_for(0);
        for (number, key) in keys.iter().enumerate() {
            assert_eq!(table.find_or_put(key, number as u64, |i| &keys[i as usize]), None);
        }
        for (number, key) in keys.iter().enumerate() {
            assert_eq!(table.find_or_put(key, 1 << 39, |i| &keys[i as usize]), Some(number as u64));
        }
        assert_eq!(table.find_or_put(b"", 1 << 39, |i| &keys[i as usize]), None);
    }
}
