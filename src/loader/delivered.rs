//! Whatever fails on the way, every sample is delivered once, skipped and counted, or followed by an error.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use proptest::prelude::*;

use super::transform::Map;
use super::{Loader, LoaderError};
use crate::dataset::{DType, DataFile, Dataset, DatasetError, FileRange, Fingerprint, SampleSpec, TensorSpec};
use crate::route::Carrier;
use crate::sampler::{Order, Remainder, Sampler, World};
use crate::storage::faults::{Chances, Faults};
use crate::{EngineChoice, Shuffle};

const LEN: u64 = 3000;
/// One of these fits the smallest budget, and two do not.
const LARGE: u64 = 300 << 10;

/// What happens to one sample.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Fate {
    Sound,
    Large,
    /// `locate` fails so many times.
    NotLocated(u32),
    Panics(u32),
    /// It lies past the end of its file.
    Unreadable,
    /// Its file is gone, and comes back when the sample is located for the nth time.
    NoFile(u32),
    /// The transform refuses it, where there is one.
    Refused,
}

const FOR_EVER: u32 = u32::MAX;

#[derive(Debug)]
struct Faulty {
    files: Vec<DataFile>,
    kept: PathBuf,
    fates: Vec<Fate>,
    located: Vec<AtomicU32>,
}

impl Faulty {
    fn new(folder: &Path, fates: Vec<Fate>) -> Self {
        let (sound, gone, kept) = (folder.join("sound.bin"), folder.join("gone.bin"), folder.join("kept.bin"));
        let bytes: Vec<u8> = (0..fates.len() as u64 * LEN + LARGE).map(byte).collect();
        std::fs::write(&sound, &bytes).unwrap();
        std::fs::write(&kept, &bytes).unwrap();
        std::fs::hard_link(&kept, &gone).unwrap();
        let files = vec![DataFile::new(&sound).unwrap(), DataFile::new(&gone).unwrap()];
        std::fs::remove_file(&gone).unwrap();
        let located = fates.iter().map(|_| AtomicU32::new(0)).collect();
        Self { files, kept, fates, located }
    }

    fn bytes_of(&self, index: u64) -> Vec<u8> {
        let len = if self.fates[index as usize] == Fate::Large { LARGE } else { LEN };
        (index * LEN..index * LEN + len).map(byte).collect()
    }
}

fn byte(at: u64) -> u8 {
    (at ^ at >> 8 ^ at >> 16) as u8
}

impl Dataset for Faulty {
    fn len(&self) -> u64 {
        self.fates.len() as u64
    }

    fn files(&self) -> &[DataFile] {
        &self.files
    }

    fn locate(&self, index: u64, sample: &mut SampleSpec) -> Result<(), DatasetError> {
        let fate = self.fates[index as usize];
        let times = self.located[index as usize].fetch_add(1, Ordering::Relaxed);
        let (mut file, mut offset, mut len) = (0, index * LEN, LEN);
        match fate {
            Fate::NotLocated(most) if times < most => {
                return Err(DatasetError::malformed(
                    self.files[0].path(),
                    offset,
                    "its entry is damaged",
                    "get it again",
                ));
            }
            Fate::Panics(most) if times < most => panic!("no sample {index}"),
            Fate::Unreadable => offset = self.files[0].len(),
            Fate::NoFile(most) => {
                file = 1;
                if times >= most {
                    let _ = std::fs::hard_link(&self.kept, self.files[1].path());
                }
            }
            Fate::Large => len = LARGE,
            Fate::Sound | Fate::Refused | Fate::NotLocated(_) | Fate::Panics(_) => {}
        }
        sample.push(TensorSpec::new("x", DType::U8, [len]), [FileRange { file, offset, len }]);
        Ok(())
    }

    fn fields(&self) -> Option<crate::dataset::Fields> {
        let spec = [TensorSpec::new("x", DType::U8, [LEN])];
        Some(crate::dataset::Fields::uniform(&spec, self.len()))
    }

    fn fingerprint(&self) -> Fingerprint {
        Fingerprint::new("faulty", "", self.len(), &self.files)
    }
}

