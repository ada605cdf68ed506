use std::sync::{Arc, Mutex};
use std::time::Duration;

use super::descriptors::DescriptorCache;
use super::engine::{Engine, EngineChoice, EngineError, EngineKind, Pread, RingFeatures, Uring, UringSettings};
use super::plan::{Mode, PlanSettings};
use super::reader::{Core, Reader};
use super::settings::ReaderSettings;
use super::stats::Counters;
use crate::error::BuildError;
use crate::memory::{Arena, Owner};

/// Sets up a [`Reader`].
///
/// ## Defaults
/// engine auto, mode auto, budget 256 MiB, depth 32, one ring, chunk 1 MiB, coalescing gap 4 KiB, no polling.
#[derive(Clone, Debug)]
#[must_use = "a builder builds nothing until `build` is called"]
pub struct ReaderBuilder {
    engine: EngineChoice,
    mode: Mode,
    budget: u64,
    depth: u32,
    rings: Option<u32>,
    chunk: u64,
    gap: u64,
    iopoll: bool,
    sqpoll: Option<Duration>,
    filled_once: bool,
    /// Bytes of the arena that are touched, and registered, before the first read.
    touched: u64,
    latencies: bool,
    strict_ctime: bool,
    #[cfg(test)]
    pub(crate) faults: Option<Arc<super::engine::faults::Faults>>,
}

impl Default for ReaderBuilder {
    fn default() -> Self {
        Self {
            engine: EngineChoice::Auto,
            mode: Mode::Auto,
            budget: 256 << 20,
            depth: ReaderSettings::DEFAULT.depth,
            rings: None,
            chunk: ReaderSettings::DEFAULT.chunk,
            gap: 4 << 10,
            iopoll: false,
            sqpoll: None,
            filled_once: false,
            touched: 0,
            latencies: false,
            strict_ctime: false,
            #[cfg(test)]
            faults: None,
        }
    }
}

impl ReaderBuilder {
    /// Engine, chunk, depth, rings and polling as these are. Where they say io_uring and it cannot be had, the thread pool
    /// stands in for it.
    pub fn settings(self, settings: &ReaderSettings) -> Self {
        let ReaderSettings { chunk, depth, rings, iopoll, .. } = *settings;
        self.engine(settings.engine_choice()).chunk(chunk).depth(depth).rings(rings).iopoll(iopoll)
    }

    /// Which engine: io_uring, the thread pool, or whichever can be had.
    pub fn engine(mut self, engine: EngineChoice) -> Self {
        self.engine = engine;
        self
    }

    /// Whether reads go past the page cache.
    pub fn mode(mut self, mode: Mode) -> Self {
        self.mode = mode;
        self
    }

    /// The most bytes of memory that reads land in. It is a limit: no more is touched and registered than what is read and
    /// kept at once, and a little more. It must hold what is kept and what is being read at the same time: for a loop that
    /// works on one batch while the next is read, two batches. A read that can never fit is refused, also where the machine has
    /// less left than the budget; one that does not fit now waits (see [`Reader::read`]).
    pub fn budget(mut self, bytes: u64) -> Self {
        self.budget = bytes;
        self
    }

    /// Reads under way at once, per ring, or threads of the pool (of which there are at most 16); 1 to 4096.
    pub fn depth(mut self, depth: u32) -> Self {
        self.depth = depth;
        self
    }

    /// Rings, each with its thread, that share the work; 1 to 64. One keeps several drives busy with large reads;
    /// more help where small reads cost one core all its time.
    pub fn rings(mut self, rings: u32) -> Self {
        self.rings = Some(rings);
        self
    }

    /// So many rings, where none were asked for.
    pub(crate) fn rings_unless_set(mut self, rings: u32) -> Self {
        self.rings.get_or_insert(rings);
        self
    }

    /// The most bytes that one read asks the kernel for: a multiple of 64 KiB, up to 1 GiB.
    pub fn chunk(mut self, bytes: u64) -> Self {
        self.chunk = bytes;
        self
    }

    /// Sets the chunk to what fits into `bytes`, where it is more.
    pub(crate) fn chunk_at_most(mut self, bytes: u64) -> Self {
        const GRAIN: u64 = 64 << 10;
        self.chunk = self.chunk.min((bytes / GRAIN * GRAIN).max(GRAIN));
        self
    }

    /// Extents of one file that are at most this many bytes apart are read at once, with the gap.
    pub fn coalesce_gap(mut self, bytes: u64) -> Self {
        self.gap = bytes;
        self
    }

    /// Polls for the end of direct reads instead of waiting for interrupts: less latency for one core of work. Files
    /// whose device has no polled queues are read without, with a warning.
    pub fn iopoll(mut self, iopoll: bool) -> Self {
        self.iopoll = iopoll;
        self
    }

    /// Has a kernel thread take submissions, which sleeps after this long without any: fewer system calls for one
    /// core of work.
    pub fn sqpoll(mut self, idle: Option<Duration>) -> Self {
        self.sqpoll = idle;
        self
    }

