//! Memory of the device and pinned memory: little of it is enough, what cannot fit is refused, what is held is waited for.
use std::collections::VecDeque;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use forebay::{Batch, BuildError, CarryFault, DeviceFault, Error, Loader, LoaderFault, MemoryError, Route};

use crate::common::emulated::Emulated;
use crate::common::watchdog::PATIENCE;
use crate::data;
use crate::rig::{Flip, Look, any_rows, builder, check, direct, settle, some_of};

fn emulated(script: &str) -> Emulated {
    Emulated::new(script).patience(Duration::from_secs(120))
}

/// The batches of a loader, taken on a thread of its own, so that a hang is told.
struct Taken {
    batches: mpsc::Receiver<Result<Batch, String>>,
    wanted: mpsc::Sender<()>,
    thread: thread::JoinHandle<()>,
}

impl Taken {
    fn of(mut loader: Loader) -> Taken {
        let (wanted, asked) = mpsc::channel();
        let (give, batches) = mpsc::channel();
        let thread = thread::spawn(move || {
            while asked.recv().is_ok() {
                let Some(batch) = loader.blocking().next() else { return };
                let _ = give.send(batch.map_err(|error| error.to_string()));
            }
        });
        Taken { batches, wanted, thread }
    }

    fn ask(&self) {
        let _ = self.wanted.send(());
    }

    fn is_given(&self, within: Duration) -> Option<Batch> {
        match self.batches.recv_timeout(within) {
            Ok(batch) => Some(batch.unwrap()),
            Err(_) => None,
        }
    }

    /// None behind the last one.
    fn next(&self, what: &str) -> Option<Batch> {
        self.ask();
        match self.batches.recv_timeout(PATIENCE) {
            Ok(batch) => Some(batch.unwrap_or_else(|error| panic!("{what}: {error}"))),
            Err(mpsc::RecvTimeoutError::Disconnected) => None,
            Err(mpsc::RecvTimeoutError::Timeout) => panic!("{what}: nothing comes"),
        }
    }

    fn end(self) {
        drop((self.wanted, self.batches));
        self.thread.join().unwrap();
    }
}

/// The consumer holds two batches while it takes the next, and memory is for four.
#[test]
fn a_small_device_budget_is_enough_for_who_holds_two_batches() {
    emulated("jitter_us=100").run(|control| {
        for data in [data::large(), data::aligned(), data::tar()] {
            // In most of these the rows of a batch are about as many.
            let bytes: u64 = (0..data.dataset.len()).map(|index| data.bytes_of(index)).sum();
            let batch = (8 * bytes / data.dataset.len()).next_multiple_of(4096) * 2;
            for way in some_of(any_rows().iter().chain(direct().iter().filter(|_| data.name == "aligned")), 2) {
                for flips in [false, true].into_iter().filter(|flips| !(*flips && way.is_direct())) {
                    control.script(way.script);
                    data.cool();
                    let what = format!("{}, {}, transformed: {flips}", data.name, way.name);
                    let loader = builder(&data).carrier(way.carrier.clone()).device_budget(4 * batch);
                    let loader = if flips { loader.map(Flip).workers(4) } else { loader };
                    let taken = Taken::of(loader.build().unwrap());
                    let mut held = VecDeque::new();
                    while let Some(batch) = taken.next(&what) {
                        check(&data, &batch, flips, Look::Fetch);
                        held.push_back(batch);
                        if held.len() > 2 {
                            held.pop_front();
                        }
                        held.iter().for_each(|batch| check(&data, batch, flips, Look::Peek(control)));
                    }
                    taken.end();
                }
            }
        }
        settle(control);
    });
}

/// Pinned memory for one batch at a time, and what must be read beside it.
#[test]
fn a_small_pinned_budget_is_enough() {
    emulated("jitter_us=100").run(|control| {
        let data = data::large();
        for way in any_rows() {
            for flips in [false, true] {
                control.script(way.script);
                data.cool();
                let loader = builder(&data).batch_size(1).carrier(way.carrier.clone()).budget(1 << 20);
                let loader = if flips { loader.map(Flip) } else { loader };
                let taken = Taken::of(loader.build().unwrap());
                let mut held = VecDeque::new();
                let what = format!("{}, transformed: {flips}", way.name);
                while let Some(batch) = taken.next(&what) {
                    // Which takes some pinned memory of its own.
                    check(&data, &batch, flips, Look::Fetch);
                    held.push_back(batch);
                    if held.len() > 20 {
                        held.pop_front();
                    }
                }
                taken.end();
            }
        }
        settle(control);
    });
}

