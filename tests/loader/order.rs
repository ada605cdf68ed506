//! What comes, and in which order: what the sampler says, whatever reads it and however it is worked on.
use std::collections::BTreeMap;
use std::num::NonZeroU64;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use forebay::dataset::Dataset;
use forebay::{Carrier, CarrierBuilder, EngineChoice, Mode, Ragged, Reader, Remainder, Route, Shuffle, World};
use proptest::prelude::*;

use crate::common;
use crate::common::effort;
use crate::common::folder;
use crate::common::reader::engines;
use crate::common::watchdog::guarded;
use crate::drops::with_engine;
use crate::formats::DATASETS;
use crate::stream::{Setting, Taken, all, assert_same, open_records};
use crate::transforms::Copied;

/// What the stream must not depend on.
#[derive(Clone, Debug)]
struct Means {
    workers: usize,
    prefetch: usize,
    budget: u64,
    engine: EngineChoice,
    route: Option<Route>,
    mode: Mode,
    ragged: Ragged,
    transformed: bool,
}

impl Means {
    fn carrier(&self) -> CarrierBuilder {
        let carrier = Carrier::builder().reader(Reader::builder().engine(self.engine).mode(self.mode));
        self.route.map_or(carrier.clone(), |route| carrier.route(route))
    }

    fn taken(&self, what: &str, setting: Setting, dataset: &Arc<dyn Dataset>) -> Vec<Taken> {
        let builder = setting.builder(dataset).workers(self.workers).prefetch(self.prefetch).budget(self.budget);
        let builder = builder.carrier(self.carrier()).ragged(self.ragged);
        let builder = if self.transformed { builder.map(Copied) } else { builder };
        let loader = builder.build().unwrap_or_else(|error| panic!("{what}: {error}"));
        guarded("order", move || all(loader))
    }
}

fn shuffles() -> impl Strategy<Value = Shuffle> {
    let blocks = (1..100_u64).prop_map(|samples| Shuffle::Blocks(NonZeroU64::new(samples).unwrap()));
    prop_oneof![Just(Shuffle::None), Just(Shuffle::Full), blocks]
}

fn settings() -> impl Strategy<Value = Setting> {
    let remainder = prop::sample::select(vec![Remainder::Drop, Remainder::Pad, Remainder::Uneven]);
    (1..=16_u32, 1..20_u64, shuffles(), any::<u64>(), remainder, any::<bool>(), 1..=3_u64).prop_map(
        |(size, batch_size, shuffle, seed, remainder, drop_last, epochs)| {
            let world = World::new(0, size).unwrap();
            Setting { world, batch_size, shuffle, seed, remainder, drop_last, epochs }
        },
    )
}

