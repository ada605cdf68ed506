//! A device that never answers, and a cuFile that does not: drops and stops come through, and a deadline says what stalls.
use std::future::Future;
use std::iter::successors;
use std::pin::pin;
use std::sync::mpsc;
use std::task::{Context, Waker};
use std::thread;
use std::time::Duration;

use forebay::loader::Stage;
use forebay::{Loader, LoaderBuilder, LoaderFault};

use crate::common::emulated::Emulated;
use crate::common::emulator::Control;
use crate::common::watchdog::{CHILD_PATIENCE, PATIENCE, eventually, guarded};
use crate::data::{self, Data};
use crate::rig::{Flip, Way, any_rows, builder, direct, settle, some_of};

fn emulated(script: &str) -> Emulated {
    Emulated::new(script).patience(Duration::from_secs(120))
}

fn ways() -> Vec<(Way, bool)> {
    let copied = any_rows().into_iter().zip(any_rows());
    copied.flat_map(|(a, b)| [(a, false), (b, true)]).chain(direct().into_iter().map(|way| (way, false))).collect()
}

/// From the `nth` read on cuFile takes two and a half seconds for each, and the device begins nothing.
fn stall(control: &Control, nth: u64) {
    control.script("paused=1");
    for entry in ["cuFileRead", "batch_entry", "async_entry"] {
        control.script(&format!("stall={entry}@{nth}+:2500"));
    }
}

/// Waits until what was held up is over: cuFile's threads serve all who read.
fn go_on(control: &Control, what: &str) {
    control.script("paused=0; clear");
    assert!(eventually(|| control.leaks().is_empty()), "{what}: left: {:#?}", control.leaks());
}

fn set(data: &Data, way: &Way, flips: bool) -> LoaderBuilder {
    data.cool();
    let loader = builder(data).carrier(way.carrier.clone());
    if flips { loader.map(Flip) } else { loader }
}

#[test]
fn a_loader_whose_device_never_answers_is_dropped() {
    emulated("").run(|control| {
        let data = data::aligned();
        for (way, flips) in some_of(ways(), 3) {
            // While files are being tried, and while batches are being read.
            for nth in [1, 4] {
                control.script(way.script);
                let what = format!("{}, transformed: {flips}, {nth}", way.name);
                stall(control, nth);
                let mut loader = set(&data, &way, flips).build().unwrap();
                {
                    let mut next = pin!(loader.next());
                    let _ = next.as_mut().poll(&mut Context::from_waker(Waker::noop()));
                    thread::sleep(Duration::from_millis(60));
                }
                // The device goes on behind the drop only.
                guarded(&what, move || drop(loader));
                go_on(control, &what);
            }
        }
        settle(control);
    });
}

#[test]
fn a_deadline_says_what_is_waited_for() {
    emulated("").run(|control| {
        let data = data::aligned();
        for (way, flips) in some_of(ways(), 3) {
            control.script(way.script);
            let what = format!("{}, transformed: {flips}", way.name);
            let deadline = Duration::from_millis(1500);
            let mut loader = set(&data, &way, flips).deadline(deadline).endless().build().unwrap();
            // Files are tried by then.
            drop(loader.blocking().next().unwrap().unwrap_or_else(|error| panic!("{what}: {error}")));
            stall(control, 1);
            let (give, outcome) = mpsc::channel();
            thread::spawn(move || {
                let error = loader.blocking().find_map(Result::err);
                let over = loader.blocking().next().is_none();
                drop(loader);
                let _ = give.send((error, over));
            });
            let got = outcome.recv_timeout(PATIENCE).unwrap_or_else(|_| panic!("{what}: no deadline"));
            go_on(control, &what);
            let (Some(error), true) = got else { panic!("{what}: {got:?}") };
            let LoaderFault::Stalled { stage, path, offset, age } = &error.fault else { panic!("{what}: {error}") };
            // cuFile's reads have no part for the processor; copies of what it has worked on are a stage of their own.
            let right = if flips { Stage::Copy } else { Stage::Read };
            assert_eq!(*stage, right, "{what}: {error}");
            let path = path.as_ref().expect(&what);
            assert!(data.paths().contains(&path.as_path()) && offset.is_some(), "{what}: {error}");
            assert!(*age >= deadline, "{what}: {error}");
        }
        settle(control);
    });
}

/// The error that a loader ends with, and how many batches were held then.
fn until_it_ends(mut loader: Loader, what: &str) -> (forebay::LoaderError, usize) {
    let (give, outcome) = mpsc::channel();
    thread::spawn(move || {
        let mut held = Vec::new();
        let mut batches = loader.blocking();
        let error = loop {
            match batches.next() {
                Some(Ok(batch)) => held.push(batch),
                Some(Err(error)) => break Some(error),
                None => break None,
            }
        };
        let _ = give.send((error, held.len()));
    });
    let (error, held) = outcome.recv_timeout(CHILD_PATIENCE).unwrap_or_else(|_| panic!("{what}: no deadline"));
    (error.unwrap_or_else(|| panic!("{what}: no error")), held)
}

/// The memory that it waits for is the consumer's.
#[test]
fn a_deadline_says_that_the_consumer_holds_the_memory() {
    emulated("").run(|control| {
        let data = data::large();
        for (way, flips) in some_of(any_rows().into_iter().zip([false, true].into_iter().cycle()), 3) {
            control.script(way.script);
            let what = format!("{}, transformed: {flips}", way.name);
            // On a machine that does other things a batch may take longer than a deadline: then a longer one.
            let longer = |deadline: &Duration| Some(*deadline * 3);
            let mut tries = successors(Some(Duration::from_millis(1500)), longer).map(|deadline| {
                let loader = set(&data, &way, flips).batch_size(2).device_budget(2 << 20).deadline(deadline);
                until_it_ends(loader.build().unwrap(), &what)
            });
            let (error, held) = tries.by_ref().take(3).find(|(_, held)| *held >= 2).expect(&what);
            assert!(matches!(error.fault, LoaderFault::Stalled { stage: Stage::Memory, .. }), "{what}: {error}");
            assert!((2..=3).contains(&held), "{what}: {held} held");
        }
        settle(control);
    });
}

#[test]
fn a_stop_comes_through_while_the_device_never_answers() {
    emulated("").run(|control| {
        let data = data::aligned();
        for (way, flips) in ways().into_iter().step_by(3) {
            control.script(way.script);
            let what = format!("{}, transformed: {flips}", way.name);
            stall(control, 4);
            let mut loader: Loader = set(&data, &way, flips).endless().build().unwrap();
            let stopper = loader.stopper();
            let (give, outcome) = mpsc::channel();
            let taking = thread::spawn(move || {
                let _ = give.send(loader.blocking().find_map(Result::err));
                drop(loader);
            });
            thread::sleep(Duration::from_millis(50));
            stopper.stop();
            let error = outcome.recv_timeout(PATIENCE).unwrap_or_else(|_| panic!("{what}: no end"));
            assert!(matches!(error.as_ref().unwrap().fault, LoaderFault::Stopped), "{what}: {error:?}");
            assert!(eventually(|| taking.is_finished()), "{what}: the drop hangs");
            go_on(control, &what);
        }
        settle(control);
    });
}
