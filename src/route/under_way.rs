//! What one request has under way: reads that are copied, and reads of cuFile's.

use std::path::PathBuf;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use tokio::sync::oneshot;

use super::bytes::RouteBytes;
use super::core::Core;
use super::direct_read::DirectRead;
use super::error::{CarryError, CarryFault};
use super::job::{Job, Load};
use crate::device::{DeviceError, Memory};
use crate::storage::Extent;

pub(super) struct UnderWay {
    /// What the conductor brings, until it has.
    copied: Option<oneshot::Receiver<Result<RouteBytes, CarryError>>>,
    /// What cuFile brings, until it has.
    direct: Option<DirectRead>,
    carried: RouteBytes,
    failure: Option<CarryError>,
    /// Where the request begins, for errors that concern all of it.
    path: PathBuf,
    offset: u64,
}

impl UnderWay {
    /// Gives the conductor what is to be copied into `memory`.
    pub(super) fn begin(
        core: &Core,
        memory: &Arc<dyn Memory>,
        loads: Vec<Load>,
        direct: Result<Option<DirectRead>, CarryError>,
        first: Option<&Extent>,
    ) -> Self {
        let (path, offset) = first.map_or_else(Default::default, |first| (first.file.path().to_owned(), first.offset));
        let (carried, mut copied) = (RouteBytes::default(), None);
        let (direct, mut failure) = direct.map_or_else(|error| (None, Some(error)), |direct| (direct, None));
        if failure.is_none() && !loads.is_empty() {
            match core.conductor() {
                Ok(conductor) => {
                    let (job, outcome) = Job::new(loads, Arc::clone(memory));
                    conductor.take(job);
                    copied = Some(outcome);
                }
                Err(error) => {
                    failure = Some(CarryError { path: path.clone(), offset, fault: CarryFault::Device(error) });
                }
            }
        }
        Self { copied, direct, carried, failure, path, offset }
    }

    /// Ready when nothing is under way any more, with the bytes carried or the first error.
    pub(super) fn poll(&mut self, context: &mut Context<'_>, core: &Core) -> Poll<Result<RouteBytes, CarryError>> {
        if let Err(error) = core.check_process() {
            // Nobody here will ever hear of it.
            (self.copied, self.direct) = (None, None);
            return Poll::Ready(Err(self.failed(error)));
        }
        if let Some(read) = &mut self.direct
            && let Some(direct) = core.direct()
            && let Poll::Ready(carried) = read.poll(context, direct, &core.reader)
        {
            self.direct = None;
            self.note(carried);
        }
        if let Some(copied) = &mut self.copied
            && let Poll::Ready(carried) = Pin::new(copied).poll(context)
        {
            self.copied = None;
            let carried = carried.unwrap_or_else(|_| Err(self.failed(core.ended())));
            self.note(carried);
        }
        if self.direct.is_some() || self.copied.is_some() {
            return Poll::Pending;
        }
        let outcome = self.failure.take().map_or(Ok(self.carried), Err);
        if let Ok(carried) = outcome {
            core.tally.add(carried);
        }
        Poll::Ready(outcome)
    }

    fn note(&mut self, carried: Result<RouteBytes, CarryError>) {
        match carried {
            Ok(carried) => self.carried += carried,
            Err(error) => {
                self.failure.get_or_insert(error);
            }
        }
    }

    fn failed(&self, error: DeviceError) -> CarryError {
        CarryError { path: self.path.clone(), offset: self.offset, fault: CarryFault::Device(error) }
    }
}
