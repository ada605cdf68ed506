use std::any::Any;
use std::mem::ManuallyDrop;
use std::sync::Arc;

use super::context::Context;
use super::error::{CuFileError, Refusal};
use super::library::CuFile;
use super::transfer::PAGE;
use crate::sys::cufile::CuFileCode;

/// Device memory that cuFile may read into, for as long as this lives.
///
/// Registering is dear, and pins the memory: register large buffers once and keep them. Dropping it deregisters the
/// memory first and lets go of its owner then, as freeing registered memory can hang in the driver.
#[derive(Debug)]
pub(crate) struct Registration {
    cufile: Arc<CuFile>,
    context: Context,
    base: u64,
    len: u64,
    /// Owns the memory. Taken only by `drop`.
    keep: ManuallyDrop<Arc<dyn Any + Send + Sync>>,
}

impl Registration {
    /// Registers `len` **bytes** of device memory at `base`, the first address of an allocation of `context`'s device.
    /// `keep` owns the memory, and is let go of when it is registered no more.
    ///
    /// # Errors
    /// [`CuFileError::Register`] names bytes and limits where cuFile refuses; [`CuFileError::Range`] where `base` is not
    /// a multiple of 4096 or there are no bytes.
    pub(crate) fn new(
        cufile: &Arc<CuFile>,
        context: &Context,
        base: u64,
        len: usize,
        keep: Arc<dyn Any + Send + Sync>,
    ) -> Result<Arc<Self>, CuFileError> {
        /// What a GPU maps memory in.
        const GPU_PAGE: u64 = 64 << 10;
        cufile.check_process()?;
        let range = |why| Err(CuFileError::Range { base, len: len as u64, why });
        if len == 0 {
            return range("it is empty; give its length in bytes");
        }
        if !base.is_multiple_of(PAGE) {
            return range("its base is not a multiple of 4096; register an allocation from its first byte on");
        }
        if base.checked_add(len as u64).is_none() || i64::try_from(len).is_err() {
            return range("it passes the end of the address space; give its length in bytes");
        }
        if !base.is_multiple_of(GPU_PAGE) {
            tracing::warn!(
                "cuFile: the buffer at {base:#x} does not begin on a GPU page of 64 KiB, so that cuFile may copy what it \
                 reads; allocate 2 MiB or more at once"
            );
        }
        let current = context.enter()?;
        // SAFETY: the context is current, and cuFile checks the range against the allocation that `keep` keeps alive
        // until `drop` has deregistered it.
        let status = unsafe { (cufile.calls.buffer_register)(base as *const _, len, 0) };
        drop(current);
        match Refusal::check("cuFileBufRegister", status) {
            Ok(()) => Ok(Arc::new(Self {
                cufile: Arc::clone(cufile),
                context: context.clone(),
                base,
                len: len as u64,
                keep: ManuallyDrop::new(keep),
            })),
            Err(refusal) if is_about_size(refusal.code) => Err(CuFileError::Register {
                bytes: len as u64,
                pinned: cufile.properties().max_pinned,
                bar: bar_size(cufile),
                refusal,
            }),
            Err(refusal) => Err(refusal.into()),
        }
    }

    /// The device's address of its first byte.
    pub(crate) fn base(&self) -> u64 {
        self.base
    }

    /// Bytes.
    pub(crate) fn len(&self) -> u64 {
        self.len
    }

    pub(super) fn context(&self) -> &Context {
        &self.context
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        // In a forked child neither library may be called, and the memory is the parent's.
        if !self.cufile.is_ours() {
            return;
        }
        if let Err(error) = self.deregister() {
            tracing::error!(
                "cuFile: {} bytes of device memory are leaked, as they cannot be deregistered, and freeing them could \
                 hang: {error}",
                self.len
            );
            return;
        }
        // SAFETY: it is taken nowhere else, and not used again.
        drop(unsafe { ManuallyDrop::take(&mut self.keep) });
    }
}

impl Registration {
    fn deregister(&self) -> Result<(), CuFileError> {
        let _current = self.context.enter()?;
        // SAFETY: the base is the one that was registered, and no read is under way: each holds this registration.
        let status = unsafe { (self.cufile.calls.buffer_deregister)(self.base as *const _) };
        match Refusal::check("cuFileBufDeregister", status) {
            // Somebody else of this process did it, or closed cuFile.
            Err(refusal) if refusal.code == CuFileCode::MEMORY_NOT_REGISTERED => Ok(()),
            other => Ok(other?),
        }
    }
}

fn is_about_size(code: CuFileCode) -> bool {
    matches!(
        code,
        CuFileCode::INVALID_MAPPING_SIZE
            | CuFileCode::GPU_MEMORY_PINNING_FAILED
            | CuFileCode::INTERNAL_BUF_REGISTER_ERROR
    )
}

/// Of the first GPU that cuFile counts: its numbers are not CUDA's, and what it is for is the order of magnitude.
fn bar_size(cufile: &CuFile) -> Option<u64> {
    let mut kib = 0;
    // SAFETY: cuFile writes one number.
    let status = unsafe { cufile.calls.bar_size?(0, &mut kib) };
    (status.err == 0 && kib > 0).then(|| kib as u64 * 1024)
}
