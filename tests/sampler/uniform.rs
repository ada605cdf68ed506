//! All orders of a few samples are equally likely, by Pearson's chi-square.
//!
//! Seeds are fixed, so that an answer never changes. Sums lie within 4 standard deviations of what chance gives, as all but
//! one of 10,000 do; too even is as wrong as too uneven.
use forebay::sampler::{Order, Shuffle};

use crate::rig::{blocks, epoch, order};

/// How often each order of `samples` comes, by its number in the order of the alphabet.
fn counts(samples: u64, orders: impl Iterator<Item = Vec<u64>>) -> Vec<u64> {
    let mut counts = vec![0; (1..=samples as usize).product()];
    for order in orders {
        let number = order.iter().enumerate().fold(0, |number, (at, sample)| {
            let lower = order[at + 1..].iter().filter(|later| *later < sample).count();
            number * (order.len() - at) + lower
        });
        counts[number] += 1;
    }
    counts
}

/// Fails unless the counts are as uneven as chance makes them.
pub fn assert_even(counts: &[u64], what: &str) {
    let expected = counts.iter().sum::<u64>() as f64 / counts.len() as f64;
    assert!(expected > 10.0, "{what}: too few for a chi-square");
    let chi_square = counts.iter().map(|count| (*count as f64 - expected).powi(2) / expected).sum::<f64>();
    assert_within(chi_square, (counts.len() - 1) as f64, what);
}

pub fn assert_within(chi_square: f64, freedom: f64, what: &str) {
    let deviations = (chi_square - freedom) / (2.0 * freedom).sqrt();
    assert!(deviations.abs() < 4.0, "{what}: chi-square {chi_square} of {freedom} degrees of freedom");
}

const TRIALS: u64 = 24_000;

#[test]
fn all_orders_of_a_few_samples_come_as_often_over_many_seeds() {
    for samples in 3..=5 {
        for shuffle in [Shuffle::Full, blocks(1), blocks(samples), blocks(100)] {
            let orders = (0..TRIALS).map(|seed| epoch(&order(samples, seed, shuffle), 0));
            assert_even(&counts(samples, orders), &format!("{samples} samples, {shuffle}"));
        }
    }
}

#[test]
fn all_orders_of_a_few_samples_come_as_often_over_the_epochs_of_one_seed() {
    for samples in 3..=5 {
        for shuffle in [Shuffle::Full, blocks(1), blocks(samples), blocks(100)] {
            let order = order(samples, 1, shuffle);
            let orders = (0..TRIALS).map(|number| epoch(&order, number));
            assert_even(&counts(samples, orders), &format!("{samples} samples, {shuffle}"));
        }
    }
}

/// An epoch's order says nothing of the next one's.
#[test]
fn orders_of_epochs_that_follow_each_other_are_independent() {
    let order = order(4, 1, Shuffle::Full);
    let composed = (0..TRIALS).map(|number| {
        let [one, next] = [epoch(&order, number), epoch(&order, number + 1)];
        one.iter().map(|position| next[*position as usize]).collect()
    });
    assert_even(&counts(4, composed), "one after the other");
}

/// Every block comes everywhere, and so do the samples within it.
#[test]
fn all_orders_of_blocks_and_in_blocks_come_as_often() {
    let orders = |shuffle| (0..TRIALS).map(move |seed| epoch(&order(11, seed, shuffle), 0));
    let of_blocks = orders(blocks(3)).map(|order| {
        let mut blocks: Vec<u64> = order.iter().map(|sample| sample / 3).collect();
        blocks.dedup();
        assert_eq!(blocks.len(), 4, "samples of a block stand together");
        blocks
    });
    assert_even(&counts(4, of_blocks), "blocks");
    for block in 0..4 {
        let len = if block == 3 { 2 } else { 3 };
        let inside = orders(blocks(3)).map(|order| order.into_iter().filter(|sample| sample / 3 == block).collect());
        let inside = inside.map(|samples: Vec<u64>| samples.iter().map(|sample| sample % 3).collect());
        assert_even(&counts(len, inside), "inside a block");
    }
    // Those of one block say nothing of those of another.
    let two = orders(blocks(3)).map(|order| {
        let sign = |block| {
            let inside: Vec<_> = order.iter().filter(|sample| **sample / 3 == block).collect();
            u64::from(inside[0] < inside[1])
        };
        sign(0) * 2 + sign(1)
    });
    let mut pairs = [0; 4];
    two.for_each(|pair| pairs[pair as usize] += 1);
    assert_even(&pairs, "two blocks");
}

/// Sizes whose order is a network's: just above a power of two, where it is walked most often, and others.
#[test]
fn each_position_of_a_large_set_has_every_sample_as_often() {
    const PARTS: u64 = 64;
    for samples in [4097_u64, 5000, 8192, 10_000, 16_385, 1 << 20, 1_000_000_000_000] {
        for position in [0, 1, 2, samples / 2, samples - 1] {
            let mut counts = [0; PARTS as usize];
            let mut pairs = [0; PARTS as usize];
            for seed in 0..4000 {
                let mut order = Order::new(&crate::rig::fingerprint(samples), samples, seed, Shuffle::Full).epoch(0);
                let (here, next) = (order.sample(position), order.sample(position + 1));
                let part = |sample| (u128::from(sample) * u128::from(PARTS) / u128::from(samples)) as usize;
                counts[part(here)] += 1;
                pairs[part((next + samples - here) % samples)] += 1;
            }
            assert_even(&counts, &format!("position {position} of {samples}"));
            assert_even(&pairs, &format!("the distance from position {position} of {samples} to the next"));
        }
    }
}
