use std::fmt;
use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use super::builder::ReaderBuilder;
use super::descriptors::{DescriptorCache, Descriptors};
use super::direct::NoDirect;
use super::engine::{Engine, EngineError, EngineKind, Pread, RingFeatures};
use super::error::{OpenError, OpenFault, ReadError};
use super::extent::Extent;
use super::file::File;
use super::latency::{Histogram, Latencies};
use super::layout::{Part, Via};
use super::pieces::Pieces;
use super::plan::{Mode, Plan, PlanRoom, PlanSettings, prefer_warm};
use super::proof::prove;
use super::read::{Read, not_opened};
use super::stats::{Counters, Stats};
use super::stream::ReadStream;
use crate::memory::{Arena, Owner, Slot};
use crate::sync::lock;
use crate::sys::statfs::FileSystem;

/// Reads extents of files into one arena of registered memory, through one engine. Cloning gives another handle.
///
/// Dropping the last handle, of the reader and its reads, lets the engine finish what it has taken, and waits a second
/// for that at most; what takes longer goes on by itself and frees its memory when it is done.
#[derive(Clone)]
pub struct Reader {
    core: Arc<Core>,
}

pub(crate) struct Core {
    pub(super) arena: Arena,
    pub(super) settings: PlanSettings,
    pub(super) cache: Arc<DescriptorCache>,
    pub(super) counters: Arc<Counters>,
    pub(super) engine: Arc<dyn Engine>,
    pub(super) kind: EngineKind,
    pub(super) features: Option<RingFeatures>,
    pub(super) fallback: Option<EngineError>,
    /// Serves what the ring must not read, from the first such file on.
    pub(super) aside: Mutex<Option<Arc<dyn Engine>>>,
    pub(super) closed: AtomicBool,
    pub(super) said_buffered: AtomicBool,
    /// Bytes that streams have begun to read and nobody has taken yet.
    pub(super) ahead: AtomicU64,
    /// The engine's threads are in no other process.
    pub(super) owner: Owner,
}

impl Reader {
    /// A reader to be set up; every setting has a default.
    pub fn builder() -> ReaderBuilder {
        ReaderBuilder::default()
    }

    pub(super) fn new(core: Core) -> Self {
        Self { core: Arc::new(core) }
    }

    /// Opens a regular file or a block device. Its path is bytes, and need not be text.
    ///
    /// # Errors
    /// [`OpenError`] names the path: where it cannot be opened, is something else than a file (a directory, a FIFO),
    /// or where direct reads were asked for and cannot be had.
    pub fn open(&self, path: impl AsRef<Path>) -> Result<File, OpenError> {
        let path = path.as_ref();
        let file = File::open(&self.core.cache, path)?;
        let Err(reason) = file.direct() else { return Ok(file) };
        match self.core.settings.mode {
            Mode::Direct => return Err(OpenError { path: path.to_owned(), fault: OpenFault::NoDirect(reason) }),
            Mode::Auto => self.core.say_buffered(&file, &reason),
            Mode::Buffered => {}
        }
        Ok(file)
    }

    /// Reads a list of extents, of any files opened with this reader, into one piece of the arena.
    ///
    /// The read is planned on this thread and given to the engine at once where memory is free. The order of the list
    /// decides nothing but the order of the [`Pieces`]: neighbours are read together, large extents in chunks.
    /// Extents may overlap, repeat, and be empty. Polling may make short system calls (opening a file again, `statx`). Only
    /// where reads under way hold all descriptors that the process may have, it waits for the first of them to end: that needs
    /// nobody to poll it, and after 30 s it is an error.
    ///
    /// **Memory.** The pieces of a read hold their part of the budget until they are dropped, and so does a stream
    /// what it has read ahead. A read that finds too little free waits, in the order of asking, until others let go:
    /// whoever keeps as much as the budget and awaits more waits for itself, without an error. Ten reads of 1 MiB that
    /// are awaited together, as `join_all` does, need a budget of 10 MiB; a batch is better one read of ten extents.
    /// A waiting `Read` that is neither polled nor dropped keeps its place, and those behind it waiting.
    ///
    /// # Errors
    /// The future ends with [`ReadError`], which names path and offset: where an extent passes the end of its file,
    /// the file is not the one that was opened any more, the device or the kernel fails, or the whole cannot fit the
    /// budget. Nothing is delivered then; no byte is ever made up.
    pub fn read(&self, extents: &[Extent]) -> Read {
        Read::new(&self.core, Plan::new(extents, self.core.settings, PlanRoom::Host(self.core.arena.budget())))
    }

