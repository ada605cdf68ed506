use crate::sys::cufile::{Level1, Level1Vectored, Level3, Roomy, StatsCalls};

/// What cuFile has counted, over all GPUs of the process. It counts reads, not bytes, by the way they came.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Counters {
    /// Bytes read in all.
    pub bytes: u64,
    /// Reads that went from the drive to the GPU through the kernel's own P2PDMA.
    pub reads_p2p: u64,
    /// Reads that went from the drive to the GPU through the nvidia-fs driver.
    pub reads_nvfs: u64,
    /// Reads that were served through host memory: the compatibility mode.
    pub reads_posix: u64,
    /// Reads, of whichever kind, that were not aligned and took a copy more.
    pub reads_unaligned: u64,
    /// Reads that failed.
    pub reads_failed: u64,
}

impl Counters {
    /// What was counted between `earlier` and this.
    pub fn since(&self, earlier: &Self) -> Self {
        Self {
            bytes: self.bytes.saturating_sub(earlier.bytes),
            reads_p2p: self.reads_p2p.saturating_sub(earlier.reads_p2p),
            reads_nvfs: self.reads_nvfs.saturating_sub(earlier.reads_nvfs),
            reads_posix: self.reads_posix.saturating_sub(earlier.reads_posix),
            reads_unaligned: self.reads_unaligned.saturating_sub(earlier.reads_unaligned),
            reads_failed: self.reads_failed.saturating_sub(earlier.reads_failed),
        }
    }

    /// Whether every read went to the GPU without a stop in host memory. `None` where nothing was read.
    pub fn all_direct(&self) -> Option<bool> {
        let direct = self.reads_p2p + self.reads_nvfs;
        (direct + self.reads_posix > 0).then_some(self.reads_posix == 0)
    }
}

/// Which of cuFile's levels has the counts per way.
const LEVEL: i32 = 3;
/// A byte that no count is made of, to see what the library writes.
const FILL: u8 = 0xa5;

/// Whether cuFile counts, and for how many it was made to.
#[derive(Debug, Default)]
pub(super) struct Counting {
    users: usize,
    on: Option<On>,
}

#[derive(Clone, Copy, Debug)]
struct On {
    /// The level that the process had set.
    level_before: i32,
    vectored: bool,
}

impl Counting {
    /// Makes cuFile count until as many have [left](Self::leave).
    pub(super) fn enter(&mut self, stats: &StatsCalls) {
        self.users += 1;
        if self.users == 1 {
            self.on = start(stats);
        }
    }

    /// Sets the level back to what it was, unless somebody has changed it meanwhile.
    pub(super) fn leave(&mut self, stats: &StatsCalls) {
        self.users -= 1;
        let Some(on) = self.on.take_if(|_| self.users == 0) else { return };
        if on.level_before < LEVEL && level(stats) == Some(LEVEL) {
            // SAFETY: it takes a number and nothing else.
            let status = unsafe { (stats.set_level)(on.level_before) };
            if status.err != 0 {
                tracing::warn!("cuFile: the level of its statistics stays {LEVEL}, and was {}", on.level_before);
            }
        }
    }

    /// What cuFile has counted, where it counts.
    pub(super) fn now(&self, stats: &StatsCalls) -> Option<Counters> {
        if self.on?.vectored { read::<Level1Vectored>(stats) } else { read::<Level1>(stats) }
    }
}

fn level(stats: &StatsCalls) -> Option<i32> {
    let mut level = 0;
    // SAFETY: cuFile writes one number.
    (unsafe { (stats.level)(&mut level) }.err == 0).then_some(level)
}

fn start(stats: &StatsCalls) -> Option<On> {
    let level_before = level(stats)?;
    if level_before < LEVEL {
        // SAFETY: it takes a number and nothing else.
        if unsafe { (stats.set_level)(LEVEL) }.err != 0 {
            return None;
        }
        tracing::debug!("cuFile: the level of its statistics was {level_before} and is {LEVEL} while it is read with");
    }
    // SAFETY: it takes nothing. What already counts may refuse to start again, which is as good.
    let _ = unsafe { (stats.start)() };
    Some(On { level_before, vectored: is_vectored(stats)? })
}

/// Whether the library's structures are those of CUDA 13.4, which are longer in their middle. No version says so:
/// the library is asked to fill the first of them, and shows how long it takes it to be.
fn is_vectored(stats: &StatsCalls) -> Option<bool> {
    let mut level_1 = Roomy::<Level1Vectored>::filled(FILL);
    // SAFETY: cuFile writes a structure of one of two lengths, or of a later one, and there is room for the longer and
    // 8 KiB more.
    let status = unsafe { (stats.level_1)((&raw mut *level_1).cast()) };
    (status.err == 0).then(|| level_1.written(FILL) > size_of::<Level1>())
}

fn read<L: Copy>(stats: &StatsCalls) -> Option<Counters> {
    let mut level_3 = Roomy::<Level3<L>>::filled(0);
    // SAFETY: as in `is_vectored`.
    let status = unsafe { (stats.level_3)((&raw mut *level_3).cast()) };
    let said = &level_3.stats;
    let gpus = said.per_gpu.get(..said.gpus as usize)?;
    if status.err != 0 {
        return None;
    }
    let mut sum = Counters::default();
    for gpu in gpus {
        sum.bytes += gpu.read_bytes;
        sum.reads_p2p += gpu.reads_p2p;
        sum.reads_nvfs += gpu.reads_nvfs;
        sum.reads_posix += gpu.reads_posix;
        sum.reads_unaligned += gpu.reads_unaligned;
        sum.reads_failed += gpu.reads_failed;
    }
    Some(sum)
}
