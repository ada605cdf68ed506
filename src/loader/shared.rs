//! What the consumer, the pipeline's thread and the watchdog share: batches that are ready, and who waits for what.

use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, OnceLock};
use std::task::{Context, Poll, Waker};
use std::thread::Thread;
use std::time::{Duration, Instant};

use super::batch::Batch;
use super::depth::Depth;
use super::error::{LoaderError, LoaderFault};
use super::stage::Stage;
use super::stats::LoaderStats;
use super::timeline::Timeline;
use crate::memory::Owner;
use crate::sampler::Cursor;
use crate::storage::Watch;
use crate::sync::lock;

pub(super) struct Shared {
    state: Mutex<State>,
    /// The loader was dropped.
    closed: AtomicBool,
    /// The pipeline's, to be woken when a batch was taken.
    pub(super) thread: OnceLock<Thread>,
    /// The watchdog sleeps here.
    pub(super) watch: Condvar,
    built: Instant,
    /// Its threads are in no other process.
    owner: Owner,
    told_of_fork: AtomicBool,
}

pub(super) struct State {
    ready: VecDeque<Item>,
    ready_bytes: u64,
    /// The pipeline adds nothing more.
    ended: bool,
    stopped: bool,
    /// The consumer gets nothing more.
    over: bool,
    waker: Option<Waker>,
    /// Since when the consumer waits.
    pub(super) waiting_since: Option<Instant>,
    pub(super) doing: Doing,
    /// A file that is being opened, which may take for ever.
    pub(super) opening: Option<(PathBuf, Instant)>,
    depth: Depth,
    /// When the consumer wakes the pipeline.
    wake: Wake,
    /// Where the consumer stands.
    at: Cursor,
    pub(super) stats: LoaderStats,
}

/// What comes next: a batch, or why there is none.
pub(super) struct Item {
    pub(super) outcome: Result<Batch, LoaderError>,
    /// Of the window that it was made with.
    pub(super) timeline: Arc<Timeline>,
    /// Its share of the memory of that.
    pub(super) memory: u64,
}

/// What the oldest window that is not ready is doing.
#[derive(Debug)]
pub(super) struct Doing {
    pub(super) stage: Stage,
    pub(super) since: Instant,
    pub(super) watches: Vec<Watch>,
    /// Its first file and offset.
    pub(super) first: Option<(PathBuf, u64)>,
}

/// What is ahead of the consumer, and how much may be.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ahead {
    pub(super) batches: usize,
    pub(super) bytes: u64,
    pub(super) depth: u64,
}

/// How many batches, and how many bytes of them.
#[derive(Clone, Copy, Debug)]
pub(super) struct Level {
    pub(super) batches: usize,
    pub(super) bytes: u64,
}

impl Level {
    /// What is left of it where there is room again: so much less that the consumer need not interrupt the pipeline, and
    /// himself on a machine of few cores, for each batch that he takes.
    pub(super) fn refill(self) -> Self {
        let batches = self.batches.saturating_sub(1);
        Self { batches: batches - batches / 2, bytes: self.bytes / 2 }
    }

    pub(super) fn is_within(self, other: Self) -> bool {
        self.batches <= other.batches && self.bytes <= other.bytes
    }
}

/// When the consumer, who takes a batch, wakes the pipeline.
#[derive(Clone, Copy, Debug)]
pub(super) enum Wake {
    Always,
    /// With no more than this ready.
    At(Level),
    /// What is under way wakes it soon enough.
    Never,
}

impl Wake {
    /// Where there is room again once no more than `refill` is ready or under way.
    pub(super) fn when(refill: Level, under_way: Level) -> Self {
        let batches = refill.batches.checked_sub(under_way.batches);
        let bytes = refill.bytes.checked_sub(under_way.bytes);
        batches.zip(bytes).map_or(Self::Never, |(batches, bytes)| Self::At(Level { batches, bytes }))
    }
}

