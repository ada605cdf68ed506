//! A loader that goes on where another stood gives what that one would have given, and nothing else.
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use forebay::dataset::{self, Dataset, Format, OpenOptions};
use forebay::sampler::SamplerError;
use forebay::{Error, Loader, Missing, Remainder, Shuffle, State, World};
use proptest::prelude::*;

use crate::common::effort;
use crate::common::privilege::{Outside, Reduced, child_dir, in_child};
use crate::common::watchdog::guarded;
use crate::common::{data, folder};
use crate::formats;
use crate::stream::{Setting, Taken, all, assert_same, drained, open_records, records, taken};

/// Through JSON, as it is saved.
fn saved(state: &State) -> State {
    let json = serde_json::to_string(state).unwrap();
    assert!(json.len() < 1024, "{json}");
    serde_json::from_str(&json).unwrap()
}

/// The batches of a loader up to that many, and the state behind the last.
fn begun(loader: &mut Loader, batches: usize) -> (Vec<Taken>, State) {
    let mut state = loader.state();
    let taken = loader.blocking().take(batches).map(|batch| {
        let batch = batch.unwrap();
        state = batch.state();
        taken(&batch)
    });
    let taken = taken.collect();
    assert_eq!(loader.state(), state, "the loader's state is that of the last batch it handed out");
    (taken, saved(&state))
}

fn settings() -> impl Strategy<Value = Setting> {
    let remainder = prop::sample::select(vec![Remainder::Drop, Remainder::Pad, Remainder::Uneven]);
    let shuffle = prop::sample::select(vec![Shuffle::None, Shuffle::Full, "blocks:9".parse().unwrap()]);
    (0..3_u32, 1..9_u64, shuffle, any::<u64>(), remainder, any::<bool>(), 1..4_u64).prop_map(
        |(rank, batch_size, shuffle, seed, remainder, drop_last, epochs)| {
            let world = World::new(rank, 3).unwrap();
            Setting { world, batch_size, shuffle, seed, remainder, drop_last, epochs }
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(effort::of(25, 100)))]

    /// Rows 111 to 115: at any batch, twice, with other workers and prefetch, of formats whose samples are windows too.
    #[test]
    fn the_rest_of_the_stream_comes_byte_for_byte(
        setting in settings(), first in 0..40_usize, second in 0..20_usize, which in 0..11_usize, workers in 0..2_usize
    ) {
        let (name, dataset) = &formats::DATASETS.1[which];
        let Some(want) = setting.expected(&**dataset) else { return Ok(()) };
        let what = format!("{name}: {setting:?} after {first} and {second}");
        let builder = |workers: usize, prefetch| setting.builder(dataset).workers(workers * 4).prefetch(prefetch);
        let mut loader = builder(workers, 20).build().unwrap();
        let (got, state) = begun(&mut loader, first);
        drop(loader);
        let done = got.len();
        assert_same(&got, &want[..done], &what);

        let mut resumed = builder(1 - workers, 1).resume(state).build().unwrap();
        prop_assert_eq!(resumed.batches_in_all(), Some((want.len() - done) as u64), "{}", &what);
        let (got, state) = begun(&mut resumed, second);
        assert_same(&got, &want[done..done + got.len()], &what);
        let done = done + got.len();
        drop(resumed);

        // The seed and the shuffle are the state's where they are not given.
        let resumed = Loader::builder(Arc::clone(dataset)).world(setting.world).batch_size(setting.batch_size)
            .remainder(setting.remainder).drop_last(setting.drop_last).epochs(setting.epochs).workers(workers * 4)
            .budget(4 << 20).missing(Missing::Allow).resume(state).build().unwrap();
        assert_same(&guarded("resumed", move || all(resumed)), &want[done..], &what);
    }
}

/// Row 111.
#[test]
fn behind_the_last_batch_of_an_epoch_the_next_epoch_begins() {
    let folder = folder();
    let dataset = records(folder.path(), "x", 100, 30);
    assert!(all(Setting { epochs: 0, ..Setting::new(7) }.builder(&dataset).build().unwrap()).is_empty());
    for remainder in [Remainder::Drop, Remainder::Pad, Remainder::Uneven] {
        let setting = Setting { remainder, epochs: 3, ..Setting::new(7) };
        let want = setting.expected(&*dataset).unwrap();
        for epoch in 1..=3 {
            let mut loader = setting.builder(&dataset).build().unwrap();
            let (_, state) = begun(&mut loader, 5 * epoch);
            assert_eq!((state.epoch(), state.position(), state.batch()), (epoch as u64, 0, 0));
            let mut resumed = setting.builder(&dataset).resume(state).build().unwrap();
            let rest: Vec<Taken> = resumed.blocking().map(|batch| taken(&batch.unwrap())).collect();
            assert_same(&rest, &want[5 * epoch..], "behind an epoch");
            // Where nothing is left it says so as often as it is asked.
            assert!(resumed.blocking().next().is_none());
            assert_eq!(resumed.state().epoch(), 3);
        }
    }
}