    /// [`read`](Self::read), awaited on this thread. A thread that keeps what was read and finds too little memory for more
    /// waits for itself: a warning says so after five seconds.
    ///
    /// # Errors
    /// As [`read`](Self::read).
    pub fn read_blocking(&self, extents: &[Extent]) -> Result<Pieces, ReadError> {
        self.read(extents).wait()
    }

    /// Reads extents of any length in order, in parts, ahead of whoever takes them and within the budget.
    pub fn stream(&self, extents: impl IntoIterator<Item = Extent>) -> ReadStream {
        let chunk = self.core.settings.chunk;
        ReadStream::new(self.clone(), extents.into_iter().collect(), chunk)
    }

    /// The engine that this reader got.
    pub fn engine(&self) -> EngineKind {
        self.core.kind
    }

    /// What the ring has; `None` where the engine is another.
    pub fn ring_features(&self) -> Option<RingFeatures> {
        self.core.features
    }

    /// Why the engine is not `uring`, where it was chosen by itself and that one could not be had.
    pub fn fallback(&self) -> Option<&EngineError> {
        self.core.fallback.as_ref()
    }

    /// The memory that reads land in.
    pub fn arena(&self) -> &Arena {
        &self.core.arena
    }

    /// Where it counts, for who tells of it after it is gone.
    pub(crate) fn counters(&self) -> Arc<Counters> {
        Arc::clone(&self.core.counters)
    }

    pub(crate) fn settings(&self) -> PlanSettings {
        self.core.settings
    }

    /// The descriptors of a file of this reader's. The caller must hold no others, or wait for itself.
    pub(crate) fn descriptors(&self, file: &File) -> Result<Arc<Descriptors>, ReadError> {
        self.core.cache.pair_waiting(&file.inner).map_err(|error| not_opened(file, 0, error))
    }

    /// The same for a caller that holds others: `None` where there is no room.
    pub(crate) fn more_descriptors(&self, file: &File) -> Result<Option<Arc<Descriptors>>, ReadError> {
        self.core.cache.pair(&file.inner).map_err(|error| not_opened(file, 0, error))
    }

    /// A descriptor of its own, for which a file that no read uses is closed where the process has none left.
    pub(crate) fn clone_descriptor(&self, descriptor: BorrowedFd<'_>) -> io::Result<OwnedFd> {
        self.core.cache.clone_descriptor(descriptor)
    }

    /// Bytes that have landed so far, also of reads that are not whole yet, or never will be.
    pub(crate) fn arrived(&self) -> u64 {
        self.core.counters.arrived()
    }

    /// How many files one caller may hold open at once, so that others can read beside it.
    pub(crate) fn most_files(&self) -> usize {
        self.core.most_files()
    }

    /// Sends those parts that are in the page cache through it, of the files for which `of` holds. Parts are in the order
    /// of `files`, by whose numbers they name theirs.
    pub(crate) fn prefer_warm(
        &self,
        files: &[File],
        parts: &mut [Part],
        of: impl Fn(&File) -> bool,
    ) -> Result<(), ReadError> {
        for parts in parts.chunk_by_mut(|a, b| a.file == b.file) {
            let file = &files[parts[0].file as usize];
            if of(file) && parts[0].via == Via::Direct {
                prefer_warm(file, &self.descriptors(file)?, parts);
            }
        }
        Ok(())
    }

    /// Reads what a plan of this reader's files, or a group of one, says.
    pub(crate) fn read_planned(&self, plan: Plan) -> Read {
        Read::new(&self.core, Ok(plan))
    }

    /// The same into a slot of this reader's arena, at the landings that the plan has. Its files must be of this process.
    pub(crate) fn read_into(&self, plan: Plan, slot: Slot) -> Read {
        Read::in_slot(&self.core, plan, slot)
    }

    pub(super) fn ahead(&self) -> &AtomicU64 {
        &self.core.ahead
    }

    /// Reads the first block of a file with `O_DIRECT`, by itself, and looks whether it is in the page cache afterwards: it is
    /// dropped from there before. `Ok(false)` where that cannot be told: the file has no bytes, is a block device or on FUSE, or the
    /// kernel does not say what the cache holds.
    ///
    /// # Errors
    /// Why reads of this file are not direct, where they are not.
    pub fn prove_direct(&self, file: &File) -> Result<bool, NoDirect> {
        file.direct()?;
        let Ok(pair) = self.descriptors(file) else { return Ok(false) };
        match prove(file, &pair) {
            None => Ok(false),
            Some(Ok(())) => Ok(true),
            Some(Err(reason)) => {
                self.core.give_up_direct(file, &reason);
                Err(reason)
            }
        }
    }

    /// What has been read so far. A read counts when it is over.
    pub fn stats(&self) -> Stats {
        self.core.counters.now()
    }