impl Shared {
    pub(super) fn new(depth: Depth, at: Cursor) -> Self {
        let now = Instant::now();
        let doing = Doing { stage: Stage::Plan, since: now, watches: Vec::new(), first: None };
        let state = State {
            ready: VecDeque::new(),
            ready_bytes: 0,
            ended: false,
            stopped: false,
            over: false,
            waker: None,
            waiting_since: None,
            doing,
            opening: None,
            depth,
            wake: Wake::Always,
            at,
            stats: LoaderStats::default(),
        };
        Self {
            state: Mutex::new(state),
            closed: AtomicBool::new(false),
            thread: OnceLock::new(),
            watch: Condvar::new(),
            built: now,
            owner: Owner::this(),
            told_of_fork: AtomicBool::new(false),
        }
    }

    pub(super) fn state(&self) -> std::sync::MutexGuard<'_, State> {
        lock(&self.state)
    }

    pub(super) fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Acquire)
    }

    /// Whether anything more is to be made.
    pub(super) fn is_wanted(&self) -> bool {
        let state = self.state();
        !(self.is_closed() || state.ended || state.over)
    }

    /// Whether this is the process that built the loader, and not one forked from it.
    pub(super) fn is_ours(&self) -> bool {
        self.owner.is_here()
    }

    /// The loader is being dropped.
    pub(super) fn close(&self) {
        self.closed.store(true, Ordering::Release);
        // So that the watchdog, which looks at it under the lock, does not fall asleep behind it.
        drop(self.state());
        self.watch.notify_all();
        self.wake_pipeline();
    }

    /// The consumer, or somebody for him, has had enough.
    pub(super) fn stop(&self) {
        let mut state = self.state();
        state.stopped = true;
        let waker = state.waker.take();
        drop(state);
        waker.into_iter().for_each(Waker::wake);
        self.wake_pipeline();
    }

    fn wake_pipeline(&self) {
        self.thread.get().into_iter().for_each(Thread::unpark);
    }

    /// The next batch, for the consumer.
    pub(super) fn poll_take(&self, context: &mut Context<'_>) -> Poll<Option<Result<Batch, LoaderError>>> {
        if !self.is_ours() {
            // Whoever held the lock when the process was forked holds it here for ever.
            let error = LoaderError { sample: None, epoch: 0, batch: 0, fault: LoaderFault::Forked };
            return Poll::Ready((!self.told_of_fork.swap(true, Ordering::Relaxed)).then_some(Err(error)));
        }
        let mut state = self.state();
        if state.over {
            return Poll::Ready(None);
        }
        let is_finished = state.ended && state.ready.is_empty();
        if state.stopped && !is_finished {
            let error = state.error_here(LoaderFault::Stopped);
            let left = state.end();
            drop(state);
            drop(left);
            self.wake_pipeline();
            return Poll::Ready(Some(Err(error)));
        }
        let Some(item) = state.ready.pop_front() else {
            if state.ended {
                state.over = true;
                if let Some(since) = state.waiting_since.take() {
                    state.stats.stalls.add(Stage::Plan, since.elapsed());
                }
                return Poll::Ready(None);
            }
            state.waiting_since.get_or_insert_with(Instant::now);
            let before = state.waker.replace(context.waker().clone());
            drop(state);
            // It may hold the last of a task, and that the last of anything.
            drop(before);
            return Poll::Pending;
        };
        let left = state.note_taken(&item);
        let is_wanted = state.is_refill_due();
        drop(state);
        drop(left);
        if is_wanted {
            self.wake_pipeline();
        }
        Poll::Ready(Some(item.outcome))
    }

    /// Adds what is ready.
    pub(super) fn put(&self, items: impl IntoIterator<Item = Item>) {
        let mut state = self.state();
        if state.ended || state.over {
            return;
        }
        for item in items {
            state.ready_bytes += item.memory;
            state.ready.push_back(item);
        }
        let waker = state.waker.take();
        drop(state);
        waker.into_iter().for_each(Waker::wake);
    }

    /// Says that nothing comes behind what is ready; `error` is the last that does.
    pub(super) fn end(&self, error: Option<LoaderError>) {
        let mut state = self.state();
        if let Some(error) = error.filter(|_| !state.ended && !state.over) {
            let timeline = Arc::new(Timeline::begin(Instant::now()));
            state.ready.push_back(Item { outcome: Err(error), timeline, memory: 0 });
        }
        state.ended = true;
        let waker = state.waker.take();
        drop(state);
        waker.into_iter().for_each(Waker::wake);
        self.wake_pipeline();
    }

    pub(super) fn ahead(&self) -> Ahead {
        let state = self.state();
        Ahead { batches: state.ready.len(), bytes: state.ready_bytes, depth: state.depth.bytes() }
    }

    /// The pipeline goes to sleep: what it waits for, and when the consumer is to wake it. Whether he has taken enough for
    /// that already.
    pub(super) fn sleep(&self, doing: Option<Doing>, wake: Wake) -> bool {
        let mut state = self.state();
        if let Some(doing) = doing {
            state.doing = doing;
        }
        state.wake = wake;
        matches!(wake, Wake::At(_)) && state.is_refill_due()
    }

    /// The pipeline begins a window. So far there was enough ahead for so long.
    pub(super) fn note_busy(&self, idle: Duration) {
        let mut state = self.state();
        state.stats.idle = idle;
        state.wake = Wake::Always;
    }

    /// Where the consumer stands.
    pub(super) fn at(&self) -> Cursor {
        self.state().at
    }

    pub(super) fn stats(&self) -> LoaderStats {
        let state = self.state();
        let mut stats = state.stats.clone();
        stats.age = self.built.elapsed();
        stats.ready_batches = state.ready.len() as u64;
        stats.ready_bytes = state.ready_bytes;
        stats.depth_bytes = state.depth.bytes();
        // A wait that is not over is told, too.
        if let Some(since) = state.waiting_since {
            stats.stalls.add(state.doing.stage, since.elapsed());
        }
        stats
    }
}

