//! Training that stops and goes on, with as many ranks and as large batches as there are then.
use forebay::sampler::{Cursor, Order, Remainder, SamplerError, Shuffle, State};
use proptest::prelude::*;

use crate::common::effort;
use crate::rig::{Job, Part, all, blocks, epoch, fingerprint, order, shuffles, stream};

/// To JSON and back, as between two processes.
fn saved(order: &Order, cursor: Cursor) -> Cursor {
    let state = State::new(fingerprint(order.samples()), order.seed(), order.shuffle(), cursor);
    let read: State = serde_json::from_str(&serde_json::to_string(&state).unwrap()).unwrap();
    assert_eq!(read, state);
    read.check(&fingerprint(order.samples()), Some(order.seed()), Some(order.shuffle())).unwrap();
    read.cursor()
}

/// Some steps from there, and where they end.
fn part(job: &Job, order: &Order, from: Cursor, steps: usize, epochs: u64) -> (Vec<Vec<Part>>, Cursor) {
    let taken: Vec<Vec<Part>> = job.steps(order, from, epochs).into_values().take(steps).collect();
    let end = taken.last().map_or(from, |parts| parts[0].step.next);
    (taken, saved(order, end))
}

fn jobs() -> impl Strategy<Value = Job> {
    // None of those that lose samples, of which the ones lost depend on the world.
    let keeps = prop::sample::select(&[Remainder::Pad, Remainder::Uneven][..]);
    let job = (1_u32..=16, 1_u64..20, keeps);
    job.prop_map(|(size, batch_size, remainder)| Job { size, batch_size, remainder, drop_last: false })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(effort::of(100, 500)))]

    #[test]
    fn resumed_twice_in_other_worlds_training_goes_on_at_the_same_sample(
        jobs in [jobs(), jobs(), jobs()],
        samples in 16_u64..500,
        shuffle in shuffles(),
        seed: u64,
        stops in [0_usize..40, 0_usize..40],
    ) {
        let order = order(samples, seed, shuffle);
        let (first, cursor) = part(&jobs[0], &order, Cursor::default(), stops[0], 3);
        let (second, cursor) = part(&jobs[1], &order, cursor, stops[1], 3);
        let (third, end) = part(&jobs[2], &order, cursor, usize::MAX, 3);
        let together = stream([first, second, third].iter().flatten());
        let whole: Vec<u64> = (0..3).flat_map(|number| epoch(&order, number)).collect();
        prop_assert_eq!(together, whole);
        prop_assert_eq!(end, Cursor { epoch: 3, position: 0, batch: 0 });
    }

    #[test]
    fn resumed_in_the_same_world_every_rank_takes_the_steps_that_it_would_have_taken(
        job in jobs(), samples in 16_u64..500, shuffle in shuffles(), seed: u64, stop in 0_usize..60,
        drop_last: bool, drop: bool,
    ) {
        let job = Job { drop_last, remainder: if drop { Remainder::Drop } else { job.remainder }, ..job };
        let order = order(samples, seed, shuffle);
        prop_assume!(job.rank(&order, job.size - 1, 3).is_ok());
        let whole = job.steps(&order, Cursor::default(), 3);
        let (before, cursor) = part(&job, &order, Cursor::default(), stop, 3);
        let after = job.steps(&order, cursor, 3);
        let together: Vec<_> = before.into_iter().chain(after.into_values()).collect();
        prop_assert_eq!(together, whole.into_values().collect::<Vec<_>>());
    }

    #[test]
    fn a_state_is_smaller_than_1_kib(cursor: [u64; 3], seed: u64, block in 1_u64..) {
        let cursor = Cursor { epoch: cursor[0], position: cursor[1], batch: cursor[2] };
        let children = vec![forebay::dataset::Fingerprint::new("safetensors", "rows", u64::MAX, &[]); 20];
        let mixture = forebay::dataset::Fingerprint::compound("mixture", "weights 1 2 3", u64::MAX, &children);
        let state = State::new(mixture, seed, blocks(block), cursor);
        let json = serde_json::to_string_pretty(&state).unwrap();
        prop_assert!(json.len() < 1024, "{}", json);
        prop_assert_eq!(serde_json::from_str::<State>(&json).unwrap(), state);
    }
}

