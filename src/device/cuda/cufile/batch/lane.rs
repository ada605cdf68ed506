//! One of cuFile's batches: filled, read, and filled again only when the last of its entries is done.

use std::ffi::{c_uint, c_void};
use std::ptr;

use nix::libc::timespec;

use super::super::backlog::Flight;
use super::super::error::{CuFileFault, Refusal};
use super::entry::{Entry, entry};
#[cfg(test)]
use crate::emulated::mutant;
use crate::sys::cufile::{Answer, BatchCalls, BatchHandle, IoEvent, IoParams};

#[derive(Debug)]
pub(super) struct Lane {
    calls: &'static BatchCalls,
    /// `None` where the batch is gone and no other could be had.
    batch: Option<BatchHandle>,
    size: usize,
    /// cuFile may look at these until the batch is done. Never longer than `size`, so that they stay where they are.
    params: Vec<IoParams>,
    events: Vec<IoEvent>,
    /// By the number of the entry, which is its cookie.
    flights: Vec<Option<Flight>>,
    /// Entries that will not be read, but whose memory cuFile may still be at: until the batch is destroyed.
    doubtful: Vec<(Flight, CuFileFault)>,
    /// Entries under way.
    left: usize,
    /// Polls in a row that failed.
    failures: u32,
}

impl Lane {
    /// Sets a batch of `size` entries up. The context must be current on this thread, here and below.
    pub(super) fn new(calls: &'static BatchCalls, size: u32) -> Result<Self, Refusal> {
        let batch = Some(set_up(calls, size as usize)?);
        let size = size as usize;
        Ok(Self {
            calls,
            batch,
            size,
            params: Vec::with_capacity(size),
            events: Vec::with_capacity(size),
            flights: Vec::with_capacity(size),
            doubtful: Vec::new(),
            left: 0,
            failures: 0,
        })
    }

    pub(super) fn is_flying(&self) -> bool {
        self.left > 0
    }

    pub(super) fn has_room(&self) -> bool {
        self.flights.len() < self.size
    }

    pub(super) fn has_entries(&self) -> bool {
        !self.flights.is_empty()
    }

    /// Adds an entry to a lane that is not flying and has room.
    pub(super) fn add(&mut self, flight: Flight) {
        let Some(ask) = flight.ask() else { return };
        self.params.push(IoParams {
            mode: IoParams::BATCH,
            base: ask.base,
            file_offset: ask.file_offset,
            buffer_offset: ask.buffer_offset,
            size: ask.bytes,
            handle: ask.handle,
            opcode: IoParams::READ,
            cookie: ptr::without_provenance_mut::<c_void>(self.flights.len()),
        });
        self.flights.push(Some(flight));
    }

    /// Has the entries read, if there are any. Whether the lane can still be used.
    pub(super) fn submit(&mut self) -> bool {
        let Some(batch) = self.batch else { return false };
        if self.flights.is_empty() {
            return true;
        }
        // SAFETY: the batch is set up and has no entries under way; the parameters stay where they are until `retire`
        // clears them, after the last entry is done; each entry's flight keeps its handle and its registration alive,
        // and its range lies inside (see `Transfer::new`).
        let status = unsafe { (self.calls.submit)(batch, self.params.len() as c_uint, self.params.as_mut_ptr(), 0) };
        match Refusal::check("cuFileBatchIOSubmit", status) {
            Ok(()) => {
                self.left = self.flights.len();
                true
            }
            // cuFile does not promise that it has begun none of them: they are over only with the batch.
            Err(refusal) => {
                let refused = self.flights.drain(..).flatten();
                self.doubtful.extend(refused.map(|flight| (flight, CuFileFault::Refused(refusal.clone()))));
                self.retire()
            }
        }
    }

    /// Asks how the entries are, without waiting, and tells `answered` of each that is done. Whether the lane can still
    /// be used, and whether there was anything new.
    pub(super) fn poll(&mut self, mut answered: impl FnMut(Flight, Answer)) -> (bool, bool) {
        /// About a second of them, with the naps between.
        const MOST_FAILURES: u32 = 1000;
        let Some(batch) = self.batch.filter(|_| self.left > 0) else { return (self.batch.is_some(), false) };
        let mut count = self.size as c_uint;
        let mut at_once = timespec { tv_sec: 0, tv_nsec: 0 };
        // SAFETY: there is room for as many events as `count` says; the batch is set up.
        let status = unsafe { (self.calls.status)(batch, 0, &mut count, self.events.as_mut_ptr(), &mut at_once) };
        if let Err(refusal) = Refusal::check("cuFileBatchIOGetStatus", status) {
            self.failures += 1;
            if self.failures < MOST_FAILURES {
                return (true, false);
            }
            self.lose(&refusal.to_string());
            return (false, true);
        }
        self.failures = 0;
        let events = (count as usize).min(self.size);
        let mut news = false;
        for at in 0..events {
            // SAFETY: cuFile has just written so many events, and the vector has capacity for `size`.
            let event = unsafe { self.events.as_ptr().add(at).read() };
            news |= self.hear(&event, &mut answered);
        }
        let usable = self.left > 0 || !news || self.retire();
        (usable, news)
    }

