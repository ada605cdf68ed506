//! Copies between the arena and the device's memory, on a stream of their own.
//!
//! Each order of copies is followed by an event; what it reads and writes is kept in a queue until that event has
//! passed. No call waits for the device but `to_host` and dropping, and in steady state none allocates: events are
//! used again.

use std::collections::VecDeque;
use std::fmt;
use std::ptr::NonNull;
use std::sync::Arc;

use super::batch::Batch;
use super::context::CudaDevice;
use super::event::Event;
use super::pinned::{PinnedArena, Run};
use crate::device::backend::{Copier, Memory, Ordered, Span, Ticket};
use crate::device::error::{DeviceError, DeviceFault};
#[cfg(test)]
use crate::emulated::mutant;
use crate::memory::{HoldsSlot, Slot};
use crate::sys::cuda;

pub(crate) struct CudaCopier {
    // Dropped in this order, after `drop` has waited for the stream.
    in_flight: VecDeque<InFlight>,
    spare: Vec<Event>,
    batch: Batch,
    pinned: Arc<PinnedArena>,
    stream: cuda::Stream,
    device: Arc<CudaDevice>,
    first_pending: Ticket,
}

/// One order, and what the device may still be reading and writing for it.
struct InFlight {
    event: Event,
    source: Box<dyn HoldsSlot>,
    memory: Arc<dyn Memory>,
}

// SAFETY: the stream's handle may be used from any thread with the context current, and `&mut self` keeps it to one.
unsafe impl Send for CudaCopier {}

impl CudaCopier {
    pub(crate) fn new(device: &Arc<CudaDevice>, pinned: Arc<PinnedArena>) -> Result<Self, DeviceError> {
        const NON_BLOCKING: u32 = 1;
        let _current = device.enter()?;
        let mut stream = std::ptr::null_mut();
        // SAFETY: the driver writes one handle.
        device.check("cuStreamCreate", unsafe { (device.library().stream_create)(&mut stream, NON_BLOCKING) })?;
        Ok(Self {
            in_flight: VecDeque::new(),
            spare: Vec::new(),
            batch: Batch::new(device.library()),
            pinned,
            stream,
            device: Arc::clone(device),
            first_pending: 0,
        })
    }

    /// Whether all that the copies read is pinned.
    fn order(&mut self, source: &Slot, memory: &Arc<dyn Memory>, spans: &[Span]) -> Result<bool, DeviceError> {
        self.batch.clear();
        let registered = self.pinned.registered(source.address(), source.len())?;
        for span in spans {
            let Some(held) = source.get(span.from..).filter(|held| span.len <= held.len()) else {
                return Err(self.outside());
            };
            if span.to.checked_add(span.len).is_none_or(|end| end > memory.len()) {
                return Err(self.outside());
            }
            let mut from = NonNull::from(held).cast::<u8>();
            let (mut to, mut left) = (memory.address() + span.to as u64, span.len);
            while left > 0 {
                let Run { len, is_pinned } = registered.run(from, left);
                self.batch.push(to, from, len, is_pinned);
                // SAFETY: `len <= left`, and `left` bytes from `from` on lie inside the slot.
                from = unsafe { from.add(len) };
                to += len as u64;
                left -= len;
            }
        }
        drop(registered);
        // SAFETY: every source lies in `source` and every destination in `memory`, as just checked; the caller keeps both
        // until the stream has passed.
        unsafe { self.batch.submit(&self.device, self.stream)? };
        Ok(self.batch.is_pinned())
    }

    /// The lengths of the copies that a slot takes. The conductor's copies go on while these are waited for, so the registrations
    /// are not kept.
    fn runs(&self, slot: &Slot) -> Result<Vec<usize>, DeviceError> {
        let registered = self.pinned.registered(slot.address(), slot.len())?;
        let (mut lens, mut done) = (Vec::new(), 0);
        while done < slot.len() {
            // SAFETY: `done` is inside the slot.
            let Run { len, .. } = registered.run(unsafe { slot.address().add(done) }, slot.len() - done);
            lens.push(len);
            done += len;
        }
        Ok(lens)
    }

    fn outside(&self) -> DeviceError {
        self.device.error(DeviceFault::Outside)
    }

    /// A device that failed may still read and write what it was given: it is never used again, and stays pinned and
    /// allocated.
    fn keep_for_ever(&self, source: Box<dyn HoldsSlot>, memory: &Arc<dyn Memory>) {
        source.slot().lose();
        memory.lose();
        std::mem::forget((source, Arc::clone(memory), Arc::clone(&self.pinned)));
    }

