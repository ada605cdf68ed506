//! The library's own account of what it did, kept only while it was started at a level above 0.

use super::abi::{MAX_GPUS, OpCounter, PerGpuStats, StatsLevel1, StatsLevel3};
use super::settings::Path;
use std::ffi::{c_char, c_int};
use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

pub struct Stats {
    pub level: i32,
    pub running: bool,
    pub all: StatsLevel3,
}

/// The interface a transfer came through.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Through {
    /// `cuFileRead` and `cuFileWrite`.
    Call,
    /// Their asynchronous forms.
    Stream,
    /// `cuFileReadv`, `cuFileWritev`.
    Vector,
    Batch,
}

/// What one transfer came to.
#[derive(Clone, Copy, Debug)]
pub struct Transfer {
    pub through: Through,
    pub write: bool,
    pub path: Path,
    pub device: usize,
    pub unaligned: bool,
    /// `None` where it failed.
    pub bytes: Option<u64>,
    pub took: Duration,
}

unsafe extern "C" {
    /// The driver's, which is in this same library.
    fn cuDeviceGetUuid(uuid: *mut [c_char; 16], device: c_int) -> c_int;
}

static STATS: LazyLock<Mutex<Stats>> = LazyLock::new(|| Mutex::new(Stats::new()));

pub fn lock() -> MutexGuard<'static, Stats> {
    STATS.lock().unwrap_or_else(PoisonError::into_inner)
}

pub fn reset() {
    *lock() = Stats::new();
}

/// Counts a call of that kind.
pub fn operation(counter: impl FnOnce(&mut StatsLevel1) -> &mut OpCounter, ok: bool) {
    let mut stats = lock();
    if stats.is_counting() {
        count(counter(&mut stats.all.detailed.basic), ok);
    }
}

/// Registered bytes are counted whether statistics run or not, as what is registered now.
pub fn registered(device: usize, bytes: u64) {
    if let Some(gpu) = lock().gpu(device) {
        gpu.reg_bytes = gpu.reg_bytes.saturating_add(bytes);
        gpu.n_mmap += 1;
        gpu.n_mmap_ok += 1;
    }
}

pub fn unregistered(device: usize, bytes: u64) {
    if let Some(gpu) = lock().gpu(device) {
        gpu.reg_bytes = gpu.reg_bytes.saturating_sub(bytes);
        gpu.n_mmap_free += 1;
    }
}

/// Counts a transfer that ended.
pub fn transferred(transfer: Transfer) {
    let mut stats = lock();
    if !stats.is_counting() {
        return;
    }
    let level = stats.level;
    count_basic(&mut stats.all.detailed.basic, &transfer);
    if level >= 2 && transfer.bytes.is_some() {
        let detailed = &mut stats.all.detailed;
        let histogram = if transfer.write { &mut detailed.write_size_kb_hist } else { &mut detailed.read_size_kb_hist };
        let bin = size_bin(transfer.bytes.unwrap_or(0));
        if let Some(count) = histogram.get_mut(bin) {
            *count += 1;
        }
    }
    if level >= 3
        && let Some(gpu) = stats.gpu(transfer.device)
    {
        count_gpu(gpu, &transfer);
    }
}

impl Stats {
    fn new() -> Stats {
        Stats { level: 0, running: false, all: StatsLevel3::default() }
    }

    pub fn clear(&mut self) {
        let registered = self.all.per_gpu_stats.map(|gpu| gpu.reg_bytes);
        self.all = StatsLevel3::default();
        for (gpu, bytes) in self.all.per_gpu_stats.iter_mut().zip(registered) {
            gpu.reg_bytes = bytes;
        }
    }

    fn is_counting(&self) -> bool {
        self.running && self.level > 0
    }

    fn gpu(&mut self, device: usize) -> Option<&mut PerGpuStats> {
        self.all.per_gpu_stats.get_mut(device)
    }

