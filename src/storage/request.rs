//! One read under way: the slot it lands in, what is left of it, and how it ended.
//!
//! The memory rule of the whole crate lives here. A [`Request`] owns its slot. Every job that an engine holds keeps
//! its request alive, and an engine lets go of a job only when the kernel has answered all that the job asked it.
//! Whoever waits holds the request too, but looks at the slot only after the last job is gone. Dropping a future
//! therefore frees nothing that the kernel may still write to.

use std::ops::Range;
use std::path::PathBuf;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, Weak};
use std::time::Instant;

use tokio::sync::oneshot;

use super::descriptors::Descriptors;
use super::error::{ReadError, ReadFault};
use super::file::File;
use super::layout::{Part, Via};
use super::progress::{Next, Progress};
use super::stats::{Counters, Stats};
use crate::memory::{HoldsSlot, Slot};
use crate::sync::lock;

#[derive(Debug)]
pub(crate) struct Request {
    /// No reference to its bytes is made before every job is gone.
    slot: Slot,
    /// Each with the first offset that is read of it.
    pub(crate) files: Vec<(File, u64)>,
    places: Arc<Places>,
    /// Nothing but direct reads will do.
    pub(crate) forced_direct: bool,
    left: AtomicUsize,
    failure: Mutex<Option<ReadError>>,
    /// Bytes that have landed, which count only once all have.
    landed: Counters,
    /// Of files whose parts were to be read directly, the bytes of those that were not: file by number.
    turned: Mutex<Vec<(u32, u64)>>,
    counters: Arc<Counters>,
}

/// What a [`Watch`] looks at: it must not hold the request, whose slot is handed on once nobody else has it.
#[derive(Debug)]
struct Places {
    files: Vec<File>,
    /// Where each part begins, file by number.
    parts: Vec<(u32, u64)>,
    /// A bit for each part, set when it has landed.
    over: Vec<AtomicU64>,
}

impl Places {
    fn new(files: &[(File, u64)], parts: &[Part]) -> Self {
        let files = files.iter().map(|(file, _)| file.clone()).collect();
        let over = (0..parts.len().div_ceil(BITS)).map(|_| AtomicU64::new(0)).collect();
        let parts = parts.iter().map(|part| (part.file, part.need.start)).collect();
        Self { files, parts, over }
    }

    fn note_landed(&self, part: usize) {
        self.over[part / BITS].fetch_or(1 << (part % BITS), Ordering::Relaxed);
    }

    /// The first part, in the order of files and offsets, that has not landed.
    fn oldest(&self) -> Option<(PathBuf, u64)> {
        let is_over = |&(number, _): &(usize, &(u32, u64))| {
            self.over[number / BITS].load(Ordering::Relaxed) & 1 << (number % BITS) != 0
        };
        let (_, &(file, offset)) = self.parts.iter().enumerate().find(|place| !is_over(place))?;
        Some((self.files[file as usize].path().to_owned(), offset))
    }
}

impl Request {
    pub(crate) fn new(
        slot: Slot,
        files: Vec<(File, u64)>,
        parts: &[Part],
        forced_direct: bool,
        counters: Arc<Counters>,
    ) -> Self {
        let (left, landed) = (AtomicUsize::new(parts.len()), Counters::default());
        let places = Arc::new(Places::new(&files, parts));
        let (failure, turned) = Default::default();
        Self { slot, files, places, forced_direct, left, failure, landed, turned, counters }
    }

    /// The slot, where nobody else has this request any more.
    pub(crate) fn into_slot(self: Arc<Self>) -> Option<Slot> {
        Arc::into_inner(self).map(|request| request.slot)
    }

    /// The bytes that have landed. Only to be called when no job of this request is left.
    pub(crate) fn landed(&self) -> &[u8] {
        &self.slot
    }

    /// The bytes that have landed so far, by the way they came.
    pub(crate) fn carried(&self) -> Stats {
        self.landed.now()
    }

    /// How many parts there are in all.
    pub(crate) fn parts(&self) -> usize {
        self.places.parts.len()
    }

    /// Whether all but `parts` parts have landed. Acquires what the engine wrote.
    pub(crate) fn lacks_only(&self, parts: usize) -> bool {
        self.left.load(Ordering::Acquire) == parts
    }

    /// Counts the bytes of a read that is whole.
    pub(crate) fn count_delivered(&self) {
        self.counters.add(&self.landed.now());
    }

    /// Counts bytes of a file as read through the page cache that claimed to go past it, but for those that are counted so
    /// already: these would be taken from another file's. No job of the wave is left.
    pub(crate) fn turn_buffered(&self, file: u32, claimed: u64) {
        let turned: u64 = lock(&self.turned).iter().filter(|(of, _)| *of == file).map(|(_, bytes)| bytes).sum();
        self.landed.turn_buffered(claimed.saturating_sub(turned));
    }

    /// The first failure, once.
    pub(crate) fn take_failure(&self) -> Option<ReadError> {
        lock(&self.failure).take()
    }

    pub(crate) fn fail(&self, file: u32, offset: u64, fault: ReadFault) {
        let path = self.files[file as usize].0.path().to_owned();
        lock(&self.failure).get_or_insert(ReadError { path, offset, fault });
    }
}

/// Bits in one word of `Places::over`.
const BITS: usize = u64::BITS as usize;

/// Tells what a read is waiting for, and keeps nothing of it.
#[derive(Clone, Debug)]
pub(crate) struct Watch(Weak<Places>);

impl Watch {
    pub(crate) fn of(request: &Arc<Request>) -> Self {
        Self(Arc::downgrade(&request.places))
    }

