//! Mistakes with batches.

use crate::abi::{IoParams, SUCCESS, Status, code, status};
use crate::batch::{Batch, ENTRY, entries};
use crate::rig::{MIB, Page, Rig, Sample};
use std::time::Duration;

#[test]
fn waiting_for_ever_is_caught() {
    let Some(sample) = Sample::new(4 * ENTRY) else { return };
    let rig = Rig::open("");
    let memory = rig.registered(MIB);
    let handle = rig.register(sample.fd()).unwrap();
    let batch = Batch::new(&rig, 8);
    let mut params = entries(handle, &memory, 2);
    assert_eq!(batch.submit(&mut params), SUCCESS);
    assert_eq!(batch.poll(3, 3, None), Err(Status::of(code::INTERNAL_BATCH_GETSTATUS_ERROR)));
    rig.assert_caught("waits without end");
    batch.drain(2);
    batch.destroy();
    rig.assert_clean();
}

#[test]
fn parameters_changed_in_flight_are_caught() {
    let Some(sample) = Sample::new(4 * ENTRY) else { return };
    let rig = Rig::open("stall=batch_entry@1:50");
    let memory = rig.registered(MIB);
    let handle = rig.register(sample.fd()).unwrap();
    let batch = Batch::new(&rig, 8);
    let mut params = entries(handle, &memory, 1);
    assert_eq!(batch.submit(&mut params), SUCCESS);
    params[0].cookie = 7;
    assert_eq!(batch.drain(1)[0].0, 100, "what was submitted counts");
    rig.assert_caught("changed before it was done");
    batch.destroy();
}

#[test]
fn parameters_freed_in_flight_are_caught() {
    let Some(sample) = Sample::new(4 * ENTRY) else { return };
    let rig = Rig::open("stall=batch_entry@1:50");
    let memory = rig.registered(MIB);
    let handle = rig.register(sample.fd()).unwrap();
    let batch = Batch::new(&rig, 8);
    let page = Page::new();
    let place = page.place::<IoParams>();
    // SAFETY: a page of our own, aligned and large enough for one entry.
    let status = unsafe {
        place.write(entries(handle, &memory, 1)[0]);
        (rig.api.cuFileBatchIOSubmit)(batch.id, 1, place, 0)
    };
    assert_eq!(status, SUCCESS);
    page.vanish();
    batch.drain(1);
    rig.assert_caught("freed before it was done");
    batch.destroy();
}

#[test]
fn destroying_a_batch_in_flight_is_caught() {
    let Some(sample) = Sample::new(4 * ENTRY) else { return };
    let rig = Rig::open("stall=batch_entry@1:50");
    let memory = rig.registered(MIB);
    let handle = rig.register(sample.fd()).unwrap();
    let batch = Batch::new(&rig, 8);
    let mut params = entries(handle, &memory, 2);
    assert_eq!(batch.submit(&mut params), SUCCESS);
    batch.destroy();
    rig.assert_caught("entries are in flight");
    wait_until_idle(&rig);
    rig.assert_clean();
}

#[test]
fn giving_back_what_entries_use_is_caught() {
    let Some(sample) = Sample::new(4 * ENTRY) else { return };
    let rig = Rig::open("stall=batch_entry:100");
    let handle = rig.register(sample.fd()).unwrap();
    let memory = rig.registered(MIB);
    let batch = Batch::new(&rig, 8);
    let mut params = entries(handle, &memory, 1);
    assert_eq!(batch.submit(&mut params), SUCCESS);
    rig.deregister(handle);
    rig.assert_caught("operations on this file are in flight");
    assert_eq!(rig.deregister_memory(memory.address), SUCCESS);
    rig.assert_caught("are in flight");
    memory.free();
    rig.assert_caught("batch entry");
    // SAFETY: it takes nothing.
    assert_eq!(unsafe { (rig.api.cuFileDriverClose_v2)() }, SUCCESS);
    rig.assert_caught("1 operations are in flight");
    wait_until_idle(&rig);
}

#[test]
fn a_context_that_goes_under_a_batch_is_an_error_and_no_crash() {
    let Some(sample) = Sample::new(4 * ENTRY) else { return };
    let rig = Rig::open("stall=batch_entry@1:50");
    let handle = rig.register(sample.fd()).unwrap();
    let Some((batch, mut params)) = rig.on_device_1(|| {
        let memory = rig.memory(MIB);
        let batch = Batch::new(&rig, 8);
        let mut params = entries(handle, &memory, 1);
        assert_eq!(batch.submit(&mut params), SUCCESS);
        (batch, params)
    }) else {
        return;
    };
    assert_eq!(batch.drain(1), [(100, status::FAILED, -5013)]);
    rig.assert_caught("went with its context");
    params.clear();
    batch.destroy();
}

#[test]
fn submitting_without_a_context_is_caught() {
    let Some(sample) = Sample::new(ENTRY) else { return };
    let rig = Rig::open("");
    let memory = rig.registered(MIB);
    let handle = rig.register(sample.fd()).unwrap();
    let batch = Batch::new(&rig, 8);
    let mut params = entries(handle, &memory, 1);
    assert_eq!(rig.without_context(|| batch.submit(&mut params)).err, code::CUDA_DRIVER_ERROR);
    rig.assert_caught("no context is current");
    batch.destroy();
}

fn wait_until_idle(rig: &Rig) {
    for _ in 0..5000 {
        if rig.count("in_flight_batch") == 0 {
            return;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    panic!("entries never end");
}