    /// All of it, with the names of the GPUs.
    pub fn level3(&self) -> StatsLevel3 {
        let mut all = self.all;
        let gpus = crate::device::all().len().min(MAX_GPUS);
        all.num_gpus = gpus as u32;
        for (ordinal, gpu) in all.per_gpu_stats.iter_mut().enumerate().take(gpus) {
            // SAFETY: the place has the sixteen bytes of a UUID.
            unsafe { cuDeviceGetUuid(&mut gpu.uuid, ordinal as c_int) };
        }
        all
    }
}

fn count(counter: &mut OpCounter, ok: bool) {
    if ok {
        counter.ok += 1;
    } else {
        counter.err += 1;
    }
}

fn count_basic(basic: &mut StatsLevel1, transfer: &Transfer) {
    let (ok, bytes) = (transfer.bytes.is_some(), transfer.bytes.unwrap_or(0));
    let micros = transfer.took.as_micros() as u64;
    let (ops, sum, latency, average) = match (transfer.through, transfer.write) {
        (Through::Call | Through::Stream, false) => {
            (&mut basic.read_ops, &mut basic.read_bytes, &mut basic.read_lat_sum_us, &mut basic.read_lat_avg_us)
        }
        (Through::Call | Through::Stream, true) => {
            (&mut basic.write_ops, &mut basic.write_bytes, &mut basic.write_lat_sum_us, &mut basic.write_lat_avg_us)
        }
        (Through::Vector, false) => {
            (&mut basic.readv_ops, &mut basic.readv_bytes, &mut basic.readv_lat_sum_us, &mut basic.readv_lat_avg_us)
        }
        (Through::Vector, true) => {
            (&mut basic.writev_ops, &mut basic.writev_bytes, &mut basic.writev_lat_sum_us, &mut basic.writev_lat_avg_us)
        }
        (Through::Batch, write) => {
            if transfer.path == Path::Compat {
                count(&mut basic.batch_posix_processed_ops, ok);
            }
            let sum = if write { &mut basic.batch_write_bytes } else { &mut basic.batch_read_bytes };
            (
                &mut basic.batch_processed_ops,
                sum,
                &mut basic.batch_completion_lat_sum_us,
                &mut basic.batch_completion_lat_avg_us,
            )
        }
    };
    count(ops, ok);
    *sum += bytes;
    *latency += micros;
    *average = *latency / (ops.ok + ops.err).max(1);
}

fn count_gpu(gpu: &mut PerGpuStats, transfer: &Transfer) {
    let Some(bytes) = transfer.bytes else {
        *(if transfer.write { &mut gpu.n_writes_err } else { &mut gpu.n_reads_err }) += 1;
        return;
    };
    let micros = transfer.took.as_micros() as u64;
    let unaligned = u64::from(transfer.unaligned);
    if transfer.write {
        gpu.writes_bytes += bytes;
        gpu.write_duration_us += micros;
        gpu.n_total_writes += 1;
        gpu.n_unaligned_writes += unaligned;
        *match transfer.path {
            Path::P2p => &mut gpu.n_p2p_writes,
            Path::Nvfs => &mut gpu.n_nvfs_writes,
            Path::Compat => &mut gpu.n_posix_writes,
        } += 1;
    } else {
        gpu.read_bytes += bytes;
        gpu.read_duration_us += micros;
        gpu.n_total_reads += 1;
        gpu.n_unaligned_reads += unaligned;
        *match transfer.path {
            Path::P2p => &mut gpu.n_p2p_reads,
            Path::Nvfs => &mut gpu.n_nvfs_reads,
            Path::Compat => &mut gpu.n_posix_reads,
        } += 1;
    }
}

/// Bin `i` holds sizes from 2^(i-1) up to 2^i KiB, bin 0 what is smaller.
fn size_bin(bytes: u64) -> usize {
    ((u64::BITS - (bytes / 1024).leading_zeros()) as usize).min(31)
}
