//! Whatever the budget and the samples are, a loader gives every batch or says which one cannot fit: it never waits for
//! what cannot come.
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock};

use forebay::dataset::Dataset;
use forebay::loader::LoaderFault;
use forebay::{CarryFault, LoaderError, MemoryError, Mode, Ragged, Reader, Shuffle};
use proptest::prelude::*;

use crate::common::effort;
use crate::common::fuse::{Fuse, Kind};
use crate::common::knobs::Fault;
use crate::common::reader::engines;
use crate::common::watchdog::guarded;
use crate::common::{data, folder};
use crate::datasets::{Told, lengths, push};
use crate::drops::with_engine;
use crate::or_skip;
use crate::stalls::error_of;
use crate::stream::{Setting, Taken, assert_same, drained, open_records};
use crate::transforms::Copied;

/// Small ones and some that are most of the budget.
fn lens() -> impl Strategy<Value = Vec<u64>> {
    let len =
        prop_oneof![0..5000_u64, 0..60_000_u64, 100_000..400_000_u64, (0..60_u64).prop_map(|blocks| blocks * 4096)];
    prop::collection::vec(len, 1..40)
}

#[derive(Clone, Debug)]
struct Means {
    batch_size: u64,
    budget: u64,
    workers: usize,
    prefetch: usize,
    transformed: bool,
    ragged: Ragged,
    reader: forebay::ReaderBuilder,
    full: bool,
}

fn means() -> impl Strategy<Value = Means> {
    let engine = prop::sample::select(engines());
    let mode = prop::sample::select(vec![Mode::Auto, Mode::Buffered]);
    let (ragged, bools) = (prop::sample::select(vec![Ragged::Packed, Ragged::Padded]), (any::<bool>(), any::<bool>()));
    (1..6_u64, 1..400_u64, 0..3_usize, 1..9_usize, engine, mode, ragged, bools).prop_map(
        |(batch_size, blocks, workers, prefetch, engine, mode, ragged, (transformed, full))| {
            let reader = Reader::builder().engine(engine).mode(mode);
            Means { batch_size, budget: blocks * 4096, workers, prefetch, transformed, ragged, reader, full }
        },
    )
}

impl Means {
    fn setting(&self) -> Setting {
        let shuffle = if self.full { Shuffle::Full } else { Shuffle::None };
        Setting { shuffle, epochs: 2, ..Setting::new(self.batch_size) }
    }

    fn builder(&self, dataset: &Arc<dyn Dataset>) -> forebay::LoaderBuilder {
        let builder = self.setting().builder(dataset).budget(self.budget).workers(self.workers).prefetch(self.prefetch);
        let builder = builder.ragged(self.ragged).carrier(forebay::Carrier::builder().reader(self.reader.clone()));
        if self.transformed { builder.map(Copied) } else { builder }
    }
}

fn is_over_budget(fault: &LoaderFault, budget: u64) -> bool {
    let LoaderFault::Carry(carry) = fault else { return false };
    matches!(carry.fault, CarryFault::Memory(MemoryError::OverBudget { asked, budget: told }) if asked > told && told == budget)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(effort::of(15, 60)))]

    #[test]
    fn any_budget_gives_every_batch_or_says_which_cannot_fit(lens in lens(), means in means()) {
        let folder = folder();
        let dataset = lengths(folder.path(), &lens);
        let want = means.setting().expected(&*dataset).unwrap();
        let mut loader = means.builder(&dataset).build().unwrap();
        let (got, error) = guarded(&format!("{means:?}, {lens:?}"), move || drained(&mut loader));
        assert_same(&got, &want[..got.len()], &format!("{means:?}"));
        match error {
            None => prop_assert_eq!(got.len(), want.len()),
            Some(error) => {
                prop_assert!(is_over_budget(&error.fault, means.budget), "{}", error);
                let refused = &want[got.len()];
                prop_assert_eq!((error.epoch, error.batch), (refused.epoch, refused.number), "the next one cannot fit");
                let bytes: u64 = refused.indices.iter().map(|&index| lens[index as usize]).sum();
                let rows = if means.ragged == Ragged::Padded {
                    refused.indices.iter().map(|&index| lens[index as usize]).max().unwrap() * refused.indices.len() as u64
                } else {
                    bytes
                };
                // Its rows, what is read beside them, a block at both ends of each, and how far apart they may be joined.
                let most = rows + bytes + (16 << 10) * refused.indices.len() as u64 + (256 << 10);
                prop_assert!(most > means.budget, "{} bytes are refused with {}: {}", bytes, means.budget, error);
            }
        }
    }
}

