use std::collections::HashSet;
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
use super::decision::Route;
use super::direct::least_align;
use super::direct_read::DirectRead;
use super::error::{CarryError, CarryFault};
use super::job::Job;
use super::landed::Landed;
use crate::device::{DeviceError, DeviceFault, DeviceLoan, DeviceSlot};
use crate::storage::{Extent, File, Part, Plan, Read, Via, groups};

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
    Waiting(DeviceLoan, Box<(Plan, DirectFiles)>),
    Carrying(Carrying),
    Over(Option<Result<Landed, CarryError>>),
}

/// The numbers of the files that cuFile reads.
type DirectFiles = HashSet<u64>;

struct Carrying {
    slot: Arc<DeviceSlot>,
    pieces: Vec<Range<usize>>,
    first: Option<Extent>,
    carried: RouteBytes,
    /// What the conductor brings, until it has.
    copied: Option<oneshot::Receiver<Result<RouteBytes, CarryError>>>,
    /// What cuFile brings, until it has.
    direct: Option<DirectRead>,
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
        core.direct_files(extents)?;
        return Ok(State::Reading(core.reader.read(extents)));
    };
    if !gpu.device.is_ours() {
        let error = gpu.device.error(DeviceFault::Forked);
        let Some(first) = extents.first() else { return Ok(State::Over(None)) };
        let (path, offset) = (first.file.path().to_owned(), first.offset);
        return Err(CarryError { path, offset, fault: CarryFault::Device(error) });
    }
    let direct = core.direct_files(extents)?;
    let least = |file: &File| if direct.contains(&file.inner.id) { least_align(file) } else { 1 };
    let mut plan = Plan::with_least(extents, core.reader.settings(), least)?;
    if core.switches.allows(Route::Cached) && !direct.is_empty() {
        core.reader.prefer_warm(&mut plan, |file| direct.contains(&file.inner.id))?;
    }
    if plan.layout.parts.is_empty() {
        let landed = Landed::nothing(core, plan.layout.pieces);
        return Ok(State::Over(Some(Ok(landed))));
    }
    let over_budget = |error| {
        let part = &plan.layout.parts[0];
        let path = plan.files[part.file as usize].path().to_owned();
        CarryError { path, offset: part.need.start, fault: CarryFault::Memory(error) }
    };
    if let Some(slot) = gpu.arena.try_loan(plan.layout.len, plan.memory_align) {
        return Ok(begun(core, plan, direct, slot));
    }
    let loan = gpu.arena.loan(plan.layout.len, plan.memory_align).map_err(over_budget)?;
    Ok(State::Waiting(loan, Box::new((plan, direct))))
}

impl Carrying {
    fn begin(core: &Core, plan: Plan, files: &DirectFiles, slot: DeviceSlot, gpu: &Gpu) -> Self {
        let slot = Arc::new(slot);
        let first = plan.layout.parts.first().map(|part| {
            let file = &plan.files[part.file as usize];
            Extent::new(file, part.need.start, part.need.end - part.need.start)
        });
        // What is in the page cache already is read from there, where that is allowed.
        let is_direct = |part: &Part| {
            part.via == Via::Direct && files.contains(&plan.files[part.file as usize].inner.id)
                || core.is_direct_alone()
        };
        let mut carrying = Self {
            direct: plan.layout.parts.iter().any(is_direct).then(|| DirectRead::new(&plan, &slot, is_direct)),
            copied: None,
            carried: RouteBytes::default(),
            pieces: Vec::new(),
            first,
            slot,
        };
        let groups = groups(&plan, core.chunk, |part| !is_direct(part));
        if let (false, Some(conductor)) = (groups.is_empty(), &gpu.conductor) {
            let (job, copied) = Job::new(groups, Arc::clone(&carrying.slot) as _);
            conductor.take(job);
            carrying.copied = Some(copied);
        }
        carrying.pieces = plan.layout.pieces;
        carrying
    }

    /// Ready when all has landed, or with the first error.
    fn poll(&mut self, context: &mut Context<'_>, core: &Core, gpu: &Gpu) -> Poll<Result<(), CarryError>> {
        if let (Some(read), Ok(direct)) = (&mut self.direct, &gpu.direct)
            && let Poll::Ready(carried) = read.poll(context, direct, &core.reader)
        {
            self.direct = None;
            self.carried += carried?;
        }
        if let Some(copied) = &mut self.copied
            && let Poll::Ready(carried) = Pin::new(copied).poll(context)
        {
            self.copied = None;
            self.carried += carried.unwrap_or_else(|_| Err(self.conductor_ended(core)))?;
        }
        if self.direct.is_none() && self.copied.is_none() { Poll::Ready(Ok(())) } else { Poll::Pending }
    }

    fn landed(self, core: &Arc<Core>) -> Landed {
        core.tally.add(self.carried);
        Landed::on_device(core, self.slot, self.pieces, self.carried)
    }

    fn conductor_ended(&self, core: &Core) -> CarryError {
        let fault = DeviceFault::Ended;
        let fault = CarryFault::Device(DeviceError { device: core.device.to_string(), fault });
        let first = self.first.as_ref();
        let (path, offset) = first.map_or_else(Default::default, |first| (first.file.path().to_owned(), first.offset));
        CarryError { path, offset, fault }
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
                    let State::Waiting(_, planned) = std::mem::replace(&mut this.state, State::Over(None)) else {
                        return Poll::Pending;
                    };
                    begun(&this.core, planned.0, planned.1, slot)
                }
                State::Carrying(carrying) => {
                    let Some(gpu) = &this.core.gpu else { return Poll::Pending };
                    let outcome = ready!(carrying.poll(context, &this.core, gpu));
                    let State::Carrying(carrying) = std::mem::replace(&mut this.state, State::Over(None)) else {
                        return Poll::Pending;
                    };
                    State::Over(Some(outcome.map(|()| carrying.landed(&this.core))))
                }
                State::Over(outcome) => return outcome.take().map_or(Poll::Pending, Poll::Ready),
            };
            this.state = next;
        }
    }
}

fn begun(core: &Arc<Core>, plan: Plan, direct: DirectFiles, slot: DeviceSlot) -> State {
    match &core.gpu {
        Some(gpu) => State::Carrying(Carrying::begin(core, plan, &direct, slot, gpu)),
        None => State::Over(None),
    }
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
