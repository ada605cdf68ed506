//! The loader's thread: plans windows ahead of the consumer, reads them, has the processor do its part, and hands them over
//! in order.

use std::collections::VecDeque;
use std::sync::Arc;
use std::task::Context;
use std::thread;
use std::time::Instant;

use super::assemble::Work;
use super::batch::{Batch, Origin};
use super::caught;
use super::error::{LoaderError, LoaderFault};
use super::flight::{Flight, Made, Next};
use super::left_out::{Tally, all_skipped};
use super::means::Means;
use super::plan::{LeftOut, Limits, Planner, Window};
use super::pool::Pool;
use super::shared::{Item, Level, Shared, Wake};
use super::stage::Stage;
use super::timeline::Timeline;
use crate::route::{Carrier, CarryError, CarryFault, RouteBytes};
use crate::sampler::Cursor;
use crate::sync::unpark_this_thread;

pub(super) struct Pipeline {
    // Dropped in this order: what is under way, who works on it, and what it is read by.
    flights: VecDeque<Flight>,
    means: Means,
    planner: Planner,
    origin: Arc<Origin>,
    settings: Settings,
    /// Windows grow from one batch to as much as is worth being read at once, so that the first batch comes soon.
    grown: u32,
    has_handed_over: bool,
    /// Nothing more is planned: the last epoch is, or something has failed.
    planned: bool,
    /// Corrupt samples skipped in windows that were handed over.
    skipped: u64,
    /// Samples left out in windows that were handed over, since they lack a field.
    missing: u64,
    /// These among all.
    tally: Tally,
    /// Samples of the epoch that is being handed over, where it is whole and has given no batch so far; and how many of them
    /// lack a field.
    barren: Option<(u64, u64)>,
    /// Since when there is enough ahead of the consumer.
    enough_since: Option<Instant>,
    /// When the consumer is to wake the thread.
    wake: Wake,
    shared: Arc<Shared>,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Settings {
    /// The most batches that are ready or under way.
    pub(super) prefetch: usize,
    /// Bytes that are worth being read at once.
    pub(super) window: u64,
    /// Bytes that may be being read at once.
    pub(super) reading: u64,
    /// Bytes of memory that one window of several batches may take.
    pub(super) memory: u64,
    /// How many corrupt samples may be skipped; none where the first one is an error.
    pub(super) skips: Option<u64>,
}

impl Pipeline {
    pub(super) fn new(
        planner: Planner,
        carrier: Carrier,
        pool: Pool,
        work: Work,
        origin: Arc<Origin>,
        settings: Settings,
        shared: Arc<Shared>,
    ) -> Self {
        let means = Means::new(carrier, pool, work, planner.ragged, Arc::clone(&shared));
        Self {
            flights: VecDeque::new(),
            means,
            planner,
            origin,
            settings,
            grown: 0,
            has_handed_over: false,
            planned: false,
            skipped: 0,
            missing: 0,
            tally: Tally::default(),
            barren: None,
            enough_since: None,
            wake: Wake::Always,
            shared,
        }
    }

    pub(super) fn run(mut self) {
        let waker = unpark_this_thread();
        let mut context = Context::from_waker(&waker);
        // A dataset's own code runs on this thread, and may panic.
        let mut ender = Ender(Some(Arc::clone(&self.shared)));
        while self.shared.is_wanted() {
            let begun = self.begin_one();
            let moved = self.poll(&mut context);
            let handed = self.hand_over();
            if self.planned && self.flights.is_empty() {
                self.shared.end(None);
                break;
            }
            if !begun && !moved && !handed {
                if self.is_wanted_again() {
                    continue;
                }
                thread::park();
                self.means.awake_since = Instant::now();
            }
        }
        ender.0 = None;
    }

    /// Begins one window more, where there is room for it; whether it did. One at a time, so that what is there already is
    /// handed over first.
    fn begin_one(&mut self) -> bool {
        if self.planned || !self.has_room() {
            return false;
        }
        let limits = self.limits();
        let shared = &self.shared;
        let opening = |file: &crate::dataset::DataFile| {
            shared.state().opening = Some((file.path().to_owned(), Instant::now()));
        };
        let started = Instant::now();
        let planned = self.planner.next(limits, opening);
        shared.state().opening = None;
        match planned {
            Ok(Some(window)) => {
                self.grown = self.grown.saturating_add(1);
                self.flights.push_back(Flight::begin(&self.means, window, Timeline::begin(started), false));
            }
            Ok(None) => self.planned = true,
            Err(error) => {
                self.planned = true;
                self.flights.push_back(Flight::failed(error));
            }
        }
        true
    }

