//! What each rank is dealt, against an oracle that holds the whole epoch and cuts pieces off it.
use forebay::sampler::{Cursor, Order, Remainder, SamplerError, World};
use proptest::prelude::*;

use crate::common::effort;
use crate::rig::{self, Job, REMAINDERS, all, blocks, epoch, order, remainders, shuffles, stream};

/// The batches of every rank in an epoch and how many samples of each are repeated, by the words of the contract.
fn oracle(job: &Job, order: &[u64]) -> Vec<Vec<(Vec<u64>, u64)>> {
    let (size, batch) = (job.size as usize, job.batch_size as usize);
    let mut ranks = vec![Vec::new(); size];
    let (full, rest) = order.split_at(order.len() - order.len() % (size * batch));
    for (number, run) in full.chunks(batch).enumerate() {
        ranks[number % size].push((run.to_vec(), 0));
    }
    if rest.is_empty() || job.drop_last {
        return ranks;
    }
    let shares: Vec<usize> = match job.remainder {
        Remainder::Uneven => (0..size).map(|rank| (rest.len() + size - 1 - rank) / size).collect(),
        Remainder::Drop => vec![rest.len() / size; size],
        _ => vec![rest.len().div_ceil(size); size],
    };
    let mut samples = rest.iter().map(|sample| (*sample, 0)).chain(order.iter().map(|sample| (*sample, 1)).cycle());
    for (rank, share) in ranks.iter_mut().zip(shares) {
        let (run, padded): (Vec<u64>, Vec<u64>) = samples.by_ref().take(share).unzip();
        if share > 0 {
            rank.push((run, padded.iter().sum()));
        }
    }
    ranks
}

fn jobs() -> impl Strategy<Value = Job> {
    (1_u32..=16, 1_u64..40, remainders(), any::<bool>()).prop_map(|(size, batch_size, remainder, drop_last)| Job {
        size,
        batch_size,
        remainder,
        drop_last,
    })
}

fn sizes() -> impl Strategy<Value = u64> {
    prop_oneof![0_u64..20, 0_u64..400, 4000_u64..5000]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(effort::of(100, 500)))]

    #[test]
    fn every_rank_gets_what_the_contract_says(
        job in jobs(), samples in sizes(), shuffle in shuffles(), seed: u64,
    ) {
        let order = order(samples, seed, shuffle);
        let epochs: Vec<_> = (0..3).map(|number| oracle(&job, &epoch(&order, number))).collect();
        for rank in 0..job.size {
            let batches = |number: usize| &epochs[number][rank as usize];
            let sampler = match job.rank(&order, rank, 3) {
                Ok(sampler) => sampler,
                Err(error) => {
                    prop_assert!(batches(0).is_empty(), "{}", error);
                    continue;
                }
            };
            prop_assert!(!batches(0).is_empty());
            prop_assert_eq!(sampler.steps_an_epoch(), batches(0).len() as u64);
            let mut steps = all(sampler).into_iter();
            for (number, expected) in (0..3).flat_map(|number| batches(number).iter().enumerate().map(move |it| (number, it))) {
                let (step, got) = steps.next().unwrap();
                prop_assert_eq!((step.at.epoch, step.at.batch), (number as u64, expected.0 as u64));
                prop_assert_eq!((&got, step.padded), (&expected.1.0, expected.1.1));
            }
            prop_assert!(steps.next().is_none());
        }
    }

    #[test]
    fn ranks_are_disjoint_and_complete_and_take_equal_steps(
        job in jobs(), samples in 1_u64..600, shuffle in shuffles(), seed: u64,
    ) {
        let order = order(samples, seed, shuffle);
        let steps = job.steps(&order, Cursor::default(), 1);
        let together = stream(steps.values());
        let counts: Vec<usize> = steps.values().map(Vec::len).collect();
        let (each_step, size) = (u64::from(job.size) * job.batch_size, u64::from(job.size));
        let left = samples % each_step;
        let lost = match job.remainder {
            _ if job.drop_last => left,
            Remainder::Drop => left % size,
            _ => 0,
        };
        // In the order of the epoch, once each, but for the few at the end that the policy drops.
        prop_assert_eq!(&together, &epoch(&order, 0)[..(samples - lost) as usize]);
        match job.remainder {
            // A rank may have no share of an uneven last step; then it is one of the last ranks.
            Remainder::Uneven => prop_assert!(counts.iter().rev().skip(1).all(|count| *count == job.size as usize)),
            _ => prop_assert!(counts.iter().all(|count| *count == job.size as usize)),
        }
        for part in steps.values().flatten() {
            prop_assert!(part.samples.len() as u64 <= job.batch_size);
            prop_assert!(part.step.padded == 0 || job.remainder == Remainder::Pad && !job.drop_last);
        }
    }

    #[test]
    fn the_order_of_an_epoch_depends_on_neither_world_nor_batch_size(
        one in jobs(), other in jobs(), samples in 1_u64..600, shuffle in shuffles(), seed: u64,
    ) {
        let order = order(samples, seed, shuffle);
        let [one, other] = [one, other].map(|job| stream(job.steps(&order, Cursor::default(), 1).values()));
        let common = one.len().min(other.len());
        prop_assert_eq!(&one[..common], &other[..common]);
    }

    #[test]
    fn all_ranks_of_a_step_agree_what_comes_next(
        job in jobs(), samples in 1_u64..600, shuffle in shuffles(), seed: u64,
    ) {
        let order = order(samples, seed, shuffle);
        let steps = job.steps(&order, Cursor::default(), 2);
        let later: Vec<_> = steps.keys().copied().skip(1).chain([(2, 0)]).collect();
        for (parts, next) in steps.values().zip(later) {
            prop_assert!(parts.iter().all(|part| part.step.next == parts[0].step.next));
            prop_assert_eq!((parts[0].step.next.epoch, parts[0].step.next.position), next);
        }
    }
}

