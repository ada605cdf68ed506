//! What fails in the middle: the batches before it come, then one error that says what and where, and nothing hangs.
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use forebay::{CarryFault, Device, Loader, LoaderError, LoaderFault, Route};

use crate::common::emulated::Emulated;
use crate::common::emulator::Control;
use crate::common::privilege::Reduced;
use crate::common::watchdog::{PATIENCE, eventually};
use crate::data::{self, Data};
use crate::rig::{Flip, Look, Way, any_rows, builder, check, cuda, direct, facts, settle};

fn emulated(script: &str) -> Emulated {
    Emulated::new(script).patience(Duration::from_secs(120))
}

/// How a loader ended: the batches that it gave, and its error, where there was one. A hang is a failure.
fn outcome(control: &Control, data: &Data, mut loader: Loader, flips: bool, what: &str) -> (u64, Option<LoaderError>) {
    let (give, items) = mpsc::channel();
    let taking = thread::spawn(move || {
        while let Some(batch) = loader.blocking().next() {
            if give.send(batch).is_err() {
                break;
            }
        }
        assert!(loader.blocking().next().is_none(), "something comes behind the end");
        drop(loader);
    });
    let (mut batches, mut error) = (0, None);
    loop {
        match items.recv_timeout(PATIENCE) {
            Ok(Ok(batch)) => {
                assert!(error.is_none(), "{what}: a batch behind an error");
                assert_eq!(batch.number(), batches, "{what}: batches come in their order");
                check(data, &batch, flips, Look::Peek(control));
                batches += 1;
            }
            Ok(Err(one)) => assert!(error.replace(one).is_none(), "{what}: two errors"),
            Err(mpsc::RecvTimeoutError::Timeout) => panic!("{what}: nothing comes"),
            Err(mpsc::RecvTimeoutError::Disconnected) => break,
        }
    }
    taking.join().unwrap_or_else(|_| panic!("{what}"));
    if let Some(error) = &error {
        assert_eq!(error.to_string().lines().count(), 1, "{what}: {error}");
        assert!(error.batch >= batches && error.epoch == 0, "{what}: {error} behind {batches} batches");
    }
    (batches, error)
}

fn loader(data: &Data, way: &Way, flips: bool) -> Loader {
    data.cool();
    let loader = builder(data).carrier(way.carrier.clone()).device_budget(1 << 20).budget(2 << 20);
    if flips { loader.map(Flip) } else { loader }.build().unwrap()
}

/// Every way that this kind of data can come.
fn ways(data: &Data) -> Vec<(Way, bool)> {
    let direct = direct().into_iter().filter(|_| data.name == "aligned").map(|way| (way, false));
    let copied = any_rows().into_iter().zip(any_rows());
    copied.flat_map(|(a, b)| [(a, false), (b, true)]).chain(direct).collect()
}

/// Calls that fail once, at their first, second… time.
#[test]
fn a_call_of_the_driver_that_fails_ends_it_with_an_error_or_not_at_all() {
    emulated("jitter_us=50").run(|control| {
        let data = data::aligned();
        let mut errors = 0;
        for (way, flips) in ways(&data) {
            control.script(way.script);
            for call in ["cuMemcpyHtoDAsync_v2", "cuMemcpyBatchAsync_v2", "cuEventRecord", "cuEventQuery"] {
                for nth in [1, 2, 4] {
                    let what = format!("{}, transformed: {flips}, {call}, the {nth}th time", way.name);
                    let loader = loader(&data, &way, flips);
                    control.script(&format!("fail={call}@{nth}:700"));
                    let (batches, error) = outcome(control, &data, loader, flips, &what);
                    control.script("clear");
                    match error {
                        None => assert_eq!(batches, 12, "{what}: the end comes too soon"),
                        Some(error) => {
                            let said = error.to_string();
                            assert!(said.contains(" at ") && said.contains("(700)"), "{said}");
                            errors += 1;
                        }
                    }
                    control.assert_no_violations();
                }
            }
        }
        assert!(errors > 20, "{errors} calls failed");
        // The device itself is well: the next loader works.
        let (way, flips) = &ways(&data)[0];
        assert_eq!(outcome(control, &data, loader(&data, way, *flips), *flips, "afterwards").0, 12);
        control.assert_no_violations();
        eprintln!("{errors} errors");
    });
}

