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

/// Streams that cannot be followed: the memory is never lent again, and whoever waits for what can never come hears of that.
#[test]
fn memory_whose_use_cannot_be_followed_is_kept_and_its_waiters_hear() {
    emulated("").run(|control| {
        let (device, data) = (cuda(), data::aligned());
        let consumer = Consumer::new(control, &device, 8 << 20);
        let loader = builder(&data).device(&device).epochs(20).device_budget(512 << 10);
        let mut loader = loader.consumer_stream(&consumer.stream).build().unwrap();
        let capture = Captured::begin(control, &consumer);
        let (done, outcome) = mpsc::channel();
        thread::spawn(move || {
            let taken = loader.blocking().map(|batch| batch.map(drop)).collect::<Result<Vec<()>, _>>();
            let _ = done.send(taken.map(|taken| taken.len()).map_err(|error| error.to_string()));
        });
        let said = outcome.recv_timeout(PATIENCE).expect("a loader waits for memory that never comes").unwrap_err();
        assert!(said.contains("cuda:0"), "{said}");
        assert_eq!(capture.end(), 0);
        assert!(eventually(|| control.in_flight() == 0));
        control.assert_no_violations();
    });
}

/// CUDA graphs are how training loops run: their stream is captured once, and launched for every step.
struct Captured<'a> {
    control: &'a Control,
    stream: usize,
}

impl<'a> Captured<'a> {
    const GLOBAL: u32 = 0;

    fn begin(control: &'a Control, consumer: &Consumer<'_>) -> Self {
        let stream = consumer.stream.cu_stream() as usize;
        let begin = control.function::<extern "C" fn(usize, u32) -> i32>("cuStreamBeginCapture_v2");
        consumer.stream.context().bind_to_thread().unwrap();
        assert_eq!(begin(stream, Self::GLOBAL), 0);
        Self { control, stream }
    }

    /// What the driver says in the end: 0, unless a call invalidated the capture meanwhile.
    fn end(self) -> i32 {
        let mut graph = 0;
        self.control.function::<extern "C" fn(usize, *mut usize) -> i32>("cuStreamEndCapture")(self.stream, &mut graph)
    }
}

/// A batch that is used or dropped meanwhile costs its memory, and neither the capture nor the device.
#[test]
fn a_capture_of_the_consumers_stream_costs_one_batch_and_not_the_device() {
    emulated("").run(|control| {
        let (device, data) = (cuda(), data::aligned());
        let mut ways = any_rows();
        ways.extend(direct());
        for way in &ways {
            control.script(way.script);
            let consumer = Consumer::new(control, &device, 8 << 20);
            let loader = builder(&data).device(&device).carrier(way.carrier.clone()).epochs(4).device_budget(8 << 20);
            let mut loader = loader.consumer_stream(&consumer.stream).build().unwrap();
            let all = loader.batches_in_all().unwrap();
            let [kept, dropped] = [(); 2].map(|()| loader.blocking().next().unwrap().unwrap());
            let capture = Captured::begin(control, &consumer);
            let error = kept.used_on(&consumer.stream).unwrap_err();
            assert_eq!(error.fault, forebay::DeviceFault::Capturing, "{}", way.name);
            drop(dropped);
            // Others go on meanwhile, on threads of the consumer's and of the loader's.
            let more = loader.blocking().take(3).map(|batch| batch.unwrap()).collect::<Vec<_>>();
            drop(device.allocate(1 << 20).unwrap());
            assert_eq!(capture.end(), 0, "{}: the capture was invalidated", way.name);
            drop((kept, more));
            let rest = loader
                .blocking()
                .map(|batch| crate::rig::check(&data, &batch.unwrap(), false, crate::rig::Look::Peek(control)));
            assert_eq!(rest.count() as u64, all - 5, "{}", way.name);
            control.assert_no_violations();
        }
    });
}

/// While a batch's stream has not passed, it is asked for seldom: each query takes a lock of the driver's, beside the training thread's
/// launches.
#[test]
fn a_stream_that_is_late_is_asked_for_seldom_and_events_are_used_again() {
    emulated("").run(|control| {
        let (device, data) = (cuda(), data::aligned());
        let mut consumer = Consumer::new(control, &device, 24 << 20);
        let loader = builder(&data).device(&device).epochs(8).consumer_stream(&consumer.stream);
        // A window of its own for each batch, whose memory comes back with it.
        let mut loader = loader.device_budget(4 << 20).prefetch(1).build().unwrap();
        loader.blocking().take(8).for_each(|batch| drop(batch.unwrap()));
        settle_copies(control);
        let batch = loader.blocking().next().unwrap().unwrap();
        consumer.dam();
        consumer.works_on(&data, &batch, false);
        control.reset_calls();
        drop(batch);
        thread::sleep(Duration::from_millis(1000));
        let queries = control.calls("cuEventQuery");
        assert!((1..=400).contains(&queries), "{queries} queries in a second");
        consumer.open();
        let mut taken = 0;
        for batch in loader.blocking() {
            consumer.works_on(&data, &batch.unwrap(), false);
            taken += 1;
        }
        let created = control.calls("cuEventCreate");
        assert!(taken > 40 && created < taken / 2, "{created} events were created for {taken} batches");
        consumer.check("late");
        drop((loader, consumer, device));
        settle(control);
    });
}

fn settle_copies(control: &Control) {
    assert!(eventually(|| control.in_flight() == 0));
}
