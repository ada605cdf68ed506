//! The CUDA driver library, opened once and called through our own table of its functions.
//!
//! cudarc panics where the library or a symbol is missing, and takes the driver's codes as Rust enums, for which a code
//! that a newer driver invents is undefined behaviour. Here a missing library is a value, and codes are numbers.

mod code;

use std::error::Error;
use std::ffi::{CStr, c_char, c_int, c_uint, c_void};
use std::fmt;
use std::sync::OnceLock;

use libloading::Library;

pub use code::CudaCode;

/// What the driver calls a pointer into device memory.
pub(crate) type DevicePtr = u64;
pub(crate) type Context = *mut c_void;
pub(crate) type Stream = *mut c_void;
pub(crate) type Event = *mut c_void;

/// The names it goes by: the first is in every driver package, the second only where one was made by hand or by a
/// development package.
const NAMES: [&str; 2] = ["libcuda.so.1", "libcuda.so"];

/// Why the library cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NoCudaLibrary {
    /// It is not there, or cannot be loaded.
    #[error(
        "the CUDA driver library cannot be loaded ({0}); install NVIDIA's driver, or in a container pass the GPU in"
    )]
    Missing(String),
    /// It lacks a function that every driver of the last years has.
    #[error("the CUDA driver library has no function {0}; install a newer driver of NVIDIA's")]
    TooOld(&'static str),
}

/// Loads the library, or says why it cannot be loaded; asked once per process.
pub(crate) fn library() -> Result<&'static CudaLibrary, NoCudaLibrary> {
    static LOADED: OnceLock<Result<CudaLibrary, NoCudaLibrary>> = OnceLock::new();
    LOADED.get_or_init(load).as_ref().map_err(Clone::clone)
}

fn load() -> Result<CudaLibrary, NoCudaLibrary> {
    let mut refusals = Vec::new();
    for name in NAMES {
        // SAFETY: loading runs the library's initialisers, as every program that uses CUDA does; the name is the one
        // that NVIDIA's driver installs.
        match unsafe { Library::new(name) } {
            Ok(library) => return CudaLibrary::new(library),
            // What went wrong is in the source; the error itself says no more than that loading failed.
            Err(error) => refusals.push(error.source().map_or_else(|| error.to_string(), ToString::to_string)),
        }
    }
    Err(NoCudaLibrary::Missing(refusals.swap_remove(0)))
}

macro_rules! table {
    ($(fn $field:ident = $symbol:literal ( $($kind:ty),* );)* optional { $(fn $extra:ident = $name:literal ( $($of:ty),* );)* }) => {
        /// The functions, each as the driver declares it: every one returns a `CUresult` as a number.
        pub(crate) struct CudaLibrary {
            $(pub(crate) $field: unsafe extern "C" fn($($kind),*) -> c_int,)*
            $(pub(crate) $extra: Option<unsafe extern "C" fn($($of),*) -> c_int>,)*
            /// What the pointers above point into.
            _library: Library,
        }

        impl CudaLibrary {
            fn new(library: Library) -> Result<Self, NoCudaLibrary> {
                $(
                    // SAFETY: the type is the one that the driver's header gives the symbol, and the pointer is kept no
                    // longer than the library.
                    let $field = *unsafe { library.get($symbol.as_bytes()) }.map_err(|_| NoCudaLibrary::TooOld($symbol))?;
                )*
                $(
                    // SAFETY: as above.
                    let $extra = unsafe { library.get($name.as_bytes()) }.ok().map(|symbol| *symbol);
                )*
                Ok(Self { $($field,)* $($extra,)* _library: library })
            }
        }
    };
}

table! {
    fn init = "cuInit"(c_uint);
    fn driver_version = "cuDriverGetVersion"(*mut c_int);
    fn device_count = "cuDeviceGetCount"(*mut c_int);
    fn device_pci_bus_id = "cuDeviceGetPCIBusId"(*mut c_char, c_int, c_int);
    fn primary_state = "cuDevicePrimaryCtxGetState"(c_int, *mut c_uint, *mut c_int);
    fn context_current = "cuCtxGetCurrent"(*mut Context);
    fn context_set_current = "cuCtxSetCurrent"(Context);
    fn memory_info = "cuMemGetInfo_v2"(*mut usize, *mut usize);
    fn allocate = "cuMemAlloc_v2"(*mut DevicePtr, usize);
    fn free = "cuMemFree_v2"(DevicePtr);
    fn register_host = "cuMemHostRegister_v2"(*mut c_void, usize, c_uint);
    fn unregister_host = "cuMemHostUnregister"(*mut c_void);
    fn copy_to_device = "cuMemcpyHtoDAsync_v2"(DevicePtr, *const c_void, usize, Stream);
    fn copy_to_host = "cuMemcpyDtoHAsync_v2"(*mut c_void, DevicePtr, usize, Stream);
    fn stream_create = "cuStreamCreate"(*mut Stream, c_uint);
    fn stream_destroy = "cuStreamDestroy_v2"(Stream);
    fn stream_synchronize = "cuStreamSynchronize"(Stream);
    fn event_create = "cuEventCreate"(*mut Event, c_uint);
    fn event_record = "cuEventRecord"(Event, Stream);
    fn event_query = "cuEventQuery"(Event);
    fn event_synchronize = "cuEventSynchronize"(Event);
    fn event_destroy = "cuEventDestroy_v2"(Event);
    fn error_name = "cuGetErrorName"(c_int, *mut *const c_char);
    optional {
        fn exchange_capture_mode = "cuThreadExchangeStreamCaptureMode"(*mut c_uint);
        fn stream_is_capturing = "cuStreamIsCapturing"(Stream, *mut c_int);
        // From CUDA 13 on; the function of the same name without `_v2`, of CUDA 12.8, takes one argument more.
        fn copy_batch = "cuMemcpyBatchAsync_v2"(
            *mut DevicePtr, *mut DevicePtr, *mut usize, usize, *mut CopyAttributes, *mut usize, usize, Stream
        );
        fn copy_batch_12 = "cuMemcpyBatchAsync"(
            *mut DevicePtr, *mut DevicePtr, *mut usize, usize, *mut CopyAttributes, *mut usize, usize, *mut usize, Stream
        );
    }
}

