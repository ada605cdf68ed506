//! Extents to places of a piece of the device's budget, laid out by the caller.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use super::carry_into::{Destination, into_places};
use super::core::Core;
use super::direct::Direct;
use super::direct_read::Target;
use super::error::{CarryError, CarryFault};
use super::landed::Landed;
use super::placed::Placed;
use super::reason::NoRoute;
use super::under_way::UnderWay;
use crate::device::{DeviceLoan, DeviceSlot, Memory};
use crate::storage::Place;

/// Bytes on their way to places of a piece of the device's budget: a future of that, in one piece.
pub(crate) struct CarryPlaced {
    core: Arc<Core>,
    len: usize,
    state: State,
}

enum State {
    /// Waits for device memory.
    Waiting(DeviceLoan, Vec<Placed>),
    Carrying(Arc<DeviceSlot>, Box<UnderWay>),
    Over(Option<Result<Landed, CarryError>>),
}

/// What device memory begins at multiples of, for cuFile.
pub(super) const ALIGN: usize = 4096;

impl CarryPlaced {
    pub(super) fn new(core: &Arc<Core>, places: Vec<Place>, len: usize) -> Self {
        let placed: Vec<Placed> = places.into_iter().map(|(extent, at)| Placed::new(extent, at)).collect();
        let state = begin(core, placed, len).unwrap_or_else(|error| State::Over(Some(Err(error))));
        Self { core: Arc::clone(core), len, state }
    }

    /// Whether it waits for memory to come free.
    pub(crate) fn is_waiting(&self) -> bool {
        matches!(self.state, State::Waiting(..))
    }
}

fn begin(core: &Arc<Core>, placed: Vec<Placed>, len: usize) -> Result<State, CarryError> {
    let failed = |fault| {
        let first = placed.first().map(|placed| &placed.extent);
        let path = first.map(|first| first.file.path().to_owned()).unwrap_or_default();
        CarryError { path, offset: first.map_or(0, |first| first.offset), fault }
    };
    core.check_process().map_err(|error| failed(CarryFault::Device(error)))?;
    let Some(gpu) = core.gpu.as_ref().filter(|_| len > 0) else {
        return Ok(State::Over(Some(Ok(Landed::nothing(core, std::iter::once(0..0).collect())))));
    };
    match gpu.arena.try_loan(len, ALIGN) {
        Some(slot) => carrying(core, slot, &placed),
        None => {
            let loan = gpu.arena.loan(len, ALIGN).map_err(|error| failed(CarryFault::Memory(error)))?;
            Ok(State::Waiting(loan, placed))
        }
    }
}

fn carrying(core: &Core, slot: DeviceSlot, placed: &[Placed]) -> Result<State, CarryError> {
    let slot = Arc::new(slot);
    let under_way = into_places(core, &InSlot(&slot), placed)?;
    Ok(State::Carrying(slot, Box::new(under_way)))
}

struct InSlot<'a>(&'a Arc<DeviceSlot>);

impl Destination for InSlot<'_> {
    fn memory(&self) -> Arc<dyn Memory> {
        Arc::clone(self.0) as _
    }

    fn len(&self) -> usize {
        Memory::len(&**self.0)
    }

    /// Slots are lent in whole grains.
    fn allocated(&self) -> usize {
        self.len().next_multiple_of(ALIGN)
    }

    fn target(&self, direct: &Direct) -> Result<Target, NoRoute> {
        let start = self.0.start() as u64;
        Ok(Target { memory: Arc::clone(direct.memory()), start, loan: self.memory() })
    }
}

impl Future for CarryPlaced {
    type Output = Result<Landed, CarryError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let this = &mut *self;
        loop {
            let next = match &mut this.state {
                State::Waiting(loan, placed) => {
                    let outcome = match Pin::new(&mut *loan).poll(context) {
                        Poll::Ready(slot) => carrying(&this.core, slot, placed),
                        Poll::Pending => match this.core.why_in_vain(loan) {
                            None => return Poll::Pending,
                            Some(error) => Err(CarryError::device(placed.first().map(|placed| &placed.extent), error)),
                        },
                    };
                    outcome.unwrap_or_else(|error| State::Over(Some(Err(error))))
                }
                State::Carrying(slot, under_way) => {
                    let outcome = ready!(under_way.poll(context, &this.core));
                    let (slot, whole) = (Arc::clone(slot), 0..this.len);
                    let landed =
                        |carried| Landed::on_device(&this.core, slot, std::iter::once(whole).collect(), carried);
                    State::Over(Some(outcome.map(landed)))
                }
                State::Over(outcome) => return outcome.take().map_or(Poll::Pending, Poll::Ready),
            };
            this.state = next;
        }
    }
}
