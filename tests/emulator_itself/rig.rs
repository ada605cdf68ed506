//! An emulator of one test's own. Each loads a copy of the library, so that tests in one process share no state.
use std::ffi::{c_char, c_int, c_void};
use std::fs;
use std::ops::Deref;

use crate::common::Skip;
use crate::common::emulator::{Control, library};
use crate::common::watchdog::guarded;
use crate::or_skip;

pub const INVALID_VALUE: i32 = 1;
pub const OUT_OF_MEMORY: i32 = 2;
pub const NOT_INITIALIZED: i32 = 3;
pub const NO_DEVICE: i32 = 100;
pub const INVALID_CONTEXT: i32 = 201;
pub const INVALID_HANDLE: i32 = 400;
pub const NOT_READY: i32 = 600;
pub const CONTEXT_IS_DESTROYED: i32 = 709;
pub const ALREADY_REGISTERED: i32 = 712;
pub const NOT_REGISTERED: i32 = 713;
pub const NOT_SUPPORTED: i32 = 801;

/// The emulator with a context of device 0 current on this thread.
#[derive(Debug)]
pub struct Rig {
    control: Control,
    pub context: usize,
}

impl Deref for Rig {
    type Target = Control;

    fn deref(&self) -> &Control {
        &self.control
    }
}

/// Runs a test under an emulator of its own with a context of device 0 current, and asserts in the end that all
/// violations were expected ones and that nothing is left.
pub fn under(script: &str, test: impl FnOnce(&Rig) + Send + 'static) {
    loosely(script, |rig| {
        test(rig);
        assert_eq!(rig.cuDevicePrimaryCtxRelease_v2(0), 0);
        rig.assert_clean();
    });
}

/// As `under`, and asserts nothing in the end.
pub fn loosely(script: &str, test: impl FnOnce(&Rig) + Send + 'static) {
    let mut rig = or_skip!(Rig::bare(script));
    guarded("emulator", move || {
        assert_eq!(rig.cuInit(0), 0);
        rig.context = rig.retain(0);
        assert_eq!(rig.cuCtxSetCurrent(rig.context), 0);
        test(&rig);
    });
}

impl Rig {
    /// Loaded, and nothing called.
    pub fn bare(script: &str) -> Result<Rig, Skip> {
        let dir = tempfile::Builder::new().prefix("forebay-rig-").tempdir().unwrap();
        let copy = dir.path().join("libcuda.so.1");
        fs::write(&copy, loadable(&fs::read(library()?).unwrap())).unwrap();
        let control = Control::open(&copy);
        control.script("quiet");
        control.script(script);
        Ok(Rig { control, context: 0 })
    }

    pub fn retain(&self, device: c_int) -> usize {
        let mut context = 0;
        assert_eq!(self.cuDevicePrimaryCtxRetain(&mut context, device), 0);
        context
    }

    pub fn stream(&self) -> usize {
        let mut stream = 0;
        assert_eq!(self.cuStreamCreate(&mut stream, 1), 0);
        stream
    }

    pub fn event(&self) -> usize {
        let mut event = 0;
        assert_eq!(self.cuEventCreate(&mut event, 2), 0);
        event
    }

    pub fn device_memory(&self, len: usize) -> u64 {
        let mut ptr = 0;
        assert_eq!(self.cuMemAlloc_v2(&mut ptr, len), 0);
        ptr
    }

    /// Host memory that is pinned as long as it lives.
    pub fn pinned(&self, len: usize) -> Pinned<'_> {
        let bytes = memmap2::MmapMut::map_anon(len).unwrap();
        assert_eq!(self.cuMemHostRegister_v2(bytes.as_ptr() as usize, len, 1), 0);
        Pinned { bytes, rig: self }
    }
}

#[derive(Debug)]
pub struct Pinned<'a> {
    bytes: memmap2::MmapMut,
    rig: &'a Rig,
}

impl Pinned<'_> {
    pub fn at(&self) -> usize {
        self.bytes.as_ptr() as usize
    }
}

impl Deref for Pinned<'_> {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.bytes
    }
}

impl std::ops::DerefMut for Pinned<'_> {
    fn deref_mut(&mut self) -> &mut [u8] {
        &mut self.bytes
    }
}

impl Drop for Pinned<'_> {
    fn drop(&mut self) {
        self.rig.cuMemHostUnregister(self.at());
    }
}

/// As much of an ELF file as the loader maps: a tenth of it, the rest is what debuggers read.
fn loadable(elf: &[u8]) -> &[u8] {
    let word =
        |at: usize, len: usize| elf[at..at + len].iter().rev().fold(0, |sum, &byte| sum << 8 | usize::from(byte));
    let (table, size, count) = (word(32, 8), word(54, 2), word(56, 2));
    let segments = (0..count).map(|index| table + index * size).filter(|&at| word(at, 4) == 1);
    let end = segments.map(|at| word(at + 8, 8) + word(at + 32, 8)).max().unwrap();
    &elf[..end]
}

