use std::any::Any;
use std::ffi::c_int;
use std::fmt;
use std::sync::{Arc, OnceLock};

use cudarc::driver::CudaContext;

use super::error::CuFileError;
#[cfg(test)]
use crate::emulated::mutant;
use crate::sys::cuda::{self, CudaCode, Event, Stream};

/// The few functions of the CUDA driver that are called beside cuFile's.
///
/// A table of its own, so that what is built on it can be tested with other functions in it.
#[derive(Clone)]
pub(super) struct Driver {
    pub(super) current: unsafe extern "C" fn(*mut cuda::Context) -> c_int,
    pub(super) set_current: unsafe extern "C" fn(cuda::Context) -> c_int,
    pub(super) stream_create: unsafe extern "C" fn(*mut Stream, std::ffi::c_uint) -> c_int,
    pub(super) stream_destroy: unsafe extern "C" fn(Stream) -> c_int,
    pub(super) event_create: unsafe extern "C" fn(*mut Event, std::ffi::c_uint) -> c_int,
    pub(super) event_record: unsafe extern "C" fn(Event, Stream) -> c_int,
    pub(super) event_query: unsafe extern "C" fn(Event) -> c_int,
    pub(super) event_destroy: unsafe extern "C" fn(Event) -> c_int,
    /// Keeps a thread of our own out of other threads' stream captures.
    pub(super) leave_captures: fn(),
    /// Makes an error of a code.
    pub(super) error: fn(&'static str, c_int) -> CudaCode,
}

impl Driver {
    /// The driver's own.
    fn real() -> Result<&'static Self, CuFileError> {
        static DRIVER: OnceLock<Driver> = OnceLock::new();
        let library = cuda::library()?;
        Ok(DRIVER.get_or_init(|| Self {
            current: library.context_current,
            set_current: library.context_set_current,
            stream_create: library.stream_create,
            stream_destroy: library.stream_destroy,
            event_create: library.event_create,
            event_record: library.event_record,
            event_query: library.event_query,
            event_destroy: library.event_destroy,
            leave_captures: || {
                if let Ok(library) = cuda::library() {
                    library.leave_captures();
                }
            },
            error: |call, code| match cuda::library().map(|library| library.check(call, code)) {
                Ok(Err(error)) => error,
                _ => CudaCode { call, code, name: "an error".into() },
            },
        }))
    }

    pub(super) fn check(&self, call: &'static str, code: c_int) -> Result<(), CudaCode> {
        if code == 0 { Ok(()) } else { Err((self.error)(call, code)) }
    }
}

/// A context that is made current on the threads that call cuFile: it takes the calling thread's, and knows no other.
#[derive(Clone)]
pub(crate) struct Context {
    pub(super) driver: &'static Driver,
    raw: cuda::Context,
    /// Keeps the context from being released.
    _owner: Arc<dyn Any + Send + Sync>,
}

// SAFETY: a context may be made current on any thread, on several at once too; the pointer is only handed to the
// driver.
unsafe impl Send for Context {}
// SAFETY: as for `Send`.
unsafe impl Sync for Context {}

impl PartialEq for Context {
    fn eq(&self, other: &Self) -> bool {
        self.raw == other.raw
    }
}

impl fmt::Debug for Context {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Context").field(&self.raw).finish()
    }
}

impl Context {
    /// # Errors
    /// Where the driver's library cannot be loaded, though a context of it exists.
    pub(crate) fn new(context: &Arc<CudaContext>) -> Result<Self, CuFileError> {
        let owner: Arc<dyn Any + Send + Sync> = Arc::<CudaContext>::clone(context);
        Ok(Self { driver: Driver::real()?, raw: context.cu_ctx().cast(), _owner: owner })
    }

    #[cfg(test)]
    pub(super) fn of(driver: &'static Driver, raw: cuda::Context) -> Self {
        Self { driver, raw, _owner: Arc::new(()) }
    }

    /// Makes it current on this thread, for good: for threads of our own.
    pub(super) fn bind(&self) -> Result<(), CudaCode> {
        (self.driver.leave_captures)();
        self.make_current()
    }

    fn make_current(&self) -> Result<(), CudaCode> {
        #[cfg(test)]
        if mutant::is_planted(mutant::NO_CONTEXT) {
            return Ok(());
        }
        // SAFETY: the context is valid, as its owner is alive.
        self.driver.check("cuCtxSetCurrent", unsafe { (self.driver.set_current)(self.raw) })
    }

    /// Makes it current on this thread until what is returned is dropped: for threads of others, whose own current
    /// context must not change under them.
    pub(super) fn enter(&self) -> Result<Entered<'_>, CudaCode> {
        let mut before = std::ptr::null_mut();
        // SAFETY: the driver writes one pointer.
        self.driver.check("cuCtxGetCurrent", unsafe { (self.driver.current)(&mut before) })?;
        if before != self.raw {
            self.make_current()?;
        }
        Ok(Entered { context: self, before })
    }
}

#[derive(Debug)]
pub(super) struct Entered<'a> {
    context: &'a Context,
    before: cuda::Context,
}

impl Drop for Entered<'_> {
    fn drop(&mut self) {
        if self.before != self.context.raw {
            // SAFETY: it was current on this thread a moment ago, or is null. Were it refused, the thread would be left
            // with our context, which is as valid.
            let _ = unsafe { (self.context.driver.set_current)(self.before) };
        }
    }
}
