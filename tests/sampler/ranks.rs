//! Jobs that went wrong elsewhere: small sets, odd worlds, datasets made of others.
use std::collections::BTreeSet;
use std::fs;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use forebay::dataset::{Concat, Dataset, Format, Mixture, OpenOptions, open};
use forebay::sampler::{Cursor, Order, Remainder, Shuffle};

use crate::common::{copies, folder};
use crate::rig::{Job, Part, REMAINDERS, blocks, epoch, order, stream};

const SHUFFLES: usize = 4;

fn shuffles() -> [Shuffle; SHUFFLES] {
    [Shuffle::None, Shuffle::Full, blocks(3), blocks(1000)]
}

fn job(size: u32, batch_size: u64, remainder: Remainder) -> Job {
    Job { size, batch_size, remainder, drop_last: false }
}

#[test]
fn ranks_are_disjoint_and_complete_for_any_seed() {
    for seed in 0..200 {
        for shuffle in shuffles() {
            let order = order(103, seed, shuffle);
            let together = stream(job(4, 5, Remainder::Uneven).steps(&order, Cursor::default(), 1).values());
            assert_eq!(together.len(), 103);
            assert!(together.into_iter().collect::<BTreeSet<_>>().into_iter().eq(0..103), "seed {seed}");
        }
    }
}

fn records(folder: &std::path::Path, name: &str, samples: usize) -> Arc<dyn Dataset> {
    let path = folder.join(name);
    fs::write(&path, vec![7; samples * 4]).unwrap();
    open(&[path], &OpenOptions::new().format(Format::Records).record_bytes(4)).unwrap().into()
}

fn of(dataset: &dyn Dataset, seed: u64, shuffle: Shuffle) -> Order {
    Order::new(&dataset.fingerprint(), dataset.len(), seed, shuffle)
}

#[test]
fn ranks_share_a_mixture_without_overlap_or_loss() {
    let folder = folder();
    let parts = vec![(records(folder.path(), "a", 30), 2.0), (records(folder.path(), "b", 15), 1.0)];
    let mixture = Mixture::once(parts).unwrap();
    assert_eq!(mixture.len(), 45);
    for shuffle in shuffles() {
        let steps = job(4, 3, Remainder::Uneven).steps(&of(&mixture, 1, shuffle), Cursor::default(), 1);
        let ids: BTreeSet<_> = stream(steps.values()).iter().map(|sample| mixture.id(*sample).into_owned()).collect();
        assert_eq!(ids.len(), 45);
    }
}

#[test]
fn shards_of_uneven_counts_give_every_rank_as_many_steps() {
    let folder = folder();
    let shards =
        [7, 1, 3, 11, 2].iter().enumerate().map(|(i, samples)| records(folder.path(), &i.to_string(), *samples));
    let shards = Concat::new(shards.collect()).unwrap();
    assert_eq!(shards.len(), 24);
    for (remainder, batch_size, lens) in [
        (Remainder::Drop, 3, vec![3, 3]),
        (Remainder::Pad, 3, vec![3, 3]),
        (Remainder::Drop, 5, vec![5, 1]),
        (Remainder::Pad, 5, vec![5, 1]),
        (Remainder::Pad, 7, vec![6]),
    ] {
        let steps = job(4, batch_size, remainder).steps(&of(&shards, 1, Shuffle::Full), Cursor::default(), 1);
        assert_eq!(steps.len(), lens.len());
        for (parts, len) in steps.values().zip(lens) {
            assert_eq!(parts.iter().map(|part| part.samples.len()).collect::<Vec<_>>(), [len; 4], "{remainder}");
        }
    }
}

