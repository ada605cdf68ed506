//! Many copies in one call where the driver has one for that.

use std::ffi::c_int;
use std::fmt;
use std::ptr::NonNull;

use super::context::CudaDevice;
use crate::device::error::DeviceError;
use crate::sys::cuda::{CopyAttributes, CudaCode, CudaLibrary, DevicePtr, Stream};

/// Copies to the device, gathered and then given to the driver. Its lists are used again.
pub(super) struct Batch {
    to: Vec<DevicePtr>,
    from: Vec<DevicePtr>,
    lens: Vec<usize>,
    /// The same of sources that are not pinned: each is a call of its own, which the driver returns from once it has them.
    unpinned: Vec<(DevicePtr, DevicePtr, usize)>,
    /// The driver has a call for many copies, and has not refused it.
    at_once: bool,
}

impl Batch {
    pub(super) fn new(library: &CudaLibrary) -> Self {
        let at_once = library.copy_batch.is_some() || library.copy_batch_12.is_some();
        Self { to: Vec::new(), from: Vec::new(), lens: Vec::new(), unpinned: Vec::new(), at_once }
    }

    /// Whether many copies are one call.
    pub(super) fn is_at_once(&self) -> bool {
        self.at_once
    }

    pub(super) fn clear(&mut self) {
        self.to.clear();
        self.from.clear();
        self.lens.clear();
        self.unpinned.clear();
    }

    /// Adds a copy.
    pub(super) fn push(&mut self, to: DevicePtr, from: NonNull<u8>, len: usize, is_pinned: bool) {
        let from = from.as_ptr() as DevicePtr;
        if !is_pinned {
            return self.unpinned.push((to, from, len));
        }
        self.to.push(to);
        self.from.push(from);
        self.lens.push(len);
    }

    /// Whether every source is pinned.
    pub(super) fn is_pinned(&self) -> bool {
        self.unpinned.is_empty()
    }

    /// Orders the copies on `stream`. After an error some of them may be in flight.
    ///
    /// # Safety
    /// Until the stream has passed, every source must stay as it is and every destination allocated. This thread has
    /// the device's context current.
    pub(super) unsafe fn submit(&mut self, device: &CudaDevice, stream: Stream) -> Result<(), DeviceError> {
        let mut is_ordered = false;
        if self.at_once && self.lens.len() > 1 {
            // SAFETY: the caller's promise.
            match unsafe { self.submit_at_once(device.library(), stream) } {
                Some(CudaCode::NOT_SUPPORTED) | None => self.at_once = false,
                Some(code) => {
                    device.check("cuMemcpyBatchAsync", code)?;
                    is_ordered = true;
                }
            }
        }
        let pinned = self.to.iter().zip(&self.from).zip(&self.lens).map(|((&to, &from), &len)| (to, from, len));
        let pinned = pinned.take(if is_ordered { 0 } else { usize::MAX });
        for (to, from, len) in pinned.chain(self.unpinned.iter().copied()) {
            // SAFETY: the caller's promise; `from` was made from a pointer, whose address it still is.
            let code = unsafe { (device.library().copy_to_device)(to, from as *const _, len, stream) };
            device.check("cuMemcpyHtoDAsync", code)?;
        }
        Ok(())
    }

    /// The driver's answer, `None` where it has no such call.
    ///
    /// # Safety
    /// As for [`submit`](Self::submit).
    unsafe fn submit_at_once(&mut self, library: &CudaLibrary, stream: Stream) -> Option<c_int> {
        let (to, from, lens) = (self.to.as_mut_ptr(), self.from.as_mut_ptr(), self.lens.as_mut_ptr());
        let count = self.lens.len();
        // One set of attributes, from the first copy on.
        let (mut attributes, mut first) = (CopyAttributes::IN_STREAM_ORDER, 0);
        if let Some(call) = library.copy_batch {
            // SAFETY: three lists of `count` entries and one of one, which the driver reads during the call; else as the
            // caller promises.
            return Some(unsafe { call(to, from, lens, count, &mut attributes, &mut first, 1, stream) });
        }
        let call = library.copy_batch_12?;
        let mut failed = 0;
        // SAFETY: as above; the driver writes one number to `failed`.
        Some(unsafe { call(to, from, lens, count, &mut attributes, &mut first, 1, &mut failed, stream) })
    }
}

impl fmt::Debug for Batch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Batch").field("copies", &self.lens.len()).field("at_once", &self.at_once).finish()
    }
}