/// One for all cases: a mount takes longer than what is tried on it.
static FUSE: LazyLock<Option<Fuse>> = LazyLock::new(|| Fuse::mount(Kind::DirectIo).ok());

proptest! {
    #![proptest_config(ProptestConfig::with_cases(effort::of(10, 40)))]

    /// A block of the file that cannot be read, anywhere: the batches before it come, and the sample is one that has it.
    #[test]
    fn a_bad_block_anywhere_is_told_as_a_sample_that_it_is_of(
        lens in lens(), means in means(), at in any::<prop::sample::Index>(), skips in any::<bool>()
    ) {
        let Some(fuse) = &*FUSE else {
            crate::common::skipped::skipped("no FUSE here");
            return Ok(());
        };
        let total: u64 = lens.iter().sum();
        prop_assume!(total > 0);
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        let path = fuse.add(&format!("bad-{}", NUMBER.fetch_add(1, Ordering::Relaxed)), 1, total);
        let places = lens.clone();
        let dataset = Told::shared(&[path], lens.len() as u64, move |index, sample| {
            push(sample, 0, places[..index as usize].iter().sum(), places[index as usize]);
            Ok(())
        });
        let want = means.setting().expected(&*dataset).unwrap();
        let block = at.index(total as usize) as u64 / 4096 * 4096;
        let touches = |index: u64| {
            let start: u64 = lens[..index as usize].iter().sum();
            let end = start + lens[index as usize];
            start < end && start / 4096 * 4096 <= block && block < end.next_multiple_of(4096)
        };
        fuse.knobs.fault(Some(Fault { after: 0, times: u64::MAX, at: Some(block), errno: nix::libc::EIO }));
        let builder = means.builder(&dataset);
        let builder = if skips { builder.skip_corrupt(u64::MAX) } else { builder };
        let mut loader = builder.build().unwrap();
        let (got, error) = guarded(&format!("{means:?}, {lens:?}"), move || drained(&mut loader));
        fuse.knobs.fault(None);
        match error {
            Some(error) if is_over_budget(&error.fault, means.budget) => {}
            Some(error) => {
                let next = want.iter().find(|batch| (batch.epoch, batch.number) == (error.epoch, error.batch)).unwrap();
                prop_assert!(next.indices.iter().any(|&index| touches(index)), "{}: block {}", error, block);
                if !skips {
                    assert_same(&got, &want[..got.len()], &format!("{means:?}"));
                    prop_assert_eq!(&want[got.len()], next, "{}", &error);
                }
                // Which sample it is, and that it may be skipped, is found out where one has room beside its batch.
                let bytes: u64 = next.indices.iter().map(|&index| lens[index as usize]).sum();
                let has_room = 2 * bytes + (64 << 10) * means.batch_size <= means.budget;
                prop_assert!(!(has_room && skips), "{}: not skipped", error);
                match error.sample.as_deref() {
                    None => prop_assert!(!has_room, "{}: no sample", error),
                    Some(id) => {
                        let named = next.indices.iter().find(|&&index| format!("sample-{index}") == id);
                        prop_assert!(named.is_some_and(|&index| touches(index)), "{}: block {}", error, block);
                    }
                }
            }
            None => {
                for batch in &got {
                    for (&index, row) in batch.indices.iter().zip(&batch.rows) {
                        let start: u64 = lens[..index as usize].iter().sum();
                        data::check(&row[0].2, 1, start).unwrap();
                    }
                }
                let came: u64 = got.iter().map(|batch| batch.indices.len() as u64).sum();
                let spared = lens.len() - (0..lens.len() as u64).filter(|&index| touches(index)).count();
                prop_assert!(came >= 2 * spared as u64, "{came} came, and {spared} are sound");
            }
        }
    }
}

