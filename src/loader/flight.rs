//! One window on its way: memory, reading, the processor's part, and the copy to the device.

use std::future::Future;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Instant;

use tokio::sync::oneshot;
use tracing::Span;

use super::assemble::{Assembled, Failure, From, Work};
use super::error::{LoaderError, LoaderFault};
use super::memory::Memory;
use super::plan::Window;
use super::pool::Pool;
use super::rows::Ragged;
use super::shared::{Doing, Shared};
use super::stage::Stage;
use super::timeline::Timeline;
use crate::device::DeviceKind;
use crate::memory::{Loan, Slot};
use crate::route::{Carrier, CarryError, CarryFault, CarryPlaced, Fill, FillPlan, Landing, Room, RouteBytes, Upload};
use crate::sampler::Cursor;
use crate::storage::ReadFault;

/// What windows are made with.
pub(super) struct Means {
    carrier: Carrier,
    pool: Pool,
    work: Work,
    /// Bytes land in host memory first, since the processor has to do something to them.
    by_processor: bool,
    on_device: bool,
    shared: Arc<Shared>,
    /// Since when the thread that polls has not slept.
    pub(super) awake_since: Instant,
}

pub(super) struct Flight {
    step: Step,
    span: Span,
    timeline: Timeline,
    memory: u64,
    batches: usize,
    one_by_one: bool,
    /// Where its first batch begins, in the order and in the files.
    at: Cursor,
    first: Option<(PathBuf, u64)>,
    /// Where on the device it will go, once the processor is done with it.
    landing: Option<Landing>,
    /// When it was last seen that it is still being read.
    polled: Instant,
}

enum Step {
    /// Waits for device memory. The last says whether it is read sample by sample.
    Room(Box<Room>, Box<Window>, bool),
    /// Waits for host memory.
    Memory(Loan, Box<Window>, FillPlan),
    Read(Fill, Box<Window>),
    Carry(CarryPlaced, Box<Window>),
    Work(oneshot::Receiver<Assembled>, RouteBytes),
    Upload(Upload, Box<Window>, Vec<Failure>, RouteBytes),
    Over(Box<Window>, Memory, Vec<Failure>, RouteBytes),
    Failed(LoaderError),
    /// It could not even be begun.
    Refused(CarryError, Box<Window>),
    /// For a moment, while one becomes the next.
    Between,
}

/// A window that is there.
pub(super) struct Made {
    pub(super) window: Box<Window>,
    pub(super) memory: Memory,
    pub(super) failures: Vec<Failure>,
    pub(super) carried: RouteBytes,
    pub(super) timeline: Timeline,
}

/// What polling a window has come to.
pub(super) enum Next {
    Pending,
    Moved,
    /// It cannot go on so.
    Failed(Box<Window>, CarryError),
}

impl Means {
    pub(super) fn new(carrier: Carrier, pool: Pool, work: Work, ragged: Ragged, shared: Arc<Shared>) -> Self {
        let by_processor = work.transform.is_some() || work.dataset.has_checksums() || ragged == Ragged::Padded;
        let on_device = carrier.device().kind() != DeviceKind::Host;
        Self { carrier, pool, work, by_processor, on_device, shared, awake_since: Instant::now() }
    }

    /// Whether what cannot be read at once may be read sample by sample, in host memory: where that has room for it.
    pub(super) fn can_read_one_by_one(&self, window: &Window) -> bool {
        /// A read may be a block longer at both ends.
        const EDGES: u64 = 2 * 4096;
        let sample = |sample: usize| {
            let extents = &window.extents[window.extents_of(sample)];
            extents.iter().map(|extent| extent.len().saturating_add(EDGES)).fold(0, u64::saturating_add)
        };
        let largest = (0..window.samples.len()).map(sample).max().unwrap_or(0);
        let whole = (window.len as u64).next_multiple_of(4096).saturating_add(largest);
        !self.is_direct_alone() && whole <= self.carrier.reader().arena().budget()
    }

    /// Whether the processor's part is done by the thread that polls.
    pub(super) fn works_here(&self) -> bool {
        self.pool.is_empty()
    }

