//! The loader's thread: plans windows ahead of the consumer, reads them, has the processor do its part, and hands them over
//! in order.

use std::collections::VecDeque;
use std::sync::Arc;
use std::task::Context;
use std::thread;
use std::time::Instant;

use super::account::{Account, Accounted};
use super::batch::{Batch, Origin};
use super::caught;
use super::course::{Course, Decision, Event, Failed, FaultKind, Remedy, Settings, UnderWay};
use super::error::{LoaderError, LoaderFault};
use super::flight::{Flight, Made, Next};
use super::means::Means;
use super::plan::{Corrupt, Limits, Planner, Window};
use super::shared::{Item, Level, Shared, Wake};
use super::stage::Stage;
use super::timeline::Timeline;
use crate::route::{CarryError, CarryFault, RouteBytes};
use crate::sync::unpark_this_thread;

pub(super) struct Pipeline {
    // Dropped in this order: what is under way, who works on it, and what it is read by.
    flights: VecDeque<Flight>,
    means: Means,
    planner: Planner,
    course: Course,
    account: Account,
    origin: Arc<Origin>,
    shared: Arc<Shared>,
}

impl Pipeline {
    pub(super) fn new(
        planner: Planner,
        means: Means,
        settings: Settings,
        account: Account,
        origin: Arc<Origin>,
        shared: Arc<Shared>,
    ) -> Self {
        let course = Course::new(settings, shared.at());
        Self { flights: VecDeque::new(), means, planner, course, account, origin, shared }
    }

    pub(super) fn run(mut self) {
        let waker = unpark_this_thread();
        let mut context = Context::from_waker(&waker);
        // A dataset's own code runs on this thread, and may panic.
        let mut ender = Ender(Some(Arc::clone(&self.shared)));
        while self.shared.is_wanted() {
            // One window at a time, so that what is there already is handed over first.
            let wait = match self.course.decide(self.shared.ahead(), self.under_way(), Instant::now()) {
                Decision::Begin(limits) => {
                    self.begin(limits);
                    None
                }
                Decision::Wait(wake) => Some(wake),
                Decision::Finish => {
                    self.shared.end(None);
                    break;
                }
            };
            let moved = self.poll(&mut context);
            let handed = self.hand_over();
            if let Some(wake) = wait.filter(|_| !moved && !handed)
                && !self.is_wanted_again(wake)
            {
                thread::park();
                self.means.awake_since = Instant::now();
            }
        }
        ender.0 = None;
    }

    fn under_way(&self) -> UnderWay {
        let (mut level, mut reading) = (Level { batches: 0, bytes: 0 }, 0);
        for flight in &self.flights {
            level.batches += flight.batches();
            level.bytes += flight.memory();
            reading += if flight.is_reading() { flight.memory() } else { 0 };
        }
        let is_blocked =
            self.flights.back().is_some_and(Flight::waits_for_memory) || self.flights.iter().any(Flight::is_one_by_one);
        UnderWay { windows: self.flights.len(), level, reading, is_blocked }
    }

    fn begin(&mut self, limits: Limits) {
        let shared = &self.shared;
        shared.note_busy(self.course.idle());
        let opening = |file: &crate::dataset::DataFile| {
            shared.state().opening = Some((file.path().to_owned(), Instant::now()));
        };
        let started = Instant::now();
        let planned = self.planner.plan(self.course.next(), limits, opening);
        shared.state().opening = None;
        match planned {
            Ok(Some(window)) => {
                self.course.on(Event::Began { end: window.end() });
                self.flights.push_back(Flight::begin(&self.means, window, Timeline::begin(started), false));
            }
            Ok(None) => self.course.on(Event::PlanEnded),
            Err(error) => {
                self.course.on(Event::PlanEnded);
                self.flights.push_back(Flight::failed(error));
            }
        }
    }

