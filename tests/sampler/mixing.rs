//! What a full shuffle of many samples leaves of their order: nothing but what chance does.
//!
//! Seeds are fixed. For n samples in an order taken by chance, theory gives: the mean distance of a sample from where it
//! was is (n² - 1) / 3n, with a standard deviation of √(2n / 45); the rank correlation (Spearman's) is 0, with
//! √(1 / (n - 1)). Each is measured over many seeds: their mean lies within 4 standard deviations, and so does the sum of
//! the squares, which a shuffle that is too regular would make too small.
use forebay::sampler::{Cursor, Remainder, Shuffle};

use crate::rig::{Job, blocks, epoch, order};
use crate::uniform::assert_within;

const SAMPLES: u64 = 10_000;
const SEEDS: u64 = 200;

/// Fails unless these numbers are as chance deals them: of mean 0 and standard deviation 1.
fn assert_normal(scores: &[f64], what: &str) {
    let count = scores.len() as f64;
    let mean = scores.iter().sum::<f64>() / count;
    assert!(mean.abs() < 4.0 / count.sqrt(), "{what}: a mean of {mean} standard deviations");
    assert_within(scores.iter().map(|score| score * score).sum(), count, what);
}

fn orders(shuffle: Shuffle) -> impl Iterator<Item = Vec<u64>> {
    (0..SEEDS).map(move |seed| epoch(&order(SAMPLES, seed, shuffle), 0))
}

/// The correlation of pairs of numbers below [`SAMPLES`].
fn correlation(pairs: impl Iterator<Item = (u64, u64)>) -> f64 {
    let n = SAMPLES as f64;
    let (middle, variance) = ((n - 1.0) / 2.0, (n * n - 1.0) / 12.0);
    pairs.map(|(a, b)| (a as f64 - middle) * (b as f64 - middle)).sum::<f64>() / (n * variance)
}

#[test]
fn samples_end_up_as_far_from_where_they_were_as_chance_takes_them() {
    let n = SAMPLES as f64;
    let scores = orders(Shuffle::Full).map(|order| {
        let moved: u64 = order.iter().zip(0..).map(|(sample, position)| sample.abs_diff(position)).sum();
        (moved as f64 / n - (n * n - 1.0) / (3.0 * n)) / (2.0 * n / 45.0).sqrt()
    });
    assert_normal(&scores.collect::<Vec<_>>(), "mean |i - position|");
}

#[test]
fn positions_and_samples_are_not_correlated() {
    let deviation = 1.0 / (SAMPLES as f64 - 1.0).sqrt();
    let scores = orders(Shuffle::Full).map(|order| correlation((0..).zip(order)) / deviation);
    assert_normal(&scores.collect::<Vec<_>>(), "rank correlation");
}

#[test]
fn neighbours_are_not_correlated() {
    let deviation = 1.0 / (SAMPLES as f64).sqrt();
    let scores = orders(Shuffle::Full).map(|order| {
        let next = order.iter().copied().cycle().skip(1);
        correlation(order.iter().copied().zip(next)) / deviation
    });
    assert_normal(&scores.collect::<Vec<_>>(), "neighbours");
}

/// Samples that lay side by side do so again as seldom as chance has it: 2 (n - 1) / n times, and as often reversed.
#[test]
fn neighbours_do_not_stay_neighbours() {
    let orders = orders(Shuffle::Full);
    let kept: usize = orders.map(|order| order.windows(2).filter(|pair| pair[0].abs_diff(pair[1]) == 1).count()).sum();
    // Nearly Poisson's, whose variance is its mean.
    let expected = 2.0 * SEEDS as f64;
    assert!((kept as f64 - expected).abs() < 4.0 * expected.sqrt(), "{kept} pairs of {expected} expected");
}

#[test]
fn epochs_that_follow_each_other_are_not_correlated() {
    let order = order(SAMPLES, 1, Shuffle::Full);
    let deviation = 1.0 / (SAMPLES as f64 - 1.0).sqrt();
    let mut last = epoch(&order, 0);
    let scores = (1..=SEEDS).map(|number| {
        let next = epoch(&order, number);
        let score = correlation(last.iter().copied().zip(next.iter().copied())) / deviation;
        last = next;
        score
    });
    assert_normal(&scores.collect::<Vec<_>>(), "epochs");
}

/// Each of ten shards of a thousand samples is shared by four ranks, and spread over ten parts of the epoch, as chance has
/// it: tables of counts are tested for independence over many seeds.
#[test]
fn neither_ranks_nor_times_of_an_epoch_prefer_a_shard() {
    let (mut of_ranks, mut of_times) = (0.0, 0.0);
    const SEEDS: u64 = 100;
    for seed in 0..SEEDS {
        let order = order(SAMPLES, seed, Shuffle::Full);
        let job = Job { size: 4, batch_size: 25, remainder: Remainder::Pad, drop_last: false };
        let mut table = [[0; 10]; 4];
        for part in job.steps(&order, Cursor::default(), 1).values().flatten() {
            part.samples.iter().for_each(|sample| table[part.rank as usize][(sample / 1000) as usize] += 1);
        }
        of_ranks += independence(&table);
        let mut table = [[0; 10]; 10];
        let order = epoch(&order, 0);
        (0..).zip(order).for_each(|(position, sample)| table[position / 1000][(sample / 1000) as usize] += 1);
        of_times += independence(&table);
    }
    assert_within(of_ranks, (SEEDS * 3 * 9) as f64, "ranks and shards");
    assert_within(of_times, (SEEDS * 9 * 9) as f64, "times and shards");
}

/// The chi-square of a table whose rows are alike, and its columns.
fn independence<const COLUMNS: usize>(table: &[[u64; COLUMNS]]) -> f64 {
    let expected = SAMPLES as f64 / (table.len() * COLUMNS) as f64;
    table.iter().flatten().map(|count| (*count as f64 - expected).powi(2) / expected).sum()
}

/// Blocks stay together, which is what they are for, and in themselves and among each other are mixed.
#[test]
fn blocks_stay_together_and_come_in_an_order_of_chance() {
    for (shuffle, len) in [(blocks(100), 100), (blocks(1), 1), (blocks(3000), 3000), (blocks(9000), 9000)] {
        for seed in 0..5 {
            let mut order = epoch(&order(SAMPLES, seed, shuffle), 0);
            let mut seen: Vec<u64> = order.iter().map(|sample| sample / len).collect();
            seen.dedup();
            assert_eq!(seen.len() as u64, SAMPLES.div_ceil(len), "{shuffle}");
            order.sort_unstable();
            assert!(order.into_iter().eq(0..SAMPLES), "{shuffle}");
        }
    }
    let deviation = 1.0 / (SAMPLES as f64 - 1.0).sqrt();
    let scores = orders(blocks(1)).map(|order| correlation((0..).zip(order)) / deviation);
    assert_normal(&scores.collect::<Vec<_>>(), "blocks of one");
}
