//! The stream, and the numbers that cuFile reads and writes when the stream comes to them.

use std::collections::VecDeque;
use std::ptr;

use super::super::context::Context;
use super::super::error::{CuFileError, Refusal};
use super::super::transfer::Ask;
use crate::sys::cuda::{self, CudaCode};
use crate::sys::cufile::{Answer, StreamCalls, decode};

/// What one read is told, and tells. cuFile keeps pointers into it until the stream has passed the read.
#[derive(Debug)]
struct Numbers {
    bytes: usize,
    file_offset: i64,
    buffer_offset: i64,
    read: isize,
}

/// A place for one read: its numbers, which stay where they are, and a mark that the stream passes after it.
#[derive(Debug)]
struct Place {
    /// From a `Box`, given back by `free`. A raw pointer, as cuFile writes through another at any time.
    numbers: *mut Numbers,
    event: cuda::Event,
}

/// A read in the stream.
#[derive(Debug)]
struct Ordered {
    place: Place,
    /// cuFile refused it, so that nothing was ordered.
    refused: Option<Refusal>,
    /// The mark could not be set, so that nobody knows when the stream has passed it.
    unmarked: Option<CudaCode>,
}

#[derive(Debug)]
pub(super) struct Lane {
    calls: &'static StreamCalls,
    context: Context,
    stream: cuda::Stream,
    free: Vec<Place>,
    ordered: VecDeque<Ordered>,
    registered: bool,
    lost: bool,
}

impl Lane {
    /// Makes a stream with room for `depth` reads, and registers it. The context must be current on this thread, here
    /// and below.
    pub(super) fn new(calls: &'static StreamCalls, context: Context, depth: usize) -> Result<Self, CuFileError> {
        /// Does not wait for the stream that old programs use.
        const NON_BLOCKING: u32 = 1;
        const DISABLE_TIMING: u32 = 2;
        /// Offsets and lengths are final, and aligned to 4096, when a read is ordered.
        const ALL_FIXED_AND_ALIGNED: u32 = 15;
        let driver = context.driver;
        let mut stream = ptr::null_mut();
        // SAFETY: the driver writes one handle.
        driver.check("cuStreamCreate", unsafe { (driver.stream_create)(&mut stream, NON_BLOCKING) })?;
        let mut lane =
            Self { calls, context, stream, free: Vec::new(), ordered: VecDeque::new(), registered: false, lost: false };
        for _ in 0..depth {
            let mut event = ptr::null_mut();
            // SAFETY: the driver writes one handle.
            driver.check("cuEventCreate", unsafe { (driver.event_create)(&mut event, DISABLE_TIMING) })?;
            let numbers = Box::into_raw(Box::new(Numbers { bytes: 0, file_offset: 0, buffer_offset: 0, read: 0 }));
            lane.free.push(Place { numbers, event });
        }
        // SAFETY: the stream is alive until `drop`, which deregisters it first.
        Refusal::check("cuFileStreamRegister", unsafe { (calls.register)(stream, ALL_FIXED_AND_ALIGNED) })?;
        lane.registered = true;
        Ok(lane)
    }

    /// Orders a read, at most `depth` at once. The caller keeps its file and its memory until [`first`](Self::first)
    /// has given its answer.
    pub(super) fn order(&mut self, ask: &Ask) {
        let Some(place) = self.free.pop() else { return };
        let numbers = place.numbers;
        // SAFETY: the place is free: nobody but us has a pointer into its numbers. From here to the mark they are
        // cuFile's. The caller keeps handle and memory alive, and the range lies inside (see `Transfer::new`).
        let status = unsafe {
            numbers.write(Numbers {
                bytes: ask.bytes,
                file_offset: ask.file_offset,
                buffer_offset: ask.buffer_offset,
                read: 0,
            });
            (self.calls.read)(
                ask.handle,
                ask.base,
                &raw mut (*numbers).bytes,
                &raw mut (*numbers).file_offset,
                &raw mut (*numbers).buffer_offset,
                &raw mut (*numbers).read,
                self.stream,
            )
        };
        let refused = Refusal::check("cuFileReadAsync", status).err();
        let driver = self.context.driver;
        // SAFETY: both handles are alive. Behind a refused read, too: cuFile does not say how far it came.
        let marked = driver.check("cuEventRecord", unsafe { (driver.event_record)(place.event, self.stream) });
        self.ordered.push_back(Ordered { place, refused, unmarked: marked.err() });
    }

    /// The answer of the read ordered first, if the stream has passed it: what it read, or why it was refused.
    ///
    /// # Errors
    /// Where the driver no longer says whether the stream has passed it.
    pub(super) fn first(&mut self) -> Result<Option<Result<Answer, Refusal>>, CudaCode> {
        let Some(first) = self.ordered.front() else { return Ok(None) };
        if let Some(error) = &first.unmarked {
            return Err(error.clone());
        }
        let driver = self.context.driver;
        // SAFETY: the handle is alive.
        match unsafe { (driver.event_query)(first.place.event) } {
            CudaCode::NOT_READY => return Ok(None),
            code => driver.check("cuEventQuery", code)?,
        }
        let Some(Ordered { place, refused, .. }) = self.ordered.pop_front() else { return Ok(None) };
        // SAFETY: the stream has passed the read, so that cuFile has written its number and does so no more. Volatile,
        // as it was written behind the compiler's back.
        let read = unsafe { (&raw const (*place.numbers).read).read_volatile() };
        self.free.push(place);
        // The call may have said that all is well, and the number say that it was not.
        Ok(Some(refused.map_or(Ok(decode(read)), Err)))
    }

    /// Gives up: cuFile may write to the numbers for ever, so that they are leaked, and the stream with them.
    pub(super) fn lose(&mut self) {
        self.ordered.clear();
        self.lost = true;
    }
}

impl Drop for Lane {
    fn drop(&mut self) {
        if self.lost || !self.ordered.is_empty() {
            return;
        }
        let driver = self.context.driver;
        let said = |call, code| {
            if let Err(error) = driver.check(call, code) {
                tracing::warn!("cuFile: a stream is being given back: {error}");
            }
        };
        if self.registered {
            // SAFETY: the stream is alive, and empty.
            let status = unsafe { (self.calls.deregister)(self.stream) };
            if let Err(error) = Refusal::check("cuFileStreamDeregister", status) {
                tracing::warn!("cuFile: {error}");
            }
        }
        for place in self.free.drain(..) {
            // SAFETY: the event is alive and not used again; the stream has passed all.
            said("cuEventDestroy", unsafe { (driver.event_destroy)(place.event) });
            // SAFETY: it came from a box, the place is free, and it is not used again.
            drop(unsafe { Box::from_raw(place.numbers) });
        }
        // SAFETY: the stream is alive, registered nowhere, and not used again.
        said("cuStreamDestroy", unsafe { (driver.stream_destroy)(self.stream) });
    }
}