    /// Takes an event. One of an entry that is not under way, or of none, says nothing.
    fn hear(&mut self, event: &IoEvent, answered: &mut impl FnMut(Flight, Answer)) -> bool {
        let Some(slot) = self.flights.get_mut(event.cookie.addr()) else { return false };
        if slot.is_none() {
            return false;
        }
        let state = entry(event);
        #[cfg(test)]
        let state = ignore_failure(state, slot.as_ref());
        match state {
            Entry::Flying => return false,
            Entry::Answered(answer) => {
                if let Some(flight) = slot.take() {
                    answered(flight, answer);
                }
            }
            Entry::Doubtful(fault) => self.doubtful.extend(slot.take().map(|flight| (flight, fault))),
        }
        self.left -= 1;
        true
    }

    /// Makes the lane ready to be filled again: no entry is under way. Whether it can be.
    fn retire(&mut self) -> bool {
        self.flights.clear();
        self.params.clear();
        if self.doubtful.is_empty() {
            return true;
        }
        if let Some(batch) = self.batch.take() {
            // SAFETY: the batch is set up, every entry of it has ended or was refused, and it is not used again.
            unsafe { (self.calls.destroy)(batch) };
        }
        self.doubtful.drain(..).for_each(|(flight, fault)| flight.fail(fault));
        self.batch = set_up(self.calls, self.size)
            .inspect_err(|error| tracing::warn!("cuFile: a batch could not be set up again: {error}"))
            .ok();
        self.batch.is_some()
    }

    /// Asks cuFile to cancel what it can; what it cannot goes on. All entries are still to be awaited.
    pub(super) fn cancel(&self) {
        let Some(batch) = self.batch else { return };
        // SAFETY: the batch is set up.
        let status = unsafe { (self.calls.cancel)(batch) };
        if let Err(error) = Refusal::check("cuFileBatchIOCancel", status) {
            tracing::debug!("cuFile: {error}");
        }
    }

    /// Gives up: cuFile may be at the memory of the entries for ever, so it is never used again, nor is what the batch
    /// was made of.
    fn lose(&mut self, why: &str) {
        if let Some(batch) = self.batch.take() {
            tracing::error!(
                "cuFile: {} reads of the batch {batch:?} are lost, and their memory with them: {why}",
                self.left
            );
        }
        self.flights.drain(..).flatten().for_each(|flight| flight.lose(why));
        self.doubtful.drain(..).for_each(|(flight, _)| flight.lose(why));
        std::mem::forget(std::mem::take(&mut self.params));
        std::mem::forget(std::mem::take(&mut self.events));
        self.left = 0;
    }
}

impl Drop for Lane {
    /// Entries are under way only where they were given up, or the thread panics.
    fn drop(&mut self) {
        if self.left > 0 {
            return self.lose("the reading thread ended");
        }
        if let Some(batch) = self.batch.take() {
            // SAFETY: the batch is set up, no entry of it is under way, and it is not used again.
            unsafe { (self.calls.destroy)(batch) };
        }
        self.doubtful.drain(..).for_each(|(flight, fault)| flight.fail(fault));
    }
}

fn set_up(calls: &BatchCalls, size: usize) -> Result<BatchHandle, Refusal> {
    let mut batch = ptr::null_mut();
    // SAFETY: cuFile writes one pointer.
    let status = unsafe { (calls.set_up)(&mut batch, size as c_uint) };
    Refusal::check("cuFileBatchIOSetUp", status)?;
    Ok(batch)
}

/// The planted mistake of taking every entry for read.
#[cfg(test)]
fn ignore_failure(state: Entry, flight: Option<&Flight>) -> Entry {
    let planted = mutant::is_planted(mutant::FAILED_IS_IGNORED);
    match (state, flight) {
        (Entry::Answered(Answer::Errno(_) | Answer::Code(_)) | Entry::Doubtful(_), Some(flight)) if planted => {
            Entry::Answered(Answer::Bytes(flight.piece.asked()))
        }
        (state, _) => state,
    }
}