#[derive(Clone, Debug)]
struct Case {
    fates: Vec<Fate>,
    /// The nth answer of the engine is EIO.
    eio: Option<u64>,
    batch_size: u64,
    shuffle: bool,
    epochs: u64,
    workers: usize,
    prefetch: usize,
    budget: u64,
    transforms: bool,
    skips: Option<u64>,
    engine: EngineChoice,
}

fn fates() -> impl Strategy<Value = Vec<Fate>> {
    let times = || prop_oneof![1_u32..3, Just(FOR_EVER)];
    let bad = prop_oneof![
        Just(Fate::Large),
        times().prop_map(Fate::NotLocated),
        times().prop_map(Fate::Panics),
        Just(Fate::Unreadable),
        times().prop_map(Fate::NoFile),
        Just(Fate::Refused),
    ];
    let mostly = prop_oneof![4 => Just(vec![]), 6 => prop::collection::vec((any::<prop::sample::Index>(), bad), 0..6)];
    (1_usize..90, mostly).prop_map(|(samples, bad)| {
        let mut fates = vec![Fate::Sound; samples];
        bad.into_iter().for_each(|(at, fate)| fates[at.index(samples)] = fate);
        fates
    })
}

fn cases() -> impl Strategy<Value = Case> {
    let skips = prop_oneof![Just(None), (0_u64..4).prop_map(Some), Just(Some(u64::MAX))];
    let engine = prop_oneof![Just(EngineChoice::Pread), Just(EngineChoice::Auto)];
    let size = (1_u64..7, any::<bool>(), 1_u64..3, 0_usize..3);
    let depth = (prop_oneof![1_usize..9, Just(usize::MAX)], prop_oneof![Just(1_u64 << 20), Just(16 << 20)]);
    (fates(), prop::option::of(1_u64..24), size, depth, any::<bool>(), skips, engine).prop_map(
        |(fates, eio, (batch_size, shuffle, epochs, workers), (prefetch, budget), transforms, skips, engine)| Case {
            fates,
            eio,
            batch_size,
            shuffle,
            epochs,
            workers,
            prefetch,
            budget,
            transforms,
            skips,
            engine,
        },
    )
}

impl Case {
    fn shuffle(&self) -> Shuffle {
        if self.shuffle { Shuffle::Full } else { Shuffle::None }
    }

    fn loader(&self, dataset: &Arc<Faulty>) -> Loader {
        let faults = self.eio.map(|n| {
            let chances = Chances { nth: Some((n, nix::libc::EIO)), ..Chances::default() };
            Arc::new(Faults::new(chances, 1))
        });
        let carrier = Carrier::builder().map_reader(|reader| {
            let mut reader = reader.engine(self.engine);
            reader.faults = faults;
            reader
        });
        let mut builder = Loader::builder(Arc::clone(dataset) as Arc<dyn Dataset>)
            .carrier(carrier)
            .batch_size(self.batch_size)
            .shuffle(self.shuffle())
            .epochs(self.epochs)
            .workers(self.workers)
            .prefetch(self.prefetch)
            .budget(self.budget);
        if self.transforms {
            let faulty = Arc::clone(dataset);
            builder = builder.map(Map::new([TensorSpec::new("x", DType::U8, [8])], move |sample, output| {
                if faulty.fates[sample.index() as usize] == Fate::Refused {
                    return Err("refused".into());
                }
                output.bytes(0).copy_from_slice(&sample.bytes(0)[..8]);
                Ok(())
            }));
        }
        if let Some(skips) = self.skips {
            builder = builder.skip_corrupt(skips);
        }
        builder.build().unwrap()
    }

