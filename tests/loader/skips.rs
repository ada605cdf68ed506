//! Samples that are corrupt and may be skipped: just those are left out, each is counted, and no more than the limit.
use std::collections::BTreeSet;
use std::sync::Arc;

use forebay::dataset::{
    Corrupt, DType, DataFile, Dataset, DatasetError, Fingerprint, SampleSpec, TensorSpec, TfRecord,
};
use forebay::loader::LoaderFault;
use forebay::loader::transform::{Map, Transform};
use forebay::{LoaderBuilder, LoaderError, Ragged, Remainder, Shuffle, World};

use crate::common::folder;
use crate::common::fuse::{Fuse, Kind};
use crate::common::knobs::Fault;
use crate::common::watchdog::guarded;
use crate::faults::{flip, write_tfrecords};
use crate::or_skip;
use crate::stream::{Setting, Taken, assert_same, drained, open_records, taken};
use crate::transforms::Copied;

/// What the stream is without some samples.
fn without(want: &[Taken], bad: &BTreeSet<u64>) -> Vec<Taken> {
    let mut left = want.to_vec();
    for batch in &mut left {
        let real = batch.indices.len() as u64 - batch.padded;
        let keep: Vec<bool> = batch.indices.iter().map(|index| !bad.contains(index)).collect();
        batch.padded = keep.iter().skip(real as usize).filter(|keep| **keep).count() as u64;
        let mut number = keep.iter();
        batch.indices.retain(|_| *number.next().unwrap());
        let mut number = keep.iter();
        batch.rows.retain(|_| *number.next().unwrap());
    }
    left.retain(|batch| !batch.indices.is_empty());
    left
}

/// How many times samples of `bad` come.
fn times(want: &[Taken], bad: &BTreeSet<u64>) -> u64 {
    want.iter().flat_map(|batch| &batch.indices).filter(|index| bad.contains(index)).count() as u64
}

/// Records of different lengths, packed and alike, of which some are damaged.
#[test]
fn damaged_records_are_left_out_and_nothing_else_is() {
    let folder = folder();
    let bad: BTreeSet<u64> = [3, 4, 5, 50, 51, 99].into();
    for (name, lens) in
        [("packed", (0..100).map(|i| 1 + i * 997 % 6000).collect::<Vec<u64>>()), ("alike", vec![2000; 100])]
    {
        let path = folder.path().join(format!("{name}.tfrecord"));
        let starts = write_tfrecords(&path, &lens);
        bad.iter().for_each(|&index| flip(&path, starts[index as usize] + lens[index as usize] / 3));
        let dataset: Arc<dyn Dataset> = Arc::new(TfRecord::open(&[&path], Corrupt::Refuse).unwrap());
        for batch_size in [1, 3, 7, 64] {
            for (rank, size) in [(0, 1), (2, 3), (1, 16)] {
                let world = World::new(rank, size).unwrap();
                let setting = Setting { world, epochs: 2, remainder: Remainder::Pad, ..Setting::new(batch_size) };
                let want = setting.expected(&*dataset).unwrap();
                for (workers, transformed) in [(0, true), (3, false)] {
                    let what = format!("{name}, batches of {batch_size}, rank {rank} of {size}, {workers} workers");
                    let builder = setting.builder(&dataset).workers(workers).skip_corrupt(u64::MAX);
                    let builder = if transformed { builder.map(Copied) } else { builder };
                    let mut loader = builder.build().unwrap();
                    let monitor = loader.monitor();
                    let (got, error) = guarded(&what, move || drained(&mut loader));
                    assert!(error.is_none(), "{what}: {error:?}");
                    assert_same(&got, &without(&want, &bad), &what);
                    let stats = monitor.stats();
                    assert_eq!(stats.skipped, times(&want, &bad), "{what}");
                    assert_eq!(
                        stats.samples,
                        got.iter().map(|batch| batch.indices.len() as u64).sum::<u64>(),
                        "{what}"
                    );
                    let bytes: usize = got.iter().flat_map(|batch| &batch.rows).flatten().map(|row| row.2.len()).sum();
                    assert_eq!(stats.bytes, bytes as u64, "{what}: the bytes of the samples that came");
                }
            }
        }
    }
}

