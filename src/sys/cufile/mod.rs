//! The cuFile library, opened once and called through our own table of its functions.
//!
//! cudarc does not try the name that NVIDIA's packages install, panics where a symbol is missing, and takes cuFile's
//! codes as Rust enums, for which a code that a newer library invents is undefined behaviour. Here a missing library is
//! a value, what only newer libraries have is an `Option`, and codes are numbers.

mod abi;
mod answer;
mod code;

use std::ffi::{c_int, c_uint, c_void};
use std::fmt;
use std::sync::OnceLock;

use libloading::Library;

use super::cuda;

pub(crate) use abi::{
    BatchHandle, Descriptor, FileHandle, IoEvent, IoParams, Level1, Level1Vectored, Level3, Properties, Roomy, Status,
    feature, io_status, parameter,
};
pub(crate) use answer::{Answer, decode, decode_at_once};
pub use code::CuFileCode;

/// The names it goes by: the first is in NVIDIA's packages, the second is the development package's link to it.
const NAMES: [&str; 2] = ["libcufile.so.0", "libcufile.so"];

/// Why the library cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NoCuFileLibrary {
    /// It is not there, or cannot be loaded.
    #[error(
        "the cuFile library cannot be loaded ({}); install NVIDIA's package libcufile, or put its folder on \
         LD_LIBRARY_PATH", .tried.join("; ")
    )]
    Missing {
        /// What the dynamic linker said, name by name.
        tried: Vec<String>,
    },
    /// It lacks a function that every cuFile has.
    #[error("{library} has no function {symbol}; install NVIDIA's package libcufile in place of it")]
    NotCuFile {
        /// The name that was loaded.
        library: String,
        /// The function.
        symbol: &'static str,
    },
}

/// Loads the library, or says why it cannot be loaded; asked once per process.
///
/// It is never unloaded: it has threads of its own.
pub(crate) fn library() -> Result<&'static Calls, NoCuFileLibrary> {
    static LOADED: OnceLock<Result<(Calls, Library), NoCuFileLibrary>> = OnceLock::new();
    LOADED.get_or_init(|| load(&NAMES)).as_ref().map(|(calls, _)| calls).map_err(Clone::clone)
}

fn load(names: &[&str]) -> Result<(Calls, Library), NoCuFileLibrary> {
    let mut tried = Vec::new();
    for &name in names {
        // SAFETY: loading runs the library's initialisers, as every program that uses cuFile does; the names are those
        // that NVIDIA's packages install.
        match unsafe { Library::new(name) } {
            Ok(library) => return Ok((Calls::new(name, &library)?, library)),
            Err(error) => {
                // The dynamic linker's own words are behind the error, not in it.
                let said = std::error::Error::source(&error).map_or_else(|| error.to_string(), ToString::to_string);
                tried.push(format!("{name}: {said}"));
            }
        }
    }
    Err(NoCuFileLibrary::Missing { tried })
}

/// What every cuFile has, and the groups of functions that only newer ones have.
///
/// Each pointer is of the type that NVIDIA's header gives the symbol, with numbers in place of enums.
#[derive(Clone)]
pub(crate) struct Calls {
    pub(crate) driver_open: unsafe extern "C" fn() -> Status,
    pub(crate) driver_properties: unsafe extern "C" fn(*mut Properties) -> Status,
    pub(crate) handle_register: unsafe extern "C" fn(*mut FileHandle, *mut Descriptor) -> Status,
    pub(crate) handle_deregister: unsafe extern "C" fn(FileHandle),
    /// Base, bytes, flags that must be 0.
    pub(crate) buffer_register: unsafe extern "C" fn(*const c_void, usize, c_int) -> Status,
    pub(crate) buffer_deregister: unsafe extern "C" fn(*const c_void) -> Status,
    /// Handle, registered base, bytes, offset in the file, offset from the base.
    pub(crate) read: unsafe extern "C" fn(FileHandle, *mut c_void, usize, i64, i64) -> isize,
    /// CUDA 11.6.
    pub(crate) batch: Option<BatchCalls>,
    /// CUDA 12.2.
    pub(crate) stream: Option<StreamCalls>,
    /// CUDA 12.3.
    pub(crate) version: Option<unsafe extern "C" fn(*mut c_int) -> Status>,
    /// CUDA 12.9. The value is a C `bool`.
    pub(crate) parameter_bool: Option<unsafe extern "C" fn(c_uint, *mut u8) -> Status>,
    /// CUDA 13.0.
    pub(crate) stats: Option<StatsCalls>,
    /// CUDA 13.0: sizes in KiB and counts of the slabs of the compatibility mode, and how many of each.
    pub(crate) posix_slabs: Option<unsafe extern "C" fn(*mut usize, *mut usize, c_int) -> Status>,
    /// CUDA 13.0: the number of the GPU, and KiB.
    pub(crate) bar_size: Option<unsafe extern "C" fn(c_int, *mut usize) -> Status>,
}

