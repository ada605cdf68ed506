use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use super::bytes::RouteBytes;
use super::core::Core;
use super::decision::Route;
use super::direct::{Direct, least_align};
use super::direct_read::{DirectRead, Target};
use super::error::{CarryError, CarryFault};
use super::placed::{Placed, check, loads};
use super::reason::NoRoute;
use super::under_way::UnderWay;
use crate::device::{DeviceBuffer, Memory};
use crate::storage::{Extent, File, Part, Plan, PlanRoom, Via, groups};
use crate::sync::wait_for;

/// Bytes on their way to places in a buffer: a future of the bytes carried, by route, and of the buffer.
///
/// Dropping it drops the buffer, which is freed after what is under way is over.
#[must_use = "what is carried and not awaited is delivered to nobody"]
pub struct CarryInto {
    core: Arc<Core>,
    buffer: Option<DeviceBuffer>,
    state: Result<UnderWay, Option<CarryError>>,
}

impl CarryInto {
    pub(super) fn new(core: &Arc<Core>, buffer: DeviceBuffer, placed: &[Placed]) -> Self {
        let begin = || {
            let (ours, its) = (core.device.to_string(), buffer.device().to_string());
            if let Some(first) = placed.first().filter(|_| ours != its) {
                return Err(failed_at(first, CarryFault::OtherDevice { buffer: its, device: ours }));
            }
            into_places(core, &InBuffer(&buffer), placed)
        };
        let state = begin().map_err(Some);
        Self { core: Arc::clone(core), buffer: Some(buffer), state }
    }

    /// Waits on this thread, with any runtime or none.
    pub fn wait(self) -> (Result<RouteBytes, CarryError>, DeviceBuffer) {
        wait_for(self, |_| {})
    }
}

/// Memory of the device that extents are given places in.
pub(super) trait Destination {
    fn memory(&self) -> Arc<dyn Memory>;

    /// Bytes that places may be in.
    fn len(&self) -> usize;

    /// Bytes that may be written to: a drive writes the last block of a file whole.
    fn allocated(&self) -> usize;

    /// As memory that cuFile may read into.
    fn target(&self, direct: &Direct) -> Result<Target, NoRoute>;
}

struct InBuffer<'a>(&'a DeviceBuffer);

impl Destination for InBuffer<'_> {
    fn memory(&self) -> Arc<dyn Memory> {
        Arc::clone(self.0.memory())
    }

    fn len(&self) -> usize {
        self.0.len()
    }

    fn allocated(&self) -> usize {
        self.0.memory().len()
    }

    fn target(&self, direct: &Direct) -> Result<Target, NoRoute> {
        Ok(Target { memory: direct.register(self.0)?, start: 0, loan: self.memory() })
    }
}

fn failed_at(placed: &Placed, fault: CarryFault) -> CarryError {
    CarryError { path: placed.extent.file.path().to_owned(), offset: placed.extent.offset, fault }
}

/// Begins to carry extents to their places in memory of the device.
pub(super) fn into_places(core: &Core, buffer: &dyn Destination, placed: &[Placed]) -> Result<UnderWay, CarryError> {
    let Some(first) = placed.first() else {
        return Ok(UnderWay::begin(core, &buffer.memory(), Vec::new(), Ok(None), None));
    };
    core.check_process().map_err(|error| failed_at(first, CarryFault::Device(error)))?;
    check(placed, buffer.len())?;
    let (mut direct, mut others) = (Vec::new(), Vec::new());
    let files = core.direct_files(placed.iter().map(|placed| &placed.extent))?;
    for placed in placed {
        // What is past the end must be said as everywhere.
        let inside =
            placed.extent.offset.checked_add(placed.extent.len).is_some_and(|end| end <= placed.extent.file.len());
        let chosen = files.contains(&placed.extent.file.inner.id);
        if !chosen || placed.extent.is_empty() || !inside {
            others.push(placed.clone());
            continue;
        }
        let is_aligned = |placed: &Placed| placed.is_aligned(buffer.len(), buffer.allocated());
        let (whole, rest) = placed.split();
        if is_aligned(placed) {
            direct.push(placed.clone());
        } else if core.is_direct_alone() {
            let reason = NoRoute::Alignment { block: least_align(&placed.extent.file) };
            return Err(failed_at(placed, CarryFault::NoRoute { route: Route::Direct, reason }));
        } else if !whole.extent.is_empty() && is_aligned(&whole) {
            direct.push(whole);
            others.push(rest);
        } else {
            others.push(placed.clone());
        }
    }
    direct.sort_by_key(by_file);
    if core.switches.allows(Route::Cached) {
        let warm = warm_ones(core, &mut direct)?;
        others.extend(warm);
    }
    let mut plan = plan_of(core, &others)?;
    let read = direct_read(core, buffer, &direct).or_else(|error| {
        core.may_go_another_way(error)?;
        others.append(&mut direct);
        plan = plan_of(core, &others)?;
        Ok(None)
    });
    let places: Vec<usize> = others.iter().map(|placed| placed.at).collect();
    let loads = loads(groups(&plan, core.chunk, |_| true), &plan.layout.pieces, &places);
    Ok(UnderWay::begin(core, &buffer.memory(), loads, read, Some(&first.extent)))
}

