//! One window on its way: memory, reading, the processor's part, and the copy to the device.

use std::future::Future;
use std::path::PathBuf;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Instant;

use tokio::sync::oneshot;
use tracing::Span;

use super::assemble::{Assembled, Failure, From};
use super::error::{LoaderError, LoaderFault};
use super::means::{Means, at_first, first_of};
use super::memory::Memory;
use super::plan::Window;
use super::shared::Doing;
use super::stage::Stage;
use super::timeline::Timeline;
use crate::memory::Loan;
use crate::route::{CarryError, CarryFault, CarryPlaced, Fill, FillPlan, Landing, Room, RouteBytes, Upload};
use crate::sampler::Cursor;
use crate::storage::ReadFault;

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

pub(super) enum Step {
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

impl Flight {
    /// Begins a window; `one_by_one` says whether its samples are read each by itself.
    pub(super) fn begin(means: &Means, window: Box<Window>, mut timeline: Timeline, one_by_one: bool) -> Self {
        let (memory, batches) = (window.len as u64, window.batches.len());
        let at = window.batches.first().map(|batch| batch.step.at).unwrap_or_default();
        let first = first_of(&window);
        let span = tracing::debug_span!("window", epoch = at.epoch, batch = at.batch, batches, memory, one_by_one);
        let (step, landing) = span.in_scope(|| means.first_step(window, &mut timeline, one_by_one));
        let polled = Instant::now();
        Self { step, span, timeline, memory, batches, one_by_one, at, first, landing, polled }
    }

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
                Poll::Ready(Ok(slot)) => means.read(window, slot, plan, timeline, self.one_by_one),
                Poll::Ready(Err(error)) => {
                    let error = at_first(&window, CarryFault::Memory(error));
                    return Next::Failed(window, error);
                }
                Poll::Pending if loan.is_hopeless() => {
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
                Poll::Ready(Ok(assembled)) => means.upload(assembled, carried, timeline, self.landing.take()),
            },
            Step::Upload(mut upload, window, failures, carried) => match Pin::new(&mut upload).poll(context) {
                Poll::Pending => return self.stay(Step::Upload(upload, window, failures, carried)),
                Poll::Ready(Err(error)) => return Next::Failed(window, error),
                Poll::Ready(Ok(landed)) => {
                    let mut carried = carried;
                    carried += landed.carried();
                    Step::Over(window, Memory::on_device(landed), failures, carried)
                }
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
