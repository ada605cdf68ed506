//! `cuFileBatchIO*`.

use super::abi::{
    BATCH_MODE, BatchHandle, IoEvents, IoParams, OPCODE_READ, OPCODE_WRITE, Status, Timespec, code, status,
};
use super::batch::{Batch, Entry, Event, Watch};
use super::counters::{self, InFlight};
use super::stats::{self, Through};
use super::transfer::{Ready, Request};
use super::{gate, settings, state};
use crate::violations;
use std::ffi::c_uint;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

/// Entries in flight in compatibility mode, which each take one of a fixed number of host slabs.
static IN_SLABS: AtomicU64 = AtomicU64::new(0);

/// # Safety
/// `batch` is null or may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuFileBatchIOSetUp(batch: *mut BatchHandle, nr: c_uint) -> Status {
    gate::answer(enter("cuFileBatchIOSetUp").and_then(|()| {
        let batch = gate::not_null(batch)?;
        let fits = nr > 0 && u64::from(nr) <= settings::batch_limit();
        stats::operation(|level1| &mut level1.batch_setup_ops, fits);
        if !fits {
            return Err(Status::of(code::INTERNAL_BATCH_SETUP_ERROR));
        }
        let mut state = state::lock();
        let id = state.fresh_id();
        state.batches.insert(id, Arc::new(Batch::new(nr as usize)));
        // SAFETY: not null, and valid by this function's contract.
        unsafe { *batch = id as BatchHandle };
        Ok(())
    }))
}

#[unsafe(no_mangle)]
pub extern "C" fn cuFileBatchIOSubmit(id: BatchHandle, nr: c_uint, params: *mut IoParams, flags: c_uint) -> Status {
    gate::answer(enter("cuFileBatchIOSubmit").and_then(|()| {
        let result = submit(id, nr, params, flags);
        stats::operation(|level1| &mut level1.batch_submit_ops, result.is_ok());
        result
    }))
}

fn submit(id: BatchHandle, nr: c_uint, params: *mut IoParams, flags: c_uint) -> Result<(), Status> {
    let batch = find(id, "cuFileBatchIOSubmit")?;
    let device = gate::current_device("cuFileBatchIOSubmit")?;
    let params = gate::not_null(params)?;
    if nr == 0 || flags != 0 {
        return Err(Status::of(code::INVALID_VALUE));
    }
    if batch.owed().saturating_add(nr as usize) > batch.room {
        return Err(Status::of(code::BATCH_FULL));
    }
    let (mut entries, mut refused, mut stuck) = (Vec::new(), Vec::new(), Vec::new());
    for index in 0..nr as usize {
        let address = (params as usize).wrapping_add(index.wrapping_mul(size_of::<IoParams>()));
        let watch = Watch::begin(address).ok_or(Status::of(code::INVALID_VALUE))?;
        match prepare(watch.params(), device) {
            Ok(ready) => place(ready, watch, &mut entries, &mut stuck),
            Err(code) => refused.push(watch.event(status::INVALID, -(code as isize))),
        }
    }
    let enqueued = entries.len() + stuck.len();
    for _ in 0..enqueued {
        stats::operation(|level1| &mut level1.batch_enqueued_ops, true);
    }
    batch.submit(entries, refused, stuck);
    Ok(())
}

fn prepare(params: &IoParams, device: usize) -> Result<Ready, i32> {
    if params.mode != BATCH_MODE || !matches!(params.opcode, OPCODE_READ | OPCODE_WRITE) {
        return Err(code::INVALID_VALUE);
    }
    let request = Request {
        what: "batch entry",
        through: Through::Batch,
        write: params.opcode == OPCODE_WRITE,
        handle: params.fh,
        base: params.base as u64,
        size: params.size,
        file_offset: params.file_offset,
        base_offset: params.base_offset,
        device,
    };
    request.prepare()
}

/// In compatibility mode an entry needs a slab. The real library never comes back to an entry that found none.
fn place(ready: Ready, watch: Watch, entries: &mut Vec<Entry>, stuck: &mut Vec<Entry>) {
    let (counted, _) = InFlight::begin(&counters::IN_FLIGHT_BATCH);
    if !ready.is_compat() {
        entries.push(Entry { ready, watch, _in_flight: [Some(counted), None] });
        return;
    }
    let slabs = settings::number("cufile_posix_slabs", 64);
    let (slab, in_use) = InFlight::begin(&IN_SLABS);
    if in_use <= slabs {
        entries.push(Entry { ready, watch, _in_flight: [Some(counted), Some(slab)] });
        return;
    }
    violations::report(format!(
        "cuFileBatchIOSubmit: more than {slabs} entries in flight in compatibility mode: the real library never ends them"
    ));
    stuck.push(Entry { ready, watch, _in_flight: [Some(counted), None] });
}