impl CudaLibrary {
    /// Keeps this thread out of stream captures: while one of the mode `GLOBAL` is under way on any thread, or one of another mode
    /// than `RELAXED` on this, querying an event or allocating memory would fail and invalidate the capture. Gives the mode
    /// that the thread had, to be [set again](Self::set_capture_mode) on a thread that is not ours.
    pub(crate) fn leave_captures(&self) -> Option<c_uint> {
        /// `CU_STREAM_CAPTURE_MODE_RELAXED`.
        const RELAXED: c_uint = 2;
        self.set_capture_mode(RELAXED)
    }

    /// Gives the mode that the thread had; `None` where the driver knows no captures.
    pub(crate) fn set_capture_mode(&self, mut mode: c_uint) -> Option<c_uint> {
        // SAFETY: the driver reads one number and writes the one that was before. Refused, all is as it was.
        let code = unsafe { self.exchange_capture_mode?(&mut mode) };
        (code == 0).then_some(mode)
    }

    /// Whether a stream is being captured into a graph: what is given to it runs when the graph is launched, and not before. A
    /// stream that cannot be asked counts as captured.
    pub(crate) fn is_capturing(&self, stream: Stream) -> bool {
        /// `CU_STREAM_CAPTURE_STATUS_NONE`.
        const NONE: c_int = 0;
        let Some(is_capturing) = self.stream_is_capturing else { return false };
        let mut status = NONE;
        // SAFETY: the driver writes one number; the caller's stream is alive.
        let code = unsafe { is_capturing(stream, &mut status) };
        status != NONE || CudaCode::is_of_capture(code)
    }

    /// A code as a result.
    pub(crate) fn check(&self, call: &'static str, code: c_int) -> Result<(), CudaCode> {
        if code == 0 { Ok(()) } else { Err(CudaCode { call, code, name: self.name(code) }) }
    }

    /// The driver's name of a code, such as `CUDA_ERROR_OUT_OF_MEMORY`.
    fn name(&self, code: c_int) -> String {
        let mut name = std::ptr::null();
        // SAFETY: the driver writes a pointer to a static string, or leaves it null where it knows no name.
        let known = unsafe { (self.error_name)(code, &mut name) } == 0 && !name.is_null();
        if !known {
            return "an error that this driver does not name".into();
        }
        // SAFETY: just checked; the string is static and ends with a zero.
        unsafe { CStr::from_ptr(name) }.to_string_lossy().into_owned()
    }
}

impl fmt::Debug for CudaLibrary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CudaLibrary").field("copy_batch", &self.copy_batch.is_some()).finish_non_exhaustive()
    }
}

/// `CUmemcpyAttributes`: how the copies of a batch may be ordered, and where their ends lie.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(crate) struct CopyAttributes {
    pub(crate) source_access: c_uint,
    pub(crate) source: Location,
    pub(crate) destination: Location,
    pub(crate) flags: c_uint,
}

/// `CUmemLocation`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(crate) struct Location {
    pub(crate) kind: c_uint,
    pub(crate) id: c_int,
}

impl CopyAttributes {
    /// For copies that read their source in the order of the stream, from registered memory to where it is.
    pub(crate) const IN_STREAM_ORDER: Self = Self {
        source_access: 1,
        source: Location { kind: 0, id: 0 },
        destination: Location { kind: 0, id: 0 },
        flags: 0,
    };
}

#[cfg(test)]
mod tests {
    use super::*;
    use cudarc::driver::sys;
    use std::mem::{offset_of, size_of};

    #[test]
    fn structures_are_laid_out_as_the_header_says() {
        assert_eq!(size_of::<CopyAttributes>(), size_of::<sys::CUmemcpyAttributes>());
        assert_eq!(size_of::<Location>(), size_of::<sys::CUmemLocation>());
        assert_eq!(offset_of!(CopyAttributes, source), offset_of!(sys::CUmemcpyAttributes, srcLocHint));
        assert_eq!(offset_of!(CopyAttributes, destination), offset_of!(sys::CUmemcpyAttributes, dstLocHint));
        assert_eq!(offset_of!(CopyAttributes, flags), offset_of!(sys::CUmemcpyAttributes, flags));
        let order = sys::CUmemcpySrcAccessOrder::CU_MEMCPY_SRC_ACCESS_ORDER_STREAM as c_uint;
        assert_eq!(CopyAttributes::IN_STREAM_ORDER.source_access, order);
    }
}
