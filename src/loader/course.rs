//! What the loader's thread does next, and from where in the order: a state machine without threads, clocks or bytes, so that
//! a model can drive it through every fault.

use std::time::{Duration, Instant};

use super::plan::Limits;
use super::shared::{Ahead, Level, Wake};
use crate::sampler::Cursor;

#[derive(Clone, Copy, Debug)]
pub(super) struct Settings {
    /// The most batches that are ready or under way.
    pub(super) prefetch: usize,
    /// Bytes of samples that are worth being read at once.
    pub(super) window: u64,
    /// Bytes that may be being read at once.
    pub(super) reading: u64,
    /// Bytes of memory that one window of several batches may take.
    pub(super) memory: u64,
}

/// Windows follow each other in the order without a gap: the next one begins where the last one that is under way ends, or
/// was handed over.
#[derive(Debug)]
pub(super) struct Course {
    settings: Settings,
    phase: Phase,
    /// Where the next window begins.
    next: Cursor,
    /// Windows double from one batch to as much as is worth being read at once, so that the first batch comes soon.
    doublings: u32,
    /// Up to here windows have one batch each, since a larger one failed.
    single_until: Option<Cursor>,
    has_handed_over: bool,
    /// How long there was enough ahead of the consumer.
    idle: Duration,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// Windows are begun while they are allowed.
    Filling,
    /// There is enough ahead of the consumer, until half of it is taken.
    Full { since: Instant },
    /// No window is begun: the last one ends the last epoch, or is an error.
    Drained,
    /// The consumer has been told the end.
    Ended,
}

/// What has happened.
#[derive(Clone, Copy, Debug)]
pub(super) enum Event {
    /// There is enough ahead of the consumer.
    Filled(Instant),
    /// There no longer is.
    Emptied(Instant),
    /// A window is under way that ends here.
    Began {
        end: Cursor,
    },
    /// No step is left, or the next one is an error, which waits for its turn.
    PlanEnded,
    /// A window failed, and those behind it were given up.
    Failed {
        start: Cursor,
        end: Cursor,
        remedy: Remedy,
    },
    HandedOver,
    /// The consumer was told the end.
    Ended,
}

/// What is done about a window that failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Remedy {
    /// It is read again sample by sample, to find out which of them fails.
    OneByOne,
    /// Its batches are planned again, one a window.
    BatchByBatch,
    /// Its error ends the loader.
    GiveUp,
}

/// What is known about a window that failed.
#[derive(Clone, Copy, Debug)]
pub(super) struct Failed {
    pub(super) fault: FaultKind,
    pub(super) batches: usize,
    /// It was read sample by sample already.
    pub(super) was_one_by_one: bool,
    /// Host memory has room to read it sample by sample, and bytes may go by way of the host.
    pub(super) can_one_by_one: bool,
    /// Only the direct route is allowed, which tells the extent that failed: smaller windows would tell no more.
    pub(super) is_direct_alone: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FaultKind {
    /// Bytes of it could not be read.
    Unread,
    /// It does not fit the memory that it may take.
    TooLarge,
    Other,
}

/// All that is under way.
#[derive(Clone, Copy, Debug)]
pub(super) struct UnderWay {
    pub(super) windows: usize,
    pub(super) level: Level,
    /// Bytes that are being read.
    pub(super) reading: u64,
    /// What is begun now would only wait behind it for memory, or it is read sample by sample, with memory that others
    /// would take.
    pub(super) is_blocked: bool,
}

/// What the thread does next.
#[derive(Clone, Copy, Debug)]
pub(super) enum Decision {
    /// Begins a window.
    Begin(Limits),
    /// Begins none before the consumer has taken so much, or something under way has moved.
    Wait(Wake),
    /// Everything was handed over.
    Finish,
}

impl Course {
    pub(super) fn new(settings: Settings, start: Cursor) -> Self {
        Self {
            settings,
            phase: Phase::Filling,
            next: start,
            doublings: 0,
            single_until: None,
            has_handed_over: false,
            idle: Duration::ZERO,
        }
    }

    /// Where the next window begins.
    pub(super) fn next(&self) -> Cursor {
        self.next
    }

    /// How long there was enough ahead of the consumer, until the last time that there no longer was.
    pub(super) fn idle(&self) -> Duration {
        self.idle
    }

