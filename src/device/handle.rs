use std::fmt;
use std::path::Path;
use std::sync::Arc;

use cudarc::driver::CudaContext;

use super::backend::Memory;
use super::cuda::CudaDevice;
use super::error::{DeviceError, DeviceFault};
use super::host::HostMemory;
use crate::sys::gpu::is_nvidia_gpu_shown;

/// Where bytes are to end up. Cloning gives another handle.
///
/// ```no_run
/// # fn main() -> Result<(), forebay::DeviceError> {
/// let gpu = forebay::Device::cuda(0)?;
/// println!("{gpu}: {}", gpu.name());
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Device {
    inner: Inner,
}

#[derive(Clone)]
enum Inner {
    Host,
    Cuda(Arc<CudaDevice>),
}

/// What a device is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum DeviceKind {
    /// Host memory.
    Host,
    /// A CUDA device.
    Cuda,
}

impl Device {
    /// Host memory: what was read stays where it landed.
    pub fn host() -> Self {
        Self { inner: Inner::Host }
    }

    /// The CUDA device with that number, counted as `CUDA_VISIBLE_DEVICES` lets it be seen. Retains its primary
    /// context, the one that candle, burn and plain cudarc use too.
    ///
    /// # Errors
    /// [`DeviceError`] where the driver library is missing, sees no device or fewer, or refuses.
    pub fn cuda(ordinal: usize) -> Result<Self, DeviceError> {
        Ok(Self { inner: Inner::Cuda(Arc::new(CudaDevice::new(ordinal)?)) })
    }

    /// The device of a context that the caller has already.
    ///
    /// # Errors
    /// [`DeviceError`] where the driver refuses.
    pub fn of_context(context: &Arc<CudaContext>) -> Result<Self, DeviceError> {
        Ok(Self { inner: Inner::Cuda(Arc::new(CudaDevice::of_context(Arc::clone(context))?)) })
    }

    /// The first CUDA device if there is one that works, else the host. Where the machine shows an NVIDIA GPU, a warning
    /// says through `tracing` why it is not used; where it shows none, the host is what is meant.
    pub fn auto() -> Self {
        let is_shown = || is_nvidia_gpu_shown(Path::new("/sys"), Path::new("/proc"), Path::new("/"));
        Self::cuda(0).unwrap_or_else(|error| {
            if is_expected(&error.fault, is_shown) {
                tracing::debug!("landing in host memory: {error}");
            } else {
                tracing::warn!("landing in host memory: {error}");
            }
            Self::host()
        })
    }

    /// Host memory or CUDA.
    pub fn kind(&self) -> DeviceKind {
        match self.inner {
            Inner::Host => DeviceKind::Host,
            Inner::Cuda(_) => DeviceKind::Cuda,
        }
    }

    /// Its name as people know it, such as `NVIDIA H200`, or `host memory`.
    pub fn name(&self) -> &str {
        match &self.inner {
            Inner::Host => "host memory",
            Inner::Cuda(cuda) => cuda.name(),
        }
    }

    /// Its place on the PCI bus, such as `0000:41:00.0`, which [`PciFunction`](crate::facts::PciFunction) looks up;
    /// `None` for the host, or where the driver does not say.
    pub fn pci_address(&self) -> Option<&str> {
        self.as_cuda().and_then(|cuda| cuda.pci_address())
    }

    /// Bytes of its memory that are free, and all; `None` for the host.
    ///
    /// # Errors
    /// [`DeviceError`] where the driver refuses.
    pub fn memory(&self) -> Result<Option<(u64, u64)>, DeviceError> {
        self.as_cuda().map(|cuda| cuda.memory()).transpose()
    }

    /// The version of CUDA that the driver serves at most, as `(13, 0)`; `None` for the host.
    ///
    /// # Errors
    /// [`DeviceError`] where the driver refuses.
    pub fn driver_version(&self) -> Result<Option<(u32, u32)>, DeviceError> {
        self.as_cuda().map(|cuda| cuda.driver_version()).transpose()
    }

    /// How many CUDA devices this process sees.
    ///
    /// # Errors
    /// [`DeviceError`] where the driver library is missing or refuses.
    pub fn count_cuda() -> Result<usize, DeviceError> {
        CudaDevice::count()
    }

    /// cudarc's context of a CUDA device, to use what landed there; `None` for the host.
    pub fn context(&self) -> Option<&Arc<CudaContext>> {
        self.as_cuda().map(|cuda| cuda.context())
    }

    /// On a CUDA device in whole pages of what it is given in, so that cuFile can map it.
    pub(crate) fn allocate_memory(&self, len: usize) -> Result<Arc<dyn Memory>, DeviceError> {
        const GRAIN: usize = 2 << 20;
        match &self.inner {
            Inner::Cuda(cuda) => cuda.allocate(len.max(1).checked_next_multiple_of(GRAIN).unwrap_or(len)),
            Inner::Host => match HostMemory::new(len) {
                Ok(memory) => Ok(Arc::new(memory)),
                Err(error) => {
                    let fault = DeviceFault::NoHostMemory { reason: error.to_string() };
                    Err(DeviceError { device: "host".into(), fault })
                }
            },
        }
    }

    pub(crate) fn as_cuda(&self) -> Option<&Arc<CudaDevice>> {
        match &self.inner {
            Inner::Host => None,
            Inner::Cuda(cuda) => Some(cuda),
        }
    }
}

/// Whether a machine without a GPU has this fault.
fn is_expected(fault: &DeviceFault, is_shown: impl FnOnce() -> bool) -> bool {
    let finds_none = match fault {
        DeviceFault::NoLibrary(_) | DeviceFault::NoDevice { .. } => true,
        DeviceFault::Call { code } => code.call == "cuInit",
        _ => false,
    };
    finds_none && !is_shown()
}

/// As `--device` takes it: `host`, `cuda:0`.
impl fmt::Display for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.inner {
            Inner::Host => f.write_str("host"),
            Inner::Cuda(cuda) => write!(f, "cuda:{}", cuda.ordinal()),
        }
    }
}

impl fmt::Debug for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Device").field("device", &self.to_string()).field("name", &self.name()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys::cuda::{CudaCode, NoCudaLibrary};

    #[test]
    fn a_missing_driver_is_expected_where_no_gpu_is_shown_and_a_failing_gpu_never() {
        let call = |call| DeviceFault::Call { code: CudaCode { call, code: 999, name: "unknown".into() } };
        let missing = DeviceFault::NoLibrary(NoCudaLibrary::Missing("not there".into()));
        for (fault, expected) in [
            (missing, true),
            (DeviceFault::NoDevice { visible: None }, true),
            (call("cuInit"), true),
            (call("cuDevicePrimaryCtxRetain"), false),
            (DeviceFault::Forked, false),
        ] {
            assert_eq!(is_expected(&fault, || false), expected, "{fault}");
            assert!(!is_expected(&fault, || true), "{fault}");
        }
    }
}
