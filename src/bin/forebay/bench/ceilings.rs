//! What the machine can do at most, measured one by one: what a row is held against.

use std::hint::black_box;
use std::os::unix::fs::FileExt;
use std::thread;
use std::time::{Duration, Instant};

use forebay::Device;
use serde::Serialize;

use super::pcie::{Pcie, What};
use super::target::Target;

#[derive(Clone, Debug, Default, Serialize)]
pub struct Ceilings {
    /// Copies in memory by one thread, and by one for each processor: bytes per second, counted once.
    pub memory_copy: f64,
    pub memory_copy_all: f64,
    /// The file out of the page cache, by one thread; `null` where it was not warm.
    pub page_cache_copy: Option<f64>,
    /// The most that any row got from the drive, past the page cache.
    pub drive: Option<f64>,
    /// Copies between pinned memory and the GPU, in chunks of [`LINK_CHUNK`]; `null` for the host.
    pub to_device: Option<f64>,
    pub to_host: Option<f64>,
    /// The same by the bytes of a copy, rising; empty for the host.
    pub link: Vec<LinkRate>,
    /// Empty where the kernel shows no such link.
    pub pcie: Vec<Pcie>,
}

/// Copies of so many bytes each.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct LinkRate {
    pub chunk: u64,
    pub to_device: f64,
    pub to_host: f64,
}

/// As many bytes as a carrier copies at once.
pub const LINK_CHUNK: u64 = 4 << 20;

const LINK_CHUNKS: [u64; 5] = [64 << 10, 256 << 10, 1 << 20, LINK_CHUNK, 16 << 20];

impl Ceilings {
    /// Measures the link, each size each way for `time`: in two goes of which the better counts, for what disturbs one of them
    /// is no end of the link.
    pub fn measure_link(&mut self, device: &Device, time: Duration) -> Result<(), forebay::DeviceError> {
        for chunk in LINK_CHUNKS.into_iter().chain(LINK_CHUNKS) {
            let Some(rates) = device.link_rates(chunk as usize, time / 2)? else { break };
            match self.link.iter_mut().find(|known| known.chunk == chunk) {
                Some(known) => {
                    known.to_device = known.to_device.max(rates.to_device);
                    known.to_host = known.to_host.max(rates.to_host);
                }
                None => self.link.push(LinkRate { chunk, to_device: rates.to_device, to_host: rates.to_host }),
            }
        }
        let usual = self.link.iter().find(|rate| rate.chunk == LINK_CHUNK);
        (self.to_device, self.to_host) = (usual.map(|rate| rate.to_device), usual.map(|rate| rate.to_host));
        Ok(())
    }

    /// What bounds bytes that stay on the host: no link to a GPU.
    pub fn beside_gpus(&self) -> Self {
        let pcie = self.pcie.iter().filter(|link| link.what == What::Drive).cloned().collect();
        Self { to_device: None, to_host: None, link: Vec::new(), pcie, ..self.clone() }
    }

    /// What copies of `bytes` to the device reach at most: the next larger size that was measured, so that it is not too low.
    pub fn copies_to_device(&self, bytes: u64) -> Option<f64> {
        let fitting = self.link.iter().find(|rate| rate.chunk >= bytes).or(self.link.last());
        fitting.map(|rate| rate.to_device)
    }
}

/// Processors that this process may use.
pub fn processors() -> usize {
    thread::available_parallelism().map_or(1, usize::from)
}

/// Copies in memory.
pub fn memory(time: Duration) -> (f64, f64) {
    let one = copies(time);
    let all = thread::scope(|scope| {
        // One that cannot be had copies nothing.
        let start = || thread::Builder::new().spawn_scoped(scope, || copies(time)).ok();
        let threads: Vec<_> = (0..processors()).filter_map(|_| start()).collect();
        threads.into_iter().filter_map(|thread| thread.join().ok()).sum()
    });
    (one, all)
}

/// Larger than the caches of a core, by turns between so much memory that it comes from outside.
fn copies(time: Duration) -> f64 {
    const LEN: usize = 64 << 20;
    const PIECE: usize = 1 << 20;
    let from = vec![1_u8; LEN];
    let mut to = vec![2_u8; LEN];
    let (start, mut bytes) = (Instant::now(), 0_u64);
    while start.elapsed() < time {
        for (to, from) in to.chunks_exact_mut(PIECE).zip(from.chunks_exact(PIECE)) {
            to.copy_from_slice(from);
            black_box(&to);
            bytes += PIECE as u64;
            if start.elapsed() >= time {
                break;
            }
        }
    }
    bytes as f64 / start.elapsed().as_secs_f64()
}

/// Of a file that is warm.
pub fn page_cache(target: &Target, time: Duration) -> Option<f64> {
    let mut piece = vec![0; 1 << 20];
    let len = target.len.min(256 << 20);
    forebay::facts::cached_share(&target.file, 0, len).ok().filter(|share| *share >= 0.999)?;
    let (start, mut bytes, mut at) = (Instant::now(), 0_u64, 0);
    while start.elapsed() < time {
        let read = target.file.read_at(&mut piece, at).ok().filter(|read| *read > 0)? as u64;
        bytes += read;
        at = if at + read >= len { 0 } else { at + read };
    }
    Some(bytes as f64 / start.elapsed().as_secs_f64())
}