    /// The first place that has not been read yet: path and offset.
    pub(crate) fn oldest(&self) -> Option<(PathBuf, u64)> {
        self.0.upgrade()?.oldest()
    }
}

impl HoldsSlot for Arc<Request> {
    fn slot(&self) -> &Slot {
        &self.slot
    }
}

/// Jobs that are waited for together: when the last of them lets go, the waiter's end of the channel hears it.
#[derive(Debug)]
pub(crate) struct Wave {
    waiter: oneshot::Sender<()>,
}

impl Wave {
    pub(crate) fn new() -> (Arc<Self>, oneshot::Receiver<()>) {
        let (waiter, done) = oneshot::channel();
        (Arc::new(Self { waiter }), done)
    }
}

/// Parts of one request, for an engine to carry out.
#[derive(Debug)]
pub(crate) struct Job {
    parts: Vec<Part>,
    /// The number of the first among the parts of the request.
    first_part: usize,
    next: usize,
    request: Arc<Request>,
    /// Of the files from `first_file` on.
    pairs: Arc<Vec<Arc<Descriptors>>>,
    first_file: u32,
    landed: usize,
    stats: Stats,
    failed: bool,
    // Dropped last of all: whoever hears of it may look at the slot.
    wave: Arc<Wave>,
}

impl Job {
    /// `first_part` is the number of the first of `parts` among those of the request.
    pub(crate) fn new(
        parts: Vec<Part>,
        first_part: usize,
        request: Arc<Request>,
        pairs: Arc<Vec<Arc<Descriptors>>>,
        first_file: u32,
        wave: Arc<Wave>,
    ) -> Self {
        let stats = Stats::default();
        Self { parts, first_part, next: 0, request, pairs, first_file, landed: 0, stats, failed: false, wave }
    }

    /// How many parts there are in all.
    pub(crate) fn parts(&self) -> usize {
        self.parts.len()
    }

    /// The next part to begin, by number. None once a part has failed or nobody waits any more: what is under way is
    /// still to be awaited.
    pub(crate) fn begin(&mut self) -> Option<usize> {
        if self.next == self.parts.len() || self.failed || self.wave.waiter.is_closed() {
            self.next = self.parts.len();
            return None;
        }
        self.next += 1;
        Some(self.next - 1)
    }

    /// Whether every part has been begun.
    pub(crate) fn is_begun(&self) -> bool {
        self.next == self.parts.len()
    }

    pub(crate) fn progress(&self, part: usize) -> Progress {
        let mut progress = Progress::new(&self.parts[part]);
        progress.begun = self.request.counters.latencies().map(|_| Instant::now());
        progress
    }

    pub(crate) fn pair(&self, part: usize) -> &Arc<Descriptors> {
        &self.pairs[(self.parts[part].file - self.first_file) as usize]
    }

    pub(crate) fn file(&self, part: usize) -> &File {
        &self.request.files[self.parts[part].file as usize].0
    }

    /// The file's range to read next, and the address that it lands at.
    pub(crate) fn read(&self, part: usize, progress: &Progress) -> (Range<u64>, NonNull<u8>) {
        let part = &self.parts[part];
        let at = progress.landing(part);
        // SAFETY: the plan gave the part `landing..landing + wide.len()` of the slot, whose length it computed, and
        // `progress` stays inside that.
        (progress.read(part), unsafe { self.request.slot.address().add(at) })
    }

    /// Takes the kernel's answer to the read of a part and says what follows.
    pub(crate) fn answer(&mut self, part: usize, progress: &mut Progress, answer: i32) -> Next {
        let next = progress.answer(answer, &self.parts[part], self.file(part), self.request.forced_direct);
        self.stats.answers += 1;
        let (number, part) = (part, &self.parts[part]);
        match &next {
            Next::Read | Next::Later(_) => self.stats.repeats += 1,
            Next::Done => {
                self.landed += 1;
                self.request.places.note_landed(self.first_part + number);
                let bytes = part.asked;
                self.request.counters.note_arrived(bytes);
                if let Some((latencies, begun)) = self.request.counters.latencies().zip(progress.begun) {
                    latencies.note(begun.elapsed());
                }
                match progress.via {
                    Via::Direct => self.stats.bytes_direct += bytes,
                    Via::Buffered => self.stats.bytes_buffered += bytes,
                }
                if (part.via, progress.via) == (Via::Direct, Via::Buffered) {
                    lock(&self.request.turned).push((part.file, bytes));
                }
            }
            Next::Failed(_) => {}
        }
        next
    }

    /// The answer before was polled for.
    pub(crate) fn note_polled(&mut self) {
        self.stats.polled += 1;
    }

    /// Keeps the slot from ever being used again, as the kernel may still write to it.
    pub(crate) fn leak_memory(&self) {
        std::mem::forget(Arc::clone(&self.request));
        self.request.slot.lose();
    }

    pub(crate) fn fail(&mut self, part: usize, progress: &Progress, fault: ReadFault) {
        self.failed = true;
        let part = &self.parts[part];
        self.request.fail(part.file, progress.read(part).start.max(part.need.start), fault);
    }
}

impl Drop for Job {
    fn drop(&mut self) {
        let Stats { bytes_direct, bytes_buffered, answers, repeats, polled } = self.stats;
        self.request.counters.add(&Stats { answers, repeats, polled, ..Stats::default() });
        self.request.landed.add(&Stats { bytes_direct, bytes_buffered, ..Stats::default() });
        self.request.left.fetch_sub(self.landed, Ordering::Release);
    }
}