    /// Whether any window has come further.
    fn poll(&mut self, context: &mut Context<'_>) -> bool {
        let mut moved = false;
        let mut i = 0;
        while let Some(flight) = self.flights.get_mut(i) {
            let was_one_by_one = flight.is_one_by_one();
            match flight.poll(&self.means, context) {
                Next::Pending => i += 1,
                // What was worked on here is not kept back by the work behind it.
                Next::Moved if i == 0 && flight.is_over() && self.means.works_here() => return true,
                Next::Moved => moved = true,
                Next::Failed(window, error) => {
                    moved = true;
                    self.take_failure(i, window, error, was_one_by_one);
                }
            }
        }
        moved
    }

    /// A window could not be read, or not be brought to the device. What was begun behind it is begun again later.
    fn take_failure(&mut self, i: usize, window: Box<Window>, error: CarryError, was_one_by_one: bool) {
        self.flights.truncate(i);
        let failed = Failed {
            fault: kind_of(&error.fault),
            batches: window.batches.len(),
            was_one_by_one,
            can_one_by_one: self.means.can_read_one_by_one(&window),
            is_direct_alone: self.means.is_direct_alone(),
        };
        let remedy = failed.remedy();
        self.course.on(Event::Failed { start: window.start(), end: window.end(), remedy });
        match remedy {
            Remedy::OneByOne => {
                self.flights.push_back(Flight::begin(&self.means, window, Timeline::begin(Instant::now()), true));
            }
            Remedy::BatchByBatch => {}
            Remedy::GiveUp => self.flights.push_back(Flight::failed(self.located(&window, error))),
        }
    }

    /// The error of the sample that lies where it happened; of the window's first batch, where none does. Bytes of several
    /// samples that went by way of the host were read at once, and the error tells where that read began: it may be any's.
    fn located(&self, window: &Window, error: CarryError) -> LoaderError {
        let holds = |sample: usize| {
            window.extents[window.extents_of(sample)].iter().any(|extent| {
                let range = extent.offset()..extent.offset() + extent.len();
                extent.file().path() == error.path && range.contains(&error.offset)
            })
        };
        let batch = window.batches.iter().find_map(|batch| {
            batch
                .samples
                .clone()
                .find(|&sample| holds(sample))
                .map(|sample| (batch, Some(window.samples[sample].index)))
        });
        let (batch, index) = batch.unwrap_or((&window.batches[0], None));
        let is_its_own = window.samples.len() == 1 || self.means.is_direct_alone();
        let sample = index.filter(|_| is_its_own).map(|index| caught::id(&*self.origin.dataset, index));
        let at = batch.step.at;
        LoaderError { sample, epoch: at.epoch, batch: at.batch, fault: error.into() }
    }

    /// Hands over the windows that are ready, in order; whether there was any.
    fn hand_over(&mut self) -> bool {
        let mut handed = false;
        while self.flights.front().is_some_and(Flight::is_over) {
            let Some(flight) = self.flights.pop_front() else { break };
            handed = true;
            match flight.into_outcome() {
                Ok(made) => {
                    if let Err(error) = self.hand_over_window(made) {
                        return self.end_with(error);
                    }
                }
                Err(error) => return self.end_with(error),
            }
        }
        handed
    }

    fn end_with(&mut self, error: LoaderError) -> bool {
        self.flights.clear();
        self.course.on(Event::Ended);
        self.shared.end(Some(error));
        true
    }