    /// Takes everything, and compares it with the order, step by step.
    fn check(&self) {
        let folder = tempfile::tempdir().unwrap();
        let dataset = Arc::new(Faulty::new(folder.path(), self.fates.clone()));
        let mut loader = self.loader(&dataset);
        let order = Order::new(&dataset.fingerprint(), dataset.len(), 0, self.shuffle());
        let one = World::single();
        let mut sampler =
            Sampler::new(order, one, self.batch_size, Remainder::default(), false, Some(self.epochs)).unwrap();
        let mut next = || {
            let mut indices = Vec::new();
            sampler.next_step(&mut indices).map(|step| (step, indices))
        };
        let (mut skipped, mut end): (Vec<u64>, Option<LoaderError>) = (Vec::new(), None);
        while let Some(batch) = loader.blocking().next() {
            let batch = match batch {
                Ok(batch) => batch,
                Err(error) => {
                    end = Some(error);
                    break;
                }
            };
            // Batches of which nothing is left do not come.
            let (step, indices) = loop {
                let (step, indices) = next().expect("a batch that is not in the order, or came twice");
                if step.at == batch.step.at {
                    break (step, indices);
                }
                skipped.extend(indices);
            };
            assert_eq!(step, batch.step);
            let mut rows = batch.indices().iter().enumerate().peekable();
            for index in indices {
                let Some((row, _)) = rows.next_if(|(_, delivered)| **delivered == index) else {
                    skipped.push(index);
                    continue;
                };
                let bytes = dataset.bytes_of(index);
                let want = if self.transforms { &bytes[..8] } else { &bytes };
                assert!(batch.tensor("x").unwrap().row(row).unwrap() == want, "other bytes of sample {index}");
            }
            assert_eq!(rows.next(), None, "rows that are not of the batch");
        }
        assert!(loader.blocking().next().is_none(), "something comes behind the end");
        let counted = loader.stats().skipped;
        match end {
            None => {
                while let Some((_, indices)) = next() {
                    skipped.extend(indices);
                }
                assert_eq!(skipped.len() as u64, counted, "skipped {skipped:?}");
            }
            Some(error) => {
                loop {
                    let (step, indices) = next().unwrap_or_else(|| panic!("an error behind the last batch: {error}"));
                    if (step.at.epoch, step.at.batch) == (error.epoch, error.batch) {
                        break;
                    }
                    skipped.extend(indices);
                }
                assert!(skipped.len() as u64 <= counted, "lost before {error}: some of {skipped:?}, {counted} skipped");
                let all_are_sound = self.fates.iter().all(|fate| *fate == Fate::Sound);
                assert!(self.eio.is_some() || !all_are_sound, "nothing was wrong: {error}");
            }
        }
        assert!(counted <= self.skips.unwrap_or(0));
        let may_be = |index: u64| self.eio.is_some() || self.fates[index as usize] != Fate::Sound;
        assert!(skipped.iter().all(|&index| may_be(index)), "sound samples among {skipped:?}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, max_shrink_iters: 200, ..ProptestConfig::default() })]
    #[test]
    fn every_sample_is_delivered_once_or_skipped_and_counted_or_followed_by_an_error(case in cases()) {
        case.check();
    }
}

/// A read fails that heals when it is tried again, while the plan has come to a file that is gone.
#[test]
fn batches_before_one_that_cannot_be_planned_come_whichever_read_fails_once() {
    for eio in 1..12 {
        for skips in [None, Some(2)] {
            for healed in [FOR_EVER, 1] {
                let mut fates = vec![Fate::Sound; 60];
                fates[20] = Fate::NoFile(healed);
                let case = Case {
                    fates,
                    eio: Some(eio),
                    batch_size: 4,
                    shuffle: false,
                    epochs: 1,
                    workers: 1,
                    prefetch: usize::MAX,
                    budget: 16 << 20,
                    transforms: false,
                    skips,
                    engine: EngineChoice::Pread,
                };
                case.check();
            }
        }
    }
}

/// However many may be skipped: the next one would fare no better, nor the one after that.
#[test]
fn what_an_engine_that_has_ended_did_not_read_is_not_skipped() {
    let folder = tempfile::tempdir().unwrap();
    let dataset = Arc::new(Faulty::new(folder.path(), vec![Fate::Sound; 40]));
    let carrier = Carrier::builder().map_reader(|reader| {
        let mut reader = reader.engine(EngineChoice::Uring).rings(1);
        reader.faults = Some(Arc::new(Faults::new(Chances { broken_ring: Some(0), ..Chances::default() }, 1)));
        reader
    });
    let builder = Loader::builder(dataset as Arc<dyn Dataset>).carrier(carrier).budget(16 << 20);
    let mut loader = builder.batch_size(4).skip_corrupt(u64::MAX).build().unwrap();
    let error = loader.blocking().next().unwrap().unwrap_err();
    assert!(error.to_string().contains("engine"), "{error}");
    assert_eq!(loader.stats().skipped, 0);
}
