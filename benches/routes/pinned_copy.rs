//! Copies of pinned host memory to the device, several in flight, and no read: what no route through host memory can
//! pass.

use std::ffi::c_void;
use std::sync::Arc;
use std::time::{Duration, Instant};

use cudarc::driver::{CudaContext, DriverError, result, sys};
use memmap2::{Advice, MmapMut};

use crate::machine;
use crate::stand_in;
use crate::work::{Order, Outcome};

const IN_FLIGHT: usize = 4;

/// Copies pieces of `chunk` bytes until the order's bytes or seconds are over.
pub fn run(order: &Order) -> Result<Outcome, String> {
    let device = order.open_device()?;
    let context = device.context().ok_or("host memory is no device to copy to")?;
    let chunk = usize::try_from(order.chunk).map_err(|e| e.to_string())?;
    let mut link = Link::new(context, chunk).map_err(|e| e.to_string())?;
    link.copy(IN_FLIGHT as u64 * order.chunk, Duration::MAX).map_err(|e| e.to_string())?;

    let cpu_before = machine::own_cpu_seconds();
    let start = Instant::now();
    let bytes = link.copy(order.bytes, Duration::from_secs_f64(order.seconds.min(1e6))).map_err(|e| e.to_string())?;
    let seconds = start.elapsed().as_secs_f64();
    let cpu_seconds = machine::own_cpu_seconds() - cpu_before;
    let (device, emulated) = (device.name().to_owned(), stand_in::is_loaded());
    Ok(Outcome { bytes, seconds, cpu_seconds, device, emulated, ..Outcome::default() })
}

/// A stream, an event per copy in flight, and the memory at both ends: `IN_FLIGHT` pieces each.
struct Link {
    context: Arc<CudaContext>,
    host: MmapMut,
    registered: bool,
    device: sys::CUdeviceptr,
    stream: sys::CUstream,
    events: Vec<sys::CUevent>,
    chunk: usize,
}

impl Link {
    fn new(context: &Arc<CudaContext>, chunk: usize) -> Result<Self, Box<dyn std::error::Error>> {
        let mut host = MmapMut::map_anon(chunk * IN_FLIGHT)?;
        // Where it cannot be had, small pages do.
        let _ = host.advise(Advice::HugePage);
        host.fill(1);
        context.bind_to_thread()?;
        let stream = result::stream::create(result::stream::StreamKind::NonBlocking)?;
        let context = Arc::clone(context);
        let mut link = Self { context, host, registered: false, device: 0, stream, events: Vec::new(), chunk };
        let (at, len) = (link.host.as_mut_ptr().cast::<c_void>(), link.host.len());
        // SAFETY: the mapping lives in `link`, whose drop undoes the registration first.
        unsafe { sys::cuMemHostRegister_v2(at, len, 0) }.result()?;
        link.registered = true;
        // SAFETY: a context is current; `drop` frees it.
        link.device = unsafe { result::malloc_sync(len) }?;
        for _ in 0..IN_FLIGHT {
            link.events.push(result::event::create(sys::CUevent_flags::CU_EVENT_BLOCKING_SYNC)?);
        }
        Ok(link)
    }

    /// Bytes copied, all of them there when this returns.
    fn copy(&mut self, bytes: u64, time: Duration) -> Result<u64, DriverError> {
        let start = Instant::now();
        let (mut copied, mut count) = (0, 0);
        while copied < bytes && start.elapsed() < time {
            let turn = count % IN_FLIGHT;
            let len = (self.chunk as u64).min(bytes - copied) as usize;
            let from = turn * self.chunk;
            if count >= IN_FLIGHT {
                // SAFETY: the event was made by `new` and recorded one turn ago.
                unsafe { result::event::synchronize(self.events[turn]) }?;
            }
            // SAFETY: both ends lie in memory that `self` keeps until the stream has passed, which the end of this
            // function waits for; nobody writes the source meanwhile.
            unsafe {
                result::memcpy_htod_async(self.device + from as u64, &self.host[from..from + len], self.stream)?;
                result::event::record(self.events[turn], self.stream)?;
            }
            copied += len as u64;
            count += 1;
        }
        // SAFETY: the stream is alive.
        unsafe { result::stream::synchronize(self.stream) }?;
        Ok(copied)
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        // At the end of a process that has measured already: what fails here is no news.
        let _ = self.context.bind_to_thread();
        // SAFETY: everything was made by `new`, is destroyed once, and the stream has passed before its memory goes.
        unsafe {
            let _ = result::stream::synchronize(self.stream);
            for &event in &self.events {
                let _ = result::event::destroy(event);
            }
            let _ = result::stream::destroy(self.stream);
            if self.device != 0 {
                let _ = result::free_sync(self.device);
            }
            if self.registered {
                let _ = sys::cuMemHostUnregister(self.host.as_mut_ptr().cast()).result();
            }
        }
    }
}