/// More than the pinned memory is passed through it.
#[test]
fn batches_may_be_larger_than_the_pinned_budget() {
    emulated("").run(|control| {
        let data = data::large();
        for way in any_rows() {
            control.script(way.script);
            let mut loader = builder(&data).carrier(way.carrier).budget(1 << 20).build().unwrap();
            for batch in loader.blocking() {
                check(&data, &batch.unwrap(), false, Look::Fetch);
            }
        }
        settle(control);
    });
}

/// It may hold as many as fit, whatever it looks at meanwhile: then the next one comes when one is dropped.
#[test]
fn memory_that_the_consumer_holds_is_waited_for() {
    emulated("").run(|control| {
        let data = data::large();
        for (way, flips) in some_of(any_rows().iter().flat_map(|way| [(way, false), (way, true)]), 3) {
            control.script(way.script);
            data.cool();
            let what = format!("{}, transformed: {flips}", way.name);
            let row = 300_001_u64.next_multiple_of(4096) + 4096;
            let loader =
                builder(&data).batch_size(1).carrier(way.carrier.clone()).device_budget(5 * row).budget(4 << 20);
            let loader = if flips { loader.map(Flip) } else { loader };
            let taken = Taken::of(loader.build().unwrap());
            let mut held = VecDeque::new();
            taken.ask();
            // The first ones may take their time.
            let patience = |held: usize| if held < 4 { PATIENCE } else { Duration::from_millis(400) };
            while let Some(batch) = taken.is_given(patience(held.len())) {
                held.push_back(batch);
                taken.ask();
            }
            assert!((4..=5).contains(&held.len()), "{what}: {} batches are held", held.len());
            for batch in &held {
                check(&data, batch, flips, Look::Fetch);
            }
            held.pop_front();
            let batch = taken.is_given(PATIENCE).unwrap_or_else(|| panic!("{what}: nothing comes"));
            check(&data, &batch, flips, Look::Fetch);
            drop((batch, held));
            while let Some(batch) = taken.next(&what) {
                check(&data, &batch, flips, Look::Fetch);
            }
            taken.end();
        }
        settle(control);
    });
}

/// Row 125: however many batches are ahead, and whatever turns small and large ones take.
#[test]
fn pinned_memory_does_not_grow_with_what_is_prefetched() {
    emulated("").run(|control| {
        let data = data::turns();
        let pinned = || -> u64 {
            let bytes = |leak: &String| {
                leak.split_once(" bytes of host memory").map(|(bytes, _)| bytes.parse::<u64>().unwrap())
            };
            control.leaks().iter().filter_map(bytes).sum()
        };
        for (way, flips) in some_of(any_rows().iter().flat_map(|way| [(way, false), (way, true)]), 3) {
            control.script(way.script);
            data.cool();
            let what = format!("{}, transformed: {flips}", way.name);
            let loader = builder(&data).batch_size(1).prefetch(64).budget(8 << 20).device_budget(16 << 20).endless();
            let loader = loader.carrier(way.carrier.clone());
            let loader = if flips { loader.map(Flip) } else { loader };
            let loader = loader.build().unwrap();
            let built = pinned();
            assert!((1..=(8 << 20) + 4096).contains(&built), "{what}: {built} bytes are pinned");
            let taken = Taken::of(loader);
            let mut held = None;
            for _ in 0..100 {
                let batch = taken.next(&what).unwrap();
                check(&data, &batch, flips, Look::Fetch);
                held = Some(batch);
            }
            let warm = pinned();
            control.reset_calls();
            for _ in 0..500 {
                held.replace(taken.next(&what).unwrap());
            }
            assert_eq!(pinned(), warm, "{what}");
            for call in
                ["cuMemHostRegister_v2", "cuMemHostAlloc", "cuMemAllocHost_v2", "cuMemAlloc_v2", "cuMemAllocAsync"]
            {
                assert_eq!(control.calls(call), 0, "{what}: {call}");
            }
            drop(held);
            taken.end();
        }
        settle(control);
    });
}