    fn hand_over_window(&mut self, made: Made) -> Result<(), LoaderError> {
        self.course.on(Event::HandedOver);
        let Made { window, memory, failures, mut carried, mut timeline } = made;
        timeline.enter(Stage::Ready);
        self.note_stages(&window, &timeline);
        let timeline = Arc::new(timeline);
        let share = (window.len / window.batches.len().max(1)) as u64;
        let mut failures = failures.into_iter().peekable();
        let mut items = Vec::with_capacity(window.batches.len());
        let mut outcome = Ok(());
        for (number, planned) in window.batches.into_iter().enumerate() {
            let (at, mut padded) = (planned.step.at, planned.padded);
            let samples = planned.samples.len() as u64;
            let mut corrupt = planned.corrupt;
            let accounted = Accounted {
                samples: samples + corrupt.len() as u64,
                left_out: planned.left_out,
                is_empty: planned.indices.is_empty(),
            };
            while let Some(failure) = failures.next_if(|failure| failure.batch == number) {
                if failure.row as u64 + padded.min(samples) >= samples {
                    padded = padded.saturating_sub(1);
                }
                corrupt.push(Corrupt { index: failure.index, fault: failure.fault });
            }
            let skipped = corrupt.into_iter().try_for_each(|Corrupt { index, fault }| {
                let sample = Some(caught::id(&*self.origin.dataset, index));
                self.account.skip(LoaderError { sample, epoch: at.epoch, batch: at.batch, fault })
            });
            outcome = skipped.and_then(|()| self.account.note(at, accounted));
            if outcome.is_err() {
                break;
            }
            if planned.indices.is_empty() {
                continue;
            }
            let batch = Batch {
                origin: Arc::clone(&self.origin),
                step: planned.step,
                indices: planned.indices,
                fields: planned.fields,
                memory: memory.clone(),
                bytes: planned.bytes,
                carried: share_of(&mut carried, planned.bytes),
                padded,
            };
            items.push(Item { outcome: Ok(batch), timeline: Arc::clone(&timeline), memory: share });
        }
        self.shared.put(items);
        outcome
    }

    fn note_stages(&self, window: &Window, timeline: &Timeline) {
        let bytes: u64 = window.batches.iter().map(|batch| batch.bytes).sum();
        let mut state = self.shared.state();
        for (stage, time) in timeline.durations() {
            if let Some(stats) = state.stats.stages.of(stage) {
                stats.batches += window.batches.len() as u64;
                stats.bytes += bytes;
                stats.time += time;
            }
        }
        state.stats.under_way_batches = self.flights.iter().map(|flight| flight.batches() as u64).sum();
    }

    /// Before the thread sleeps: tells the watchdog what the oldest window is doing, and the consumer when to wake it. Whether
    /// he has taken so much meanwhile that there is room now.
    fn is_wanted_again(&self, wake: Wake) -> bool {
        self.shared.sleep(self.flights.front().map(Flight::doing), wake)
    }
}

fn kind_of(fault: &CarryFault) -> FaultKind {
    match fault {
        CarryFault::Read(_) | CarryFault::Open(_) | CarryFault::Direct(_) | CarryFault::NoRoute { .. } => {
            FaultKind::Unread
        }
        CarryFault::Memory(_) => FaultKind::TooLarge,
        CarryFault::Device(_) | CarryFault::Place { .. } | CarryFault::OtherDevice { .. } => FaultKind::Other,
    }
}

/// As many of the bytes that a window was carried by as one of its batches has.
fn share_of(rest: &mut RouteBytes, bytes: u64) -> RouteBytes {
    let mut share = RouteBytes::default();
    let mut left = bytes;
    for (of, rest) in [
        (&mut share.direct, &mut rest.direct),
        (&mut share.direct_compat, &mut rest.direct_compat),
        (&mut share.bounce, &mut rest.bounce),
        (&mut share.cached, &mut rest.cached),
    ] {
        *of = left.min(*rest);
        *rest -= *of;
        left -= *of;
    }
    share.unpinned = rest.unpinned.min(share.bounce + share.cached);
    rest.unpinned -= share.unpinned;
    share
}

/// Tells the consumer where the thread ends before its time.
struct Ender(Option<Arc<Shared>>);

impl Drop for Ender {
    fn drop(&mut self) {
        let Some(shared) = &self.0 else { return };
        let error = shared.state().error_here(LoaderFault::Died("thread"));
        shared.end(Some(error));
    }
}
