//! The library's functions, loaded by its path.

use crate::abi::{self, Descr, IoEvents, IoParams, Status};
use libloading::Library;
use std::ffi::{c_char, c_int, c_long, c_uint, c_void};
use std::sync::OnceLock;

macro_rules! api {
    ($($name:ident($($argument:ty),*) $(-> $result:ty)?;)*) => {
        /// The functions of the library that the tests call.
        #[allow(non_snake_case)]
        pub struct Api { $(pub $name: unsafe extern "C" fn($($argument),*) $(-> $result)?,)* }

        impl Api {
            fn load(library: &'static Library) -> Api {
                // SAFETY: the types are those of the library's own source or of the CUDA driver's interface.
                unsafe { Api { $($name: *library.get(concat!(stringify!($name), "\0").as_bytes()).unwrap(),)* } }
            }
        }
    };
}

api! {
    cuInit(c_uint) -> c_int;
    cuDevicePrimaryCtxRetain(*mut *mut c_void, c_int) -> c_int;
    cuDevicePrimaryCtxRelease_v2(c_int) -> c_int;
    cuCtxSetCurrent(*mut c_void) -> c_int;
    cuDeviceGetCount(*mut c_int) -> c_int;
    cuDeviceGetUuid(*mut [c_char; 16], c_int) -> c_int;
    cuMemAlloc_v2(*mut u64, usize) -> c_int;
    cuMemFree_v2(u64) -> c_int;
    cuMemFreeAsync(u64, *mut c_void) -> c_int;
    cuMemcpyDtoH_v2(*mut c_void, u64, usize) -> c_int;
    cuMemcpyHtoD_v2(u64, *const c_void, usize) -> c_int;
    cuStreamCreate(*mut *mut c_void, c_uint) -> c_int;
    cuStreamSynchronize(*mut c_void) -> c_int;

    cuFileDriverOpen() -> Status;
    cuFileDriverClose() -> Status;
    cuFileDriverClose_v2() -> Status;
    cuFileUseCount() -> c_long;
    cuFileGetVersion(*mut c_int) -> Status;
    cuFileDriverGetProperties(*mut abi::DrvProps) -> Status;
    cuFileDriverSetPollMode(bool, usize) -> Status;
    cuFileDriverSetMaxDirectIOSize(usize) -> Status;
    cuFileDriverSetMaxCacheSize(usize) -> Status;
    cuFileDriverSetMaxPinnedMemSize(usize) -> Status;
    cuFileGetBARSizeInKB(c_int, *mut usize) -> Status;
    cuFileDriverGetP2PFlags(c_uint, *mut c_uint) -> Status;
    cuFileDriverSetP2PFlags(c_uint, c_uint) -> Status;
    cuFileExportPCIeTopology(*const c_char) -> Status;
    cuFileGetParameterSizeT(c_uint, *mut usize) -> Status;
    cuFileSetParameterSizeT(c_uint, usize) -> Status;
    cuFileGetParameterMinMaxValue(c_uint, *mut usize, *mut usize) -> Status;
    cuFileGetParameterBool(c_uint, *mut bool) -> Status;
    cuFileSetParameterBool(c_uint, bool) -> Status;
    cuFileGetParameterString(c_uint, *mut c_char, c_int) -> Status;
    cuFileSetParameterString(c_uint, *const c_char) -> Status;
    cuFileSetParameterPosixPoolSlabArray(*const usize, *const usize, c_int) -> Status;
    cuFileGetParameterPosixPoolSlabArray(*mut usize, *mut usize, c_int) -> Status;
    cuFileSetParameterGpuBounceBufferSlabArray(*const usize, *const usize, c_int) -> Status;
    cuFileGetParameterGpuBounceBufferSlabArray(*mut usize, *mut usize, c_int) -> Status;
    cuFileHandleRegister(*mut *mut c_void, *mut Descr) -> Status;
    cuFileHandleDeregister(*mut c_void);
    cuFileBufRegister(*const c_void, usize, c_int) -> Status;
    cuFileBufDeregister(*const c_void) -> Status;
    cuFileRead(*mut c_void, *mut c_void, usize, c_long, c_long) -> isize;
    cuFileWrite(*mut c_void, *const c_void, usize, c_long, c_long) -> isize;
    cuFileReadv(*mut c_void, *const abi::IoVec, usize, c_long, c_uint) -> isize;
    cuFileWritev(*mut c_void, *const abi::IoVec, usize, c_long, c_uint) -> isize;
    cuFileBatchIOSetUp(*mut *mut c_void, c_uint) -> Status;
    cuFileBatchIOSubmit(*mut c_void, c_uint, *mut IoParams, c_uint) -> Status;
    cuFileBatchIOGetStatus(*mut c_void, c_uint, *mut c_uint, *mut IoEvents, *mut abi::Timespec) -> Status;
    cuFileBatchIOCancel(*mut c_void) -> Status;
    cuFileBatchIODestroy(*mut c_void);
    cuFileReadAsync(*mut c_void, *mut c_void, *mut usize, *mut c_long, *mut c_long, *mut isize, *mut c_void) -> Status;
    cuFileWriteAsync(*mut c_void, *mut c_void, *mut usize, *mut c_long, *mut c_long, *mut isize, *mut c_void) -> Status;
    cuFileStreamRegister(*mut c_void, c_uint) -> Status;
    cuFileStreamDeregister(*mut c_void) -> Status;
    cuFileSetStatsLevel(c_int) -> Status;
    cuFileGetStatsLevel(*mut c_int) -> Status;
    cuFileStatsStart() -> Status;
    cuFileStatsStop() -> Status;
    cuFileStatsReset() -> Status;
    cuFileGetStatsL1(*mut abi::StatsLevel1) -> Status;
    cuFileGetStatsL2(*mut abi::StatsLevel2) -> Status;
    cuFileGetStatsL3(*mut abi::StatsLevel3) -> Status;

    emulator_cufile_counter(*const c_char) -> u64;
    emulator_cufile_reset();
    emulator_script(*const c_char) -> c_int;
    emulator_violations(*mut c_char, usize) -> u64;
    emulator_reset_violations();
}

pub fn api() -> &'static Api {
    static API: OnceLock<Api> = OnceLock::new();
    API.get_or_init(|| Api::load(library()))
}

fn library() -> &'static Library {
    static LIBRARY: OnceLock<Library> = OnceLock::new();
    LIBRARY.get_or_init(|| {
        // To skip here would be to skip everything.
        let path = crate::common::emulator::library().unwrap_or_else(|why| panic!("{}", why.0));
        // SAFETY: our own library, whose loading runs no code of its own.
        unsafe { Library::new(path) }.unwrap()
    })
}