fn plan_of(core: &Core, placed: &[Placed]) -> Result<Plan, CarryError> {
    let extents: Vec<Extent> = placed.iter().map(|placed| placed.extent.clone()).collect();
    Ok(Plan::new(&extents, core.reader.settings(), PlanRoom::Any)?)
}

/// Takes out of a sorted list those extents that are in the page cache already.
fn warm_ones(core: &Core, placed: &mut Vec<Placed>) -> Result<Vec<Placed>, CarryError> {
    let (files, mut parts) = parts_of(placed);
    core.reader.prefer_warm(&files, &mut parts, |_| true)?;
    let (warm, cold) =
        std::mem::take(placed).into_iter().zip(parts).partition::<Vec<_>, _>(|(_, part)| part.via == Via::Buffered);
    *placed = cold.into_iter().map(|(placed, _)| placed).collect();
    Ok(warm.into_iter().map(|(placed, _)| placed).collect())
}

/// A part for each of the extents, which are sorted, and the files that they number.
fn parts_of(placed: &[Placed]) -> (Vec<File>, Vec<Part>) {
    let mut files: Vec<File> = Vec::new();
    let mut parts: Vec<Part> = Vec::with_capacity(placed.len());
    for placed in placed {
        let file = &placed.extent.file;
        if files.last().is_none_or(|last| last.inner.id != file.inner.id) {
            files.push(file.clone());
        }
        parts.push(placed.part(files.len() as u32 - 1));
    }
    (files, parts)
}

fn by_file(placed: &Placed) -> (u64, u64) {
    (placed.extent.file.inner.id, placed.extent.offset)
}

/// Begins to read what cuFile reads, which is sorted. After an error nothing has begun.
fn direct_read(core: &Core, buffer: &dyn Destination, placed: &[Placed]) -> Result<Option<DirectRead>, CarryError> {
    let (Some(first), Some(direct)) = (placed.first(), core.direct()) else { return Ok(None) };
    let target = buffer
        .target(direct)
        .map_err(|reason| failed_at(first, CarryFault::NoRoute { route: Route::Direct, reason }))?;
    let (files, parts) = parts_of(placed);
    DirectRead::begin(files, parts, target, direct, &core.reader).map(Some)
}

impl Future for CarryInto {
    type Output = (Result<RouteBytes, CarryError>, DeviceBuffer);

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let this = &mut *self;
        let outcome = match &mut this.state {
            Ok(under_way) => ready!(under_way.poll(context, &this.core)),
            Err(error) => match error.take() {
                Some(error) => Err(error),
                None => return Poll::Pending,
            },
        };
        this.state = Err(None);
        // Taken once, with the outcome; polled again, there is nothing more to come.
        this.buffer.take().map_or(Poll::Pending, |buffer| Poll::Ready((outcome, buffer)))
    }
}

impl fmt::Debug for CarryInto {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CarryInto").field("buffer", &self.buffer).finish_non_exhaustive()
    }
}
