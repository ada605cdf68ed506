//! What a loader tells of itself adds up, and blames who is to blame.
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use forebay::loader::LoaderStats;
use forebay::loader::transform::Map;
use forebay::{Carrier, Loader, Reader, Route};

use crate::common::folder;
use crate::common::fuse::{Fuse, Kind};
use crate::common::reader::engines;
use crate::common::watchdog::{eventually, guarded};
use crate::drops::with_engine;
use crate::or_skip;
use crate::stream::{Setting, open_records, records};
use crate::transforms::copied;

/// All of a loader, and what it tells then.
fn finished(what: &str, mut loader: Loader) -> LoaderStats {
    guarded(what, move || {
        loader.blocking().for_each(|batch| drop(batch.unwrap()));
        loader.stats()
    })
}

#[test]
fn how_long_its_reads_took_is_told_where_it_is_asked_for() {
    let folder = folder();
    let dataset = records(folder.path(), "x", 3000, 500);
    for engine in engines() {
        let reader = Reader::builder().engine(engine).latencies(true);
        let mut loader = Setting::new(7).builder(&dataset).carrier(Carrier::builder().reader(reader)).build().unwrap();
        loader.blocking().for_each(|batch| drop(batch.unwrap()));
        let (latencies, reads) = (loader.latencies().unwrap(), loader.reader_stats());
        assert_eq!(latencies.reads(), reads.answers - reads.repeats, "{engine:?}");
        assert!(latencies.quantile(0.5) > Some(Duration::ZERO), "{engine:?}");
    }
}

#[test]
fn the_figures_add_up() {
    let folder = folder();
    let dataset = records(folder.path(), "x", 3000, 500);
    for engine in engines() {
        for (transformed, route) in
            [(false, None), (true, None), (false, Some(Route::Cached)), (true, Some(Route::Bounce))]
        {
            let what = format!("{engine:?}, transformed {transformed}, {route:?}");
            let setting = Setting { epochs: 2, ..Setting::new(7) };
            let carrier = route.map_or(with_engine(engine), |route| with_engine(engine).route(route));
            let builder = setting.builder(&dataset).carrier(carrier);
            let builder = if transformed { builder.map(copied(3000)) } else { builder };
            let began = Instant::now();
            let mut loader = builder.build().unwrap();
            let monitor = loader.monitor();
            let (mut batches, mut samples, mut bytes, mut carried) = (0, 0, 0, 0);
            for batch in loader.blocking() {
                let batch = batch.unwrap();
                batches += 1;
                samples += batch.len() as u64;
                bytes += batch.bytes();
                carried += batch.carried().total();
                assert_eq!(batch.bytes(), 3000 * batch.len() as u64, "{what}");
                assert_eq!(batch.carried().total(), batch.bytes(), "{what}");
                let stats = monitor.stats();
                assert_eq!((stats.batches, stats.samples, stats.bytes), (batches, samples, bytes), "{what}");
                assert!(stats.stalls.total() <= began.elapsed() && stats.stalls.total() <= stats.age, "{what}");
            }
            let stats = loader.stats();
            let wall = began.elapsed();
            assert_eq!((stats.batches, stats.samples, stats.bytes), (144, 1000, 3_000_000), "{what}");
            assert_eq!(stats.routes.total(), carried, "{what}");
            let reads = loader.reader_stats();
            assert_eq!((reads.bytes_direct + reads.bytes_buffered, reads.polled), (stats.bytes, 0), "{what}");
            assert!(loader.latencies().is_none(), "{what}");
            assert!(stats.stalls.total() <= wall && stats.age <= wall, "{what}: {stats:?}");
            match route {
                Some(Route::Cached) => assert_eq!(stats.routes.cached, stats.bytes, "{what}"),
                Some(Route::Bounce) => assert_eq!(stats.routes.bounce, stats.bytes, "{what}"),
                _ => {}
            }
            assert_eq!((stats.ready_batches, stats.ready_bytes, stats.skipped), (0, 0, 0), "{what}");
            assert_eq!((stats.stages.plan.batches, stats.stages.read.batches), (144, 144), "{what}");
            assert_eq!((stats.stages.read.bytes, stats.stages.plan.bytes), (stats.bytes, stats.bytes), "{what}");
            // The end was waited for, too, but not for ever.
            thread::sleep(Duration::from_millis(2));
            let mut told = monitor.stats();
            told.age = stats.age;
            assert_eq!(stats, told, "a monitor tells the same");
        }
    }
}