#[test]
fn device_memory_that_is_not_there_is_refused_when_it_is_built() {
    emulated("memory=64MiB").run(|control| {
        let data = data::odd();
        let error = builder(&data).device_budget(1 << 30).build().unwrap_err();
        let said = error.to_string();
        let Error::Build(BuildError::Device(error)) = error else { panic!("{said}") };
        let DeviceFault::OutOfMemory { asked, free, total } = error.fault else { panic!("{said}") };
        assert_eq!((asked, free, total), (1 << 30, 64 << 20, 64 << 20));
        assert!(said.contains("1 GiB") && said.contains("64 MiB") && said.contains("cuda:0: "), "{said}");
        settle(control);
        let mut loader = builder(&data).build().unwrap();
        assert!(loader.blocking().all(|batch| batch.is_ok()));
    });
}

/// With the numbers, and before anything of it is read.
#[test]
fn a_batch_that_cannot_fit_the_device_is_refused_before_it_is_read() {
    emulated("").run(|control| {
        let data = data::large();
        for (way, flips) in any_rows().iter().flat_map(|way| [(way, false), (way, true)]) {
            control.script(way.script);
            let loader = builder(&data).carrier(way.carrier.clone()).batch_size(5).device_budget(1 << 20);
            let loader = if flips { loader.map(Flip) } else { loader };
            let mut loader = loader.build().unwrap();
            control.reset_calls();
            let error = loader.blocking().next().unwrap().unwrap_err();
            let said = error.to_string();
            let LoaderFault::Carry(carry) = &error.fault else { panic!("{}: {said}", way.name) };
            let CarryFault::Memory(MemoryError::OverDeviceBudget { asked, budget }) = carry.fault else {
                panic!("{}, transformed: {flips}: {said}", way.name)
            };
            assert!((5 * 300_001..5 * 304_097 + 4096).contains(&asked) && budget == 1 << 20, "{said}");
            assert!(said.contains("1 MiB") && said.contains("batch 0 of epoch 0"), "{said}");
            assert_eq!((error.batch, error.epoch, said.lines().count()), (0, 0, 1));
            for call in ["cuMemcpyHtoDAsync_v2", "cuMemcpyBatchAsync"] {
                assert_eq!(control.calls(call), 0, "{}: {call}", way.name);
            }
            assert_eq!(loader.stats().routes.total(), 0);
            assert!(loader.blocking().next().is_none(), "nothing comes after an error");
        }
        settle(control);
    });
}

/// What the processor works on must fit pinned memory, too: its rows, and what they are made from.
#[test]
fn a_batch_that_cannot_fit_pinned_memory_on_its_way_is_refused() {
    emulated("").run(|control| {
        let data = data::large();
        let mut loader = builder(&data).map(Flip).batch_size(8).budget(4 << 20).build().unwrap();
        let error = loader.blocking().next().unwrap().unwrap_err();
        let said = error.to_string();
        let LoaderFault::Carry(carry) = &error.fault else { panic!("{said}") };
        let CarryFault::Memory(MemoryError::OverBudget { asked, budget }) = carry.fault else { panic!("{said}") };
        assert!(asked > 16 * 300_001 && budget == 4 << 20, "{said}");
        assert!(said.contains("4 MiB"), "{said}");
        drop(loader);
        settle(control);
    });
}

/// cuFile puts bytes nowhere but on the device, where the processor cannot work on them.
#[test]
fn cufile_alone_and_a_transform_are_refused_together() {
    emulated("").run(|control| {
        let data = data::aligned();
        for way in direct() {
            control.script(way.script);
            let mut loader = builder(&data).carrier(way.carrier).map(Flip).build().unwrap();
            let said = loader.blocking().next().unwrap().unwrap_err().to_string();
            assert!(said.contains("direct") && said.contains("host") && said.contains(';'), "{said}");
            assert!(loader.blocking().next().is_none());
        }
        let data = data::odd();
        let mut loader = builder(&data).carrier(crate::rig::carrier().route(Route::Direct)).build().unwrap();
        let said = loader.blocking().next().unwrap().unwrap_err().to_string();
        assert!(said.contains("4096") && said.contains("direct") && said.contains("sample "), "{said}");
        drop(loader);
        settle(control);
    });
}