    /// Whether no byte may go to the device by way of the host.
    pub(super) fn is_direct_alone(&self) -> bool {
        self.on_device && self.carrier.is_direct_alone()
    }

    pub(super) fn begin(&self, window: Box<Window>, timeline: Timeline) -> Flight {
        self.flight(window, timeline, false)
    }

    pub(super) fn begin_one_by_one(&self, window: Box<Window>) -> Flight {
        self.flight(window, Timeline::begin(Instant::now()), true)
    }

    fn flight(&self, window: Box<Window>, mut timeline: Timeline, one_by_one: bool) -> Flight {
        let (memory, batches) = (window.len as u64, window.batches.len());
        let at = window.batches.first().map(|batch| batch.step.at).unwrap_or_default();
        let first = first_of(&window);
        let span = tracing::debug_span!("window", epoch = at.epoch, batch = at.batch, batches, memory, one_by_one);
        let entered = span.clone().entered();
        let mut landing = None;
        let step = if self.on_device && !self.by_processor && !one_by_one {
            let carry = self.carrier.carry_placed(window.places(), window.len);
            timeline.enter(if carry.is_waiting() { Stage::Memory } else { Stage::Read });
            Step::Carry(carry, window)
        } else if self.on_device {
            timeline.enter(Stage::Memory);
            let (path, offset) = first.clone().unwrap_or_default();
            // At once where there is some: what is begun next would take the host memory that this one needs.
            match self.carrier.room(window.len, path, offset).now() {
                Ok(Ok(room)) => {
                    landing = Some(room);
                    self.take_memory(window, &mut timeline, one_by_one)
                }
                Ok(Err(error)) => Step::Refused(error, window),
                Err(room) => Step::Room(room, window, one_by_one),
            }
        } else {
            self.take_memory(window, &mut timeline, one_by_one)
        };
        drop(entered);
        let polled = Instant::now();
        Flight { step, span, timeline, memory, batches, one_by_one, at, first, landing, polled }
    }

    fn take_memory(&self, window: Box<Window>, timeline: &mut Timeline, one_by_one: bool) -> Step {
        timeline.enter(Stage::Memory);
        let arena = self.carrier.reader().arena();
        let planned = if one_by_one {
            self.plan_largest(&window)
        } else if self.by_processor {
            self.carrier.plan_beside(&window.extents, window.len)
        } else {
            self.carrier.plan_fill(window.places(), window.len)
        };
        let plan = match planned {
            Ok(plan) => plan,
            Err(error) => return Step::Refused(error, window),
        };
        let (len, align) = (plan.memory(), plan.align());
        let lent = arena.try_loan_aligned(len, align).and_then(|slot| match slot {
            Some(slot) => Ok(Ok(slot)),
            None => arena.loan_aligned(len, align).map(Err),
        });
        match lent {
            Ok(Ok(slot)) => self.read(window, slot, plan, timeline, one_by_one),
            Ok(Err(loan)) => Step::Memory(loan, window, plan),
            Err(error) => Step::Refused(at_first(&window, CarryFault::Memory(error)), window),
        }
    }

    /// What the sample takes that takes most, with the memory of the window.
    fn plan_largest(&self, window: &Window) -> Result<FillPlan, CarryError> {
        let mut largest = self.carrier.plan_beside(&[], window.len)?;
        for sample in 0..window.samples.len() {
            // One that cannot be planned is found when it is read.
            let plan = self.carrier.plan_beside(&window.extents[window.extents_of(sample)], window.len);
            if let Ok(plan) = plan
                && plan.memory() > largest.memory()
            {
                largest = plan;
            }
        }
        Ok(largest)
    }

    fn read(&self, window: Box<Window>, slot: Slot, plan: FillPlan, timeline: &mut Timeline, one_by_one: bool) -> Step {
        timeline.enter(Stage::Read);
        match one_by_one {
            true => {
                let from = From::OneByOne(self.carrier.clone(), slot, plan);
                self.work_on(window, from, RouteBytes::default())
            }
            false => Step::Read(self.carrier.fill(plan, slot), window),
        }
    }

