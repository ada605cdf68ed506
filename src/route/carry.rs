use std::collections::HashSet;
use std::fmt;
use std::future::Future;
use std::ops::Range;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use super::core::Core;
use super::decision::Route;
use super::direct::least_align;
use super::direct_read::{DirectRead, Target};
use super::error::{CarryError, CarryFault};
use super::job::Load;
use super::landed::Landed;
use super::under_way::UnderWay;
use crate::device::{DeviceLoan, DeviceSlot, Memory};
use crate::storage::{Extent, File, Part, Plan, PlanRoom, Read, Via, groups};
use crate::sync::wait_for;
use crate::units::Size;

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
    Carrying(Box<Carrying>),
    Over(Option<Result<Landed, CarryError>>),
}

/// The numbers of the files that cuFile reads.
type DirectFiles = HashSet<u64>;

struct Carrying {
    slot: Arc<DeviceSlot>,
    pieces: Vec<Range<usize>>,
    under_way: UnderWay,
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
        wait_for(self, |carry| match (&carry.state, &carry.core.gpu) {
            (State::Reading(read), _) => read.say_if_waiting(),
            (State::Waiting(_, planned), Some(gpu)) => tracing::warn!(
                "a request waits for {} of device memory, and {} of a budget of {} are held by what has landed: drop some of \
                 it, or raise the budget",
                Size(planned.0.layout.len as u64),
                Size(gpu.arena.on_loan()),
                Size(gpu.arena.memory().len() as u64)
            ),
            _ => {}
        })
    }
}

fn begin(core: &Arc<Core>, extents: &[Extent]) -> Result<State, CarryError> {
    let Some(gpu) = &core.gpu else {
        core.direct_files(extents)?;
        return Ok(State::Reading(core.reader.read(extents)));
    };
    if let Some(first) = extents.first() {
        let (path, offset) = (first.file.path().to_owned(), first.offset);
        core.check_process().map_err(|error| CarryError { path, offset, fault: CarryFault::Device(error) })?;
    }
    let direct = core.direct_files(extents)?;
    /// So that bytes lie as far from a multiple of this on the device as in their file, whichever way they come.
    const GRAIN: u32 = 64;
    let least = |file: &File| if direct.contains(&file.inner.id) { least_align(file) } else { GRAIN };
    let mut plan = Plan::with_least(extents, core.reader.settings(), PlanRoom::Device(gpu.arena.budget()), least)?;
    send_by(core, &direct, &mut plan);
    if core.switches.allows(Route::Cached) && !direct.is_empty() {
        core.reader.prefer_warm(&plan.files, &mut plan.layout.parts, |file| direct.contains(&file.inner.id))?;
    }
    if plan.layout.parts.is_empty() {
        let landed = Landed::nothing(core, plan.layout.pieces);
        return Ok(State::Over(Some(Ok(landed))));
    }
    let over_budget = |error| failed(&plan, CarryFault::Memory(error));
    if let Some(slot) = gpu.arena.try_loan(plan.layout.len, plan.memory_align) {
        return Ok(State::Carrying(Box::new(Carrying::begin(core, plan, &direct, slot))));
    }
    let loan = gpu.arena.loan(plan.layout.len, plan.memory_align).map_err(over_budget)?;
    Ok(State::Waiting(loan, Box::new((plan, direct))))
}

/// Sends the parts of files that cuFile reads its way, whatever the reader would do with them.
fn send_by(core: &Core, direct: &DirectFiles, plan: &mut Plan) {
    let chunk = core.reader.settings().chunk;
    for part in &mut plan.layout.parts {
        let file = &plan.files[part.file as usize];
        // Blocks that do not divide a chunk are larger than any known ones: cuFile reads them only where it must.
        let fits = chunk.is_multiple_of(u64::from(least_align(file))) || core.is_direct_alone();
        if fits && direct.contains(&file.inner.id) {
            part.via = Via::Direct;
        }
    }
}

/// At the first byte that is read.
fn failed(plan: &Plan, fault: CarryFault) -> CarryError {
    let first = plan.layout.parts.first();
    let path = first.map(|part| plan.files[part.file as usize].path().to_owned()).unwrap_or_default();
    CarryError { path, offset: first.map_or(0, |part| part.need.start), fault }
}

impl Carrying {
    fn begin(core: &Core, mut plan: Plan, files: &DirectFiles, slot: DeviceSlot) -> Self {
        let slot = Arc::new(slot);
        let loan: Arc<dyn Memory> = Arc::clone(&slot) as _;
        // What is in the page cache already is read from there, where that is allowed.
        let mut chosen: Vec<bool> = plan.files.iter().map(|file| files.contains(&file.inner.id)).collect();
        let is_direct = |part: &Part, chosen: &[bool]| chosen[part.file as usize] && part.via == Via::Direct;
        let parts: Vec<Part> = plan.layout.parts.iter().filter(|part| is_direct(part, &chosen)).cloned().collect();
        let direct = match core.direct().filter(|_| !parts.is_empty()) {
            Some(direct) => {
                let (memory, start) = (Arc::clone(direct.memory()), slot.start() as u64);
                let target = Target { memory, start, loan: Arc::clone(&loan) };
                DirectRead::begin(plan.files.clone(), parts, target, direct, &core.reader).map(Some)
            }
            None => Ok(None),
        };
        let direct = direct.or_else(|error| {
            core.may_go_another_way(error)?;
            for part in plan.layout.parts.iter_mut().filter(|part| is_direct(part, &chosen)) {
                part.via = if core.switches.allows(Route::Bounce) { Via::Direct } else { Via::Buffered };
            }
            chosen.fill(false);
            Ok(None)
        });
        let groups = groups(&plan, core.chunk, |part| !is_direct(part, &chosen));
        let loads = groups.into_iter().map(Load::as_laid_out).collect();
        let first = plan.layout.parts.first().map(|part| {
            let file = &plan.files[part.file as usize];
            Extent::new(file, part.need.start, part.need.end - part.need.start)
        });
        let under_way = UnderWay::begin(core, &loan, loads, direct, first.as_ref());
        Self { slot, pieces: plan.layout.pieces, under_way }
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
                State::Waiting(loan, planned) => {
                    let Poll::Ready(slot) = Pin::new(&mut *loan).poll(context) else {
                        let Some(error) = this.core.why_in_vain(loan) else { return Poll::Pending };
                        let error = failed(&planned.0, CarryFault::Device(error));
                        this.state = State::Over(Some(Err(error)));
                        continue;
                    };
                    let State::Waiting(_, planned) = std::mem::replace(&mut this.state, State::Over(None)) else {
                        return Poll::Pending;
                    };
                    State::Carrying(Box::new(Carrying::begin(&this.core, planned.0, &planned.1, slot)))
                }
                State::Carrying(carrying) => {
                    let outcome = ready!(carrying.under_way.poll(context, &this.core));
                    let State::Carrying(carrying) = std::mem::replace(&mut this.state, State::Over(None)) else {
                        return Poll::Pending;
                    };
                    let Carrying { slot, pieces, .. } = *carrying;
                    State::Over(Some(outcome.map(|carried| Landed::on_device(&this.core, slot, pieces, carried))))
                }
                State::Over(outcome) => return outcome.take().map_or(Poll::Pending, Poll::Ready),
            };
            this.state = next;
        }
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
