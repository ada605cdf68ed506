use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::Arc;

use tokio::sync::oneshot;

use super::bytes::RouteBytes;
use super::error::{CarryError, CarryFault};
use crate::device::{DeviceError, Memory, Span};
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

/// What one request has the conductor read and copy. It keeps the memory it lands in: whoever asked may go away.
#[derive(Debug)]
pub(super) struct Job {
    /// Those not begun yet.
    loads: VecDeque<Load>,
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
        let (done, outcome) = oneshot::channel();
        #[cfg(test)]
        let memory = crate::device::kept_or_not(memory);
        let (loads, carried): (VecDeque<Load>, _) = (loads.into_iter().collect(), RouteBytes::default());
        let first = loads.front().map(|load| Place::of(&load.group)).unwrap_or_default();
        (Self { loads, memory, first, under_way: 0, carried, failure: None, done }, outcome)
    }

    pub(super) fn memory(&self) -> &Arc<dyn Memory> {
        &self.memory
    }

    /// The next group to read; none once something has failed or nobody waits any more.
    pub(super) fn begin(&mut self) -> Option<Load> {
        if self.failure.is_some() || self.done.is_closed() {
            self.loads.clear();
        }
        let load = self.loads.pop_front()?;
        self.under_way += 1;
        Some(load)
    }

    pub(super) fn has_more(&self) -> bool {
        !self.loads.is_empty()
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
        self.loads.clear();
    }

    /// Everything that is left fails: groups begun, which nobody will report any more, and those not begun.
    pub(super) fn fail_whole(&mut self, error: DeviceError) {
        self.under_way = 0;
        self.loads.clear();
        self.failure.get_or_insert(self.first.clone().error(error));
    }

    pub(super) fn is_over(&self) -> bool {
        self.under_way == 0 && self.loads.is_empty()
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
    pub(super) fn of(group: &Group) -> Self {
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