    fn work_on(&self, window: Box<Window>, from: From, carried: RouteBytes) -> Step {
        if self.works_here() {
            // Done here and now, and nothing else meanwhile: the watchdog would not hear of it otherwise.
            let stage = if let From::OneByOne(..) = from { Stage::Read } else { Stage::Transform };
            let doing = Doing { stage, since: Instant::now(), watches: Vec::new(), first: first_of(&window) };
            self.shared.state().doing = doing;
        }
        let work = self.work.clone();
        Step::Work(self.pool.run(move || work.assemble(window, from)), carried)
    }
}

/// An error at the window's first byte.
fn at_first(window: &Window, fault: CarryFault) -> CarryError {
    let (path, offset) = first_of(window).unwrap_or_default();
    CarryError { path, offset, fault }
}

/// The window's first file, and the offset in it.
fn first_of(window: &Window) -> Option<(PathBuf, u64)> {
    window.extents.first().map(|first| (first.file().path().to_owned(), first.offset()))
}

impl Flight {
    /// One that only tells of an error, at its place.
    pub(super) fn failed(error: LoaderError) -> Self {
        let timeline = Timeline::begin(Instant::now());
        let at = Cursor { epoch: error.epoch, batch: error.batch, ..Cursor::default() };
        Self {
            step: Step::Failed(error),
            span: Span::none(),
            timeline,
            memory: 0,
            batches: 0,
            one_by_one: false,
            at,
            first: None,
            landing: None,
            polled: Instant::now(),
        }
    }

    pub(super) fn batches(&self) -> usize {
        self.batches
    }

    /// Bytes of memory that its batches take.
    pub(super) fn memory(&self) -> u64 {
        self.memory
    }

    pub(super) fn is_reading(&self) -> bool {
        matches!(self.step, Step::Room(..) | Step::Memory(..) | Step::Read(..) | Step::Carry(..))
    }

    /// Whether those behind it would only wait behind it.
    pub(super) fn waits_for_memory(&self) -> bool {
        match &self.step {
            Step::Room(..) | Step::Memory(..) => true,
            Step::Carry(carry, _) => carry.is_waiting(),
            _ => false,
        }
    }

    /// Whether its samples are read one by one, and it is not over.
    pub(super) fn is_one_by_one(&self) -> bool {
        self.one_by_one && !self.is_over()
    }

    pub(super) fn is_over(&self) -> bool {
        matches!(self.step, Step::Over(..) | Step::Failed(_))
    }

    pub(super) fn into_outcome(self) -> Result<Made, LoaderError> {
        match self.step {
            Step::Over(window, memory, failures, carried) => {
                Ok(Made { window, memory, failures, carried, timeline: self.timeline })
            }
            Step::Failed(error) => Err(error),
            _ => {
                let fault = LoaderFault::Died("window");
                Err(LoaderError { sample: None, epoch: self.at.epoch, batch: self.at.batch, fault })
            }
        }
    }

    pub(super) fn doing(&self) -> Doing {
        let watches = match &self.step {
            Step::Read(fill, _) => fill.watches(),
            _ => Vec::new(),
        };
        let stage = if self.waits_for_memory() { Stage::Memory } else { self.timeline.stage() };
        let since = self.timeline.since().unwrap_or_else(Instant::now);
        Doing { stage, since, watches, first: self.first.clone() }
    }

