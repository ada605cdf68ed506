//! Datasets made of others, read by several ranks.
use std::collections::BTreeMap;
use std::sync::Arc;

use forebay::dataset::{Concat, Dataset, Mixture, Subset};
use forebay::{Remainder, World};

use crate::formats::DATASETS;
use crate::stream::{Setting, all, assert_same};

/// Row 102: no sample of a mixture goes to two ranks, and none is left out.
#[test]
fn ranks_share_a_mixture_out() {
    let of = |name: &str| Arc::clone(&DATASETS.1.iter().find(|(other, _)| *other == name).unwrap().1);
    let (records, tfrecord, tokens) = (of("records"), of("tfrecord"), of("tokens"));
    let made: [(&str, Arc<dyn Dataset>); 3] = [
        (
            "mixture",
            Arc::new(Mixture::new(vec![(Arc::clone(&records), 0.7), (Arc::clone(&tokens), 0.3)], 130).unwrap()),
        ),
        ("concat", Arc::new(Concat::new(vec![Arc::clone(&records), tfrecord, Arc::clone(&tokens)]).unwrap())),
        ("subset", Arc::new(Subset::new(records, vec![5, 3, 60, 61, 7, 0, 33]).unwrap())),
    ];
    for (name, dataset) in made {
        for size in [1, 4] {
            let mut seen: BTreeMap<(u64, u64), u64> = BTreeMap::new();
            for rank in 0..size {
                let world = World::new(rank, size).unwrap();
                let setting = Setting { world, remainder: Remainder::Uneven, epochs: 2, ..Setting::new(5) };
                let got = all(setting.builder(&dataset).build().unwrap());
                assert_same(&got, &setting.expected(&*dataset).unwrap(), name);
                for batch in got {
                    batch.indices.iter().for_each(|&index| *seen.entry((batch.epoch, index)).or_default() += 1);
                }
            }
            assert!(seen.values().all(|&times| times == 1), "{name}: ranks overlap");
            assert_eq!(seen.len() as u64, 2 * dataset.len(), "{name}");
        }
    }
}