    /// Whether one more window may be begun.
    fn has_room(&mut self) -> bool {
        // Reads of single samples would wait for memory behind what was begun after them.
        if self.flights.back().is_some_and(Flight::waits_for_memory) || self.flights.iter().any(Flight::is_one_by_one) {
            return false;
        }
        // The first batch is not to wait behind reads for later ones.
        if !self.has_handed_over && self.flights.len() > 1 {
            return false;
        }
        let (mut under_way, mut reading) = (Level { batches: 0, bytes: 0 }, 0);
        for flight in &self.flights {
            under_way.batches += flight.batches();
            under_way.bytes += flight.memory();
            reading += if flight.is_reading() { flight.memory() } else { 0 };
        }
        !self.has_enough(under_way) && (reading == 0 || reading < self.settings.reading)
    }

    /// Whether with this under way there is as much ahead of the consumer as is allowed, or was and is not yet half of it.
    fn has_enough(&mut self, under_way: Level) -> bool {
        let ahead = self.shared.ahead();
        let all = Level { batches: ahead.batches + under_way.batches, bytes: ahead.bytes + under_way.bytes };
        let allowed = Level { batches: self.settings.prefetch, bytes: ahead.depth };
        let is_full = all.batches >= allowed.batches || all.bytes >= allowed.bytes;
        let refill = allowed.refill();
        let enough = all.batches > 0 && (is_full || (self.enough_since.is_some() && !all.is_within(refill)));
        if enough {
            self.enough_since.get_or_insert_with(Instant::now);
            self.wake = Wake::when(refill, under_way);
        } else if let Some(since) = self.enough_since.take() {
            self.wake = Wake::Always;
            self.shared.note_idle(since.elapsed());
        }
        enough
    }

    fn limits(&self) -> Limits {
        /// Planning so many takes about a millisecond, in which nothing is handed over.
        const SAMPLES: usize = 2048;
        let ahead = self.shared.ahead();
        let under_way: usize = self.flights.iter().map(Flight::batches).sum();
        let room = self.settings.prefetch.saturating_sub(ahead.batches + under_way).max(1);
        let grown = 1_usize.checked_shl(self.grown.min(20)).unwrap_or(usize::MAX);
        Limits { batches: grown.min(room), samples: SAMPLES, bytes: self.settings.window, memory: self.settings.memory }
    }

    /// Whether any window has come further.
    fn poll(&mut self, context: &mut Context<'_>) -> bool {
        let mut moved = false;
        let mut i = 0;
        while let Some(flight) = self.flights.get_mut(i) {
            match flight.poll(&self.means, context) {
                Next::Pending => i += 1,
                // What was worked on here is not kept back by the work behind it.
                Next::Moved if i == 0 && flight.is_over() && self.means.works_here() => return true,
                Next::Moved => moved = true,
                Next::Failed(window, error) => {
                    moved = true;
                    self.take_failure(i, window, error);
                }
            }
        }
        moved
    }

    /// A window could not be read, or not be brought to the device. What was begun behind it is begun again later.
    fn take_failure(&mut self, i: usize, window: Box<Window>, error: CarryError) {
        self.flights.truncate(i);
        let is_small = window.batches.len() == 1;
        let is_unread = matches!(
            error.fault,
            CarryFault::Read(_) | CarryFault::Open(_) | CarryFault::Direct(_) | CarryFault::NoRoute { .. }
        );
        match error.fault {
            // Sample by sample, to find out which it is.
            _ if is_unread && self.means.can_read_one_by_one(&window) => {
                self.planner.rewind(window.after.clone());
                self.planned = false;
                self.flights.push_back(Flight::begin(&self.means, window, Timeline::begin(Instant::now()), true));
            }
            // Too large together: batch by batch.
            CarryFault::Memory(_) if !is_small => self.go_on_batch_by_batch(&window),
            _ if is_unread && !is_small && !self.means.is_direct_alone() => self.go_on_batch_by_batch(&window),
            _ => {
                self.planned = true;
                let error = self.located(&window, error);
                self.flights.push_back(Flight::failed(error));
            }
        }
    }