/// A batch that is made only when it is asked for would never be ready before.
#[test]
fn a_consumer_that_takes_its_time_finds_the_next_batch_ready() {
    let folder = folder();
    let dataset = records(folder.path(), "x", 1000, 15 * 4);
    let slow = Map::new([forebay::dataset::TensorSpec::new("x", forebay::dataset::DType::U8, [1])], |_, output| {
        thread::sleep(Duration::from_millis(5));
        output.bytes(0)[0] = 1;
        Ok(())
    });
    let mut loader = Setting::new(4).builder(&dataset).map(slow).build().unwrap();
    loader.blocking().take(5).for_each(|batch| drop(batch.unwrap()));
    let first = loader.stats().stalls.total();
    for number in 5..15 {
        assert!(eventually(|| loader.stats().ready_batches > 0), "batch {number}: {:?}", loader.stats());
        drop(loader.blocking().next().unwrap().unwrap());
    }
    assert_eq!(loader.stats().stalls.total(), first, "what is ready is not waited for");
}

/// Whoever gives up his wait, and comes back later, has not waited meanwhile.
#[test]
fn a_wait_that_was_given_up_is_no_stall() {
    let folder = folder();
    let dataset = records(folder.path(), "x", 3000, 400);
    let mut loader = Setting::new(8).builder(&dataset).prefetch(1).map(copied(3000)).build().unwrap();
    let (began, mut away) = (Instant::now(), Duration::ZERO);
    for _ in 0..5 {
        let mut context = std::task::Context::from_waker(std::task::Waker::noop());
        let mut next = Box::pin(loader.next());
        let _ = std::future::Future::poll(next.as_mut(), &mut context).map(|batch| drop(batch.unwrap().unwrap()));
        drop(next);
        let left = Instant::now();
        thread::sleep(Duration::from_millis(150));
        away += left.elapsed();
        drop(loader.blocking().next().unwrap().unwrap());
    }
    let stats = loader.stats();
    // However slow the machine is, most of what was waited for lies outside the time that nobody waited: a wait that was given
    // up ends when its batch is ready, if not before.
    assert!(stats.stalls.total() <= began.elapsed() - away / 2, "{stats:?}");
}

#[test]
fn slow_storage_is_what_is_waited_for() {
    let fuse = Arc::new(or_skip!(Fuse::mount(Kind::DirectIo)));
    let path = fuse.add("slow", 3, 64 << 12);
    let dataset = open_records(&[&path], 4096);
    let stop = Arc::new(AtomicBool::new(false));
    fuse.knobs.stall("slow");
    let slow = thread::spawn({
        let (fuse, stop) = (Arc::clone(&fuse), Arc::clone(&stop));
        move || {
            while !stop.load(Ordering::SeqCst) {
                thread::sleep(Duration::from_millis(20));
                fuse.knobs.release();
                fuse.knobs.stall("slow");
            }
            fuse.knobs.release();
        }
    });
    let stats = finished("slow storage", Setting::new(2).builder(&dataset).prefetch(1).build().unwrap());
    stop.store(true, Ordering::SeqCst);
    slow.join().unwrap();
    let stalls = stats.stalls;
    assert!(stalls.total() > Duration::from_millis(100), "{stats:?}");
    assert_eq!(largest(&stats), "storage", "{stats:?}");
}

#[test]
fn a_slow_transform_is_what_is_waited_for() {
    let folder = folder();
    let dataset = records(folder.path(), "x", 1000, 60);
    for workers in [0, 1, 2] {
        let slow = Map::new([forebay::dataset::TensorSpec::new("x", forebay::dataset::DType::U8, [1])], |_, output| {
            thread::sleep(Duration::from_millis(10));
            output.bytes(0)[0] = 1;
            Ok(())
        });
        let loader = Setting::new(4).builder(&dataset).workers(workers).map(slow).build().unwrap();
        let stats = finished("slow transform", loader);
        let stalls = stats.stalls;
        assert!(stalls.total() > Duration::from_millis(60), "{workers} workers: {stats:?}");
        assert_eq!(largest(&stats), "transform", "{workers} workers: {stats:?}");
    }
}