    /// Waits until nothing is in flight. Whether that is certain: after a fault of the device it is not.
    fn settle(&self) -> bool {
        // SAFETY: the stream is alive until `self` is dropped.
        let code = unsafe { (self.device.library().stream_synchronize)(self.stream) };
        self.device.check_at_drop("cuStreamSynchronize", code)
    }
}

impl Copier for CudaCopier {
    fn bind(&mut self) -> Result<(), DeviceError> {
        self.device.bind()
    }

    fn to_device(
        &mut self,
        source: Box<dyn HoldsSlot>,
        memory: &Arc<dyn Memory>,
        spans: &[Span],
    ) -> Result<Ordered, DeviceError> {
        let event = match self.spare.pop() {
            Some(event) => event,
            None => Event::new(&self.device)?,
        };
        let ordered = self.order(source.slot(), memory, spans);
        let ordered = ordered.and_then(|is_pinned| event.record(self.stream).map(|()| is_pinned));
        let is_pinned = match ordered {
            Ok(is_pinned) => is_pinned,
            Err(error) => {
                if !self.settle() {
                    self.keep_for_ever(source, memory);
                }
                return Err(error);
            }
        };
        self.in_flight.push_back(InFlight { event, source, memory: Arc::clone(memory) });
        Ok(Ordered { ticket: self.first_pending + self.in_flight.len() as Ticket - 1, is_pinned })
    }

    fn first_pending(&mut self) -> Result<Ticket, DeviceError> {
        while let Some(oldest) = self.in_flight.front() {
            let passed = oldest.event.is_passed()?;
            #[cfg(test)]
            let passed = passed || mutant::is_planted(mutant::RECYCLED_EARLY);
            if !passed {
                break;
            }
            if let Some(done) = self.in_flight.pop_front() {
                self.spare.push(done.event);
            }
            self.first_pending += 1;
        }
        Ok(self.first_pending)
    }

    fn give_up(&mut self) {
        for order in &self.in_flight {
            order.source.slot().lose();
            order.memory.lose();
        }
    }

    fn copies_at_once(&self) -> bool {
        self.batch.is_at_once()
    }

    fn to_host(&mut self, memory: &Arc<dyn Memory>, at: usize, slot: Slot) -> Result<Slot, DeviceError> {
        if at.checked_add(slot.len()).is_none_or(|end| end > memory.len()) {
            return Err(self.outside());
        }
        let device = Arc::clone(&self.device);
        let _current = device.enter()?;
        let lens = self.runs(&slot)?;
        let event = Event::new(&device)?;
        let (to, mut done) = (slot.address(), 0);
        let mut ordered = Ok(());
        for len in lens {
            if ordered.is_err() {
                break;
            }
            // SAFETY: the runs are as long as the slot, so `done` is inside it.
            let to = unsafe { to.add(done) };
            let from = memory.address() + (at + done) as u64;
            // SAFETY: `len` bytes from `to` on are in the slot, which is ours alone until the event below has passed, and
            // as many from `from` on are in the memory, which the caller holds.
            let code = unsafe { (self.device.library().copy_to_host)(to.as_ptr().cast(), from, len, self.stream) };
            ordered = self.device.check("cuMemcpyDtoHAsync", code);
            done += len;
        }
        match ordered.and_then(|()| event.record(self.stream)).and_then(|()| event.wait()) {
            Ok(()) => Ok(slot),
            Err(error) => {
                if !self.settle() {
                    self.keep_for_ever(Box::new(slot), memory);
                }
                Err(error)
            }
        }
    }
}

impl Drop for CudaCopier {
    fn drop(&mut self) {
        if !self.device.is_ours() {
            // A forked child: the copies are the parent's, and so is all that they use.
            std::mem::forget(std::mem::take(&mut self.in_flight));
            return;
        }
        let device = Arc::clone(&self.device);
        let current = device.enter();
        let idle = self.in_flight.is_empty();
        #[cfg(test)]
        let idle = idle || mutant::is_planted(mutant::DROPPED_EARLY);
        if !(idle || current.is_ok() && self.settle()) {
            for order in std::mem::take(&mut self.in_flight) {
                self.keep_for_ever(order.source, &order.memory);
            }
        }
        // SAFETY: nobody else has the handle, and it is not used again.
        let code = unsafe { (self.device.library().stream_destroy)(self.stream) };
        self.device.check_at_drop("cuStreamDestroy", code);
    }
}

impl fmt::Debug for CudaCopier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CudaCopier")
            .field("device", &self.device)
            .field("in_flight", &self.in_flight.len())
            .finish_non_exhaustive()
    }
}
