//! Batches.

use crate::abi::{BATCH_MODE, IoEvents, IoParams, OPCODE_READ, SUCCESS, Status, Timespec, code, status};
use crate::rig::{MIB, Memory, Rig, Sample};
use std::collections::BTreeSet;
use std::ffi::c_void;
use std::ptr::null_mut;
use std::time::{Duration, Instant};

pub const ENTRY: usize = 4096;

pub struct Batch<'a> {
    rig: &'a Rig,
    pub id: *mut c_void,
}

impl<'a> Batch<'a> {
    pub fn new(rig: &'a Rig, room: u32) -> Batch<'a> {
        let mut id = null_mut();
        // SAFETY: a place of our own.
        assert_eq!(unsafe { (rig.api.cuFileBatchIOSetUp)(&mut id, room) }, SUCCESS);
        Batch { rig, id }
    }

    pub fn submit(&self, params: &mut [IoParams]) -> Status {
        // SAFETY: an array of that length; the tests keep it for as long as they mean to.
        unsafe { (self.rig.api.cuFileBatchIOSubmit)(self.id, params.len() as u32, params.as_mut_ptr(), 0) }
    }

    /// Cookie, status and result of what ended, for a wait of so many milliseconds.
    pub fn poll(&self, least: u32, most: u32, milliseconds: Option<i64>) -> Result<Vec<(usize, u32, isize)>, Status> {
        let mut events: Vec<IoEvents> = (0..most).map(|_| IoEvents { cookie: 0, status: 0, ret: 0 }).collect();
        let mut nr = most;
        let mut time = milliseconds.map(|ms| Timespec { seconds: ms / 1000, nanoseconds: ms % 1000 * 1_000_000 });
        let timeout = time.as_mut().map_or(null_mut(), |time| time as *mut Timespec);
        // SAFETY: an array of `most` events, and places of our own.
        let result =
            unsafe { (self.rig.api.cuFileBatchIOGetStatus)(self.id, least, &mut nr, events.as_mut_ptr(), timeout) };
        if result != SUCCESS {
            return Err(result);
        }
        events.truncate(nr as usize);
        Ok(events.iter().map(|event| (event.cookie, event.status, event.ret as isize)).collect())
    }

    /// All that is owed, by polling as one should.
    pub fn drain(&self, count: usize) -> Vec<(usize, u32, isize)> {
        let mut events = Vec::new();
        let began = Instant::now();
        while events.len() < count && began.elapsed() < Duration::from_secs(20) {
            events.extend(self.poll(0, 16, Some(1)).unwrap());
            std::thread::sleep(Duration::from_micros(100));
        }
        assert_eq!(events.len(), count, "every entry ends once");
        let cookies: BTreeSet<usize> = events.iter().map(|event| event.0).collect();
        assert_eq!(cookies.len(), count, "every entry is reported once");
        events
    }

    pub fn destroy(&self) {
        // SAFETY: it takes a number.
        unsafe { (self.rig.api.cuFileBatchIODestroy)(self.id) }
    }
}

/// Reads of the file's first `count` blocks to the same places of the memory, with cookies from 100.
pub fn entries(handle: *mut c_void, memory: &Memory, count: usize) -> Vec<IoParams> {
    let entry = |at: usize| IoParams {
        mode: BATCH_MODE,
        base: memory.address as usize,
        file_offset: (at * ENTRY) as i64,
        base_offset: (at * ENTRY) as i64,
        size: ENTRY,
        fh: handle as usize,
        opcode: OPCODE_READ,
        cookie: 100 + at,
    };
    (0..count).map(entry).collect()
}

#[test]
fn every_entry_ends_once_in_some_other_order() {
    let Some(sample) = Sample::new(100 * ENTRY) else { return };
    let rig = Rig::open("");
    let memory = rig.registered(100 * ENTRY);
    let handle = rig.register(sample.fd()).unwrap();
    let batch = Batch::new(&rig, 128);
    let mut params = entries(handle, &memory, 100);
    assert_eq!(batch.submit(&mut params), SUCCESS);
    let events = batch.drain(100);
    assert!(events.iter().all(|event| event.1 == status::COMPLETE && event.2 == ENTRY as isize));
    assert!(!events.is_sorted(), "entries end in any order");
    assert!(memory.bytes() == sample.bytes);
    assert_eq!((rig.count("reads"), rig.count("in_flight_batch"), rig.count("unregistered")), (100, 0, 0));
    assert_eq!(batch.submit(&mut params[..3]), SUCCESS, "a drained batch is used again");
    batch.drain(3);
    batch.destroy();
    rig.assert_clean();
}

#[test]
fn limits_of_set_up_and_submission() {
    let Some(sample) = Sample::new(8 * ENTRY) else { return };
    let rig = Rig::open("cufile_batch=8");
    let memory = rig.registered(MIB);
    let handle = rig.register(sample.fd()).unwrap();
    let mut id = null_mut();
    for nr in [0, 9] {
        // SAFETY: a place of our own.
        let refused = unsafe { (rig.api.cuFileBatchIOSetUp)(&mut id, nr) };
        assert_eq!(refused, Status::of(code::INTERNAL_BATCH_SETUP_ERROR));
    }
    let batch = Batch::new(&rig, 4);
    let mut params = entries(handle, &memory, 8);
    assert_eq!(batch.submit(&mut params[..0]), Status::of(code::INVALID_VALUE));
    assert_eq!(batch.submit(&mut params[..5]), Status::of(code::BATCH_FULL));
    assert_eq!(batch.submit(&mut params[..3]), SUCCESS);
    assert_eq!(batch.submit(&mut params[3..5]), Status::of(code::BATCH_FULL), "owed entries fill it too");
    assert_eq!(batch.submit(&mut params[3..4]), SUCCESS);
    batch.drain(4);
    assert_eq!(batch.poll(2, 1, Some(1)), Err(Status::of(code::INVALID_VALUE)));
    batch.destroy();
    rig.assert_clean();
    assert_eq!(batch.submit(&mut params[..1]), Status::of(code::INVALID_VALUE));
    rig.assert_caught("does not exist");
}

#[test]
fn the_script_fails_and_shortens_entries_in_the_order_of_submission() {
    let Some(sample) = Sample::new(8 * ENTRY) else { return };
    let rig = Rig::open("fail=batch_entry@2:5030;short=batch_entry@5:512");
    let memory = rig.registered(MIB);
    let handle = rig.register(sample.fd()).unwrap();
    let batch = Batch::new(&rig, 8);
    let mut params = entries(handle, &memory, 8);
    assert_eq!(batch.submit(&mut params), SUCCESS);
    let mut events = batch.drain(8);
    events.sort();
    assert_eq!(events[1], (101, status::FAILED, -5030));
    assert_eq!(events[4], (104, status::COMPLETE, 512));
    let whole = events.iter().filter(|event| event.1 == status::COMPLETE && event.2 == ENTRY as isize);
    assert_eq!(whole.count(), 6);
    batch.destroy();
    rig.assert_clean();
}

#[test]
fn an_entry_that_names_nothing_is_invalid_and_the_others_go_on() {
    let Some(sample) = Sample::new(2 * ENTRY) else { return };
    let rig = Rig::open("");
    let memory = rig.registered(MIB);
    let handle = rig.register(sample.fd()).unwrap();
    let batch = Batch::new(&rig, 8);
    let mut params = entries(handle, &memory, 2);
    params[1].fh = 0xdead0;
    assert_eq!(batch.submit(&mut params), SUCCESS);
    let mut events = batch.drain(2);
    events.sort();
    assert_eq!(events, [(100, status::COMPLETE, ENTRY as isize), (101, status::INVALID, -5027)]);
    rig.assert_caught("not registered");
    batch.destroy();
}

#[test]
fn waiting_ends_with_the_timeout() {
    let Some(sample) = Sample::new(4 * ENTRY) else { return };
    let rig = Rig::open("stall=batch_entry@3:600000");
    let memory = rig.registered(MIB);
    let handle = rig.register(sample.fd()).unwrap();
    let batch = Batch::new(&rig, 8);
    let mut params = entries(handle, &memory, 4);
    assert_eq!(batch.submit(&mut params), SUCCESS);
    // The third is stalled until the script says otherwise, and holds up neither its submission nor this.
    let early = batch.poll(4, 4, Some(50)).unwrap();
    assert!(early.len() < 4, "{early:?}");
    rig.script("clear");
    let late = batch.poll(4 - early.len() as u32, 4, None).unwrap();
    assert_eq!(early.len() + late.len(), 4);
    batch.destroy();
    rig.assert_clean();
}

#[test]
fn cancelling_leaves_some_entries_complete() {
    let Some(sample) = Sample::new(16 * ENTRY) else { return };
    let rig = Rig::open("stall=batch_entry@1:100");
    let memory = rig.registered(MIB);
    let handle = rig.register(sample.fd()).unwrap();
    let batch = Batch::new(&rig, 16);
    let mut params = entries(handle, &memory, 16);
    assert_eq!(batch.submit(&mut params), SUCCESS);
    // SAFETY: it takes a number.
    assert_eq!(unsafe { (rig.api.cuFileBatchIOCancel)(batch.id) }, SUCCESS);
    let events = batch.drain(16);
    let of = |kind: u32| events.iter().filter(|event| event.1 == kind).count();
    assert!(of(status::CANCELED) >= 7 && of(status::COMPLETE) >= 7, "{events:?}");
    assert_eq!(of(status::CANCELED) + of(status::COMPLETE), 16);
    batch.destroy();
    rig.assert_clean();
}

#[test]
fn compatibility_mode_never_ends_entries_beyond_its_slabs() {
    let Some(sample) = Sample::new(70 * ENTRY) else { return };
    let rig = Rig::open("cufile_path=compat");
    let memory = rig.registered(70 * ENTRY);
    let handle = rig.register(sample.fd()).unwrap();
    let batch = Batch::new(&rig, 128);
    let mut params = entries(handle, &memory, 64);
    assert_eq!(batch.submit(&mut params), SUCCESS);
    batch.drain(64);
    rig.assert_clean();
    let mut params = entries(handle, &memory, 65);
    rig.script("stall=batch_entry@1:20");
    assert_eq!(batch.submit(&mut params), SUCCESS);
    rig.assert_caught("more than 64 entries in flight");
    let ended = batch.drain(64);
    assert!(ended.iter().all(|event| event.1 == status::COMPLETE));
    assert!(batch.poll(1, 1, Some(20)).unwrap().is_empty());
    assert_eq!((rig.count("in_flight_batch"), rig.count("bytes_posix")), (1, 128 * ENTRY as u64));
    // SAFETY: it takes a number.
    assert_eq!(unsafe { (rig.api.cuFileBatchIOCancel)(batch.id) }, SUCCESS);
    assert_eq!(batch.drain(1), [(164, status::CANCELED, 0)]);
    batch.destroy();
    rig.assert_clean();
}

#[test]
fn a_library_without_batches_says_so() {
    let rig = Rig::open("cufile_no_batch");
    let mut id = null_mut();
    // SAFETY: a place of our own.
    let refused = unsafe { (rig.api.cuFileBatchIOSetUp)(&mut id, 1) };
    assert_eq!(refused, Status::of(code::IO_NOT_SUPPORTED));
}