/// Row 116: from two ranks to any other number, and to another batch size, at the same place of the order.
#[test]
fn a_world_of_another_size_goes_on_at_the_same_sample() {
    let folder = folder();
    let dataset = records(folder.path(), "x", 333, 101);
    let world = |rank, size| World::new(rank, size).unwrap();
    let setting = |rank, size, batch_size| Setting { world: world(rank, size), epochs: 2, ..Setting::new(batch_size) };
    let order: Vec<u64> = all(setting(0, 1, 101).builder(&dataset).build().unwrap()).remove(0).indices;
    for steps in [0, 1, 5] {
        let mut loader = setting(1, 2, 8).builder(&dataset).build().unwrap();
        let (_, state) = begun(&mut loader, steps);
        for (size, batch_size) in [(1, 8), (2, 3), (3, 5), (16, 1)] {
            let mut rest = vec![None; order.len()];
            for rank in 0..size {
                let later = setting(rank, size, batch_size);
                let builder = later.builder(&dataset).resume(saved(&state)).remainder(Remainder::Uneven);
                let got = all(builder.build().unwrap());
                let mut epochs = [0; 2];
                for batch in got {
                    epochs[batch.epoch as usize] += batch.indices.len();
                    if batch.epoch > 0 {
                        continue;
                    }
                    for (index, rows) in batch.indices.iter().zip(batch.rows) {
                        let position = order.iter().position(|other| other == index).unwrap();
                        assert!(position >= steps * 16, "a sample that was taken before");
                        assert_eq!(rows[0].2, data::bytes(101, index * 333, 333));
                        assert_eq!(rest[position].replace(rank), None);
                    }
                }
                // Row 113.
                assert!(epochs[1] >= 101 / size as usize, "the next epoch is whole: {epochs:?}");
            }
            assert!(rest[steps * 16..].iter().all(Option::is_some), "{steps}, {size} ranks, batches of {batch_size}");
        }
    }
}

/// Row 116.
#[test]
fn a_state_of_other_data_is_refused_with_what_differs() {
    let folder = folder();
    let dataset = records(folder.path(), "x", 100, 30);
    let other = records(folder.path(), "y", 100, 31);
    let setting = Setting::new(4);
    let state = begun(&mut setting.builder(&dataset).build().unwrap(), 3).1;
    let refused = |builder: forebay::LoaderBuilder| match builder.resume(state.clone()).build().map(|_| ()) {
        Err(Error::Sampler(error)) => error,
        other => panic!("{other:?}"),
    };
    let error = refused(setting.builder(&other));
    assert!(matches!(&error, SamplerError::Foreign { difference } if !difference.is_empty()), "{error}");
    assert_eq!(refused(setting.builder(&dataset).seed(8)), SamplerError::Seed { saved: 7, asked: 8 });
    let shuffle = SamplerError::Shuffle { saved: Shuffle::Full, asked: Shuffle::None };
    assert_eq!(refused(setting.builder(&dataset).shuffle(Shuffle::None)), shuffle);
    for damaged in ["{}", "{\"version\":2}", "[]", "null"] {
        assert!(serde_json::from_str::<State>(damaged).is_err(), "{damaged}");
    }
    let json = serde_json::to_value(&state).unwrap();
    for (field, value) in [("position", 31.into()), ("position", u64::MAX.into()), ("version", 2.into())] {
        let mut json = json.clone();
        json[field] = value;
        let resumed =
            serde_json::from_value::<State>(json).map(|state| setting.builder(&dataset).resume(state).build());
        assert!(!matches!(resumed, Ok(Ok(_))), "{field}");
    }
    // Of an epoch that never ends there is one more.
    let mut json = json;
    json["epoch"] = u64::MAX.into();
    let far = setting.builder(&dataset).endless().resume(serde_json::from_value(json).unwrap());
    assert_eq!(far.build().unwrap().blocking().take(3).map(Result::unwrap).count(), 3);
}

