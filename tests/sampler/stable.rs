//! What must not change between versions, and what must between epochs.
use std::collections::BTreeSet;

use forebay::dataset::Fingerprint;
use forebay::sampler::{Cursor, Order, Remainder, Sampler, Shuffle, State, World};

use crate::common::work::within;
use crate::rig::{blocks, epoch, order};

/// Training that was begun with one version is resumed with the next: a change here is a change of the state's version.
#[test]
fn orders_are_those_of_earlier_versions() {
    let first = |samples: u64, shuffle, epoch| {
        let mut order =
            Order::new(&Fingerprint::new("golden", "none", samples, &[]), samples, 42, shuffle).epoch(epoch);
        [0, 1, 2, 3, 4, 5, 6, 7].map(|position| order.sample(position))
    };
    assert_eq!(first(10, Shuffle::None, 3), [0, 1, 2, 3, 4, 5, 6, 7]);
    assert_eq!(first(10, Shuffle::Full, 0), [2, 5, 7, 8, 9, 0, 4, 1]);
    assert_eq!(first(10, Shuffle::Full, 1), [9, 7, 0, 1, 8, 4, 2, 6]);
    assert_eq!(first(4096, Shuffle::Full, 0), [389, 1994, 939, 3203, 3731, 3129, 1904, 2689]);
    assert_eq!(first(4097, Shuffle::Full, 0), [2737, 592, 2615, 207, 1522, 1791, 1278, 3707]);
    assert_eq!(
        first(1_000_000_000, Shuffle::Full, 7),
        [155638542, 439781401, 182172997, 525683638, 659668390, 139515443, 66155082, 887538675]
    );
    assert_eq!(first(10, blocks(3), 0), [6, 7, 8, 4, 3, 5, 9, 1]);
    assert_eq!(
        first(1_000_000_000, blocks(5000), 0),
        [155510338, 155511962, 155510058, 155513260, 155513119, 155510449, 155513160, 155511241]
    );
}

#[test]
fn states_are_read_that_earlier_versions_saved() {
    let json = r#"{"version":1,"fingerprint":{"format":"test","settings":"","samples":100,"files":0,"bytes":0,"names":3244421341483603138,"sizes":3244421341483603138,"times":3244421341483603138},"seed":7,"shuffle":"blocks:8","epoch":2,"position":60,"batch":3}"#;
    let state: State = serde_json::from_str(json).unwrap();
    assert_eq!(
        state,
        State::new(crate::rig::fingerprint(100), 7, blocks(8), Cursor { epoch: 2, position: 60, batch: 3 })
    );
    assert_eq!(serde_json::to_string(&state).unwrap(), json);
}

#[test]
fn a_state_of_another_version_is_refused_with_both_numbers_and_a_damaged_one_with_what_is_wrong() {
    let state = State::new(crate::rig::fingerprint(1), 7, Shuffle::Full, Cursor::default());
    let json = serde_json::to_string(&state).unwrap();
    let said = |json: &str| serde_json::from_str::<State>(json).unwrap_err().to_string();
    let newer = said(r#"{"version":2,"all":"of it is other"}"#);
    assert!(newer.contains("version 2") && newer.contains("reads 1"), "{newer}");
    for (from, to, word) in [
        (r#""version":1,"#, "", "no version"),
        (r#""version":1"#, r#""version":"1""#, "no number"),
        (r#""shuffle":"full""#, r#""shuffle":"wild""#, "blocks:N"),
        (r#""seed":7"#, r#""seed":-7"#, "-7"),
        (r#""seed":7,"#, "", "seed"),
        (r#""seed":7"#, r#""seed":7,"sead":8"#, "sead"),
    ] {
        let said = said(&json.replace(from, to));
        assert!(said.contains(word), "{said}");
    }
}

#[test]
fn epochs_differ_are_each_complete_and_come_again_the_same() {
    for (samples, shuffle) in [(100, Shuffle::Full), (5000, Shuffle::Full), (100, blocks(10)), (100, blocks(1000))] {
        let epochs: BTreeSet<Vec<u64>> = (0..20).map(|number| epoch(&order(samples, 0, shuffle), number)).collect();
        assert_eq!(epochs.len(), 20, "{samples} {shuffle}");
        for number in 0..20 {
            assert!(epochs.contains(&epoch(&order(samples, 0, shuffle), number)));
        }
        for mut epoch in epochs {
            epoch.sort_unstable();
            assert!(epoch.into_iter().eq(0..samples), "{samples} {shuffle}");
        }
    }
}

#[test]
fn seeds_and_datasets_and_shuffles_have_orders_of_their_own() {
    let mut seen = BTreeSet::new();
    for shuffle in [Shuffle::Full, blocks(50), blocks(51), blocks(200)] {
        for seed in [0, 1, 2, u64::MAX] {
            assert!(seen.insert(epoch(&order(100, seed, shuffle), 0)));
        }
        let other = Fingerprint::new("other", "", 100, &[]);
        assert!(seen.insert(epoch(&Order::new(&other, 100, 0, shuffle), 0)));
    }
}

#[test]
fn positions_behind_the_last_begin_again_and_the_inverse_leads_back() {
    for (samples, shuffle) in [(10, Shuffle::None), (10, Shuffle::Full), (5001, Shuffle::Full), (100, blocks(7))] {
        let mut order = order(samples, 3, shuffle).epoch(1);
        for position in 0..samples {
            let sample = order.sample(position);
            assert_eq!(order.sample(position + 2 * samples), sample);
            assert_eq!(order.position(sample), position, "{samples} {shuffle}");
        }
    }
    assert_eq!(order(0, 3, Shuffle::Full).epoch(0).sample(5), 0);
}

#[test]
fn a_billion_samples_take_no_work_for_each() {
    for shuffle in [Shuffle::None, Shuffle::Full, blocks(1 << 20), blocks(64)] {
        let mut samples = Vec::new();
        // A step for each would be a thousand units.
        within(10, &shuffle.to_string(), || {
            let order = order(1_000_000_000, 1, shuffle);
            let world = World::new(3, 8).unwrap();
            let mut sampler = Sampler::new(order, world, 256, Remainder::Pad, false, None).unwrap();
            let middle = Cursor { epoch: 5, position: 500_000_000, batch: 250_000 };
            sampler.next_step(&mut samples).unwrap();
            sampler.start_at(middle).unwrap().next_step(&mut samples).unwrap();
        });
        assert!(samples.len() == 512 && samples.iter().all(|sample| *sample < 1_000_000_000));
    }
}
