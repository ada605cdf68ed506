//! How fast copies between pinned host memory and a device go by themselves.

use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use super::backend::Span;
use super::cuda::{CudaDevice, PinnedArena};
use super::error::{DeviceError, DeviceFault};
use super::handle::Device;
use crate::memory::{Arena, MemoryError, Slot};
use crate::sync::ThreadError;

/// Bytes per second of copies that are as long as was asked for.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct LinkRates {
    /// From pinned host memory to the device, with one copy in flight while the next is ordered.
    pub to_device: f64,
    /// From the device to pinned host memory, each waited for.
    pub to_host: f64,
}

/// Copies in flight at once.
const AT_ONCE: usize = 2;

impl Device {
    /// Measures copies of `chunk` bytes to the device and back, each way for `time`, with memory of its own that is pinned and
    /// released: what a route through host memory can reach at most. `None` for the host, which has no link.
    ///
    /// # Errors
    /// [`DeviceError`] where the driver refuses, or there is no thread, or no memory for three such chunks.
    pub fn link_rates(&self, chunk: usize, time: Duration) -> Result<Option<LinkRates>, DeviceError> {
        let Some(cuda) = self.as_cuda() else { return Ok(None) };
        // Orders are for a thread that the device is bound to, which a caller's is not.
        let rates = thread::scope(|scope| {
            let thread = thread::Builder::new().name("forebay-link".into());
            match thread.spawn_scoped(scope, || measure(self, cuda, chunk.max(1), time)) {
                Ok(thread) => thread.join().unwrap_or_else(|_| Err(cuda.error(DeviceFault::Ended))),
                Err(error) => {
                    let reason = ThreadError::new(1, 1, error).to_string();
                    Err(cuda.error(DeviceFault::NoThread { reason }))
                }
            }
        });
        rates.map(Some)
    }
}

fn measure(device: &Device, cuda: &Arc<CudaDevice>, chunk: usize, time: Duration) -> Result<LinkRates, DeviceError> {
    let no_memory = |error: MemoryError| cuda.error(DeviceFault::NoHostMemory { reason: error.to_string() });
    // A slot begins at a page.
    let budget = AT_ONCE as u64 * (chunk as u64).next_multiple_of(4096);
    let arena = Arena::new(budget).map_err(no_memory)?;
    // All of it before the clock runs.
    arena.touch(budget as usize).map_err(no_memory)?;
    let memory = device.allocate_memory(chunk)?;
    let mut copier = cuda.copier(Arc::new(PinnedArena::new(cuda, &arena)?))?;
    copier.bind()?;
    let spans = [Span { from: 0, to: 0, len: chunk }];

    let (start, mut ordered) = (Instant::now(), 0_u64);
    let mut last = 0;
    while start.elapsed() < time || ordered < AT_ONCE as u64 {
        match arena.try_loan(chunk).map_err(no_memory)? {
            Some(slot) => {
                last = copier.to_device(Box::new(slot), &memory, &spans)?.ticket;
                ordered += 1;
            }
            None => thread::yield_now(),
        }
        copier.first_pending()?;
    }
    while copier.first_pending()? <= last {
        thread::yield_now();
    }
    let to_device = (ordered * chunk as u64) as f64 / start.elapsed().as_secs_f64();

    let free: Option<Slot> = arena.try_loan(chunk).map_err(no_memory)?;
    let mut slot = free.ok_or_else(|| no_memory(MemoryError::OverBudget { asked: chunk as u64, budget }))?;
    let (start, mut copied) = (Instant::now(), 0_u64);
    while start.elapsed() < time || copied == 0 {
        slot = copier.to_host(&memory, 0, slot)?;
        copied += chunk as u64;
    }
    Ok(LinkRates { to_device, to_host: copied as f64 / start.elapsed().as_secs_f64() })
}