impl State {
    /// An error at the batch that the consumer waits for.
    pub(super) fn error_here(&self, fault: LoaderFault) -> LoaderError {
        LoaderError { sample: None, epoch: self.at.epoch, batch: self.at.batch, fault }
    }

    /// Whether something can still come to who waits.
    pub(super) fn is_open(&self) -> bool {
        !self.ended && !self.over && self.ready.is_empty()
    }

    fn is_refill_due(&self) -> bool {
        match self.wake {
            Wake::Always => true,
            Wake::At(level) => Level { batches: self.ready.len(), bytes: self.ready_bytes }.is_within(level),
            Wake::Never => false,
        }
    }

    /// The consumer gets nothing more. What was ready is given back, to be dropped without the lock: it may hold the last of anything.
    fn end(&mut self) -> VecDeque<Item> {
        self.over = true;
        self.waiting_since = None;
        self.ready_bytes = 0;
        std::mem::take(&mut self.ready)
    }

    fn note_taken(&mut self, item: &Item) -> VecDeque<Item> {
        self.ready_bytes -= item.memory;
        let waited = self.waiting_since.take();
        if let Some(since) = waited {
            self.note_wait(since, &item.timeline);
        }
        match &item.outcome {
            Ok(batch) => {
                self.stats.batches += 1;
                self.stats.samples += batch.len() as u64;
                self.stats.bytes += batch.bytes();
                self.stats.routes += batch.carried();
                self.at = batch.step.next;
                self.depth.note(waited.is_some(), self.ready_bytes);
                if waited.is_some() {
                    // There may be room for more now.
                    self.wake = Wake::Always;
                }
                VecDeque::new()
            }
            Err(_) => {
                self.wake = Wake::Always;
                self.end()
            }
        }
    }

    fn note_wait(&mut self, since: Instant, timeline: &Timeline) {
        // Whoever went away meanwhile, as a cancelled wait does, was not kept waiting by what was ready.
        let ready = timeline.since().filter(|_| timeline.stage() == Stage::Ready);
        let end = ready.map_or_else(Instant::now, |ready| ready.max(since));
        let mut left = end.saturating_duration_since(since);
        for (stage, time) in timeline.between(since, end) {
            self.stats.stalls.add(stage, time);
            left = left.saturating_sub(time);
        }
        // Before its window was begun at all.
        if left > Duration::ZERO {
            self.stats.stalls.add(Stage::Plan, left);
        }
    }
}
