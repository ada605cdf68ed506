use std::fmt;
use std::ops::Deref;
use std::sync::{Arc, OnceLock};

use super::backend::Memory;
use super::cufile::{Context, CuFile, CuFileError, Registration};
use super::error::DeviceError;
use super::handle::Device;

/// Memory of a device in one piece, of the caller's own, for bytes that must lie where the caller says:
/// [`Carrier::carry_into`](crate::Carrier::carry_into) fills it. Freed on drop, after what is in flight.
///
/// Its bytes are whatever was there before.
pub struct DeviceBuffer {
    device: Device,
    /// Deregistered before the memory is freed.
    registration: OnceLock<Arc<Registration>>,
    memory: Arc<dyn Memory>,
    len: usize,
}

impl DeviceBuffer {
    pub(super) fn new(device: &Device, memory: Arc<dyn Memory>, len: usize) -> Self {
        Self { device: device.clone(), registration: OnceLock::new(), memory, len }
    }

    /// The device.
    pub fn device(&self) -> &Device {
        &self.device
    }

    /// Bytes.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether it has no bytes.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Where it begins in the memory of the CUDA device, a `CUdeviceptr`; `None` on the host. Valid for as long as `self`
    /// is. Before `self` is dropped, no work of the device may use it any more.
    pub fn device_address(&self) -> Option<u64> {
        self.device.context().map(|_| self.memory.address())
    }

    /// The bytes, where they are in host memory.
    pub fn host(&self) -> Option<impl Deref<Target = [u8]>> {
        self.memory.as_host().map(|memory| memory.read())
    }

    pub(crate) fn memory(&self) -> &Arc<dyn Memory> {
        &self.memory
    }

    /// The buffer as memory that cuFile may read into, registered at the first call and until it is dropped.
    pub(crate) fn registration(
        &self,
        cufile: &Arc<CuFile>,
        context: &Context,
    ) -> Result<Arc<Registration>, CuFileError> {
        if let Some(registration) = self.registration.get() {
            return Ok(Arc::clone(registration));
        }
        let keep = Arc::new(Arc::clone(&self.memory));
        let made = Registration::new(cufile, context, self.memory.address(), self.memory.len(), keep)?;
        Ok(Arc::clone(self.registration.get_or_init(|| made)))
    }
}

impl Device {
    /// Allocates memory of this device, `len` bytes in one piece.
    ///
    /// # Errors
    /// [`DeviceError`] where there is too little, with the numbers.
    pub fn allocate(&self, len: usize) -> Result<DeviceBuffer, DeviceError> {
        Ok(DeviceBuffer::new(self, self.allocate_memory(len)?, len))
    }
}

impl fmt::Debug for DeviceBuffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DeviceBuffer").field("device", &self.device).field("len", &self.len).finish_non_exhaustive()
    }
}