/// # Safety
/// `nr` is null or may be read and written, `events` has room for `*nr` events, `timeout` is null or may be read.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuFileBatchIOGetStatus(
    id: BatchHandle,
    least: c_uint,
    nr: *mut c_uint,
    events: *mut IoEvents,
    timeout: *mut Timespec,
) -> Status {
    gate::answer(enter("cuFileBatchIOGetStatus").and_then(|()| {
        let batch = find(id, "cuFileBatchIOGetStatus")?;
        let (nr, events) = (gate::not_null(nr)?, gate::not_null(events)?);
        // SAFETY: not null, and valid by this function's contract.
        let most = unsafe { *nr };
        if most == 0 || least > most {
            return Err(Status::of(code::INVALID_VALUE));
        }
        // SAFETY: null or valid by this function's contract.
        let timeout = unsafe { timeout.as_ref() }
            .map(|time| Duration::new(time.seconds.max(0) as u64, time.nanoseconds.clamp(0, 999_999_999) as u32));
        let Some(found) = batch.collect(least as usize, most as usize, timeout) else {
            violations::report(format!("cuFileBatchIOGetStatus: waits without end for {least} events that never come"));
            return Err(Status::of(code::INTERNAL_BATCH_GETSTATUS_ERROR));
        };
        // SAFETY: `events` has room for `most` events, and no more were collected.
        unsafe { hand_out(&found, nr, events) };
        Ok(())
    }))
}

/// # Safety
/// `nr` may be written and `events` has room for that many.
unsafe fn hand_out(found: &[Event], nr: *mut c_uint, events: *mut IoEvents) {
    for (at, event) in found.iter().enumerate() {
        let ok = event.status == status::COMPLETE;
        stats::operation(|level1| &mut level1.batch_complete_ops, ok);
        let out = IoEvents { cookie: event.cookie, status: event.status, ret: event.ret as usize };
        // SAFETY: room for so many by this function's contract.
        unsafe { events.add(at).write(out) };
    }
    // SAFETY: may be written by this function's contract.
    unsafe { *nr = found.len() as c_uint };
}

#[unsafe(no_mangle)]
pub extern "C" fn cuFileBatchIOCancel(id: BatchHandle) -> Status {
    gate::answer(enter("cuFileBatchIOCancel").and_then(|()| {
        find(id, "cuFileBatchIOCancel")?.cancel();
        stats::operation(|level1| &mut level1.batch_cancel_ops, true);
        Ok(())
    }))
}

#[unsafe(no_mangle)]
pub extern "C" fn cuFileBatchIODestroy(id: BatchHandle) {
    // It returns nothing, so a scripted failure has nothing to say.
    if enter("cuFileBatchIODestroy").is_err() {
        return;
    }
    let Some(batch) = state::lock().batches.remove(&(id as usize)) else {
        violations::report("cuFileBatchIODestroy: this batch does not exist".into());
        return;
    };
    stats::operation(|level1| &mut level1.batch_destroy_ops, true);
    let (in_flight, unseen) = batch.destroy();
    if in_flight > 0 {
        violations::report(format!("cuFileBatchIODestroy: {in_flight} entries are in flight"));
    }
    if unseen > 0 {
        violations::note(format!("cuFileBatchIODestroy: nobody looked at {unseen} entries that ended"));
    }
}

fn enter(name: &'static str) -> Result<(), Status> {
    gate::enter_open(name)?;
    let absent = settings::is_set("cufile_no_batch");
    if absent { Err(Status::of(code::IO_NOT_SUPPORTED)) } else { Ok(()) }
}

fn find(id: BatchHandle, what: &str) -> Result<Arc<Batch>, Status> {
    let batch = state::lock().batches.get(&(id as usize)).cloned();
    batch.ok_or_else(|| {
        violations::report(format!("{what}: this batch does not exist"));
        Status::of(code::INVALID_VALUE)
    })
}
