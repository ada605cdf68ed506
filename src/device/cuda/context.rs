use std::ffi::{c_char, c_int, c_uint};
use std::fmt;
use std::mem::ManuallyDrop;
use std::sync::Arc;

use cudarc::driver::{CudaContext, DriverError};

use super::copier::CudaCopier;
use super::memory::CudaMemory;
use super::pinned::PinnedArena;
use crate::device::backend::{Copier, Memory};
use crate::device::error::{DeviceError, DeviceFault};
#[cfg(test)]
use crate::emulated::mutant;
use crate::memory::Owner;
use crate::sys::cuda::{self, CudaCode, CudaLibrary};

/// One CUDA device with its primary context retained.
pub(crate) struct CudaDevice {
    library: &'static CudaLibrary,
    /// Taken only by `drop`.
    context: ManuallyDrop<Arc<CudaContext>>,
    name: String,
    pci_address: Option<String>,
    /// CUDA works in no process but the one that opened it.
    owner: Owner,
}

impl CudaDevice {
    pub(crate) fn new(ordinal: usize) -> Result<Self, DeviceError> {
        let failed = |fault| DeviceError { device: format!("cuda:{ordinal}"), fault };
        let library = initialised().map_err(failed)?;
        let count = count(library).map_err(failed)?;
        let visible = std::env::var("CUDA_VISIBLE_DEVICES").ok();
        if count == 0 {
            return Err(failed(DeviceFault::NoDevice { visible }));
        }
        if ordinal >= count {
            return Err(failed(DeviceFault::NoSuchDevice { count, visible }));
        }
        let before = current(library).map_err(failed)?;
        let opened =
            CudaContext::new(ordinal).map_err(|error| failed(of_cudarc(library, "cuDevicePrimaryCtxRetain", error)));
        // cudarc makes it current, where the caller may have another.
        restore(library, before);
        Self::with(library, opened?)
    }

    pub(crate) fn of_context(context: Arc<CudaContext>) -> Result<Self, DeviceError> {
        let failed = |fault| DeviceError { device: format!("cuda:{}", context.ordinal()), fault };
        Self::with(initialised().map_err(failed)?, context)
    }

    fn with(library: &'static CudaLibrary, context: Arc<CudaContext>) -> Result<Self, DeviceError> {
        let pci_address = pci_address(library, context.cu_device());
        let (name, owner) = (String::new(), Owner::this());
        // Made before the last call that may fail: its drop puts right what cudarc's does to the current context.
        let mut device = Self { library, name, pci_address, owner, context: ManuallyDrop::new(context) };
        let name = device.context.name().map_err(|error| of_cudarc(library, "cuDeviceGetName", error));
        device.name = name.map_err(|fault| device.error(fault))?;
        Ok(device)
    }

    pub(crate) fn count() -> Result<usize, DeviceError> {
        let failed = |fault| DeviceError { device: "cuda".into(), fault };
        match initialised() {
            Ok(library) => count(library).map_err(failed),
            Err(DeviceFault::NoDevice { .. }) => Ok(0),
            Err(fault) => Err(failed(fault)),
        }
    }

    pub(crate) fn ordinal(&self) -> usize {
        self.context.ordinal()
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    pub(crate) fn pci_address(&self) -> Option<&str> {
        self.pci_address.as_deref()
    }

    pub(crate) fn context(&self) -> &Arc<CudaContext> {
        &self.context
    }

    pub(crate) fn library(&self) -> &'static CudaLibrary {
        self.library
    }

    /// Whether this is the process that opened the device. In a forked child no call may be made, not even to free.
    pub(crate) fn is_ours(&self) -> bool {
        self.owner.is_here()
    }

    /// Makes the context current on this thread for good: for threads of our own. Each thread that calls the driver must
    /// have one.
    pub(crate) fn bind(&self) -> Result<(), DeviceError> {
        if !self.is_ours() {
            return Err(self.error(DeviceFault::Forked));
        }
        #[cfg(test)]
        if mutant::is_planted(mutant::NO_CONTEXT) {
            return Ok(());
        }
        let _ = self.library.leave_captures();
        self.set_current(self.raw())
    }

    /// Makes it current until what is returned is dropped: for threads of others, whose own current context must not
    /// change under them.
    pub(crate) fn enter(&self) -> Result<Entered<'_>, DeviceError> {
        if !self.is_ours() {
            return Err(self.error(DeviceFault::Forked));
        }
        let before = current(self.library).map_err(|fault| self.error(fault))?;
        if before != self.raw() {
            self.set_current(self.raw())?;
        }
        Ok(Entered { device: self, before, capture_mode: self.library.leave_captures() })
    }

    fn raw(&self) -> cuda::Context {
        self.context.cu_ctx().cast()
    }

    fn set_current(&self, context: cuda::Context) -> Result<(), DeviceError> {
        // SAFETY: it is ours, which `self.context` retains, or one that was current on this thread a moment ago, or null.
        self.check("cuCtxSetCurrent", unsafe { (self.library.context_set_current)(context) })
    }

    /// Bytes free, and all.
    pub(crate) fn memory(&self) -> Result<(u64, u64), DeviceError> {
        let _current = self.enter()?;
        let (mut free, mut total) = (0, 0);
        // SAFETY: the driver writes two sizes, and this thread has a current context.
        self.check("cuMemGetInfo", unsafe { (self.library.memory_info)(&mut free, &mut total) })?;
        Ok((free as u64, total as u64))
    }

    pub(crate) fn driver_version(&self) -> Result<(u32, u32), DeviceError> {
        let mut version: c_int = 0;
        // SAFETY: the driver writes one number.
        self.check("cuDriverGetVersion", unsafe { (self.library.driver_version)(&mut version) })?;
        let version = version.unsigned_abs();
        Ok((version / 1000, version % 1000 / 10))
    }

    pub(crate) fn allocate(self: &Arc<Self>, len: usize) -> Result<Arc<dyn Memory>, DeviceError> {
        Ok(Arc::new(CudaMemory::new(self, len)?))
    }

    /// A stream of copies to and from the arena, which must have been registered for this device.
    pub(crate) fn copier(self: &Arc<Self>, pinned: Arc<PinnedArena>) -> Result<Box<dyn Copier>, DeviceError> {
        Ok(Box::new(CudaCopier::new(self, pinned)?))
    }

    /// A driver's answer as a result.
    pub(crate) fn check(&self, call: &'static str, code: c_int) -> Result<(), DeviceError> {
        self.library.check(call, code).map_err(|code| self.error(DeviceFault::Call { code }))
    }

    /// The same where the error has no receiver: something is being dropped.
    pub(crate) fn check_at_drop(&self, call: &'static str, code: c_int) -> bool {
        let outcome = self.library.check(call, code);
        if let Err(code) = &outcome {
            tracing::warn!("cuda:{}: {code}", self.ordinal());
        }
        outcome.is_ok()
    }

    pub(crate) fn error(&self, fault: DeviceFault) -> DeviceError {
        DeviceError { device: format!("cuda:{}", self.ordinal()), fault }
    }
}