/// Of five, three may be skipped: the batches before the fourth come, and then the error says how many were.
#[test]
fn one_more_than_the_limit_is_an_error() {
    let folder = folder();
    let path = folder.path().join("limit.tfrecord");
    let lens = vec![3000; 100];
    let starts = write_tfrecords(&path, &lens);
    let bad: BTreeSet<u64> = [10, 20, 21, 60, 61].into();
    bad.iter().for_each(|&index| flip(&path, starts[index as usize] + 1));
    let dataset: Arc<dyn Dataset> = Arc::new(TfRecord::open(&[&path], Corrupt::Refuse).unwrap());
    let setting = Setting { shuffle: Shuffle::None, ..Setting::new(4) };
    let want = setting.expected(&*dataset).unwrap();
    for limit in 0..=5 {
        let mut loader = setting.builder(&dataset).skip_corrupt(limit).build().unwrap();
        let monitor = loader.monitor();
        let (got, error) = guarded("limit", move || drained(&mut loader));
        let Some(&fatal) = bad.iter().nth(limit as usize) else {
            assert!(error.is_none());
            assert_same(&got, &without(&want, &bad), "all may be skipped");
            continue;
        };
        let error = error.unwrap();
        let LoaderFault::TooManySkipped { limit: told, .. } = &error.fault else { panic!("{error}") };
        assert_eq!((*told, error.sample.as_deref(), error.batch), (limit, Some(&*fatal.to_string()), fatal / 4));
        assert!(error.to_string().contains("limit.tfrecord at ") && error.to_string().contains(&limit.to_string()));
        assert_eq!(monitor.stats().skipped, limit);
        assert_same(&got, &without(&want, &bad)[..got.len()], "before it");
        assert_eq!(got.len() as u64, fatal / 4, "every batch before it came");
    }
}

#[test]
fn what_cannot_be_read_is_left_out() {
    let fuse = or_skip!(Fuse::mount(Kind::DirectIo));
    // So long that a block holds bytes of no other sample.
    for bytes in [4096_u64, 20_000] {
        let path = fuse.add(&format!("skip-{bytes}"), bytes, 64 * bytes);
        let dataset = open_records(&[&path], bytes);
        for (workers, transformed) in [(0, false), (3, false), (0, true), (3, true)] {
            let what = format!("{bytes}, {workers} workers, transformed {transformed}");
            let setting = Setting { epochs: 2, ..Setting::new(4) };
            let want = setting.expected(&*dataset).unwrap();
            let at = Some(21 * bytes + bytes / 2);
            fuse.knobs.fault(Some(Fault { after: 0, times: u64::MAX, at, errno: nix::libc::EIO }));
            let builder = setting.builder(&dataset).workers(workers).skip_corrupt(2);
            let builder = if transformed { builder.map(Copied) } else { builder };
            let mut loader = builder.build().unwrap();
            let monitor = loader.monitor();
            let (got, error) = guarded(&what, move || drained(&mut loader));
            fuse.knobs.fault(None);
            assert!(error.is_none(), "{what}: {error:?}");
            assert_same(&got, &without(&want, &[21].into()), &what);
            assert_eq!(monitor.stats().skipped, 2);
        }
    }
}

