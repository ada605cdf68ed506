//! Steady state: once warm, nothing is allocated or registered, and nobody waits for the device while chunks are carried.
use std::thread;
use std::time::Duration;

use forebay::{CarrierBuilder, Extent, Placed, Route};

use crate::common::data;
use crate::common::emulated::{Emulated, clean};
use crate::common::emulator::Control;
use crate::rig::{FORMS, Files, builder, check, whole};

/// Calls that allocate, register, or wait for the device.
const FORBIDDEN: [&str; 27] = [
    "cuMemAlloc_v2",
    "cuMemAllocAsync",
    "cuMemFree_v2",
    "cuMemHostAlloc",
    "cuMemAllocHost_v2",
    "cuMemFreeHost",
    "cuMemHostRegister_v2",
    "cuMemHostUnregister",
    "cuEventCreate",
    "cuEventDestroy_v2",
    "cuStreamCreate",
    "cuStreamCreateWithPriority",
    "cuStreamDestroy_v2",
    "cuStreamSynchronize",
    "cuCtxSynchronize",
    "cuEventSynchronize",
    "cuMemcpy",
    "cuMemcpyHtoD_v2",
    "cuMemcpyDtoH_v2",
    "cuFileBufRegister",
    "cuFileBufDeregister",
    "cuFileHandleRegister",
    "cuFileHandleDeregister",
    "cuFileBatchIOSetUp",
    "cuFileBatchIODestroy",
    "cuFileStreamRegister",
    "cuFileStreamDeregister",
];

const COPIES: [&str; 3] = ["cuMemcpyHtoDAsync_v2", "cuMemcpyBatchAsync", "cuMemcpyBatchAsync_v2"];

fn copies(control: &Control) -> u64 {
    COPIES.iter().map(|name| control.calls(name)).sum()
}

const CHUNK: u64 = 256 << 10;
const CHUNKS: u64 = 64;

/// Carries once while the device waits until all that can be in flight is: there are as many events as that from then on.
fn warm_up(control: &Control, mut carry: impl FnMut() + Send) {
    carry();
    control.script("paused=1");
    thread::scope(|scope| {
        let carrying = scope.spawn(&mut carry);
        let mut before = u64::MAX;
        while before != control.in_flight() && !carrying.is_finished() {
            before = control.in_flight();
            thread::sleep(Duration::from_millis(200));
        }
        control.script("paused=0");
    });
    carry();
}

/// Carries the file until it is warm and then three times more; the calls of those three are counted.
fn steady(control: &Control, builder: CarrierBuilder, what: &str) {
    let files = Files::one(CHUNKS * CHUNK);
    let carrier = builder.chunk(CHUNK).device_budget(2 * CHUNKS * CHUNK).build().unwrap();
    let file = carrier.open(&files.paths[0]).unwrap();
    let carry = || drop(carrier.carry_blocking(&[whole(&file)]).unwrap());
    warm_up(control, carry);
    control.reset_calls();
    (0..3).for_each(|_| carry());
    for call in FORBIDDEN {
        assert_eq!(control.calls(call), 0, "{what}: {call}");
    }
    let (copied, recorded) = (copies(control), control.calls("cuEventRecord"));
    eprintln!("{what}: {copied} copies, {recorded} events, {} questions", control.calls("cuEventQuery"));
    if what.starts_with("direct") {
        assert_eq!(copied, 0, "{what}: bytes went through host memory");
    } else {
        assert_eq!((copied, recorded), (3 * CHUNKS, 3 * CHUNKS), "{what}: one copy and one event for each chunk");
    }
    let landed = carrier.carry_blocking(&[whole(&file)]).unwrap();
    check(&landed, &[(0, 0, CHUNKS * CHUNK)]);
}