/// A batch held too long is the consumer's own doing.
#[test]
fn memory_that_the_consumer_holds_is_what_he_waits_for() {
    let folder = folder();
    let dataset = records(folder.path(), "x", 65_536, 64);
    let mut loader = Setting::new(4).builder(&dataset).budget(1 << 20).build().unwrap();
    let stats = guarded("consumer", move || {
        let (hold, held) = std::sync::mpsc::channel::<(forebay::Batch, Instant)>();
        let holder = thread::spawn(move || {
            for (batch, taken) in held {
                thread::sleep(Duration::from_millis(200).saturating_sub(taken.elapsed()));
                drop(batch);
            }
        });
        for batch in loader.blocking() {
            hold.send((batch.unwrap(), Instant::now())).unwrap();
        }
        drop(hold);
        holder.join().unwrap();
        loader.stats()
    });
    assert_eq!(largest(&stats), "consumer", "{stats:?}");
}

/// What was waited for longest: on a busy machine every cause takes its time, but the one that was made to.
fn largest(stats: &forebay::loader::LoaderStats) -> &'static str {
    stats.stalls.by_name().into_iter().max_by_key(|(_, time)| *time).map_or("nothing", |(name, _)| name)
}

/// A reader of the text format, version 0.0.4: every line, and what each series is.
fn parsed(text: &str) -> BTreeMap<String, f64> {
    let (mut helped, mut typed, mut series) = (BTreeSet::new(), BTreeMap::new(), BTreeMap::new());
    let is_name = |name: &str| {
        name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
            && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
    };
    assert!(text.ends_with('\n'));
    let mut family = String::new();
    for line in text.lines() {
        if let Some(rest) = line.strip_prefix("# HELP ") {
            let (name, help) = rest.split_once(' ').unwrap();
            assert!(is_name(name) && !help.is_empty() && helped.insert(name.to_owned()), "{line}");
        } else if let Some(rest) = line.strip_prefix("# TYPE ") {
            let (name, kind) = rest.split_once(' ').unwrap();
            assert!(helped.contains(name) && ["counter", "gauge"].contains(&kind), "{line}");
            assert_eq!(name.ends_with("_total"), kind == "counter", "{line}");
            assert!(typed.insert(name.to_owned(), kind).is_none(), "{line}");
            family = name.to_owned();
        } else {
            let (name, value) = line.rsplit_once(' ').unwrap();
            let (bare, labels) = name.split_once('{').unwrap_or((name, "}"));
            assert_eq!(bare, family, "a family's lines are together");
            for label in labels.strip_suffix('}').unwrap().split(',').filter(|label| !label.is_empty()) {
                let (key, value) = label.split_once('=').unwrap();
                let inner = value.strip_prefix('"').and_then(|value| value.strip_suffix('"')).unwrap();
                assert!(is_name(key) && !inner.contains(['"', '\n', '\\']), "{line}");
            }
            let value: f64 = value.parse().unwrap();
            assert!(value >= 0.0 && value.is_finite(), "{line}");
            assert!(series.insert(name.to_owned(), value).is_none(), "{line} comes twice");
        }
    }
    assert_eq!(typed.len(), helped.len());
    series
}

#[test]
fn the_text_for_prometheus_is_what_the_figures_are() {
    let folder = folder();
    let dataset = records(folder.path(), "x", 3000, 100);
    let carrier = Carrier::builder().route(Route::Cached);
    let mut loader = Setting::new(8).builder(&dataset).carrier(carrier).map(copied(3000)).build().unwrap();
    for batches in [0, 5, 8] {
        loader.blocking().take(batches).for_each(|batch| drop(batch.unwrap()));
        let stats = loader.stats();
        let (plain, labelled) = (parsed(&stats.prometheus("")), parsed(&stats.prometheus("rank=\"3\",host=\"a\"")));
        assert_eq!(plain.len(), labelled.len());
        let is = |name: &str, value: f64| assert_eq!(plain.get(name), Some(&value), "{name} in {plain:?}");
        is("forebay_batches_total", stats.batches as f64);
        is("forebay_samples_total", stats.samples as f64);
        is("forebay_bytes_total", stats.bytes as f64);
        is("forebay_route_bytes_total{route=\"cached\"}", stats.bytes as f64);
        is("forebay_ready_batches", stats.ready_batches as f64);
        is("forebay_stall_seconds_total{cause=\"storage\"}", stats.stalls.storage.as_secs_f64());
        is("forebay_stage_batches_total{stage=\"read\"}", stats.stages.read.batches as f64);
        assert_eq!(labelled["forebay_batches_total{rank=\"3\",host=\"a\"}"], stats.batches as f64);
        let causes: f64 = plain.iter().filter(|(name, _)| name.contains("stall_seconds")).map(|(_, value)| value).sum();
        assert!((causes - stats.stalls.total().as_secs_f64()).abs() < 1e-6);
    }
    assert_eq!(loader.stats().batches, 13);
}