/// By the formulas of the contract, one policy each.
#[test]
fn counts_are_exact() {
    // 7 + 1 + 3 + 11 + 2 samples, of which 4 ranks take 12 in a full step: all of them.
    let count = |samples: u64, remainder, drop_last| {
        let job = Job { size: 4, batch_size: 3, remainder, drop_last };
        let order = order(samples, 5, rig::blocks(4));
        let of = |rank| all(job.rank(&order, rank, 1).unwrap()).iter().map(|step| step.1.len()).collect();
        [0, 1, 2, 3].map(|rank| -> Vec<usize> { of(rank) })
    };
    for remainder in REMAINDERS {
        assert_eq!(count(24, remainder, false), [[3, 3]; 4]);
        assert_eq!(count(29, remainder, true), [[3, 3]; 4]);
    }
    assert_eq!(count(29, Remainder::Drop, false), [[3, 3, 1]; 4]);
    assert_eq!(count(29, Remainder::Pad, false), [[3, 3, 2]; 4]);
    assert_eq!(count(29, Remainder::Uneven, false), [vec![3, 3, 2], vec![3, 3, 1], vec![3, 3, 1], vec![3, 3, 1]]);
    assert_eq!(count(26, Remainder::Drop, false), [[3, 3]; 4]);
    assert_eq!(count(26, Remainder::Pad, false), [[3, 3, 1]; 4]);
    assert_eq!(count(26, Remainder::Uneven, false), [vec![3, 3, 1], vec![3, 3, 1], vec![3, 3], vec![3, 3]]);
}

#[test]
fn what_would_give_a_rank_no_step_is_an_error_with_the_numbers_and_not_an_endless_loop() {
    let start = |order: Order, rank, size, batch, remainder, drop_last| {
        let world = World::new(rank, size).unwrap();
        forebay::sampler::Sampler::new(order, world, batch, remainder, drop_last, None).map(drop)
    };
    let few = |samples| order(samples, 0, blocks(2));
    assert_eq!(start(few(5), 0, 1, 0, Remainder::Pad, false), Err(SamplerError::NoBatch));
    assert_eq!(start(few(0), 0, 1, 1, Remainder::Pad, false), Err(SamplerError::NoSamples));
    let cases = [
        (start(few(10), 0, 16, 1, Remainder::Drop, false), "drop"),
        (start(few(10), 10, 16, 1, Remainder::Uneven, false), "uneven"),
        (start(few(10), 3, 16, 1, Remainder::Pad, true), "pad"),
        (start(few(10), 3, u32::MAX, u64::MAX, Remainder::Drop, false), "drop"),
    ];
    for (answer, policy) in cases {
        let said = answer.unwrap_err().to_string();
        assert!(said.contains("10 samples") && said.contains(policy) && said.contains("; use "), "{said}");
    }
    assert!(start(few(10), 9, 16, 1, Remainder::Uneven, false).is_ok());
    assert!(start(few(10), 15, 16, u64::MAX, Remainder::Pad, false).is_ok());
}

#[test]
fn the_largest_numbers_overflow_nothing() {
    for remainder in REMAINDERS {
        let order = order(u64::MAX, 1, blocks(u64::MAX));
        let world = World::new(u32::MAX - 1, u32::MAX).unwrap();
        let sampler = forebay::sampler::Sampler::new(order, world, 1, remainder, false, None).unwrap();
        for left in [0, 1, 5, u64::from(u32::MAX) - 1] {
            let cursor = Cursor { epoch: u64::MAX, position: u64::MAX - left, batch: u64::MAX };
            let mut sampler = sampler.clone().start_at(cursor).unwrap();
            let mut samples = Vec::new();
            for _ in 0..3 {
                assert!(sampler.next_step(&mut samples).is_some());
            }
            assert_eq!(samples.len(), 3, "{remainder} {left}");
        }
    }
}