/// The device fails for good while copies are in flight.
fn lost(control: &Control, fault: &str) {
    let data = data::aligned();
    let (way, flips) = &ways(&data)[std::env::var("FOREBAY_WAY").map_or(0, |n| n.parse().unwrap())];
    let loader = builder(&data).carrier(way.carrier.clone()).device_budget(1 << 20).endless();
    let mut loader = if *flips { loader.map(Flip) } else { loader }.build().unwrap();
    let first = loader.blocking().next().unwrap().unwrap();
    control.script(fault);
    let what = format!("{}, transformed: {flips}", way.name);
    let (give, error) = mpsc::channel();
    thread::spawn(move || {
        let taken = loader.blocking().map(|batch| batch.map(drop)).collect::<Result<Vec<()>, _>>();
        drop(loader);
        let _ = give.send(taken);
    });
    let taken = error.recv_timeout(PATIENCE).unwrap_or_else(|_| panic!("{what}: nothing comes"));
    let error = taken.expect_err(&what);
    let LoaderFault::Carry(carry) = &error.fault else { panic!("{what}: {error}") };
    assert!(matches!(carry.fault, CarryFault::Device(_)), "{what}: {error}");
    assert!(error.to_string().contains("cuda:0") && !carry.path.as_os_str().is_empty(), "{what}: {error}");
    // Nor is a look at what came before waited for in vain.
    let (give, seen) = mpsc::channel();
    thread::spawn(move || {
        let _ = give.send(first.tensors().next().unwrap().to_host().map(drop));
        drop(first);
        let _ = give.send(Ok(()));
    });
    for _ in 0..2 {
        let _ = seen.recv_timeout(PATIENCE).unwrap_or_else(|_| panic!("{what}: a look at a batch hears nothing"));
    }
    control.script("clear");
    control.assert_no_violations();
}

macro_rules! lost {
    ($($name:ident: $way:literal;)*) => {$(
        #[test]
        fn $name() {
            emulated("jitter_us=50").env("FOREBAY_WAY", $way).run(|control| lost(control, "fail=execute@3:719"));
        }
    )*};
}

lost! {
    a_device_that_is_lost_ends_it_bounce: "0";
    a_device_that_is_lost_ends_it_bounce_transformed: "1";
    a_device_that_is_lost_ends_it_cached_transformed: "3";
}

#[test]
fn events_that_fail_for_good_end_it() {
    emulated("jitter_us=50").env("FOREBAY_WAY", "1").run(|control| {
        lost(control, "fail=cuEventQuery@2+:719; fail=cuStreamSynchronize:719");
    });
}

/// Left to choose, it reads sample by sample what cuFile has failed to read.
#[test]
fn what_cufile_fails_to_read_comes_by_another_route() {
    emulated("jitter_us=50").run(|control| {
        let data = data::aligned();
        for way in any_rows().iter().filter(|way| way.name.starts_with("auto/")) {
            let call = entry(way);
            for fault in [format!("fail={call}@9:5030"), format!("fail={call}@9+:5030")] {
                let what = format!("{}, {fault}", way.name);
                let mut loader = loader(&data, way, false);
                let monitor = loader.monitor();
                let first = loader.blocking().next().unwrap().unwrap();
                drop(first);
                drop(loader);
                let loader = self::loader(&data, way, false);
                let again = loader.monitor();
                control.script(&fault);
                let (batches, error) = outcome(control, &data, loader, false, &what);
                control.script("clear");
                assert!(error.is_none(), "{what}: {}", error.unwrap());
                assert_eq!(batches, 12, "{what}");
                let (before, routes) = (monitor.stats().routes, again.stats().routes);
                assert!(before.direct > 0, "{what}: {before}");
                assert_eq!(routes.total(), 90 * 8192, "{what}: {routes}");
                assert!(routes.direct < routes.total(), "{what}: nothing has failed: {routes}");
            }
        }
        settle(control);
    });
}

fn entry(way: &Way) -> &'static str {
    match way.name.split('/').next_back().unwrap() {
        "Batch" => "batch_entry",
        "Stream" => "async_entry",
        _ => "cuFileRead",
    }
}

/// With nothing else allowed it says which sample, which file, and where.
#[test]
fn what_cufile_alone_fails_to_read_is_told_by_sample_path_and_offset() {
    emulated("jitter_us=50").run(|control| {
        let data = data::aligned();
        for way in direct().iter() {
            control.script(way.script);
            let call = entry(way);
            for nth in [6, 20] {
                let what = format!("{}, the {nth}th of {call}", way.name);
                let loader = loader(&data, way, false);
                control.script(&format!("fail={call}@{nth}:5030"));
                let (batches, error) = outcome(control, &data, loader, false, &what);
                control.script("clear");
                let error = error.unwrap_or_else(|| panic!("{what}: {batches} batches and no error"));
                let LoaderFault::Carry(carry) = &error.fault else { panic!("{what}: {error}") };
                assert!(matches!(carry.fault, CarryFault::Direct(_)), "{what}: {error}");
                let sample: u64 = error.sample.as_ref().expect(&what).parse().unwrap();
                let range = data.dataset.sample(sample).unwrap().ranges()[0];
                assert_eq!(data.paths()[range.file as usize], carry.path, "{what}: {error}");
                assert!((range.offset..range.offset + range.len).contains(&carry.offset), "{what}: {error}");
                let said = error.to_string();
                assert!(said.contains("sample ") && said.contains("cuFile"), "{what}: {said}");
            }
        }
        settle(control);
    });
}

