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

/// A slot on its way to the device: a future of where it landed, in one piece.
pub(crate) struct Upload {
    core: Arc<Core>,
    /// For errors, which only the device can cause.
    path: PathBuf,
    offset: u64,
    len: usize,
    state: State,
}

enum State {
    /// Waits for device memory.
    Waiting(DeviceLoan, Option<Slot>),
    Copying(Arc<DeviceSlot>, oneshot::Receiver<Result<RouteBytes, CarryError>>),
    Over(Option<Result<Landed, CarryError>>),
}

impl Upload {
    pub(super) fn new(core: &Arc<Core>, slot: Slot, path: PathBuf, offset: u64) -> Self {
        let len = slot.len();
        let mut upload = Self { core: Arc::clone(core), path, offset, len, state: State::Over(None) };
        upload.state = upload.begin(slot).unwrap_or_else(|error| State::Over(Some(Err(error))));
        upload
    }

    /// Whether it waits for memory to come free.
    pub(crate) fn is_waiting(&self) -> bool {
        matches!(self.state, State::Waiting(..))
    }

    fn begin(&self, slot: Slot) -> Result<State, CarryError> {
        let core = &self.core;
        core.check_process().map_err(|error| self.failed(error))?;
        let Some(gpu) = core.gpu.as_ref().filter(|_| self.len > 0) else {
            return Ok(State::Over(Some(Ok(Landed::nothing(core, std::iter::once(0..0).collect())))));
        };
        match gpu.arena.try_loan(self.len, ALIGN) {
            Some(there) => self.copy(slot, there),
            None => {
                let loan = gpu.arena.loan(self.len, ALIGN).map_err(|error| CarryError {
                    path: self.path.clone(),
                    offset: self.offset,
                    fault: CarryFault::Memory(error),
                })?;
                Ok(State::Waiting(loan, Some(slot)))
            }
        }
    }

    fn copy(&self, slot: Slot, there: DeviceSlot) -> Result<State, CarryError> {
        let conductor = self.core.conductor().map_err(|error| self.failed(error))?;
        let there = Arc::new(there);
        let place = Place::new(self.path.clone(), self.offset);
        let (job, outcome) = Job::of_slot(slot, Arc::clone(&there) as _, place);
        conductor.take(job);
        Ok(State::Copying(there, outcome))
    }

    fn failed(&self, error: DeviceError) -> CarryError {
        CarryError { path: self.path.clone(), offset: self.offset, fault: CarryFault::Device(error) }
    }
}

impl Future for Upload {
    type Output = Result<Landed, CarryError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let this = &mut *self;
        loop {
            let next = match &mut this.state {
                State::Waiting(loan, slot) => {
                    let outcome = match Pin::new(loan).poll(context) {
                        Poll::Ready(there) => match slot.take() {
                            Some(slot) => this.copy(slot, there),
                            None => return Poll::Pending,
                        },
                        Poll::Pending => match this.core.why_in_vain() {
                            None => return Poll::Pending,
                            Some(error) => Err(this.failed(error)),
                        },
                    };
                    outcome.unwrap_or_else(|error| State::Over(Some(Err(error))))
                }
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
                    let landed =
                        |carried| Landed::on_device(&this.core, there, std::iter::once(whole).collect(), carried);
                    State::Over(Some(outcome.map(landed)))
                }
                State::Over(outcome) => return outcome.take().map_or(Poll::Pending, Poll::Ready),
            };
            this.state = next;
        }
    }
}
