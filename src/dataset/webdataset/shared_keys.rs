use super::key_table::KeyTable;
use super::shard::Shard;
use crate::dataset::parts::Parts;

/// The samples whose key another shard holds too: a bit for each sample, or nothing where there is none.
#[derive(Debug, Default)]
pub(super) struct SharedKeys(Vec<u64>);

impl SharedKeys {
    pub(super) fn of(shards: &[Shard], samples: &Parts) -> Self {
        let mut shared = Self::default();
        // One shard holds no key twice.
        if shards.len() < 2 {
            return shared;
        }
        let key_of = |number| match samples.find(number) {
            Ok((shard, sample)) => shards[shard].key(sample as usize),
            Err(_) => &[],
        };
        let mut table = KeyTable::with_room_for(samples.len());
        for (i, shard) in shards.iter().enumerate() {
            for (sample, number) in samples.range(i).enumerate() {
                if let Some(other) = table.find_or_put(shard.key(sample), number, key_of) {
                    shared.put(other, samples.len());
                    shared.put(number, samples.len());
                }
            }
        }
        shared
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn contains(&self, sample: u64) -> bool {
        self.0.get((sample / 64) as usize).is_some_and(|bits| bits >> (sample % 64) & 1 == 1)
    }

    fn put(&mut self, sample: u64, samples: u64) {
        if self.0.is_empty() {
            self.0.resize(samples.div_ceil(64) as usize, 0);
        }
        if let Some(bits) = self.0.get_mut((sample / 64) as usize) {
            *bits |= 1 << (sample % 64);
        }
    }
}