    /// Every change of state.
    pub(super) fn on(&mut self, event: Event) {
        self.phase = match (self.phase, event) {
            (Phase::Ended, _) | (_, Event::Ended) => Phase::Ended,
            (Phase::Filling, Event::Filled(since)) => Phase::Full { since },
            (Phase::Full { since }, Event::Emptied(now)) => {
                self.idle += now.saturating_duration_since(since);
                Phase::Filling
            }
            (_, Event::PlanEnded) => Phase::Drained,
            (_, Event::Failed { remedy: Remedy::GiveUp, .. }) => Phase::Drained,
            // What had ended the plan was given up, and is come to again.
            (Phase::Drained, Event::Failed { .. }) => Phase::Filling,
            (phase, _) => phase,
        };
        match event {
            Event::Began { end } => {
                self.next = end;
                self.doublings = self.doublings.saturating_add(1);
                self.single_until = self.single_until.filter(|until| !has_reached(end, *until));
            }
            Event::Failed { end, remedy: Remedy::OneByOne, .. } => self.next = end,
            Event::Failed { start, end, remedy: Remedy::BatchByBatch } => {
                self.next = start;
                // One that failed before may reach further.
                let further = self.single_until.filter(|until| has_reached(*until, end));
                self.single_until = Some(further.unwrap_or(end));
            }
            Event::HandedOver => self.has_handed_over = true,
            Event::Failed { .. } | Event::Filled(_) | Event::Emptied(_) | Event::PlanEnded | Event::Ended => {}
        }
    }

    /// Every choice of what comes next.
    pub(super) fn decide(&mut self, ahead: Ahead, under_way: UnderWay, now: Instant) -> Decision {
        match self.phase {
            Phase::Ended => return Decision::Finish,
            Phase::Drained if under_way.windows == 0 => return Decision::Finish,
            Phase::Drained => return Decision::Wait(Wake::Never),
            Phase::Filling | Phase::Full { .. } => {}
        }
        // The first batch is not to wait behind reads for later ones.
        let is_first_under_way = !self.has_handed_over && under_way.windows > 1;
        if under_way.is_blocked || is_first_under_way {
            return Decision::Wait(Wake::Never);
        }
        let all = Level {
            batches: ahead.batches + under_way.level.batches,
            bytes: ahead.bytes.saturating_add(under_way.level.bytes),
        };
        let allowed = Level { batches: self.settings.prefetch, bytes: ahead.depth };
        let refill = allowed.refill();
        let is_full = all.batches >= allowed.batches || all.bytes >= allowed.bytes;
        let stays_full = matches!(self.phase, Phase::Full { .. }) && !all.is_within(refill);
        if all.batches > 0 && (is_full || stays_full) {
            self.on(Event::Filled(now));
            return Decision::Wait(Wake::when(refill, under_way.level));
        }
        self.on(Event::Emptied(now));
        if under_way.reading > 0 && under_way.reading >= self.settings.reading {
            return Decision::Wait(Wake::Never);
        }
        Decision::Begin(self.limits(all.batches))
    }

    /// How much the next window may hold, where so many batches are ready or under way.
    fn limits(&self, batches: usize) -> Limits {
        /// Planning so many takes about a millisecond, in which nothing is handed over.
        const SAMPLES: usize = 2048;
        let room = self.settings.prefetch.saturating_sub(batches).max(1);
        let grown = match self.single_until {
            Some(_) => 1,
            None => 1_usize.checked_shl(self.doublings.min(20)).unwrap_or(usize::MAX),
        };
        Limits { batches: grown.min(room), samples: SAMPLES, bytes: self.settings.window, memory: self.settings.memory }
    }
}

impl Failed {
    pub(super) fn remedy(&self) -> Remedy {
        match self.fault {
            FaultKind::Unread if self.can_one_by_one && !self.was_one_by_one => Remedy::OneByOne,
            FaultKind::Unread if self.batches > 1 && !self.is_direct_alone => Remedy::BatchByBatch,
            FaultKind::TooLarge if self.batches > 1 => Remedy::BatchByBatch,
            FaultKind::Unread | FaultKind::TooLarge | FaultKind::Other => Remedy::GiveUp,
        }
    }
}

/// Whether a place between two steps of one rank is another or lies behind it.
fn has_reached(at: Cursor, goal: Cursor) -> bool {
    (at.epoch, at.batch) >= (goal.epoch, goal.batch)
}

#[cfg(test)]
mod tests;
