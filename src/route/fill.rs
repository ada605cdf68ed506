//! Extents to places of one slot of host memory: read there where alignment allows, else read beside it and copied.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use super::bytes::RouteBytes;
use super::core::Core;
use super::decision::Route;
use super::error::{CarryError, CarryFault};
use super::reason::NoRoute;
use crate::memory::{MemoryError, Slot, copy};
use crate::storage::{Extent, Pieces, Place, Plan, PlanRoom, Read, ReadFault, Watch, straight};

/// How extents are to be read to host memory: some to their places, and the others beside them.
///
/// All the memory it takes is one piece, so that nothing that is under way ever waits for more.
pub(crate) struct FillPlan {
    straight: Plan,
    beside: Plan,
    /// Where each piece of what is read beside its place goes.
    places: Vec<usize>,
    /// Bytes that have places in them.
    len: usize,
}

/// Bytes on their way to places of a slot.
pub(crate) struct Fill {
    core: Arc<Core>,
    straight: Straight,
    beside: Beside,
    places: Vec<usize>,
}

/// What is read to its place.
enum Straight {
    Reading(Read),
    Over(Option<Slot>, RouteBytes),
}

/// What is read to another slot.
enum Beside {
    Reading(Read),
    Over(Option<Pieces>),
}

/// All that was asked for, some of it still beside its place.
pub(crate) struct Filled {
    slot: Slot,
    beside: Option<Pieces>,
    places: Vec<usize>,
    pub(crate) carried: RouteBytes,
}

impl Filled {
    /// How many bytes are not in their place yet.
    pub(crate) fn bytes_beside(&self) -> usize {
        self.beside.as_ref().map_or(0, |pieces| pieces.iter().map(<[u8]>::len).sum())
    }

    /// The slot, and what was read beside it: a piece for each extent where all were.
    pub(crate) fn into_parts(self) -> (Slot, Pieces) {
        (self.slot, self.beside.unwrap_or_else(Pieces::none))
    }

    /// Copies what is not in its place yet: work for the processor, on whichever thread.
    pub(crate) fn finish(mut self) -> Slot {
        if let Some(pieces) = &self.beside {
            for (piece, &at) in pieces.iter().zip(&self.places) {
                // Places were checked against the slot when the read was planned.
                copy(&mut self.slot[at..at + piece.len()], piece);
            }
        }
        self.slot
    }
}

impl FillPlan {
    /// Places lie inside `len` bytes and do not overlap.
    pub(super) fn new(core: &Core, places: Vec<Place>, len: usize) -> Result<Self, CarryError> {
        check_routes(core, places.first().map(|(extent, _)| extent))?;
        let arena = core.reader.arena();
        // Before there is a part for each chunk of them.
        arena.check(len).map_err(|error| {
            let (path, offset) =
                places.first().map(|(first, _)| (first.file.path().to_owned(), first.offset)).unwrap_or_default();
            CarryError { path, offset, fault: CarryFault::Memory(error) }
        })?;
        core.direct_files(places.iter().map(|(extent, _)| extent))?;
        check_places(len, &places)?;
        let (straight, rest) = straight(places, core.reader.settings())?;
        let (extents, places): (Vec<Extent>, Vec<usize>) = rest.into_iter().unzip();
        let beside = Plan::new(&extents, core.reader.settings(), PlanRoom::Host(arena.budget()))?;
        Ok(Self { straight, beside, places, len })
    }

    /// All of them beside their places, for somebody who makes something else of them in `len` bytes.
    pub(super) fn beside(core: &Core, extents: &[Extent], len: usize) -> Result<Self, CarryError> {
        check_routes(core, extents.first())?;
        core.direct_files(extents)?;
        let beside = Plan::new(extents, core.reader.settings(), PlanRoom::Host(core.reader.arena().budget()))?;
        Ok(Self { straight: Plan::default(), beside, places: Vec::new(), len })
    }

    /// Bytes that it takes in all: what the slot must have.
    pub(crate) fn memory(&self) -> usize {
        let len = self.len.max(1).next_multiple_of(self.align());
        len.saturating_add(self.beside.layout.len)
    }

    /// The part of a slot that has places in it, and that for what is read beside them.
    pub(crate) fn divide(&self, slot: Slot) -> (Slot, Slot) {
        slot.split(self.len.max(1), self.align())
    }

    /// What the slot must be a multiple of.
    pub(crate) fn align(&self) -> usize {
        self.beside.memory_align.max(4096)
    }
}

impl Fill {
    /// `slot` is of the carrier's reader, and as long as the plan says.
    pub(super) fn new(core: &Arc<Core>, plan: FillPlan, slot: Slot) -> Self {
        let (slot, other) = plan.divide(slot);
        let beside = match plan.beside.layout.parts.is_empty() {
            true => Beside::Over(None),
            false => Beside::Reading(core.reader.read_into(plan.beside, other)),
        };
        let straight = match plan.straight.layout.parts.is_empty() {
            true => Straight::Over(Some(slot), RouteBytes::default()),
            false => Straight::Reading(core.reader.read_into(plan.straight, slot)),
        };
        Self { core: Arc::clone(core), straight, beside, places: plan.places }
    }