    /// Whether a file whose ctime alone has changed since it was opened counts as another. By default its device, inode, size and
    /// mtime decide, and a change of the ctime is one warning for each file: `chmod`, `chown` and backups that make hard links
    /// change it, and would end a training. Strict finds content that was written and whose mtime was then set back, too.
    pub fn strict_ctime(mut self, strict: bool) -> Self {
        self.strict_ctime = strict;
        self
    }

    /// Counts how long reads take: [`Reader::latencies`].
    pub fn latencies(mut self, latencies: bool) -> Self {
        self.latencies = latencies;
        self
    }

    /// Touches and registers the whole budget while the reader is built, in place of what is needed when it is needed: what
    /// there is then will be there later.
    pub fn prefault(mut self, prefault: bool) -> Self {
        self.touched = if prefault { u64::MAX } else { 0 };
        self
    }

    /// Touches and registers as many bytes while the reader is built, as far as the machine has them then.
    pub(crate) fn touched_at_least(mut self, bytes: u64) -> Self {
        self.touched = self.touched.max(bytes);
        self
    }

    /// The memory is filled once, and stays with what was read: it is touched while that goes on, and not registered.
    pub(crate) fn filled_once(mut self) -> Self {
        self.filled_once = true;
        self
    }

    /// Reserves addresses for the arena and starts the engine.
    ///
    /// # Errors
    /// [`BuildError`] where a setting is out of range, the budget does not fit the machine, or the engine that was
    /// asked for cannot start. With [`EngineChoice::Auto`] the thread pool stands in for io_uring, and one warning
    /// says why.
    pub fn build(self) -> Result<Reader, BuildError> {
        self.check()?;
        let arena = match self.filled_once {
            true => Arena::touched_meanwhile(self.budget)?,
            false => Arena::new(self.budget)?,
        };
        match self.touched {
            u64::MAX => arena.touch(usize::MAX)?,
            // What is refused now is asked for again by the reads that need it, which say so if it is refused again.
            bytes => drop(arena.touch(usize::try_from(bytes).unwrap_or(usize::MAX))),
        }
        let (engine, features, fallback): (Arc<dyn Engine>, Option<RingFeatures>, _) = match self.engine {
            EngineChoice::Pread => (self.pread()?, None, None),
            choice => match Uring::new(&self.uring(), &arena) {
                Ok(uring) => {
                    let features = uring.features();
                    (Arc::new(uring), Some(features), None)
                }
                Err(error) if choice == EngineChoice::Uring => return Err(error.into()),
                Err(error) => {
                    tracing::warn!("reading with threads (engine pread): {error}");
                    (self.pread()?, None, Some(error))
                }
            },
        };
        Ok(Reader::new(Core {
            arena,
            settings: PlanSettings { mode: self.mode, chunk: self.chunk, gap: self.gap },
            cache: DescriptorCache::new(self.strict_ctime),
            counters: Arc::new(if self.latencies { Counters::with_latencies() } else { Counters::default() }),
            kind: if features.is_some() { EngineKind::Uring } else { EngineKind::Pread },
            engine,
            features,
            fallback,
            aside: Mutex::default(),
            closed: false.into(),
            said_buffered: false.into(),
            ahead: 0.into(),
            owner: Owner::this(),
        }))
    }

    pub(crate) fn check(&self) -> Result<(), EngineError> {
        let wrong = |setting, value, range| Err(EngineError::Setting { setting, value, range });
        if !(1..=4096).contains(&self.depth) {
            return wrong("depth", u64::from(self.depth), "1 to 4096");
        }
        let rings = self.rings.unwrap_or(1);
        if !(1..=64).contains(&rings) {
            return wrong("rings", u64::from(rings), "1 to 64");
        }
        if self.chunk == 0 || !self.chunk.is_multiple_of(64 << 10) || self.chunk > 1 << 30 {
            return wrong("chunk", self.chunk, "a multiple of 65536 up to 1073741824");
        }
        Ok(())
    }

    fn pread(&self) -> Result<Arc<dyn Engine>, EngineError> {
        const MOST_THREADS: u32 = 16;
        let threads = self.depth.min(MOST_THREADS) as usize;
        Ok(Arc::new(Pread::new(
            threads,
            #[cfg(test)]
            self.faults.clone(),
        )?))
    }

    fn uring(&self) -> UringSettings {
        UringSettings {
            depth: self.depth,
            rings: self.rings.unwrap_or(1),
            iopoll: self.iopoll,
            sqpoll: self.sqpoll,
            #[cfg(test)]
            faults: self.faults.clone(),
        }
    }
}

#[cfg(all(test, not(forebay_loom)))]
mod tests {
    use super::*;

    #[test]
    fn what_the_first_reads_need_is_touched_at_once_and_the_rest_is_not() {
        let reader = |builder: ReaderBuilder| builder.budget(64 << 20).build().unwrap();
        let touched = |builder| reader(builder).arena().touched();
        let few = touched(ReaderBuilder::default().touched_at_least(9 << 20));
        assert!((9 << 20..32 << 20).contains(&few), "{few} bytes");
        assert_eq!(touched(ReaderBuilder::default().touched_at_least(65 << 20)), 64 << 20);
        assert_eq!(touched(ReaderBuilder::default().prefault(true).touched_at_least(1 << 20)), 64 << 20);
    }
}