    fn go_on_batch_by_batch(&mut self, window: &Window) {
        self.planner.rewind(window.before.clone());
        self.planned = false;
        self.settings.window = 0;
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
        self.planned = true;
        self.shared.end(Some(error));
        true
    }

    fn hand_over_window(&mut self, made: Made) -> Result<(), LoaderError> {
        self.has_handed_over = true;
        let Made { window, memory, failures, mut carried, mut timeline } = made;
        timeline.enter(Stage::Ready);
        self.note_stages(&window, &timeline);
        let timeline = Arc::new(timeline);
        let share = (window.len / window.batches.len().max(1)) as u64;
        let mut failures = failures.into_iter().peekable();
        let mut items = Vec::with_capacity(window.batches.len());
        let mut outcome = Ok(());
        for (number, planned) in window.batches.into_iter().enumerate() {
            let mut padded = planned.padded;
            let missing = planned.left_out.samples;
            let samples = planned.samples.len() as u64;
            self.note_left_out(planned.left_out, planned.step.at, samples);
            while let Some(failure) = failures.next_if(|failure| failure.batch == number) {
                if failure.row as u64 + padded.min(samples) >= samples {
                    padded = padded.saturating_sub(1);
                }
                let sample = Some(caught::id(&*self.origin.dataset, failure.index));
                let at = planned.step.at;
                let error = LoaderError { sample, epoch: at.epoch, batch: at.batch, fault: failure.fault };
                if let Err(error) = self.skip(error) {
                    outcome = Err(error);
                    break;
                }
            }
            if outcome.is_err() {
                break;
            }
            if let Err(error) = self.note_barren(planned.step.at, samples, missing, planned.indices.is_empty()) {
                outcome = Err(error);
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

    /// Counts a corrupt sample, where one more may be skipped.
    fn skip(&mut self, error: LoaderError) -> Result<(), LoaderError> {
        match self.settings.skips {
            None => Err(error),
            Some(limit) if self.skipped >= limit => {
                let fault = LoaderFault::TooManySkipped { limit, last: Box::new(error.fault) };
                Err(LoaderError { fault, ..error })
            }
            Some(_) => {
                self.skipped += 1;
                self.shared.state().stats.skipped = self.skipped;
                tracing::warn!("skipped: {error}");
                Ok(())
            }
        }
    }

    /// Counts samples that lack a field beside those of their batch that do not, and warns of the first, and where they are
    /// most.
    fn note_left_out(&mut self, left_out: LeftOut, at: Cursor, others: u64) {
        if let Some(first) = left_out.first.filter(|_| self.missing == 0) {
            tracing::warn!("left out, like every sample that lacks a field: {first}");
        }
        if left_out.samples > 0 {
            self.missing += left_out.samples;
            self.shared.state().stats.missing = self.missing;
        }
        self.tally.add_samples(others + left_out.samples);
        left_out.lacking.iter().for_each(|(field, samples)| self.tally.add_left_out(field, *samples));
        let epoch_ends = at.batch + 1 == self.planner.sampler.steps_an_epoch();
        if let Some(warning) = self.tally.warning(&*self.origin.dataset, epoch_ends) {
            tracing::warn!("{warning}");
        }
    }

    /// Counts the samples of an epoch that gives no batch, and ends a loader that has had a whole one of those, where it has
    /// no end or samples lack a field: nothing limits how many of those are left out.
    fn note_barren(&mut self, at: Cursor, samples: u64, missing: u64, is_empty: bool) -> Result<(), LoaderError> {
        if at == (Cursor { epoch: at.epoch, ..Cursor::default() }) {
            self.barren = Some((0, 0));
        }
        self.barren = self.barren.filter(|_| is_empty).map(|before| (before.0 + samples + missing, before.1 + missing));
        let sampler = &self.planner.sampler;
        match self.barren {
            Some((skipped, missing))
                if at.batch + 1 == sampler.steps_an_epoch() && (missing > 0 || sampler.steps_left().is_none()) =>
            {
                Err(all_skipped(&*self.origin.dataset, skipped, at))
            }
            _ => Ok(()),
        }
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
    fn is_wanted_again(&self) -> bool {
        self.shared.sleep(self.flights.front().map(Flight::doing), self.wake)
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