macro_rules! driver {
    ($($name:ident($($argument:ident: $type:ty),*);)*) => {
        /// The driver's functions.
        #[allow(non_snake_case, clippy::too_many_arguments)]
        impl Rig {
            $(pub fn $name(&self, $($argument: $type),*) -> i32 {
                self.function::<extern "C" fn($($type),*) -> c_int>(stringify!($name))($($argument),*)
            })*
        }
    };
}

driver! {
    cuInit(flags: u32);
    cuDriverGetVersion(version: *mut c_int);
    cuDeviceGetCount(count: *mut c_int);
    cuDeviceGetName(name: *mut c_char, len: c_int, device: c_int);
    cuDeviceTotalMem_v2(bytes: *mut usize, device: c_int);
    cuDeviceGetAttribute(value: *mut c_int, attribute: c_int, device: c_int);
    cuDeviceGetPCIBusId(text: *mut c_char, len: c_int, device: c_int);
    cuDeviceGetUuid_v2(uuid: *mut [u8; 16], device: c_int);
    cuDeviceCanAccessPeer(can: *mut c_int, device: c_int, peer: c_int);
    cuDevicePrimaryCtxRetain(context: *mut usize, device: c_int);
    cuDevicePrimaryCtxRelease_v2(device: c_int);
    cuCtxGetCurrent(context: *mut usize);
    cuCtxSetCurrent(context: usize);
    cuCtxPushCurrent_v2(context: usize);
    cuCtxPopCurrent_v2(context: *mut usize);
    cuCtxGetDevice(device: *mut c_int);
    cuCtxSynchronize();
    cuCtxEnablePeerAccess(peer: usize, flags: u32);
    cuMemAlloc_v2(ptr: *mut u64, len: usize);
    cuMemAllocAsync(ptr: *mut u64, len: usize, stream: usize);
    cuMemFree_v2(ptr: u64);
    cuMemFreeAsync(ptr: u64, stream: usize);
    cuMemGetInfo_v2(free: *mut usize, total: *mut usize);
    cuMemGetAddressRange_v2(base: *mut u64, len: *mut usize, ptr: u64);
    cuMemHostAlloc(ptr: *mut usize, len: usize, flags: u32);
    cuMemFreeHost(ptr: usize);
    cuMemHostRegister_v2(ptr: usize, len: usize, flags: u32);
    cuMemHostUnregister(ptr: usize);
    cuMemHostGetDevicePointer_v2(device_ptr: *mut u64, ptr: usize, flags: u32);
    cuPointerGetAttribute(data: *mut c_void, attribute: c_int, ptr: u64);
    cuMemcpyHtoDAsync_v2(to: u64, from: usize, len: usize, stream: usize);
    cuMemcpyDtoHAsync_v2(to: usize, from: u64, len: usize, stream: usize);
    cuMemcpyDtoDAsync_v2(to: u64, from: u64, len: usize, stream: usize);
    cuMemcpyHtoD_v2(to: u64, from: usize, len: usize);
    cuMemcpyAsync(to: u64, from: u64, len: usize, stream: usize);
    cuMemcpyPeerAsync(to: u64, ours: usize, from: u64, theirs: usize, len: usize, stream: usize);
    cuMemcpyBatchAsync(to: *const u64, from: *const u64, lens: *const usize, count: usize, attributes: *const Attributes,
        firsts: *const usize, attribute_count: usize, fail: *mut usize, stream: usize);
    cuMemcpyBatchAsync_v2(to: *const u64, from: *const u64, lens: *const usize, count: usize,
        attributes: *const Attributes, firsts: *const usize, attribute_count: usize, stream: usize);
    cuMemsetD8Async(ptr: u64, value: u8, count: usize, stream: usize);
    cuStreamCreate(stream: *mut usize, flags: u32);
    cuStreamDestroy_v2(stream: usize);
    cuStreamSynchronize(stream: usize);
    cuStreamQuery(stream: usize);
    cuStreamWaitEvent(stream: usize, event: usize, flags: u32);
    cuEventCreate(event: *mut usize, flags: u32);
    cuEventRecord(event: usize, stream: usize);
    cuEventQuery(event: usize);
    cuEventSynchronize(event: usize);
    cuEventElapsedTime(milliseconds: *mut f32, start: usize, end: usize);
    cuEventDestroy_v2(event: usize);
    cuLaunchHostFunc(stream: usize, function: extern "C" fn(*mut c_void), data: *mut c_void);
    cuGetErrorName(code: c_int, name: *mut *const c_char);
    cuGetErrorString(code: c_int, text: *mut *const c_char);
}

/// CUmemcpyAttributes.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default)]
pub struct Attributes {
    pub source_order: u32,
    pub source_hint: [i32; 2],
    pub destination_hint: [i32; 2],
    pub flags: u32,
}
