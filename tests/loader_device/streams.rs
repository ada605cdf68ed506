//! A batch's memory is made into another one only after its consumer's streams have passed, however soon it is dropped.
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use forebay::{Batch, Device, LoaderBuilder};

use crate::common::emulated::Emulated;
use crate::common::emulator::Control;
use crate::common::watchdog::guarded;
use crate::common::watchdog::{PATIENCE, eventually};
use crate::consumer::Consumer;
use crate::data::{self, Data};
use crate::rig::{Flip, Way, any_rows, builder, cuda, direct, settle, some_of};

fn emulated(script: &str) -> Emulated {
    Emulated::new(script).patience(Duration::from_secs(120))
}

/// Who says by which stream he works: the loader, when each batch is dropped, or he himself.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Said {
    ToTheLoader,
    OfEachBatch,
}

/// Takes batches, orders work on each that will be late, and drops it at once.
fn held_up(control: &Control, device: &Device, data: &Data, way: &Way, flips: bool, said: Said) {
    let what = format!("{}, {}, transformed: {flips}, {said:?}", data.name, way.name);
    control.script(way.script);
    data.cool();
    let mut consumer = Consumer::new(control, device, 24 << 20);
    let loader = builder(data).device(device).carrier(way.carrier.clone()).epochs(6).device_budget(1 << 20).prefetch(3);
    let loader = if said == Said::ToTheLoader { loader.consumer_stream(&consumer.stream) } else { loader };
    let set = |loader: LoaderBuilder| if flips { loader.map(Flip) } else { loader };
    let mut loader = set(loader).build().unwrap();
    let all = loader.batches_in_all().unwrap();
    let (give, batches) = mpsc::channel::<Batch>();
    let taking = thread::spawn(move || {
        for batch in loader.blocking() {
            if give.send(batch.unwrap()).is_err() {
                return;
            }
        }
    });
    let mut taken = 0;
    consumer.dam();
    loop {
        // The first ones may take their time; that all memory is used up shows by none that comes.
        let patience = if taken == 0 { PATIENCE } else { Duration::from_millis(300) };
        let Ok(batch) = batches.recv_timeout(patience) else { break };
        consumer.works_on(data, &batch, flips);
        if said == Said::OfEachBatch {
            batch.used_on(&consumer.stream).unwrap();
        }
        taken += 1;
    }
    assert!(taken > 0 && taken < all, "{what}: {taken} of {all} batches came while their memory was in use");
    consumer.open();
    while taken < all {
        let batch = batches.recv_timeout(PATIENCE).unwrap_or_else(|_| panic!("{what}: nothing comes"));
        consumer.is_late(500);
        consumer.works_on(data, &batch, flips);
        if said == Said::OfEachBatch {
            batch.used_on(&consumer.stream).unwrap();
        }
        taken += 1;
    }
    taking.join().unwrap();
    assert!(consumer.check(&what) as u64 > all, "{what}");
}

#[test]
fn memory_is_not_reused_before_the_consumers_stream_has_passed() {
    emulated("jitter_us=50; cufile_late_us=50").run(|control| {
        let (device, aligned) = (cuda(), data::aligned());
        for said in [Said::ToTheLoader, Said::OfEachBatch] {
            for (way, flips) in some_of(any_rows().iter().flat_map(|way| [(way, false), (way, true)]), 3) {
                held_up(control, &device, &aligned, way, flips, said);
            }
            direct().iter().for_each(|way| held_up(control, &device, &aligned, way, false, said));
            held_up(control, &device, &data::tar(), &any_rows()[0], false, said);
        }
        drop(device);
        settle(control);
    });
}

/// What a batch is used on counts though the loader is gone, and though the batch's window is shared with others.
#[test]
fn batches_and_their_work_may_outlive_the_loader() {
    emulated("").run(|control| {
        let data = data::aligned();
        let device = cuda();
        for way in some_of(any_rows().iter().chain(&direct()), 3) {
            control.script(way.script);
            let mut consumer = Consumer::new(control, &device, 8 << 20);
            let mut loader = builder(&data)
                .device(&device)
                .carrier(way.carrier.clone())
                .consumer_stream(&consumer.stream)
                .build()
                .unwrap();
            let batches: Vec<Batch> = loader.blocking().take(5).map(Result::unwrap).collect();
            consumer.dam();
            drop(loader);
            for batch in batches {
                crate::rig::check(&data, &batch, false, crate::rig::Look::Peek(control));
                consumer.works_on(&data, &batch, false);
                // The consumer's stream stands still.
                guarded(&way.name, move || drop(batch));
            }
            assert!(consumer.check(&way.name) >= 40);
        }
        drop(device);
        settle(control);
    });
}

/// A loader that has nothing to do with the stream's device says so when it is built, not when memory runs out.
#[test]
fn a_stream_of_another_device_is_refused() {
    emulated("devices=2").run(|control| {
        let data = data::odd();
        let other = Device::cuda(1).unwrap();
        let stream = other.context().unwrap().new_stream().unwrap();
        let error = builder(&data).consumer_stream(&stream).build().unwrap_err().to_string();
        assert!(error.contains("the stream is of another device") && error.lines().count() == 1, "{error}");
        drop((stream, other));
        settle(control);
    });
}

/// Events that cannot be had any more: the memory is never lent again, and whoever waits for it hears of that.
#[test]
fn memory_whose_use_cannot_be_followed_is_kept_and_its_waiters_hear() {
    emulated("").run(|control| {
        let data = data::aligned();
        let device = cuda();
        let mut consumer = Consumer::new(control, &device, 8 << 20);
        let loader = builder(&data).device(&device).epochs(20).device_budget(512 << 10);
        let mut loader = loader.consumer_stream(&consumer.stream).build().unwrap();
        let first = loader.blocking().next().unwrap().unwrap();
        consumer.dam();
        consumer.works_on(&data, &first, false);
        control.script("fail=cuEventCreate:2");
        drop(first);
        let (done, outcome) = mpsc::channel();
        thread::spawn(move || {
            let taken = loader.blocking().map(|batch| batch.map(drop)).collect::<Result<Vec<()>, _>>();
            let _ = done.send(taken.map(|taken| taken.len()).map_err(|error| error.to_string()));
        });
        let said = outcome.recv_timeout(PATIENCE).expect("a loader waits for memory that never comes").unwrap_err();
        assert!(said.contains("cuda:0"), "{said}");
        control.script("clear");
        consumer.check("kept");
        assert!(eventually(|| control.in_flight() == 0));
        control.assert_no_violations();
    });
}