/// Row 120: by an error and by a panic, on one sample.
#[test]
fn a_sample_that_the_transform_refuses_is_an_error_or_is_left_out() {
    let folder = folder();
    let dataset = crate::stream::records(folder.path(), "refused", 1000, 200);
    for panics in [false, true] {
        for (workers, shuffle) in [(0, Shuffle::Full), (3, Shuffle::None), (3, Shuffle::Full)] {
            let what = format!("panics {panics}, {workers} workers, {shuffle}");
            let setting = Setting { shuffle, ..Setting::new(8) };
            let want = setting.expected(&*dataset).unwrap();
            let refuses = || {
                Map::new([TensorSpec::new("record", DType::U8, [1000])], move |sample, output| {
                    output.bytes(0).copy_from_slice(sample.bytes(0));
                    match sample.index() {
                        137 if panics => panic!("as told\nto"),
                        137 => Err("as told\nto".into()),
                        _ => Ok(()),
                    }
                })
            };
            let mut loader = setting.builder(&dataset).workers(workers).map(refuses()).build().unwrap();
            let (got, error) = guarded(&what, move || drained(&mut loader));
            let error = error.unwrap();
            let batch = want.iter().position(|batch| batch.indices.contains(&137)).unwrap();
            assert_same(&got, &want[..batch], &what);
            assert_eq!((error.sample.as_deref(), error.batch), (Some("137"), batch as u64), "{what}: {error}");
            let LoaderFault::Transform { path, offset, reason } = &error.fault else { panic!("{what}: {error}") };
            assert_eq!((path.as_path(), *offset), (dataset.files()[0].path(), 137_000));
            assert!(reason.contains("as told") && error.to_string().contains("as told"), "{what}: {error}");
            assert!(!error.to_string().contains('\n'), "{what}: one line: {error}");

            let mut loader = setting.builder(&dataset).workers(workers).map(refuses()).skip_corrupt(1).build().unwrap();
            let (got, error) = guarded(&what, move || drained(&mut loader));
            assert!(error.is_none(), "{what}: {error:?}");
            assert_same(&got, &without(&want, &[137].into()), &what);
        }
    }
}

/// A batch of which nothing is left does not come, and is not waited for; an epoch of none ends.
#[test]
fn batches_of_which_nothing_is_left_do_not_come() {
    let folder = folder();
    let dataset = crate::stream::records(folder.path(), "none", 100, 40);
    let refuses = |from: u64| {
        Map::new([TensorSpec::new("x", DType::U8, [1])], move |sample, output| {
            output.bytes(0)[0] = 1;
            if sample.index() >= from { Err("no".into()) } else { Ok(()) }
        })
    };
    let setting = Setting { shuffle: Shuffle::None, ..Setting::new(4) };
    for (from, left) in [(0, 0), (20, 5), (22, 6)] {
        let builder = setting.builder(&dataset).map(refuses(from)).skip_corrupt(40);
        let mut loader = builder.build().unwrap();
        let (got, error) = guarded("none", move || drained(&mut loader));
        assert!(error.is_none() && got.len() == left, "{error:?} {}", got.len());
    }
}