#[test]
fn resumed_at_the_exact_end_of_an_epoch_the_next_one_begins_with_batch_0() {
    let order = order(24, 1, Shuffle::Full);
    let job = Job { size: 4, batch_size: 3, remainder: Remainder::Pad, drop_last: false };
    let (steps, cursor) = part(&job, &order, Cursor::default(), 2, 2);
    assert_eq!((steps.len(), cursor), (2, Cursor { epoch: 1, position: 0, batch: 0 }));
    let after = job.steps(&order, cursor, 2);
    assert_eq!(stream(after.values()), epoch(&order, 1));
    // The same place told otherwise.
    let end = Cursor { epoch: 0, position: 24, batch: 2 };
    assert_eq!(job.steps(&order, end, 2), after);
    let last = Cursor { epoch: 1, position: 24, batch: 2 };
    assert!(job.steps(&order, last, 2).is_empty());
}

#[test]
fn a_second_resume_within_an_epoch_counts_from_the_epoch_and_not_from_the_first() {
    let order = order(1000, 1, Shuffle::Full);
    let job = Job { size: 1, batch_size: 4, remainder: Remainder::Pad, drop_last: false };
    let (_, cursor) = part(&job, &order, Cursor::default(), 30, 1);
    let (_, cursor) = part(&job, &order, cursor, 10, 1);
    assert_eq!(cursor, Cursor { epoch: 0, position: 160, batch: 40 });
    let next = &job.steps(&order, cursor, 1)[&(0, 160)][0];
    assert_eq!((next.step.at.batch, &next.samples[..]), (40, &epoch(&order, 0)[160..164]));
}

#[test]
fn epochs_after_a_resumed_one_are_full_and_their_number_is_a_total() {
    let order = order(100, 1, blocks(8));
    let job = Job { size: 2, batch_size: 5, remainder: Remainder::Pad, drop_last: false };
    let cursor = Cursor { epoch: 0, position: 70, batch: 7 };
    let steps: Vec<_> = all(job.rank(&order, 0, 3).unwrap().start_at(cursor).unwrap());
    let count = |epoch| steps.iter().filter(|(step, _)| step.at.epoch == epoch).count();
    assert_eq!([0, 1, 2, 3].map(count), [3, 10, 10, 0]);
    assert_eq!(steps.iter().map(|(step, _)| step.at.batch).take(4).collect::<Vec<_>>(), [7, 8, 9, 0]);
    let last = Cursor { epoch: 2, ..cursor };
    assert_eq!(all(job.rank(&order, 0, 3).unwrap().start_at(last).unwrap()).len(), 3);
}

#[test]
fn what_is_left_too_little_for_any_rank_ends_the_epoch() {
    let order = order(100, 1, Shuffle::Full);
    let job = Job { size: 4, batch_size: 5, remainder: Remainder::Drop, drop_last: false };
    let cursor = Cursor { epoch: 0, position: 97, batch: 30 };
    let sampler = job.rank(&order, 0, 2).unwrap().start_at(cursor).unwrap();
    assert_eq!(sampler.cursor(), Cursor { epoch: 1, position: 0, batch: 0 });
    assert_eq!(all(sampler).len(), 5);
}

#[test]
fn a_state_of_other_data_seed_or_shuffle_is_refused_with_what_differs() {
    let state = State::new(fingerprint(100), 7, Shuffle::Full, Cursor::default());
    let said = |answer: Result<(), SamplerError>| answer.unwrap_err().to_string();
    assert_eq!(state.check(&fingerprint(100), None, None), Ok(()));
    let foreign = said(state.check(&fingerprint(99), None, None));
    assert!(foreign.contains("100") && foreign.contains("99") && foreign.contains("; "), "{foreign}");
    let seed = said(state.check(&fingerprint(100), Some(8), None));
    assert!(seed.contains("seed 7") && seed.contains('8'), "{seed}");
    let shuffle = said(state.check(&fingerprint(100), Some(7), Some(blocks(64))));
    assert!(shuffle.contains("full") && shuffle.contains("blocks:64"), "{shuffle}");
    let job = Job { size: 1, batch_size: 1, remainder: Remainder::Pad, drop_last: false };
    let behind = job.rank(&order(100, 7, Shuffle::Full), 0, 1).unwrap();
    let behind = behind.start_at(Cursor { position: 101, ..Cursor::default() }).unwrap_err().to_string();
    assert!(behind.contains("101") && behind.contains("100"), "{behind}");
}
