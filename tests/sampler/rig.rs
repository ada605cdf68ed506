//! Orders to test, and jobs of several ranks whose steps are taken together.
use std::collections::BTreeMap;
use std::num::NonZeroU64;

use forebay::dataset::Fingerprint;
use forebay::sampler::{Cursor, Order, Remainder, Sampler, SamplerError, Shuffle, Step, World};
use proptest::prelude::*;

pub const REMAINDERS: [Remainder; 3] = [Remainder::Drop, Remainder::Pad, Remainder::Uneven];

pub fn fingerprint(samples: u64) -> Fingerprint {
    Fingerprint::new("test", "", samples, &[])
}

pub fn order(samples: u64, seed: u64, shuffle: Shuffle) -> Order {
    Order::new(&fingerprint(samples), samples, seed, shuffle)
}

pub fn blocks(samples: u64) -> Shuffle {
    Shuffle::Blocks(NonZeroU64::new(samples).unwrap())
}

/// All samples of an epoch, in its order.
pub fn epoch(order: &Order, epoch: u64) -> Vec<u64> {
    let mut samples = order.epoch(epoch);
    (0..order.samples()).map(|position| samples.sample(position)).collect()
}

pub fn shuffles() -> impl Strategy<Value = Shuffle> {
    prop_oneof![Just(Shuffle::None), Just(Shuffle::Full), (1_u64..400).prop_map(blocks)]
}

pub fn remainders() -> impl Strategy<Value = Remainder> {
    prop::sample::select(&REMAINDERS)
}

/// How a job deals out its samples.
#[derive(Clone, Copy, Debug)]
pub struct Job {
    pub size: u32,
    pub batch_size: u64,
    pub remainder: Remainder,
    pub drop_last: bool,
}

impl Job {
    pub fn rank(&self, order: &Order, rank: u32, epochs: u64) -> Result<Sampler, SamplerError> {
        let world = World::new(rank, self.size).unwrap();
        Sampler::new(*order, world, self.batch_size, self.remainder, self.drop_last, Some(epochs))
    }

    /// All steps of all ranks, by epoch and by position, and in the order of the ranks.
    pub fn steps(&self, order: &Order, from: Cursor, epochs: u64) -> Steps {
        let mut steps = Steps::new();
        for rank in 0..self.size {
            let Ok(sampler) = self.rank(order, rank, epochs) else { continue };
            for (step, samples) in all(sampler.start_at(from).unwrap()) {
                steps.entry((step.at.epoch, step.at.position)).or_default().push(Part { rank, step, samples });
            }
        }
        steps
    }
}

pub type Steps = BTreeMap<(u64, u64), Vec<Part>>;

/// What one rank has of a step.
#[derive(Clone, Debug, PartialEq)]
pub struct Part {
    pub rank: u32,
    pub step: Step,
    pub samples: Vec<u64>,
}

impl Part {
    /// Without those that are repeated.
    pub fn real(&self) -> &[u64] {
        &self.samples[..self.samples.len() - self.step.padded as usize]
    }
}

/// What all ranks together go through, without what is repeated.
pub fn stream<'a>(steps: impl IntoIterator<Item = &'a Vec<Part>>) -> Vec<u64> {
    steps.into_iter().flatten().flat_map(Part::real).copied().collect()
}

/// All steps of one rank with their samples.
pub fn all(mut sampler: Sampler) -> Vec<(Step, Vec<u64>)> {
    let mut steps = Vec::new();
    loop {
        let (left, cursor) = (sampler.steps_left().unwrap(), sampler.cursor());
        let mut samples = Vec::new();
        let Some(step) = sampler.next_step(&mut samples) else {
            assert_eq!((left, samples.len()), (0, 0));
            return steps;
        };
        assert!(left > 0 && !samples.is_empty() && step.padded <= samples.len() as u64);
        assert_eq!((step.next, sampler.steps_left()), (sampler.cursor(), Some(left - 1)));
        assert!(step.at == cursor || step.at.epoch == cursor.epoch + 1);
        steps.push((step, samples));
    }
}