/// It reads on: short is not done.
#[test]
fn short_reads_of_cufile_are_read_on() {
    emulated("jitter_us=50").run(|control| {
        let data = data::aligned();
        for way in direct().iter().take(3) {
            let call = entry(way);
            let loader = loader(&data, way, false);
            control.script(&format!("short={call}@5:4096; short={call}@11:4096"));
            let (batches, error) = outcome(control, &data, loader, false, &way.name);
            control.script("clear");
            assert!(error.is_none() && batches == 12, "{}: {batches} batches, {error:?}", way.name);
        }
        settle(control);
    });
}

/// It is cut while it is read.
#[test]
fn a_file_that_is_cut_is_told_by_its_path() {
    emulated("").run(|control| {
        for route in [Some(Route::Bounce), Some(Route::Cached), Some(Route::Direct), None] {
            let mut data = data::aligned();
            let carrier = route.map_or(crate::rig::carrier(), |route| crate::rig::carrier().route(route));
            for flips in [false, true].into_iter().filter(|flips| !(*flips && route == Some(Route::Direct))) {
                let what = format!("{route:?}, transformed: {flips}");
                let loader = builder(&data).carrier(carrier.clone()).epochs(1000).prefetch(4);
                let mut loader = if flips { loader.map(Flip) } else { loader }.build().unwrap();
                drop(loader.blocking().next().unwrap().unwrap());
                let path = data.paths()[1];
                std::fs::File::options().write(true).open(path).unwrap().set_len(50_000).unwrap();
                let (give, error) = mpsc::channel();
                thread::spawn(move || {
                    let _ = give.send(loader.blocking().find_map(Result::err));
                });
                let error = error.recv_timeout(PATIENCE).unwrap_or_else(|_| panic!("{what}: nothing comes"));
                let said = error.unwrap_or_else(|| panic!("{what}: no error")).to_string();
                assert!(said.starts_with(&path.display().to_string()) && said.contains(" at "), "{what}: {said}");
                // The next finds files as they were written.
                data = data::aligned();
            }
        }
        settle(control);
        assert!(eventually(|| control.in_flight() == 0));
    });
}

/// More files than may be open at once are read in waves, of which a later one may be refused.
#[test]
fn files_that_cufile_refuses_in_the_middle_of_a_batch_come_by_another_route() {
    emulated("").reduced(Reduced::new().open_files(48)).run(|control| {
        let data = data::many_files(60);
        let (way, _) = ways(&data).into_iter().find(|(way, _)| way.name == "auto/Pool").unwrap();
        let mut refused = 0;
        // Each is registered when it is opened, and again when it is read, since it was closed for others meanwhile.
        for nth in [61, 62, 70, 80, 100, 120] {
            data.cool();
            control.reset_calls();
            control.script(&format!("fail=cuFileHandleRegister@{nth}:5030"));
            let loader = builder(&data).carrier(way.carrier.clone()).batch_size(60).budget(4 << 20);
            let (batches, error) = outcome(control, &data, loader.build().unwrap(), false, &format!("the {nth}th"));
            assert!(batches == 1 && error.is_none(), "{nth}: {batches} batches, {error:?}");
            refused += u64::from(control.calls("cuFileHandleRegister") >= nth);
            control.script("clear");
        }
        assert!(refused > 2, "{refused} files were refused");
        settle(control);
    });
}

/// A sample that does not match its checksum is left out on the device as on the host.
#[test]
fn corrupt_samples_are_skipped_as_on_the_host() {
    emulated("jitter_us=50").run(|control| {
        let data = data::tfrecord_with_corrupt_ones(&[7, 8, 41]);
        for way in any_rows() {
            control.script(way.script);
            for flips in [false, true] {
                let set = |device: &Device| {
                    let loader =
                        builder(&data).device(device).carrier(way.carrier.clone()).skip_corrupt(3).batch_size(5);
                    if flips { loader.map(Flip) } else { loader }.build().unwrap()
                };
                let (mut loader, mut host) = (set(&cuda()), set(&Device::host()));
                let mut samples = 0;
                for (batch, same) in loader.blocking().zip(host.blocking()) {
                    let (batch, same) = (batch.unwrap(), same.unwrap());
                    check(&data, &batch, flips, Look::Fetch);
                    assert_eq!(facts(&batch), facts(&same), "{}", way.name);
                    samples += batch.len();
                }
                assert_eq!((samples, loader.stats().skipped, host.stats().skipped), (77, 3, 3), "{}", way.name);
            }
            let loader = builder(&data).carrier(way.carrier.clone()).skip_corrupt(1).build().unwrap();
            let error = outcome(control, &data, loader, false, &way.name).1.unwrap();
            assert!(matches!(error.fault, LoaderFault::TooManySkipped { limit: 1, .. }), "{error}");
        }
        settle(control);
    });
}
