use std::fmt;
use std::sync::Arc;

use super::context::CudaDevice;
use crate::device::backend::Memory;
use crate::device::error::{DeviceError, DeviceFault};
use crate::sys::cuda::{CudaCode, DevicePtr};

/// One allocation of device memory.
pub(crate) struct CudaMemory {
    device: Arc<CudaDevice>,
    address: DevicePtr,
    len: usize,
}

impl CudaMemory {
    pub(crate) fn new(device: &Arc<CudaDevice>, len: usize) -> Result<Self, DeviceError> {
        let _current = device.enter()?;
        let mut address = 0;
        // SAFETY: this thread has a current context, and the driver writes one address.
        let code = unsafe { (device.library().allocate)(&mut address, len) };
        if code == CudaCode::OUT_OF_MEMORY {
            let (free, total) = device.memory()?;
            return Err(device.error(DeviceFault::OutOfMemory { asked: len as u64, free, total }));
        }
        device.check("cuMemAlloc", code)?;
        Ok(Self { device: Arc::clone(device), address, len })
    }
}

impl Memory for CudaMemory {
    fn address(&self) -> u64 {
        self.address
    }

    fn len(&self) -> usize {
        self.len
    }
}

impl Drop for CudaMemory {
    fn drop(&mut self) {
        if !self.device.is_ours() {
            return;
        }
        let Ok(_current) =
            self.device.enter().inspect_err(|error| tracing::warn!("device memory is not freed: {error}"))
        else {
            return;
        };
        // SAFETY: `new` allocated it, nobody else frees it, and every copy that uses it holds a handle on `self`, so none
        // is in flight.
        self.device.check_at_drop("cuMemFree", unsafe { (self.device.library().free)(self.address) });
    }
}

impl fmt::Debug for CudaMemory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CudaMemory").field("address", &self.address).field("len", &self.len).finish_non_exhaustive()
    }
}

/// The planted mistake of remembering where memory is, and not keeping it.
#[cfg(test)]
pub(crate) fn kept_or_not(memory: Arc<dyn Memory>) -> Arc<dyn Memory> {
    use crate::emulated::mutant;

    #[derive(Debug)]
    struct Unkept(u64, usize);

    impl Memory for Unkept {
        fn address(&self) -> u64 {
            self.0
        }

        fn len(&self) -> usize {
            self.1
        }
    }

    let planted = mutant::is_planted(mutant::FREED_IN_FLIGHT);
    if planted { Arc::new(Unkept(memory.address(), memory.len())) } else { memory }
}
