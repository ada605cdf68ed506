//! A slot of the arena to the device: what the processor has worked on.

use std::future::Future;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use tokio::sync::oneshot;

use super::bytes::RouteBytes;
use super::carry_placed::ALIGN;
use super::core::Core;
use super::error::{CarryError, CarryFault};
use super::job::{Job, Place};
use super::landed::Landed;
use crate::device::{DeviceError, DeviceLoan, DeviceSlot};
use crate::memory::Slot;

/// Device memory that an upload is to land in, to come: a future of it.
///
/// It is asked for before host memory is, and in the order of the batches: who holds host memory would wait here for whoever
/// holds device memory, and he may be waiting for host memory, or for an earlier batch.
pub(crate) struct Room {
    core: Arc<Core>,
    /// For errors.
    place: (PathBuf, u64),
    state: RoomState,
}

enum RoomState {
    Waiting(DeviceLoan),
    Over(Option<Result<Landing, CarryError>>),
}

/// Where an upload is to land; nowhere, where it has no bytes.
pub(crate) struct Landing(Option<DeviceSlot>);

impl Room {
    pub(super) fn new(core: &Arc<Core>, len: usize, path: PathBuf, offset: u64) -> Self {
        let place = (path, offset);
        let state = ask(core, len, &place).unwrap_or_else(|error| RoomState::Over(Some(Err(error))));
        Self { core: Arc::clone(core), place, state }
    }

    /// What has come of it, or itself where it waits for memory to come free.
    pub(crate) fn now(mut self) -> Result<Result<Landing, CarryError>, Box<Self>> {
        match &mut self.state {
            RoomState::Over(outcome) => outcome.take().ok_or(Box::new(self)),
            RoomState::Waiting(_) => Err(Box::new(self)),
        }
    }
}

fn ask(core: &Arc<Core>, len: usize, place: &(PathBuf, u64)) -> Result<RoomState, CarryError> {
    core.check_process().map_err(|error| failed(place, CarryFault::Device(error)))?;
    let Some(gpu) = core.gpu.as_ref().filter(|_| len > 0) else {
        return Ok(RoomState::Over(Some(Ok(Landing(None)))));
    };
    match gpu.arena.try_loan(len, ALIGN) {
        Some(slot) => Ok(RoomState::Over(Some(Ok(Landing(Some(slot)))))),
        None => {
            let loan = gpu.arena.loan(len, ALIGN).map_err(|error| failed(place, CarryFault::Memory(error)))?;
            Ok(RoomState::Waiting(loan))
        }
    }
}

fn failed((path, offset): &(PathBuf, u64), fault: CarryFault) -> CarryError {
    CarryError { path: path.clone(), offset: *offset, fault }
}

impl Future for Room {
    type Output = Result<Landing, CarryError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let this = &mut *self;
        match &mut this.state {
            RoomState::Over(outcome) => outcome.take().map_or(Poll::Pending, Poll::Ready),
            RoomState::Waiting(loan) => {
                let outcome = match Pin::new(&mut *loan).poll(context) {
                    Poll::Ready(slot) => Ok(Landing(Some(slot))),
                    Poll::Pending => match this.core.why_in_vain(loan) {
                        None => return Poll::Pending,
                        Some(error) => Err(failed(&this.place, CarryFault::Device(error))),
                    },
                };
                this.state = RoomState::Over(None);
                Poll::Ready(outcome)
            }
        }
    }
}

/// A slot on its way to the device: a future of where it landed, in one piece.
pub(crate) struct Upload {
    core: Arc<Core>,
    /// For errors, which only the device can cause.
    place: (PathBuf, u64),
    len: usize,
    state: State,
}

enum State {
    Copying(Arc<DeviceSlot>, oneshot::Receiver<Result<RouteBytes, CarryError>>),
    Over(Option<Result<Landed, CarryError>>),
}

impl Upload {
    /// `landing` is room for as many bytes as `slot` has.
    pub(super) fn new(core: &Arc<Core>, slot: Slot, landing: Landing, path: PathBuf, offset: u64) -> Self {
        let len = slot.len();
        let mut upload = Self { core: Arc::clone(core), place: (path, offset), len, state: State::Over(None) };
        upload.state = upload.begin(slot, landing).unwrap_or_else(|error| State::Over(Some(Err(error))));
        upload
    }

    fn begin(&self, slot: Slot, Landing(there): Landing) -> Result<State, CarryError> {
        let core = &self.core;
        core.check_process().map_err(|error| self.failed(error))?;
        let Some(there) = there else {
            return Ok(State::Over(Some(Ok(Landed::nothing(core, std::iter::once(0..0).collect())))));
        };
        let conductor = core.conductor().map_err(|error| self.failed(error))?;
        let there = Arc::new(there);
        let place = Place::new(self.place.0.clone(), self.place.1);
        let (job, outcome) = Job::of_slot(slot, Arc::clone(&there) as _, place);
        conductor.take(job);
        Ok(State::Copying(there, outcome))
    }

    fn failed(&self, error: DeviceError) -> CarryError {
        failed(&self.place, CarryFault::Device(error))
    }
}

impl Future for Upload {
    type Output = Result<Landed, CarryError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let this = &mut *self;
        match &mut this.state {
            State::Copying(there, outcome) => {
                if let Err(error) = this.core.check_process() {
                    // Nobody here will ever hear of it.
                    let error = this.failed(error);
                    this.state = State::Over(None);
                    return Poll::Ready(Err(error));
                }
                let outcome = ready!(Pin::new(outcome).poll(context));
                let (there, whole) = (Arc::clone(there), 0..this.len);
                let outcome = outcome.unwrap_or_else(|_| Err(this.failed(this.core.ended())));
                this.state = State::Over(None);
                Poll::Ready(outcome.map(|carried| {
                    // Which routes its bytes came by was counted when they were read.
                    this.core.tally.add(carried);
                    Landed::on_device(&this.core, there, std::iter::once(whole).collect(), carried)
                }))
            }
            State::Over(outcome) => outcome.take().map_or(Poll::Pending, Poll::Ready),
        }
    }
}