    /// How long the reads took so far, those of requests that are not over, too; `None` unless
    /// [asked for](ReaderBuilder::latencies).
    pub fn latencies(&self) -> Option<Latencies> {
        self.core.counters.latencies().map(Histogram::now)
    }

    /// Closes the engine and waits until all that it had taken is done. Reads begun later, also through other handles,
    /// fail.
    pub async fn close(self) {
        let (ended, heard) = tokio::sync::oneshot::channel();
        let core = Arc::clone(&self.core);
        let waiter = std::thread::Builder::new().name("forebay-close".into()).spawn(move || {
            core.close(None);
            let _ = ended.send(());
        });
        match waiter {
            Ok(_) => {
                let _ = heard.await;
            }
            Err(_) => self.close_blocking(),
        }
    }

    /// [`close`](Self::close) on this thread.
    pub fn close_blocking(self) {
        self.core.close(None);
    }
}

impl fmt::Debug for Reader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reader")
            .field("engine", &self.core.kind)
            .field("settings", &self.core.settings)
            .field("arena", &self.core.arena)
            .finish_non_exhaustive()
    }
}

impl Core {
    /// Whether this is the process that built the reader, and not one forked from it.
    pub(super) fn is_ours(&self) -> bool {
        self.owner.is_here()
    }

    /// Whether the ring must not read this file: an io_uring read of a FUSE file that its process answers short can
    /// deliver wrong bytes with a plausible length (seen on Linux 6.18 and 7.3).
    pub(super) fn needs_pread(&self, file: &File) -> bool {
        self.kind == EngineKind::Uring && file.inner.system == FileSystem::Fuse
    }

    /// The engine for ordinary files, or the one for those that the ring must not read.
    pub(super) fn engine_for(&self, aside: bool) -> Result<Arc<dyn Engine>, EngineError> {
        const THREADS: usize = 4;
        if !aside {
            return Ok(Arc::clone(&self.engine));
        }
        let mut engine = lock(&self.aside);
        if let Some(engine) = &*engine {
            return Ok(Arc::clone(engine));
        }
        if self.closed.load(Ordering::Relaxed) {
            return Err(EngineError::Closed { kind: EngineKind::Pread });
        }
        let started: Arc<dyn Engine> = Arc::new(Pread::new(
            THREADS,
            #[cfg(test)]
            None,
        )?);
        Ok(Arc::clone(engine.insert(started)))
    }

    /// Says, once a reader, that files are read through the page cache though they lie on a disk.
    fn say_buffered(&self, file: &File, reason: &NoDirect) {
        let expected = matches!(reason, NoDirect::InMemory | NoDirect::Refused);
        if !expected && !self.said_buffered.swap(true, Ordering::Relaxed) {
            tracing::warn!(
                "{}: read through the page cache, as other files may be, since {reason}; {}",
                file.path().display(),
                reason.fix()
            );
        }
    }

    /// Reads a file through the page cache from here on that was read through it all the same, unless direct reads alone were
    /// asked for.
    fn give_up_direct(&self, file: &File, reason: &NoDirect) {
        if self.settings.mode != Mode::Direct {
            file.read_buffered(reason.clone());
        }
    }

    /// The same, and says so, once for each kind of reason.
    pub(super) fn say_cached(&self, file: &File, reason: NoDirect) {
        static SAID: Mutex<Vec<NoDirect>> = Mutex::new(Vec::new());
        self.give_up_direct(file, &reason);
        let mut said = lock(&SAID);
        if !said.contains(&reason) {
            tracing::warn!(
                "{}: its reads, as those of other files may, count as buffered, since {reason}; {}",
                file.path().display(),
                reason.fix()
            );
            said.push(reason);
        }
    }

    /// How many files one read may hold open at once, so that others can read beside it.
    pub(super) fn most_files(&self) -> usize {
        self.cache.room().div_ceil(2)
    }

    fn close(&self, until: Option<Instant>) -> bool {
        if !self.is_ours() {
            // The engine's threads are the parent's; waiting for them here would be for ever.
            return true;
        }
        self.engine.close();
        let aside = {
            let aside = lock(&self.aside);
            // Under the lock, so that none is started from here on.
            self.closed.store(true, Ordering::Relaxed);
            aside.clone()
        };
        if let Some(aside) = &aside {
            aside.close();
        }
        self.engine.ended_by(until) && aside.is_none_or(|aside| aside.ended_by(until))
    }
}

impl Drop for Core {
    fn drop(&mut self) {
        const PATIENCE: Duration = Duration::from_secs(1);
        if !self.close(Some(Instant::now() + PATIENCE)) {
            tracing::warn!(
                "reads are still under way after {PATIENCE:?}; they go on by themselves, and their memory stays \
                 until the kernel has answered"
            );
        }
    }
}