/// Row 116: of as many samples, too.
#[test]
fn a_state_of_shards_that_are_gone_or_are_others_is_refused() {
    let shards = |lens: [u64; 3]| {
        let folder = folder();
        (0..3).for_each(|i| data::write_dense(&folder.path().join(format!("{i}.bin")), i, lens[i as usize]).unwrap());
        folder
    };
    let alike = shards([1000; 3]);
    let shard = |number| alike.path().join(format!("{number}.bin"));
    let open = || open_records(&[alike.path()], 100);
    let setting = Setting { shuffle: Shuffle::None, ..Setting::new(4) };
    let want = setting.expected(&*open()).unwrap();
    let state = begun(&mut setting.builder(&open()).build().unwrap(), 3).1;
    let refused = |dataset: &Arc<dyn Dataset>, why: &str| match setting.builder(dataset).resume(state.clone()).build() {
        Err(Error::Sampler(SamplerError::Foreign { difference })) => assert!(difference.contains(why), "{difference}"),
        other => panic!("{why}: {other:?}"),
    };
    assert_same(&all(setting.builder(&open()).resume(state.clone()).build().unwrap()), &want[3..], "the same shards");

    std::fs::rename(shard(1), shard(9)).unwrap();
    refused(&open(), "other names");
    std::fs::rename(shard(9), shard(1)).unwrap();
    let file = std::fs::File::options().write(true).open(shard(1)).unwrap();
    let written = file.metadata().unwrap().modified().unwrap();
    file.set_modified(written + Duration::from_secs(9)).unwrap();
    refused(&open(), "written to since");
    file.set_modified(written).unwrap();
    let others = shards([1000, 900, 1100]);
    refused(&open_records(&[others.path()], 100), "other sizes");

    let before = open();
    std::fs::remove_file(shard(2)).unwrap();
    refused(&open(), "files were 3, now 2");
    let named = OpenOptions::new().format(Format::Records).record_bytes(100);
    let error = dataset::open(&[shard(0), shard(1), shard(2)], &named).unwrap_err().to_string();
    assert!(error.contains("2.bin"), "{error}");
    // Where it is gone only after that, what is in the others comes before the error.
    let mut loader = setting.builder(&before).resume(state).build().unwrap();
    let (got, error) = guarded("gone", move || drained(&mut loader));
    assert_same(&got, &want[3..5], "before the shard that is gone");
    let error = error.unwrap().to_string();
    assert!(error.contains("2.bin"), "{error}");
}

/// Row 117: a process that is killed in the midst of it, with batches made ahead that nobody took.
#[test]
fn a_process_that_was_killed_is_resumed_behind_the_batches_it_had_taken() {
    let outside = Outside::new();
    let path = outside.path().join("x.bin");
    data::write_dense(&path, 5, 200 * 1000).unwrap();
    let dataset = open_records(&[&path], 1000);
    let want = killed_setting().expected(&*dataset).unwrap();
    let command = outside.rerun(&Reduced::new(), "resume::in_child_five_of_twenty");
    let child = Killed(command_quietly(command));
    let saved = outside.path().join("state.json");
    let deadline = std::time::Instant::now() + Duration::from_secs(30);
    while !saved.exists() {
        assert!(std::time::Instant::now() < deadline, "the child saved no state");
        std::thread::sleep(Duration::from_millis(10));
    }
    drop(child);
    let state = serde_json::from_slice(&std::fs::read(&saved).unwrap()).unwrap();
    let rest = all(killed_setting().builder(&dataset).resume(state).build().unwrap());
    assert_eq!(rest[0].number, 5);
    assert_same(&rest, &want[5..], "after the kill");
}

fn killed_setting() -> Setting {
    Setting::new(4)
}

fn command_quietly(mut command: Command) -> Child {
    command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
}

/// Killed when it is dropped, whatever the test comes to.
struct Killed(Child);

impl Drop for Killed {
    fn drop(&mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

#[test]
#[ignore = "a part of another test"]
fn in_child_five_of_twenty() {
    if !in_child() {
        return;
    }
    let path = child_dir().join("x.bin");
    let dataset: Arc<dyn Dataset> = open_records(&[path], 1000);
    let mut loader = killed_setting().builder(&dataset).prefetch(20).build().unwrap();
    loader.blocking().take(5).for_each(|batch| drop(batch.unwrap()));
    assert!(crate::common::watchdog::eventually(|| loader.stats().ready_batches >= 10), "{:?}", loader.stats());
    let json = serde_json::to_vec(&loader.state()).unwrap();
    std::fs::write(child_dir().join("state.tmp"), json).unwrap();
    std::fs::rename(child_dir().join("state.tmp"), child_dir().join("state.json")).unwrap();
    std::thread::sleep(Duration::from_secs(60));
    drop(loader);
}