    /// What tells what it is waiting for.
    pub(crate) fn watches(&self) -> Vec<Watch> {
        let straight = if let Straight::Reading(read) = &self.straight { read.watch() } else { None };
        let beside = if let Beside::Reading(read) = &self.beside { read.watch() } else { None };
        straight.into_iter().chain(beside).collect()
    }
}

/// Reads extents beside `held` bytes of the reader's arena that the caller keeps, and waits for that on this thread.
pub(super) fn gather_now(core: &Core, extents: &[Extent], held: usize) -> Result<(Pieces, RouteBytes), CarryError> {
    let plan = FillPlan::beside(core, extents, held)?;
    let (asked, budget) = (plan.memory() as u64, core.reader.arena().budget());
    if let Some(first) = extents.first().filter(|_| asked > budget) {
        let fault = CarryFault::Memory(MemoryError::OverBudget { asked, budget });
        return Err(CarryError { path: first.file.path().to_owned(), offset: first.offset, fault });
    }
    let pieces = core.reader.read_planned(plan.beside).wait()?;
    let carried = pieces.carried().as_ref().map(RouteBytes::of_reads).unwrap_or_default();
    core.tally.add(carried);
    Ok((pieces, carried))
}

/// Sees that bytes can go to host memory at all.
fn check_routes(core: &Core, first: Option<&Extent>) -> Result<(), CarryError> {
    let Some(first) = first else { return Ok(()) };
    let failed = |fault| CarryError { path: first.file.path().to_owned(), offset: first.offset, fault };
    core.check_process().map_err(|error| failed(CarryFault::Device(error)))?;
    match core.is_direct_alone() && core.gpu.is_some() {
        true => Err(failed(CarryFault::NoRoute { route: Route::Direct, reason: NoRoute::ByTheHost })),
        false => Ok(()),
    }
}

fn check_places(len: usize, places: &[Place]) -> Result<(), CarryError> {
    let wrong = |(extent, at): &&Place| {
        usize::try_from(extent.len).ok().and_then(|len| at.checked_add(len)).is_none_or(|end| end > len)
    };
    match places.iter().find(wrong) {
        None => Ok(()),
        Some((extent, at)) => {
            let fault =
                CarryFault::Place { at: *at, len: extent.len, buffer: len, what: "passes the end of the buffer" };
            Err(CarryError { path: extent.file.path().to_owned(), offset: extent.offset, fault })
        }
    }
}

impl Future for Fill {
    type Output = Result<Filled, CarryError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let this = &mut *self;
        if let Err(error) = ready!(poll_both(&mut this.straight, &mut this.beside, context)) {
            return Poll::Ready(Err(error));
        }
        let (Straight::Over(slot, carried), Beside::Over(beside)) = (&mut this.straight, &mut this.beside) else {
            return Poll::Pending;
        };
        // Polled again after it was ready: there is nothing more to come.
        let Some(slot) = slot.take() else { return Poll::Pending };
        let (beside, mut carried) = (beside.take(), *carried);
        carried += beside.as_ref().and_then(Pieces::carried).as_ref().map(RouteBytes::of_reads).unwrap_or_default();
        this.core.tally.add(carried);
        Poll::Ready(Ok(Filled { slot, beside, places: std::mem::take(&mut this.places), carried }))
    }
}

fn poll_both(straight: &mut Straight, beside: &mut Beside, context: &mut Context<'_>) -> Poll<Result<(), CarryError>> {
    let mut pending = false;
    if let Straight::Reading(read) = straight {
        match Pin::new(read).poll(context) {
            Poll::Pending => pending = true,
            Poll::Ready(pieces) => match pieces.map(landed) {
                Ok(Some((slot, carried))) => *straight = Straight::Over(Some(slot), carried),
                // No job of it is left: nobody else can have it.
                Ok(None) => {
                    let error = CarryError {
                        path: Default::default(),
                        offset: 0,
                        fault: CarryFault::Read(ReadFault::EngineEnded),
                    };
                    return Poll::Ready(Err(error));
                }
                Err(error) => return Poll::Ready(Err(error.into())),
            },
        }
    }
    if let Beside::Reading(read) = beside {
        match Pin::new(read).poll(context) {
            Poll::Pending => pending = true,
            Poll::Ready(Ok(pieces)) => *beside = Beside::Over(Some(pieces)),
            Poll::Ready(Err(error)) => return Poll::Ready(Err(error.into())),
        }
    }
    if pending { Poll::Pending } else { Poll::Ready(Ok(())) }
}

/// The slot that was read into, and the bytes by route.
fn landed(pieces: Pieces) -> Option<(Slot, RouteBytes)> {
    let carried = pieces.carried().as_ref().map(RouteBytes::of_reads).unwrap_or_default();
    Some((pieces.into_request()?.into_slot()?, carried))
}