/// The same into a buffer of the caller's, which is registered at its first use.
fn steady_in_place(control: &Control, builder: CarrierBuilder, what: &str) {
    let files = Files::one(CHUNKS * CHUNK);
    let carrier = builder.chunk(CHUNK).build().unwrap();
    let file = carrier.open(&files.paths[0]).unwrap();
    let mut kept = Some(carrier.device().allocate((CHUNKS * CHUNK) as usize).unwrap());
    let mut carry = || {
        let (carried, buffer) = carrier.carry_into(kept.take().unwrap(), &[Placed::new(whole(&file), 0)]).wait();
        assert_eq!(carried.unwrap().total(), CHUNKS * CHUNK);
        kept = Some(buffer);
    };
    warm_up(control, &mut carry);
    control.reset_calls();
    (0..3).for_each(|_| carry());
    let buffer = kept.unwrap();
    for call in FORBIDDEN {
        assert_eq!(control.calls(call), 0, "{what}: {call}");
    }
    let wanted = if what.starts_with("direct") { 0 } else { 3 * CHUNKS };
    assert_eq!(copies(control), wanted, "{what}");
    let got = control.read_device(buffer.device_address().unwrap(), buffer.len());
    data::check(&got, 0, 0).unwrap();
}

#[test]
fn bounce_and_cached() {
    clean("jitter_us=100", |control| {
        // Events are as many as copies can be in flight, which the budget limits.
        for route in [Route::Bounce, Route::Cached] {
            steady(control, builder().route(route).budget(4 << 20), &route.to_string());
            steady_in_place(control, builder().route(route).budget(4 << 20), &route.to_string());
        }
    });
}

#[test]
fn direct_in_each_form() {
    clean("cufile_late_us=50", |control| {
        for form in FORMS {
            let builder = builder().route(Route::Direct).direct_form(form);
            steady(control, builder.clone(), &format!("direct/{form:?}"));
            steady_in_place(control, builder, &format!("direct/{form:?}"));
        }
    });
}

/// Small pieces of a file, far from each other, land beside each other by few copies.
fn scattered(control: &Control, piece: u64, most: u64) {
    const PIECES: u64 = 256;
    let stride = piece * 3;
    let files = Files::one(PIECES * stride);
    for route in [Route::Bounce, Route::Cached] {
        let carrier = builder().route(route).chunk(1 << 20).budget(16 << 20).device_budget(32 << 20).build().unwrap();
        let file = carrier.open(&files.paths[0]).unwrap();
        let offsets: Vec<u64> = (0..PIECES).map(|i| (i * 97 % PIECES) * stride).collect();
        let extents: Vec<Extent> = offsets.iter().map(|&offset| Extent::new(&file, offset, piece)).collect();
        control.reset_calls();
        let landed = carrier.carry_blocking(&extents).unwrap();
        let (copied, bytes) = (copies(control), PIECES * piece);
        eprintln!("{route}: {PIECES} pieces of {piece} bytes, {bytes} in all, by {copied} copies");
        assert!((1..=most).contains(&copied), "{route}: {copied} copies of {PIECES} pieces of {piece} bytes");
        assert_eq!(control.calls("cuEventRecord"), copied);
        for (i, &offset) in offsets.iter().enumerate() {
            data::check(&landed.to_host(i).unwrap(), 0, offset).unwrap();
        }
    }
}

#[test]
fn scattered_pieces_cost_few_copies() {
    clean("jitter_us=20", |control| {
        // 16 MiB in chunks of 1 MiB, and 1 MiB in one.
        scattered(control, 64 << 10, 18);
        scattered(control, 4 << 10, 2);
    });
}

/// A copy that two registrations share is two, in one call where the driver has one for that.
#[test]
fn a_driver_without_batches_is_as_good() {
    Emulated::new("no_batch; register_max=16MiB; no_spanning").run(|control| {
        let files = Files::one(30 << 20);
        let carrier = builder().route(Route::Bounce).budget(40 << 20).chunk(12 << 20).device_budget(32 << 20);
        crate::rig::works(&carrier.build().unwrap(), &files);
        control.assert_clean();
    });
}
