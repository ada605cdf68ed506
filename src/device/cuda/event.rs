use std::ffi::c_uint;
use std::fmt;
use std::sync::{Arc, Mutex, Weak};

use cudarc::driver::CudaStream;

use super::context::CudaDevice;
use crate::device::error::{DeviceError, DeviceFault};
use crate::sync::lock;
use crate::sys::cuda::{self, CudaCode, Stream};

/// A mark on a stream: passed once everything ordered before it is done.
pub(crate) struct Event {
    device: Arc<CudaDevice>,
    raw: cuda::Event,
    /// Where it goes when it is dropped.
    pool: Weak<EventPool>,
}

// SAFETY: the driver lets any thread with the context current use an event; only one at a time has this handle.
unsafe impl Send for Event {}
// SAFETY: as above; through a shared reference it is only asked and waited for, which the driver allows from any thread.
unsafe impl Sync for Event {}

/// Events to be used again: a training step marks its stream for every batch, and to create and destroy an event each time takes
/// locks of the driver's beside the step's own launches.
pub(crate) struct EventPool {
    device: Arc<CudaDevice>,
    spare: Mutex<Vec<Event>>,
}

impl EventPool {
    pub(crate) fn new(device: &Arc<CudaDevice>) -> Arc<Self> {
        Arc::new(Self { device: Arc::clone(device), spare: Mutex::default() })
    }

    /// A mark behind all that a stream of somebody else's has been given so far.
    pub(crate) fn mark(self: &Arc<Self>, stream: &CudaStream) -> Result<Event, DeviceError> {
        let device = &self.device;
        if stream.context().cu_ctx() != device.context().cu_ctx() {
            return Err(device.error(DeviceFault::OtherStream));
        }
        let _current = device.enter()?;
        let stream = stream.cu_stream().cast();
        // The mark would be one of the graph's, and passed at no time that can be asked for.
        if device.library().is_capturing(stream) {
            return Err(device.error(DeviceFault::Capturing));
        }
        let spare = lock(&self.spare).pop();
        let mut event = spare.map_or_else(|| Event::new(device), Ok)?;
        event.pool = Arc::downgrade(self);
        event.record(stream)?;
        Ok(event)
    }

    /// Keeps an event that nobody uses any more; gives it back where there are enough. One that its stream has not passed may be
    /// recorded anew, since nobody asks for the mark that it was.
    fn keep(&self, event: Event) -> Result<(), Event> {
        const MOST: usize = 64;
        let mut spare = lock(&self.spare);
        if spare.len() == MOST {
            return Err(event);
        }
        spare.push(event);
        Ok(())
    }
}

impl Event {
    /// Without a time stamp, which costs, and one that sleeps when waited for, rather than spins.
    pub(crate) fn new(device: &Arc<CudaDevice>) -> Result<Self, DeviceError> {
        const BLOCKING_SYNC: c_uint = 1;
        const DISABLE_TIMING: c_uint = 2;
        let mut raw = std::ptr::null_mut();
        // SAFETY: the driver writes one handle.
        let code = unsafe { (device.library().event_create)(&mut raw, BLOCKING_SYNC | DISABLE_TIMING) };
        device.check("cuEventCreate", code)?;
        Ok(Self { device: Arc::clone(device), raw, pool: Weak::new() })
    }

    /// Sets the mark behind all that was ordered on `stream`, which must be alive and of the same context.
    pub(crate) fn record(&self, stream: Stream) -> Result<(), DeviceError> {
        // SAFETY: both handles are alive: this one as `self` owns it, the stream as the caller does.
        self.device.check("cuEventRecord", unsafe { (self.device.library().event_record)(self.raw, stream) })
    }

    pub(crate) fn is_passed(&self) -> Result<bool, DeviceError> {
        // SAFETY: the handle is alive.
        match unsafe { (self.device.library().event_query)(self.raw) } {
            CudaCode::NOT_READY => Ok(false),
            code => self.device.check("cuEventQuery", code).map(|()| true),
        }
    }

    /// Sleeps until the mark is passed.
    pub(crate) fn wait(&self) -> Result<(), DeviceError> {
        // SAFETY: the handle is alive.
        self.device.check("cuEventSynchronize", unsafe { (self.device.library().event_synchronize)(self.raw) })
    }
}

impl fmt::Debug for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Event").field("device", &self.device).finish_non_exhaustive()
    }
}

impl Drop for Event {
    fn drop(&mut self) {
        if !self.device.is_ours() {
            return;
        }
        if let Some(pool) = self.pool.upgrade() {
            // Given back, it is destroyed with that handle.
            let _ = pool.keep(Self { device: Arc::clone(&self.device), raw: self.raw, pool: Weak::new() });
            return;
        }
        if let Ok(_current) = self.device.enter() {
            // SAFETY: the handle is alive and nobody else destroys it.
            self.device.check_at_drop("cuEventDestroy", unsafe { (self.device.library().event_destroy)(self.raw) });
        }
    }
}
