use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::Arc;

use tokio::sync::oneshot;

use super::bytes::RouteBytes;
use super::error::{CarryError, CarryFault};
use crate::device::{DeviceError, Memory, Span};
use crate::memory::Slot;
use crate::storage::Group;

/// A group to read, and where its bytes go.
#[derive(Debug)]
pub(super) struct Load {
    pub(super) group: Group,
    pub(super) spans: Vec<Span>,
}

impl Load {
    /// To the place that the layout of the whole gives it.
    pub(super) fn as_laid_out(group: Group) -> Self {
        let spans = vec![Span { from: group.from, to: group.to, len: group.len }];
        Self { group, spans }
    }
}

/// One piece of a job.
#[derive(Debug)]
pub(super) enum Piece {
    /// To be read, and copied from where it lands.
    Load(Load),
    /// In the arena already: all of it is copied to where the job's memory begins.
    Held(Slot),
}

/// What one request has the conductor read and copy. It keeps the memory it lands in: whoever asked may go away.
#[derive(Debug)]
pub(super) struct Job {
    /// Those not begun yet.
    pieces: VecDeque<Piece>,
    memory: Arc<dyn Memory>,
    /// Where the request begins.
    first: Place,
    /// Groups begun, and not yet in place.
    under_way: usize,
    carried: RouteBytes,
    failure: Option<CarryError>,
    done: oneshot::Sender<Result<RouteBytes, CarryError>>,
}

impl Job {
    pub(super) fn new(
        loads: impl IntoIterator<Item = Load>,
        memory: Arc<dyn Memory>,
    ) -> (Self, oneshot::Receiver<Result<RouteBytes, CarryError>>) {
        let pieces: VecDeque<Piece> = loads.into_iter().map(Piece::Load).collect();
        let first = pieces.front().map(Place::of).unwrap_or_default();
        Self::of(pieces, memory, first)
    }

    /// Copies a slot as it is. Where the device fails, `first` is what the error names.
    pub(super) fn of_slot(
        slot: Slot,
        memory: Arc<dyn Memory>,
        first: Place,
    ) -> (Self, oneshot::Receiver<Result<RouteBytes, CarryError>>) {
        Self::of([Piece::Held(slot)].into(), memory, first)
    }

    fn of(
        pieces: VecDeque<Piece>,
        memory: Arc<dyn Memory>,
        first: Place,
    ) -> (Self, oneshot::Receiver<Result<RouteBytes, CarryError>>) {
        let (done, outcome) = oneshot::channel();
        #[cfg(test)]
        let memory = crate::device::kept_or_not(memory);
        let carried = RouteBytes::default();
        (Self { pieces, memory, first, under_way: 0, carried, failure: None, done }, outcome)
    }

    pub(super) fn memory(&self) -> &Arc<dyn Memory> {
        &self.memory
    }

    /// The next piece to begin; none once something has failed or nobody waits any more.
    pub(super) fn begin(&mut self) -> Option<Piece> {
        if self.failure.is_some() || self.done.is_closed() {
            self.pieces.clear();
        }
        let piece = self.pieces.pop_front()?;
        self.under_way += 1;
        Some(piece)
    }

    /// Where the request begins.
    pub(super) fn first(&self) -> &Place {
        &self.first
    }

    pub(super) fn has_more(&self) -> bool {
        !self.pieces.is_empty()
    }

    /// A group is in place.
    pub(super) fn landed(&mut self, bytes: RouteBytes) {
        self.under_way -= 1;
        self.carried += bytes;
    }

    /// A group will not be.
    pub(super) fn fail(&mut self, error: CarryError) {
        self.under_way -= 1;
        self.failure.get_or_insert(error);
        self.pieces.clear();
    }

    /// Everything that is left fails: groups begun, which nobody will report any more, and those not begun.
    pub(super) fn fail_whole(&mut self, error: DeviceError) {
        self.under_way = 0;
        self.pieces.clear();
        self.failure.get_or_insert(self.first.clone().error(error));
    }

    pub(super) fn is_over(&self) -> bool {
        self.under_way == 0 && self.pieces.is_empty()
    }

    /// Tells whoever waits.
    pub(super) fn end(self) {
        let Self { memory, done, carried, failure, .. } = self;
        // Before the waiter hears, so that what it lets go of next is let go of for good.
        drop(memory);
        let _ = done.send(failure.map_or(Ok(carried), Err));
    }
}

/// Where in a file something happened.
#[derive(Clone, Debug, Default)]
pub(super) struct Place {
    path: PathBuf,
    offset: u64,
}

impl Place {
    pub(super) fn new(path: PathBuf, offset: u64) -> Self {
        Self { path, offset }
    }

    fn of(piece: &Piece) -> Self {
        match piece {
            Piece::Load(load) => Self::of_group(&load.group),
            Piece::Held(_) => Self::default(),
        }
    }

    pub(super) fn of_group(group: &Group) -> Self {
        let part = group.plan.layout.parts.first();
        let file = group.plan.files.first();
        Self {
            path: file.map(|file| file.path().to_owned()).unwrap_or_default(),
            offset: part.map_or(0, |part| part.need.start),
        }
    }

    pub(super) fn error(self, error: DeviceError) -> CarryError {
        CarryError { path: self.path, offset: self.offset, fault: CarryFault::Device(error) }
    }
}