/// While this lives, the device's context is current on the thread that made it, and what the thread does there has no part in
/// stream captures.
pub(crate) struct Entered<'a> {
    device: &'a CudaDevice,
    before: cuda::Context,
    capture_mode: Option<c_uint>,
}

impl Drop for Entered<'_> {
    fn drop(&mut self) {
        if let Some(mode) = self.capture_mode {
            self.device.library.set_capture_mode(mode);
        }
        restore(self.device.library, self.before);
    }
}

impl Drop for CudaDevice {
    /// cudarc makes the context current to release it, and leaves it so.
    fn drop(&mut self) {
        if !self.is_ours() {
            return;
        }
        let Ok(before) = current(self.library) else { return };
        let (ours, device) = (self.raw(), self.context.cu_device());
        // SAFETY: nobody uses the field again.
        unsafe { ManuallyDrop::drop(&mut self.context) };
        let gone = before == ours && !is_active(self.library, device);
        restore(self.library, if gone { std::ptr::null_mut() } else { before });
    }
}

impl fmt::Debug for CudaDevice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CudaDevice").field("ordinal", &self.ordinal()).field("name", &self.name).finish_non_exhaustive()
    }
}

fn initialised() -> Result<&'static CudaLibrary, DeviceFault> {
    let library = cuda::library().map_err(DeviceFault::NoLibrary)?;
    // SAFETY: the driver may be initialised any number of times, from any thread.
    match library.check("cuInit", unsafe { (library.init)(0) }) {
        Ok(()) => Ok(library),
        Err(code) if code.code == CudaCode::NO_DEVICE => {
            Err(DeviceFault::NoDevice { visible: std::env::var("CUDA_VISIBLE_DEVICES").ok() })
        }
        Err(code) => Err(DeviceFault::Call { code }),
    }
}

/// The context that is current on this thread, or null.
fn current(library: &CudaLibrary) -> Result<cuda::Context, DeviceFault> {
    let mut current = std::ptr::null_mut();
    // SAFETY: the driver writes one handle.
    let answer = library.check("cuCtxGetCurrent", unsafe { (library.context_current)(&mut current) });
    answer.map_err(|code| DeviceFault::Call { code })?;
    Ok(current)
}

/// Makes current on this thread what was before; nothing, where that is gone by now.
fn restore(library: &CudaLibrary, before: cuda::Context) {
    if current(library) == Ok(before) {
        return;
    }
    // SAFETY: it was current on this thread a moment ago, or is null.
    if unsafe { (library.context_set_current)(before) } != 0 {
        // SAFETY: none is current then. Were even that refused, there would be no receiver for the error.
        let _ = unsafe { (library.context_set_current)(std::ptr::null_mut()) };
    }
}

/// Whether somebody else still retains a device's primary context.
fn is_active(library: &CudaLibrary, device: c_int) -> bool {
    let (mut flags, mut active) = (0, 0);
    // SAFETY: the driver writes two numbers.
    let answer = unsafe { (library.primary_state)(device, &mut flags, &mut active) };
    answer == 0 && active != 0
}

fn count(library: &CudaLibrary) -> Result<usize, DeviceFault> {
    let mut count: c_int = 0;
    // SAFETY: the driver is initialised and writes one number.
    let answer = library.check("cuDeviceGetCount", unsafe { (library.device_count)(&mut count) });
    answer.map_err(|code| DeviceFault::Call { code })?;
    Ok(usize::try_from(count).unwrap_or(0))
}

fn pci_address(library: &CudaLibrary, device: c_int) -> Option<String> {
    let mut text = [0; 32];
    // SAFETY: the driver writes at most as many bytes as it is given, the last of them zero.
    let answer = unsafe { (library.device_pci_bus_id)(text.as_mut_ptr(), text.len() as c_int, device) };
    let bytes: Vec<u8> = text.iter().take_while(|&&c| c != 0).map(|&c: &c_char| c as u8).collect();
    // The kernel writes it in small letters.
    (answer == 0 && !bytes.is_empty()).then(|| String::from_utf8_lossy(&bytes).to_ascii_lowercase())
}

fn of_cudarc(library: &CudaLibrary, call: &'static str, error: DriverError) -> DeviceFault {
    match library.check(call, error.0 as c_int) {
        Err(code) => DeviceFault::Call { code },
        Ok(()) => DeviceFault::Ended,
    }
}