    pub(super) fn poll(&mut self, means: &Means, context: &mut Context<'_>) -> Next {
        let _entered = self.span.clone().entered();
        let timeline = &mut self.timeline;
        let next = match std::mem::replace(&mut self.step, Step::Between) {
            Step::Room(mut room, window, one_by_one) => match Pin::new(&mut room).poll(context) {
                Poll::Pending => return self.stay(Step::Room(room, window, one_by_one)),
                Poll::Ready(Err(error)) => return Next::Failed(window, error),
                Poll::Ready(Ok(landing)) => {
                    self.landing = Some(landing);
                    means.take_memory(window, timeline, one_by_one)
                }
            },
            Step::Memory(mut loan, window, plan) => match Pin::new(&mut loan).poll(context) {
                Poll::Ready(slot) => means.read(window, slot, plan, timeline, self.one_by_one),
                Poll::Pending if means.carrier.reader().arena().has_lost() => {
                    let fault = at_first(&window, CarryFault::Read(ReadFault::EngineEnded)).into();
                    Step::Failed(LoaderError { sample: None, epoch: self.at.epoch, batch: self.at.batch, fault })
                }
                Poll::Pending => return self.stay(Step::Memory(loan, window, plan)),
            },
            Step::Read(mut fill, window) => match Pin::new(&mut fill).poll(context) {
                Poll::Pending => {
                    self.polled = Instant::now();
                    return self.stay(Step::Read(fill, window));
                }
                Poll::Ready(Err(error)) => return Next::Failed(window, error),
                // A few bytes are copied sooner than another thread is told of them.
                Poll::Ready(Ok(filled)) if !means.by_processor && filled.bytes_beside() <= 32 << 10 => {
                    let carried = filled.carried;
                    Step::Over(window, Memory::on_host(filled.finish()), Vec::new(), carried)
                }
                Poll::Ready(Ok(filled)) => {
                    match means.works_here() {
                        // It may have been here while this thread worked on others: that was not storage's time.
                        true => timeline.enter_at(Stage::Transform, self.polled.max(means.awake_since)),
                        false => timeline.enter(Stage::Transform),
                    }
                    let carried = filled.carried;
                    let from = if means.by_processor { From::beside(filled) } else { From::Filled(filled) };
                    means.work_on(window, from, carried)
                }
            },
            Step::Carry(mut carry, window) => match Pin::new(&mut carry).poll(context) {
                Poll::Pending => {
                    if !carry.is_waiting() {
                        timeline.enter(Stage::Read);
                    }
                    return self.stay(Step::Carry(carry, window));
                }
                Poll::Ready(Err(error)) => return Next::Failed(window, error),
                Poll::Ready(Ok(landed)) => {
                    let carried = landed.carried();
                    Step::Over(window, Memory::on_device(landed), Vec::new(), carried)
                }
            },
            Step::Work(mut work, carried) => match Pin::new(&mut work).poll(context) {
                Poll::Pending => return self.stay(Step::Work(work, carried)),
                Poll::Ready(Err(_)) => {
                    let fault = LoaderFault::Died("worker");
                    Step::Failed(LoaderError { sample: None, epoch: self.at.epoch, batch: self.at.batch, fault })
                }
                Poll::Ready(Ok(assembled)) => assembled_to(means, assembled, carried, timeline, self.landing.take()),
            },
            Step::Upload(mut upload, window, failures, carried) => match Pin::new(&mut upload).poll(context) {
                Poll::Pending => return self.stay(Step::Upload(upload, window, failures, carried)),
                Poll::Ready(Err(error)) => return Next::Failed(window, error),
                Poll::Ready(Ok(landed)) => Step::Over(window, Memory::on_device(landed), failures, carried),
            },
            Step::Refused(error, window) => return Next::Failed(window, error),
            over @ (Step::Over(..) | Step::Failed(_) | Step::Between) => return self.stay(over),
        };
        self.step = next;
        Next::Moved
    }

    fn stay(&mut self, step: Step) -> Next {
        self.step = step;
        Next::Pending
    }
}

fn assembled_to(
    means: &Means,
    assembled: Assembled,
    mut carried: RouteBytes,
    timeline: &mut Timeline,
    landing: Option<Landing>,
) -> Step {
    let Assembled { window, slot, failures, carried: here } = assembled;
    carried += here;
    let Some(landing) = landing else {
        return Step::Over(window, Memory::on_host(slot), failures, carried);
    };
    timeline.enter(Stage::Copy);
    let (path, offset) = first_of(&window).unwrap_or_default();
    Step::Upload(means.carrier.upload(slot, landing, path, offset), window, failures, carried)
}