/// Keeps of 40 records of 100 bytes those that it is told.
fn keeping(keeps: impl Fn(u64) -> bool + Send + Sync + 'static) -> impl Transform + 'static {
    Map::new([TensorSpec::new("record", DType::U8, [100])], move |sample, output| {
        output.bytes(0).copy_from_slice(sample.bytes(0));
        if keeps(sample.index()) { Ok(()) } else { Err("no".into()) }
    })
}

/// The first batches of a loader without end, up to that many, and the error that it came to before.
fn first(what: &str, builder: LoaderBuilder, batches: usize) -> (Vec<Taken>, Option<LoaderError>) {
    let mut loader = builder.skip_corrupt(u64::MAX).endless().build().unwrap();
    guarded(what, move || {
        let (mut got, mut error) = (Vec::new(), None);
        for batch in loader.blocking().take(batches) {
            match batch {
                Ok(batch) => got.push(taken(&batch)),
                Err(other) => error = Some(other),
            }
        }
        assert!(error.is_none() || loader.blocking().next().is_none(), "nothing comes after an error");
        (got, error)
    })
}

/// Row 122: it would go on for ever, and nothing would come.
#[test]
fn an_endless_loader_of_which_everything_is_skipped_ends_with_an_error() {
    let folder = folder();
    let dataset = crate::stream::records(folder.path(), "x", 100, 40);
    let path = folder.path().join("bad.tfrecord");
    write_tfrecords(&path, &[500; 40]).iter().for_each(|&start| flip(&path, start + 9));
    let damaged: Arc<dyn Dataset> = Arc::new(TfRecord::open(&[&path], Corrupt::Refuse).unwrap());
    let own = Setting { shuffle: Shuffle::None, world: World::new(1, 2).unwrap(), ..Setting::new(4) };
    for workers in [0, 2] {
        let cases = [
            ("the transform refuses all", Setting::new(4).builder(&dataset).map(keeping(|_| false)), 40),
            ("all are damaged", Setting::new(7).builder(&damaged), 40),
            ("all of this rank's", own.builder(&dataset).map(keeping(|index| index % 8 < 4)), 20),
        ];
        for (what, builder, samples) in cases {
            let (got, error) = first(what, builder.workers(workers), 1);
            let error = error.unwrap_or_else(|| panic!("{what}: a batch of {:?}", got[0].indices));
            let LoaderFault::AllSkipped { skipped, .. } = &error.fault else { panic!("{what}: {error}") };
            assert_eq!((*skipped, error.epoch, &error.sample), (samples, 0, &None), "{what}: {error}");
            let said = error.to_string();
            assert!(said.contains(&format!("all {samples} samples")) && said.contains("; "), "{what}: {said}");
        }
        let other = Setting { world: World::new(0, 2).unwrap(), ..own };
        let builder = other.builder(&dataset).workers(workers).map(keeping(|index| index % 8 < 4));
        assert!(matches!(first("the other rank", builder, 20), (got, None) if got.len() == 20));
    }
}

/// Row 122: every format here has shards that hold nothing or little.
#[test]
fn an_endless_loader_gives_epoch_after_epoch_of_every_format() {
    for (name, dataset) in &crate::formats::DATASETS.1 {
        let setting = Setting { epochs: 4, ..Setting::new(9) };
        let want = setting.expected(&**dataset).unwrap();
        let (got, error) = first(name, setting.builder(dataset), want.len());
        assert!(error.is_none(), "{name}: {error:?}");
        assert_same(&got, &want, name);
    }
}

/// Not the rest of one that was begun before, nor what lies between two batches of two epochs.
#[test]
fn an_endless_loader_goes_on_where_any_whole_epoch_gives_a_batch() {
    let folder = folder();
    let dataset = crate::stream::records(folder.path(), "x", 100, 40);
    let builder = || Setting::new(4).builder(&dataset).workers(2);
    let (got, error) = first("one of forty", builder().map(keeping(|index| index == 17)), 30);
    assert!(error.is_none(), "{error:?}");
    assert!(got.iter().zip(0..).all(|(batch, epoch)| batch.epoch == epoch && batch.indices == [17]));

    let ordered = Setting { shuffle: Shuffle::None, ..Setting::new(4) };
    let mut loader = ordered.builder(&dataset).build().unwrap();
    loader.blocking().take(5).for_each(|batch| drop(batch.unwrap()));
    let resumed = || ordered.builder(&dataset).resume(loader.state());
    let (got, error) = first("the first half", resumed().map(keeping(|index| index < 20)), 6);
    assert!(error.is_none(), "{error:?}");
    assert_eq!(got.iter().map(|batch| batch.epoch).collect::<Vec<_>>(), [1, 1, 1, 1, 1, 2]);
    let (got, error) = first("nothing", resumed().map(keeping(|_| false)), 1);
    assert!(matches!(error, Some(error) if got.is_empty() && error.epoch == 1));
}

/// Resumed behind any batch, also one that is smaller, the same samples are left out, and no others.
#[test]
fn a_loader_that_skips_is_resumed_at_the_same_sample() {
    let folder = folder();
    let path = folder.path().join("resumed.tfrecord");
    let lens = vec![500; 60];
    let starts = write_tfrecords(&path, &lens);
    let bad: BTreeSet<u64> = [3, 30, 31, 32, 33].into();
    bad.iter().for_each(|&index| flip(&path, starts[index as usize] + 9));
    let dataset: Arc<dyn Dataset> = Arc::new(TfRecord::open(&[&path], Corrupt::Refuse).unwrap());
    let setting = Setting { shuffle: Shuffle::None, epochs: 2, ..Setting::new(4) };
    let want = without(&setting.expected(&*dataset).unwrap(), &bad);
    for batches in 0..want.len() {
        let mut loader = setting.builder(&dataset).skip_corrupt(100).build().unwrap();
        loader.blocking().take(batches).for_each(|batch| drop(batch.unwrap()));
        let mut resumed = setting.builder(&dataset).skip_corrupt(100).resume(loader.state()).build().unwrap();
        drop(loader);
        let (got, error) = guarded("resumed", move || drained(&mut resumed));
        assert!(error.is_none(), "{error:?}");
        assert_same(&got, &want[batches..], "resumed");
    }
}

/// However far away the last epoch is.
#[test]
fn an_epoch_of_nothing_but_skipped_samples_is_an_error_unless_it_is_the_last() {
    let folder = folder();
    let dataset = crate::stream::records(folder.path(), "x", 100, 40);
    for (epochs, ends_with_error) in [(1, false), (2, true), (u64::MAX, true)] {
        let setting = Setting { epochs, ..Setting::new(4) };
        let builder = setting.builder(&dataset).map(keeping(|_| false)).skip_corrupt(u64::MAX);
        let mut loader = builder.build().unwrap();
        let (got, error) = guarded("all skipped", move || drained(&mut loader));
        assert!(got.is_empty());
        match error {
            None => assert!(!ends_with_error, "{epochs} epochs"),
            Some(error) => {
                assert!(ends_with_error && error.epoch == 0, "{epochs} epochs: {error}");
                assert!(matches!(error.fault, LoaderFault::AllSkipped { skipped: 40, .. }), "{error}");
            }
        }
    }
}

/// Records of which some are not located, by a dataset that is damaged there.
#[derive(Debug)]
struct Damaged {
    inner: Arc<dyn Dataset>,
    bad: BTreeSet<u64>,
}

impl Dataset for Damaged {
    fn len(&self) -> u64 {
        self.inner.len()
    }

    fn files(&self) -> &[DataFile] {
        self.inner.files()
    }

    fn locate(&self, index: u64, sample: &mut SampleSpec) -> Result<(), DatasetError> {
        if self.bad.contains(&index) {
            let path = self.files()[0].path();
            return Err(DatasetError::malformed(path, index * 100, "its entry is damaged", "get it again"));
        }
        self.inner.locate(index, sample)
    }

    fn fingerprint(&self) -> Fingerprint {
        self.inner.fingerprint()
    }
}

/// In batches of every size, padded rows and padded ranks as well, and whether the first sample is among them.
#[test]
fn samples_that_cannot_be_located_are_left_out_and_nothing_else_is() {
    let folder = folder();
    let inner = crate::stream::records(folder.path(), "x", 100, 40);
    for bad in [BTreeSet::from([0]), [7, 8, 9, 10, 39].into(), (5..40).collect()] {
        let dataset: Arc<dyn Dataset> = Arc::new(Damaged { inner: Arc::clone(&inner), bad: bad.clone() });
        for batch_size in [1, 4, 64] {
            for (rank, size) in [(0, 1), (2, 3)] {
                let world = World::new(rank, size).unwrap();
                let setting = Setting { world, remainder: Remainder::Pad, ..Setting::new(batch_size) };
                let want = setting.expected(&*inner).unwrap();
                let left = without(&want, &bad);
                for ragged in [Ragged::Packed, Ragged::Padded] {
                    let what = format!("{} bad, batches of {batch_size}, rank {rank} of {size}, {ragged:?}", bad.len());
                    let builder = || setting.builder(&dataset).ragged(ragged);
                    let mut loader = builder().skip_corrupt(u64::MAX).build().unwrap();
                    let (got, error) = drained(&mut loader);
                    assert!(error.is_none(), "{what}: {error:?}");
                    assert_same(&got, &left, &what);
                    assert_eq!(loader.stats().skipped, times(&want, &bad), "{what}");
                    // One fewer may be skipped than there are.
                    let limit = times(&want, &bad).saturating_sub(1);
                    let (_, error) = drained(&mut builder().skip_corrupt(limit).build().unwrap());
                    assert_eq!(error.is_some(), times(&want, &bad) > 0, "{what}");
                }
            }
        }
    }
}