/// A batch whose rows are read beside their place needs room for both; with just that, it works, in any order of sizes.
#[test]
fn a_budget_that_fits_exactly_is_enough() {
    let folder = folder();
    // Odd lengths, so that nothing can be read straight to its place.
    let lens: Vec<u64> = (0..60).map(|i| [9_001, 100_001, 300_007, 41_003, 200_003][i % 5]).collect();
    let dataset = lengths(folder.path(), &lens);
    for engine in engines() {
        for transformed in [false, true] {
            for batch_size in [1, 2, 3] {
                for shuffle in [Shuffle::None, Shuffle::Full] {
                    let setting = Setting { shuffle, ..Setting::new(batch_size) };
                    let what = format!("{engine:?}, transformed {transformed}, batches of {batch_size}, {shuffle}");
                    let budget = least_budget(&what, setting, &dataset, engine, transformed);
                    let got = run_with(&what, setting, &dataset, engine, transformed, budget).unwrap();
                    assert_same(&got, &setting.expected(&*dataset).unwrap(), &what);
                }
            }
        }
    }
}

/// The least budget with which a loader does not refuse a batch, in whole blocks.
fn least_budget(
    what: &str,
    setting: Setting,
    dataset: &Arc<dyn Dataset>,
    engine: forebay::EngineChoice,
    transformed: bool,
) -> u64 {
    let (mut low, mut high) = (1, 1024);
    while low < high {
        let middle = (low + high) / 2;
        match run_with(what, setting, dataset, engine, transformed, middle << 12) {
            Ok(_) => high = middle,
            Err(error) => {
                let LoaderFault::Carry(carry) = &error.fault else { panic!("{what}: {error}") };
                let CarryFault::Memory(MemoryError::OverBudget { asked, budget }) = carry.fault else {
                    panic!("{what}: {error}")
                };
                assert!(asked > budget && budget == middle << 12, "{what}: {error}");
                low = middle + 1;
            }
        }
    }
    low << 12
}

fn run_with(
    what: &str,
    setting: Setting,
    dataset: &Arc<dyn Dataset>,
    engine: forebay::EngineChoice,
    transformed: bool,
    budget: u64,
) -> Result<Vec<Taken>, LoaderError> {
    let builder = setting.builder(dataset).budget(budget).carrier(with_engine(engine));
    let builder = if transformed { builder.map(Copied) } else { builder };
    let mut loader = builder.build().unwrap_or_else(|error| panic!("{what}: {error}"));
    let (got, error) = guarded(&format!("{what}, {budget}"), move || drained(&mut loader));
    error.map_or(Ok(got), Err)
}

/// Nothing has been asked of the file system by then.
#[test]
fn a_batch_that_can_never_fit_is_refused_before_it_is_read() {
    let fuse = or_skip!(Fuse::mount(Kind::DirectIo));
    let path = fuse.add("large", 3, 8 << 20);
    let dataset = open_records(&[&path], 1 << 20);
    for (budget, transformed) in [(3 << 20, false), (5 << 20, true), (3 << 20, true)] {
        let before = fuse.knobs.reads();
        let builder = Setting::new(4).builder(&dataset).budget(budget);
        let builder = if transformed { builder.map(Copied) } else { builder };
        let error = error_of("refused", builder.build().unwrap());
        let said = error.to_string();
        let LoaderFault::Carry(carry) = &error.fault else { panic!("{said}") };
        let CarryFault::Memory(MemoryError::OverBudget { asked, budget: told }) = carry.fault else { panic!("{said}") };
        assert!(told == budget && asked >= 4 << 20, "{said}");
        assert_eq!(fuse.knobs.reads(), before, "read before it was refused");
        assert!(said.contains("MiB") && said.contains("large"), "{said}");
        assert_eq!((error.epoch, error.batch), (0, 0));
    }
}