fn means() -> impl Strategy<Value = Means> {
    let engine = prop::sample::select(engines());
    let mode = prop::sample::select(vec![Mode::Auto, Mode::Direct, Mode::Buffered]);
    let route = prop::sample::select(vec![None, Some(Route::Bounce), Some(Route::Cached)]);
    let budget = prop_oneof![200_u64 << 10..400 << 10, 1_u64 << 20..16 << 20];
    let ragged = prop::sample::select(vec![Ragged::Packed, Ragged::Padded]);
    (0..=16_usize, 1..30_usize, budget, engine, route, mode, ragged, any::<bool>()).prop_map(
        |(workers, prefetch, budget, engine, route, mode, ragged, transformed)| {
            // A forced route reads in its own mode.
            let mode = if route.is_some() { Mode::Auto } else { mode };
            Means { workers, prefetch, budget, engine, route, mode, ragged, transformed }
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(effort::of(60, 250)))]

    /// Rows 98, 100, 107, 110: one rank of any world, by any means.
    #[test]
    fn a_rank_gets_what_the_sampler_says_by_whatever_means(
        setting in settings(), rank in any::<prop::sample::Index>(), means in means(), which in any::<prop::sample::Index>()
    ) {
        let (name, dataset) = which.get(&DATASETS.1);
        let size = setting.world.size();
        let setting = Setting { world: World::new(rank.index(size as usize) as u32, size).unwrap(), ..setting };
        let what = format!("{name}: {setting:?}, {means:?}");
        let Some(want) = setting.expected(&**dataset) else {
            prop_assert!(setting.builder(dataset).build().is_err(), "{}", what);
            return Ok(());
        };
        // Rows of more than one dimension can be padded in the first only.
        let means = if name.contains("samples that differ") { Means { ragged: Ragged::Packed, ..means } } else { means };
        assert_same(&means.taken(&what, setting, dataset), &want, &what);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(effort::of(10, 40)))]

    /// Rows 101 to 105, 108: all ranks together, of datasets that are larger and smaller than the world.
    #[test]
    fn all_ranks_together_get_every_sample_in_equal_steps(
        setting in settings(), means in means(), which in any::<prop::sample::Index>(), few in prop::option::of(1..20_u64)
    ) {
        let own = folder();
        let (name, dataset) = match few {
            Some(count) => {
                let path = own.path().join("few");
                common::data::write_dense(&path, 1, 64 * count).unwrap();
                ("few records", open_records(&[path], 64))
            }
            None => which.get(&DATASETS.1).clone(),
        };
        let what = format!("{name}: {setting:?}, {means:?}");
        let (len, size) = (dataset.len(), u64::from(setting.world.size()));
        let mut steps = Vec::new();
        let mut seen: BTreeMap<(u64, u64), u64> = BTreeMap::new();
        for rank in 0..setting.world.size() {
            let setting = Setting { world: World::new(rank, setting.world.size()).unwrap(), ..setting };
            if setting.expected(&*dataset).is_none() {
                prop_assert!(setting.builder(&dataset).build().is_err(), "{}", what);
                steps.push(0);
                continue;
            }
            // Every rank by other means.
            let means = Means { workers: (means.workers + rank as usize) % 3, ragged: Ragged::Packed, ..means.clone() };
            let got = means.taken(&what, setting, &dataset);
            steps.push(got.len());
            for batch in &got {
                let real = batch.indices.len() - batch.padded as usize;
                batch.indices[..real].iter().for_each(|&index| *seen.entry((batch.epoch, index)).or_default() += 1);
            }
        }
        prop_assert!(seen.values().all(|&times| times == 1), "{}: ranks overlap", what);
        let full = setting.batch_size * size;
        let wanted = match (setting.drop_last, setting.remainder) {
            (true, _) => len / full * full,
            (false, Remainder::Drop) => len / full * full + len % full / size * size,
            _ => len,
        };
        if steps.iter().all(|&steps| steps > 0) {
            prop_assert_eq!(seen.len() as u64, wanted * setting.epochs, "{}", &what);
        }
        if setting.drop_last || setting.remainder != Remainder::Uneven {
            prop_assert!(steps.iter().all(|&other| other == steps[0]), "{}: {:?}", what, steps);
        }
    }
}

/// Every format at least once by every engine, with memory for little and for all.
#[test]
fn every_format_is_read_by_every_engine() {
    for (name, dataset) in &DATASETS.1 {
        let setting = Setting { epochs: 2, ..Setting::new(8) };
        let want = setting.expected(&**dataset).unwrap();
        for engine in engines() {
            for (workers, prefetch, budget) in [(0, 1, 256 << 10), (2, 16, 8 << 20)] {
                let what = format!("{name}, {engine:?}, {workers} workers");
                let builder = setting.builder(dataset).workers(workers).prefetch(prefetch).budget(budget);
                let loader = builder.carrier(with_engine(engine)).build().unwrap();
                assert_same(&guarded("formats", move || all(loader)), &want, &what);
            }
        }
    }
}

/// Row 109: copies of the same files on two nodes, written in another order and at another time, are read in one order.
#[test]
fn copies_of_the_data_are_read_in_one_order() {
    let names: Vec<String> = (0..12).map(|i| format!("{i}.bin")).collect();
    let write = |path: &Path| {
        let seed = path.file_stem().unwrap().to_str().unwrap().parse().unwrap();
        common::data::write_dense(path, seed, 640).unwrap();
    };
    let [one, other] = common::copies(&names, write);
    let later = std::time::SystemTime::now() + std::time::Duration::from_secs(1000);
    std::fs::File::options().write(true).open(other.path().join("7.bin")).unwrap().set_modified(later).unwrap();
    let read = |folder: &tempfile::TempDir| {
        let dataset = open_records(&[PathBuf::from(folder.path())], 64);
        all(Setting::new(7).builder(&dataset).build().unwrap())
    };
    assert_same(&read(&one), &read(&other), "copies");
}
