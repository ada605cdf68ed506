use std::fmt;
use std::future::Future;
use std::ops::Range;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use tokio::sync::oneshot;
use tokio::task::coop::unconstrained;

use super::bytes::RouteBytes;
use super::carrier::{Core, Gpu};
use super::error::{CarryError, CarryFault};
use super::job::Job;
use super::landed::Landed;
use crate::device::{DeviceError, DeviceFault, DeviceLoan, DeviceSlot};
use crate::storage::{Extent, Plan, Read, groups};

/// Bytes on their way to a device: a future of what [`Landed`].
///
/// Dropping it leaves what is under way to be finished, and the memory is given back after that.
#[must_use = "what is carried and not awaited is delivered to nobody"]
pub struct Carry {
    core: Arc<Core>,
    state: State,
}

enum State {
    /// To the host: the landing is where it was read to.
    Reading(Read),
    /// Waits for device memory.
    Waiting(DeviceLoan, Box<Plan>),
    Carrying(Carrying),
    Over(Option<Result<Landed, CarryError>>),
}

struct Carrying {
    slot: Arc<DeviceSlot>,
    pieces: Vec<Range<usize>>,
    first: Option<Extent>,
    outcome: oneshot::Receiver<Result<RouteBytes, CarryError>>,
}

impl Carry {
    pub(super) fn new(core: &Arc<Core>, extents: &[Extent]) -> Self {
        let state = begin(core, extents).unwrap_or_else(|error| State::Over(Some(Err(error))));
        Self { core: Arc::clone(core), state }
    }

    /// Waits on this thread, with any runtime or none.
    ///
    /// # Errors
    /// As [`Carrier::carry`](super::Carrier::carry).
    pub fn wait(self) -> Result<Landed, CarryError> {
        // Inside a tokio task, its budget would end, and only yielding, which this thread does not, would renew it.
        pollster::block_on(unconstrained(self))
    }
}

fn begin(core: &Arc<Core>, extents: &[Extent]) -> Result<State, CarryError> {
    let Some(gpu) = &core.gpu else {
        return Ok(State::Reading(core.reader.read(extents)));
    };
    let plan = Plan::new(extents, core.reader.settings())?;
    if plan.layout.parts.is_empty() {
        let landed = Landed::nothing(core, plan.layout.pieces);
        return Ok(State::Over(Some(Ok(landed))));
    }
    let over_budget = |error| {
        let part = &plan.layout.parts[0];
        let path = plan.files[part.file as usize].path().to_owned();
        CarryError { path, offset: part.need.start, fault: CarryFault::Memory(error) }
    };
    if !gpu.device.is_ours() {
        let error = gpu.device.error(DeviceFault::Forked);
        let Some(first) = extents.first() else { return Ok(State::Over(None)) };
        let (path, offset) = (first.file.path().to_owned(), first.offset);
        return Err(CarryError { path, offset, fault: CarryFault::Device(error) });
    }
    if let Some(slot) = gpu.arena.try_loan(plan.layout.len, plan.memory_align) {
        return Ok(begun(core, plan, slot));
    }
    let loan = gpu.arena.loan(plan.layout.len, plan.memory_align).map_err(over_budget)?;
    Ok(State::Waiting(loan, Box::new(plan)))
}

impl Carrying {
    fn begin(core: &Core, plan: Plan, slot: DeviceSlot, gpu: &Gpu) -> Self {
        let slot = Arc::new(slot);
        let first = plan.layout.parts.first().map(|part| {
            let file = &plan.files[part.file as usize];
            Extent::new(file, part.need.start, part.need.end - part.need.start)
        });
        let (job, outcome) = Job::new(groups(&plan, core.chunk, |_| true), Arc::clone(&slot) as _);
        if let Some(conductor) = &gpu.conductor {
            conductor.take(job);
        }
        Self { slot, pieces: plan.layout.pieces, first, outcome }
    }
}

impl Future for Carry {
    type Output = Result<Landed, CarryError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let this = &mut *self;
        loop {
            let next = match &mut this.state {
                State::Reading(read) => {
                    let outcome = ready!(Pin::new(read).poll(context));
                    State::Over(Some(
                        outcome.map_err(CarryError::from).map(|pieces| Landed::on_host(&this.core, pieces)),
                    ))
                }
                State::Waiting(loan, _) => {
                    let slot = ready!(Pin::new(loan).poll(context));
                    let State::Waiting(_, plan) = std::mem::replace(&mut this.state, State::Over(None)) else {
                        return Poll::Pending;
                    };
                    begun(&this.core, *plan, slot)
                }
                State::Carrying(carrying) => {
                    let outcome = ready!(Pin::new(&mut carrying.outcome).poll(context));
                    let State::Carrying(carrying) = std::mem::replace(&mut this.state, State::Over(None)) else {
                        return Poll::Pending;
                    };
                    State::Over(Some(ended(&this.core, carrying, outcome)))
                }
                State::Over(outcome) => return outcome.take().map_or(Poll::Pending, Poll::Ready),
            };
            this.state = next;
        }
    }
}

fn begun(core: &Arc<Core>, plan: Plan, slot: DeviceSlot) -> State {
    match &core.gpu {
        Some(gpu) => State::Carrying(Carrying::begin(core, plan, slot, gpu)),
        None => State::Over(None),
    }
}

fn ended(
    core: &Arc<Core>,
    carrying: Carrying,
    outcome: Result<Result<RouteBytes, CarryError>, oneshot::error::RecvError>,
) -> Result<Landed, CarryError> {
    let Carrying { slot, pieces, first, .. } = carrying;
    let carried = outcome.unwrap_or_else(|_| {
        let fault = DeviceFault::Ended;
        let fault = CarryFault::Device(DeviceError { device: core.device.to_string(), fault });
        let (path, offset) = first.map_or_else(Default::default, |first| (first.file.path().to_owned(), first.offset));
        Err(CarryError { path, offset, fault })
    })?;
    core.tally.add(carried);
    Ok(Landed::on_device(core, slot, pieces, carried))
}

impl fmt::Debug for Carry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = match &self.state {
            State::Waiting(..) => "waits for device memory",
            State::Reading(_) | State::Carrying(_) => "under way",
            State::Over(_) => "over",
        };
        f.debug_tuple("Carry").field(&state).finish()
    }
}
