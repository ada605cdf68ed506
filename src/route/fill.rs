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
use crate::memory::{MemoryError, Slot};
use crate::storage::{Extent, Pieces, Place, Plan, Read, ReadFault, Watch, straight};

/// Bytes on their way to places of a slot.
pub(crate) struct Fill {
    core: Arc<Core>,
    state: Option<State>,
}

enum State {
    Reading {
        straight: Straight,
        beside: Beside,
        /// Where each piece of what is read beside it goes.
        places: Vec<usize>,
    },
    Failed(CarryError),
}

/// What is read to its place.
enum Straight {
    Reading(Read),
    Over(Slot, RouteBytes),
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

    /// Copies what is not in its place yet: work for the processor, on whichever thread.
    pub(crate) fn finish(mut self) -> Slot {
        if let Some(pieces) = &self.beside {
            for (piece, &at) in pieces.iter().zip(&self.places) {
                // Places were checked against the slot when the read was planned.
                self.slot[at..at + piece.len()].copy_from_slice(piece);
            }
        }
        self.slot
    }
}

impl Fill {
    /// `slot` is of the carrier's reader. Places lie inside it and do not overlap.
    pub(super) fn new(core: &Arc<Core>, slot: Slot, places: Vec<Place>) -> Self {
        let state = begin(core, slot, places).unwrap_or_else(State::Failed);
        Self { core: Arc::clone(core), state: Some(state) }
    }

    /// Whether it waits for memory to come free.
    pub(crate) fn is_waiting(&self) -> bool {
        matches!(&self.state, Some(State::Reading { beside: Beside::Reading(read), .. }) if read.is_waiting())
    }

    /// What tells what it is waiting for.
    pub(crate) fn watches(&self) -> Vec<Watch> {
        let Some(State::Reading { straight, beside, .. }) = &self.state else { return Vec::new() };
        let straight = if let Straight::Reading(read) = straight { read.watch() } else { None };
        let beside = if let Beside::Reading(read) = beside { read.watch() } else { None };
        straight.into_iter().chain(beside).collect()
    }
}

fn begin(core: &Arc<Core>, slot: Slot, places: Vec<Place>) -> Result<State, CarryError> {
    check_routes(core, places.first().map(|(extent, _)| extent))?;
    core.direct_files(places.iter().map(|(extent, _)| extent))?;
    check_places(slot.len(), &places)?;
    let settings = core.reader.settings();
    let (plan, rest) = straight(places, settings)?;
    let (extents, places): (Vec<Extent>, Vec<usize>) = rest.into_iter().unzip();
    let beside = match extents.is_empty() {
        true => Beside::Over(None),
        false => Beside::Reading(read_beside(core, &extents, slot.len())?),
    };
    let straight = match plan.layout.parts.is_empty() {
        true => Straight::Over(slot, RouteBytes::default()),
        false => Straight::Reading(core.reader.read_into(plan, slot)),
    };
    Ok(State::Reading { straight, beside, places })
}

/// Reads to another slot while one of `held` bytes is kept: both must fit the budget, or one would wait for the other.
fn read_beside(core: &Core, extents: &[Extent], held: usize) -> Result<Read, CarryError> {
    let plan = Plan::new(extents, core.reader.settings())?;
    let whole = |len: usize| (len as u64).next_multiple_of(4096);
    let (asked, budget) = (whole(held) + whole(plan.layout.len), core.reader.arena().budget());
    match (asked > budget, extents.first()) {
        (true, Some(first)) => {
            let fault = CarryFault::Memory(MemoryError::OverBudget { asked, budget });
            Err(CarryError { path: first.file.path().to_owned(), offset: first.offset, fault })
        }
        _ => Ok(core.reader.read_planned(plan)),
    }
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
        let Some(state) = &mut this.state else { return Poll::Pending };
        let outcome = match state {
            State::Failed(_) => Ok(()),
            State::Reading { straight, beside, .. } => ready!(poll_both(straight, beside, context)),
        };
        match (outcome, this.state.take()) {
            (Err(error), _) | (Ok(()), Some(State::Failed(error))) => Poll::Ready(Err(error)),
            (
                Ok(()),
                Some(State::Reading { straight: Straight::Over(slot, carried), beside: Beside::Over(beside), places }),
            ) => {
                let mut carried = carried;
                carried +=
                    beside.as_ref().and_then(Pieces::carried).as_ref().map(RouteBytes::of_reads).unwrap_or_default();
                this.core.tally.add(carried);
                Poll::Ready(Ok(Filled { slot, beside, places, carried }))
            }
            _ => Poll::Pending,
        }
    }
}

fn poll_both(straight: &mut Straight, beside: &mut Beside, context: &mut Context<'_>) -> Poll<Result<(), CarryError>> {
    let mut pending = false;
    if let Straight::Reading(read) = straight {
        match Pin::new(read).poll(context) {
            Poll::Pending => pending = true,
            Poll::Ready(pieces) => match pieces.map(landed) {
                Ok(Some((slot, carried))) => *straight = Straight::Over(slot, carried),
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

/// Extents on their way to host memory, wherever there is room: what is worked on before it goes on to the device.
pub(crate) struct Gather {
    core: Arc<Core>,
    state: Result<Read, Option<CarryError>>,
}

impl Gather {
    /// `held` bytes of the carrier's host memory are kept meanwhile.
    pub(super) fn new(core: &Arc<Core>, extents: &[Extent], held: usize) -> Self {
        let begin = || {
            check_routes(core, extents.first())?;
            core.direct_files(extents)?;
            read_beside(core, extents, held)
        };
        Self { core: Arc::clone(core), state: begin().map_err(Some) }
    }

    /// Whether it waits for memory to come free.
    pub(crate) fn is_waiting(&self) -> bool {
        self.state.as_ref().is_ok_and(Read::is_waiting)
    }

    /// What tells what it is waiting for.
    pub(crate) fn watches(&self) -> Vec<Watch> {
        self.state.as_ref().ok().and_then(Read::watch).into_iter().collect()
    }
}

impl Future for Gather {
    type Output = Result<(Pieces, RouteBytes), CarryError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let this = &mut *self;
        match &mut this.state {
            Err(error) => error.take().map_or(Poll::Pending, |error| Poll::Ready(Err(error))),
            Ok(read) => {
                let outcome = ready!(Pin::new(read).poll(context));
                Poll::Ready(outcome.map_err(CarryError::from).map(|pieces| {
                    let carried = pieces.carried().as_ref().map(RouteBytes::of_reads).unwrap_or_default();
                    this.core.tally.add(carried);
                    (pieces, carried)
                }))
            }
        }
    }
}