#[derive(Clone, Debug)]
pub(crate) struct BatchCalls {
    pub(crate) set_up: unsafe extern "C" fn(*mut BatchHandle, c_uint) -> Status,
    /// Batch, entries, their parameters, flags that must be 0.
    pub(crate) submit: unsafe extern "C" fn(BatchHandle, c_uint, *mut IoParams, c_uint) -> Status,
    /// Batch, least events to wait for, most events and then how many there are, events, longest wait.
    pub(crate) status:
        unsafe extern "C" fn(BatchHandle, c_uint, *mut c_uint, *mut IoEvent, *mut nix::libc::timespec) -> Status,
    pub(crate) cancel: unsafe extern "C" fn(BatchHandle) -> Status,
    pub(crate) destroy: unsafe extern "C" fn(BatchHandle),
}

#[derive(Clone, Debug)]
pub(crate) struct StreamCalls {
    pub(crate) register: unsafe extern "C" fn(cuda::Stream, c_uint) -> Status,
    pub(crate) deregister: unsafe extern "C" fn(cuda::Stream) -> Status,
    /// Handle, registered base, then pointers that are read and written when the stream comes to it: bytes, offset in
    /// the file, offset from the base, bytes read.
    pub(crate) read: unsafe extern "C" fn(
        FileHandle,
        *mut c_void,
        *mut usize,
        *mut i64,
        *mut i64,
        *mut isize,
        cuda::Stream,
    ) -> Status,
}

#[derive(Clone, Debug)]
pub(crate) struct StatsCalls {
    pub(crate) level: unsafe extern "C" fn(*mut c_int) -> Status,
    pub(crate) set_level: unsafe extern "C" fn(c_int) -> Status,
    pub(crate) start: unsafe extern "C" fn() -> Status,
    pub(crate) level_1: unsafe extern "C" fn(*mut c_void) -> Status,
    pub(crate) level_3: unsafe extern "C" fn(*mut c_void) -> Status,
}

impl Calls {
    fn new(name: &str, library: &Library) -> Result<Self, NoCuFileLibrary> {
        /// A function's address. A macro, as a generic function could not tie the symbol to its type any better.
        macro_rules! find {
            ($symbol:literal) => {
                // SAFETY: the field's type is the one that NVIDIA's header gives this symbol, and the caller keeps the
                // library for as long as the pointer.
                unsafe { library.get($symbol.as_bytes()) }.ok().map(|symbol| *symbol)
            };
        }
        macro_rules! need {
            ($symbol:literal) => {
                find!($symbol).ok_or(NoCuFileLibrary::NotCuFile { library: name.into(), symbol: $symbol })?
            };
        }
        let batch = || {
            Some(BatchCalls {
                set_up: find!("cuFileBatchIOSetUp")?,
                submit: find!("cuFileBatchIOSubmit")?,
                status: find!("cuFileBatchIOGetStatus")?,
                cancel: find!("cuFileBatchIOCancel")?,
                destroy: find!("cuFileBatchIODestroy")?,
            })
        };
        let stream = || {
            Some(StreamCalls {
                register: find!("cuFileStreamRegister")?,
                deregister: find!("cuFileStreamDeregister")?,
                read: find!("cuFileReadAsync")?,
            })
        };
        let stats = || {
            Some(StatsCalls {
                level: find!("cuFileGetStatsLevel")?,
                set_level: find!("cuFileSetStatsLevel")?,
                start: find!("cuFileStatsStart")?,
                level_1: find!("cuFileGetStatsL1")?,
                level_3: find!("cuFileGetStatsL3")?,
            })
        };
        Ok(Self {
            driver_open: need!("cuFileDriverOpen"),
            driver_properties: need!("cuFileDriverGetProperties"),
            handle_register: need!("cuFileHandleRegister"),
            handle_deregister: need!("cuFileHandleDeregister"),
            buffer_register: need!("cuFileBufRegister"),
            buffer_deregister: need!("cuFileBufDeregister"),
            read: need!("cuFileRead"),
            batch: batch(),
            stream: stream(),
            version: find!("cuFileGetVersion"),
            parameter_bool: find!("cuFileGetParameterBool"),
            stats: stats(),
            posix_slabs: find!("cuFileGetParameterPosixPoolSlabArray"),
            bar_size: find!("cuFileGetBARSizeInKB"),
        })
    }
}

impl fmt::Debug for Calls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Calls")
            .field("batch", &self.batch.is_some())
            .field("stream", &self.stream.is_some())
            .field("stats", &self.stats.is_some())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_library_tells_every_name_that_was_tried() {
        let names = ["libforebay-has-no-such.so.0", "libforebay-has-no-such.so"];
        let Err(error @ NoCuFileLibrary::Missing { .. }) = load(&names) else { panic!("it was loaded") };
        let said = error.to_string();
        assert!(names.iter().all(|name| said.contains(name)), "{said}");
        assert!(said.contains("LD_LIBRARY_PATH"), "{said}");
    }

    #[test]
    fn another_library_under_the_name_is_told_by_the_symbol_it_lacks() {
        let Err(error) = load(&["libc.so.6"]) else { panic!("libc passed for cuFile") };
        assert_eq!(error, NoCuFileLibrary::NotCuFile { library: "libc.so.6".into(), symbol: "cuFileDriverOpen" });
    }
}