#[test]
fn fewer_samples_than_a_step_are_all_there_and_what_is_repeated_is_counted() {
    for (size, samples_of_each, padded) in [(4, 3, 2), (16, 1, 6)] {
        let order = order(10, 3, Shuffle::Full);
        let steps = job(size, 8, Remainder::Pad).steps(&order, Cursor::default(), 1);
        let parts: Vec<&Part> = steps.values().flatten().collect();
        assert_eq!((steps.len(), parts.len()), (1, size as usize));
        assert!(parts.iter().all(|part| part.samples.len() == samples_of_each));
        assert_eq!(parts.iter().map(|part| part.step.padded).sum::<u64>(), padded);
        assert_eq!(stream(steps.values()), epoch(&order, 0));
        // In the order of the ranks, from the beginning.
        let all: Vec<u64> = parts.iter().flat_map(|part| &part.samples).copied().collect();
        assert_eq!(all[10..], epoch(&order, 0)[..padded as usize]);
    }
}

#[test]
fn one_sample_is_repeated_for_as_many_ranks_as_there_are() {
    let steps = job(16, 4, Remainder::Pad).steps(&order(1, 3, Shuffle::Full), Cursor::default(), 1);
    let parts: Vec<&Part> = steps.values().flatten().collect();
    assert!(parts.iter().all(|part| part.samples == [0] && part.step.padded == u64::from(part.rank > 0)));
    assert_eq!(parts.len(), 16);
}

#[test]
fn fewer_shards_than_ranks_leave_no_rank_idle() {
    let folder = folder();
    let shards = Concat::new(vec![records(folder.path(), "0", 20), records(folder.path(), "1", 20)]).unwrap();
    for shuffle in shuffles() {
        for remainder in REMAINDERS {
            let steps = job(3, 4, remainder).steps(&of(&shards, 0, shuffle), Cursor::default(), 1);
            for rank in 0..3 {
                let parts = steps.values().flatten().filter(|part| part.rank == rank);
                assert!(parts.map(|part| part.real().len()).sum::<usize>() >= 12, "{remainder} rank {rank}");
            }
        }
    }
}

#[test]
fn an_epoch_has_exactly_its_samples_and_without_shuffle_their_order() {
    let order = order(100, 9, Shuffle::None);
    let steps = job(3, 7, Remainder::Uneven).steps(&order, Cursor::default(), 3);
    assert_eq!(stream(steps.values()), (0..3).flat_map(|_| 0..100).collect::<Vec<_>>());
}

/// Nodes that hold copies, made at other times and in another order.
#[test]
fn copies_of_the_data_are_gone_through_in_one_order() {
    let mut names: Vec<String> = (0..30).map(|number| format!("{number}.bin")).collect();
    let [here, there] = copies(&names, |path| fs::write(path, [1; 16]).unwrap());
    let later = SystemTime::now() + Duration::from_secs(1000);
    fs::File::options().write(true).open(there.path().join("7.bin")).unwrap().set_modified(later).unwrap();
    let options = OpenOptions::new().format(Format::Records).record_bytes(4);
    let [a, b] = [&here, &there].map(|folder| open(&[folder.path()], &options).unwrap());
    names.sort_unstable();
    for dataset in [&a, &b] {
        assert!(
            dataset.files().iter().map(|file| file.path().file_name().unwrap().to_str().unwrap()).eq(&names[..]),
            "by their bytes"
        );
    }
    assert_ne!(a.fingerprint(), b.fingerprint());
    assert_eq!(a.fingerprint().order_key(), b.fingerprint().order_key());
    for shuffle in shuffles() {
        assert_eq!(epoch(&of(&a, 5, shuffle), 2), epoch(&of(&b, 5, shuffle), 2));
    }
    // Of the same size, but other data.
    fs::rename(there.path().join("7.bin"), there.path().join("70.bin")).unwrap();
    let other = open(&[there.path()], &options).unwrap();
    assert_ne!(a.fingerprint().order_key(), other.fingerprint().order_key());
    assert_ne!(epoch(&of(&a, 5, Shuffle::Full), 0), epoch(&of(&other, 5, Shuffle::Full), 0));
}
