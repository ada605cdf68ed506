//! The library, a device with a current context, and files that cuFile reads directly.

use crate::abi::{self, Descr, DescrHandle, IoEvents, IoParams, SUCCESS, Status};
use libloading::Library;
use std::ffi::{CStr, CString, c_char, c_int, c_long, c_uint, c_void};
use std::fs::File;
use std::io::Write;
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::ptr::null_mut;
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

pub const MIB: usize = 1 << 20;
pub const O_DIRECT: i32 = nix::libc::O_DIRECT;

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

/// The script has no end of its own: each test begins by taking back what another may have set.
const NOTHING_SCRIPTED: &str = "clear;cufile_open=0;cufile_path=p2p;cufile_no_compat=0;cufile_refuse_handle=0;\
    cufile_no_stats=0;cufile_no_batch=0;cufile_no_async=0;cufile_batch=;cufile_max_direct_io_kb=;cufile_pinned_max=;\
    cufile_nvfs_version=;cufile_version=;cufile_posix_slabs=;cufile_late_us=";

/// One test's turn with the library: driver initialised, a context current on this thread, cuFile closed.
pub struct Rig {
    pub api: &'static Api,
    context: *mut c_void,
    _turn: MutexGuard<'static, ()>,
}

impl Rig {
    /// As [`Rig::open`], with cuFile not yet opened.
    pub fn closed(script: &str) -> Rig {
        static TURN: Mutex<()> = Mutex::new(());
        let turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
        let api = api();
        let mut context = null_mut();
        // SAFETY: these take numbers, and places of our own for their results.
        unsafe {
            assert_eq!((api.cuInit)(0), 0);
            assert_eq!((api.cuDevicePrimaryCtxRetain)(&mut context, 0), 0);
            assert_eq!((api.cuCtxSetCurrent)(context), 0);
            (api.emulator_cufile_reset)();
        }
        let rig = Rig { api, context, _turn: turn };
        rig.script(NOTHING_SCRIPTED);
        rig.script(script);
        rig.forget_violations();
        rig
    }

    pub fn open(script: &str) -> Rig {
        let rig = Rig::closed(script);
        // SAFETY: it takes nothing.
        assert_eq!(unsafe { (rig.api.cuFileDriverOpen)() }, SUCCESS);
        rig
    }

    pub fn script(&self, text: &str) {
        let text = CString::new(text).unwrap();
        // SAFETY: a C string.
        assert_eq!(unsafe { (self.api.emulator_script)(text.as_ptr()) }, 0);
    }

    pub fn count(&self, name: &str) -> u64 {
        let text = CString::new(name).unwrap();
        // SAFETY: a C string.
        let count = unsafe { (self.api.emulator_cufile_counter)(text.as_ptr()) };
        assert_ne!(count, u64::MAX, "no such counter: {name}");
        count
    }

    fn violations(&self) -> Vec<String> {
        let mut text = vec![0u8; 64 << 10];
        // SAFETY: the vector has that many bytes.
        unsafe { (self.api.emulator_violations)(text.as_mut_ptr().cast(), text.len()) };
        let text = CStr::from_bytes_until_nul(&text).unwrap().to_string_lossy().into_owned();
        text.lines().map(str::to_owned).collect()
    }

    fn forget_violations(&self) {
        // SAFETY: it takes nothing.
        unsafe { (self.api.emulator_reset_violations)() }
    }

    pub fn assert_clean(&self) {
        let violations = self.violations();
        assert!(violations.is_empty(), "{violations:#?}");
    }

    /// Exactly one violation was found, and it says `part`.
    pub fn assert_caught(&self, part: &str) {
        let violations = self.violations();
        assert!(violations.len() == 1 && violations[0].contains(part), "wanted `{part}`, got {violations:#?}");
        self.forget_violations();
    }

    /// Exactly these two, in this order.
    pub fn assert_both_caught(&self, first: &str, second: &str) {
        let violations = self.violations();
        let as_wanted = matches!(&violations[..], [one, two] if one.contains(first) && two.contains(second));
        assert!(as_wanted, "wanted `{first}` and `{second}`, got {violations:#?}");
        self.forget_violations();
    }

    /// Works with no context current on this thread.
    pub fn without_context<T>(&self, work: impl FnOnce() -> T) -> T {
        self.with_current(null_mut(), work)
    }

    /// Works with the context of another device current, or says why it cannot be had.
    pub fn on_device_1<T>(&self, work: impl FnOnce() -> T) -> Option<T> {
        if self.devices() < 2 {
            eprintln!("skipped: one device only");
            return None;
        }
        let mut context = null_mut();
        // SAFETY: a place of our own; what is retained is given back.
        unsafe {
            assert_eq!((self.api.cuDevicePrimaryCtxRetain)(&mut context, 1), 0);
            let result = self.with_current(context, work);
            assert_eq!((self.api.cuDevicePrimaryCtxRelease_v2)(1), 0);
            Some(result)
        }
    }

    fn with_current<T>(&self, context: *mut c_void, work: impl FnOnce() -> T) -> T {
        // SAFETY: contexts that are retained, and none.
        unsafe {
            assert_eq!((self.api.cuCtxSetCurrent)(context), 0);
            let result = work();
            assert_eq!((self.api.cuCtxSetCurrent)(self.context), 0);
            result
        }
    }

    pub fn devices(&self) -> u32 {
        let mut count = 0;
        // SAFETY: a place of our own.
        assert_eq!(unsafe { (self.api.cuDeviceGetCount)(&mut count) }, 0);
        count as u32
    }

    pub fn memory(&self, len: usize) -> Memory<'_> {
        let mut address = 0;
        // SAFETY: a place of our own for the result.
        assert_eq!(unsafe { (self.api.cuMemAlloc_v2)(&mut address, len) }, 0);
        Memory { rig: self, address, len }
    }

    pub fn registered(&self, len: usize) -> Memory<'_> {
        let memory = self.memory(len);
        assert_eq!(self.register_memory(memory.address, len), SUCCESS);
        memory
    }

    pub fn register_memory(&self, address: u64, len: usize) -> Status {
        // SAFETY: it takes numbers.
        unsafe { (self.api.cuFileBufRegister)(address as *const c_void, len, 0) }
    }

    pub fn deregister_memory(&self, address: u64) -> Status {
        // SAFETY: it takes numbers.
        unsafe { (self.api.cuFileBufDeregister)(address as *const c_void) }
    }

    pub fn register(&self, fd: i32) -> Result<*mut c_void, Status> {
        let mut handle = null_mut();
        let mut descr = Descr { kind: abi::HANDLE_TYPE_FD, handle: DescrHandle { fd }, fs_ops: std::ptr::null() };
        // SAFETY: places of our own.
        match unsafe { (self.api.cuFileHandleRegister)(&mut handle, &mut descr) } {
            SUCCESS => Ok(handle),
            status => Err(status),
        }
    }

    pub fn deregister(&self, handle: *mut c_void) {
        // SAFETY: it takes a number.
        unsafe { (self.api.cuFileHandleDeregister)(handle) }
    }

    pub fn read(&self, handle: *mut c_void, memory: u64, size: usize, file_offset: i64, offset: i64) -> isize {
        // SAFETY: it takes numbers; what they name is checked.
        unsafe { (self.api.cuFileRead)(handle, memory as *mut c_void, size, file_offset, offset) }
    }
}

impl Drop for Rig {
    fn drop(&mut self) {
        // SAFETY: they take numbers.
        unsafe {
            (self.api.emulator_cufile_reset)();
            (self.api.cuCtxSetCurrent)(null_mut());
            (self.api.cuDevicePrimaryCtxRelease_v2)(0);
        }
    }
}

/// Device memory. It is leaked: a test says itself when memory is given back.
#[derive(Clone, Copy)]
pub struct Memory<'a> {
    rig: &'a Rig,
    pub address: u64,
    pub len: usize,
}

impl Memory<'_> {
    pub fn bytes(&self) -> Vec<u8> {
        let mut bytes = vec![0; self.len];
        // SAFETY: the vector has that many bytes.
        assert_eq!(unsafe { (self.rig.api.cuMemcpyDtoH_v2)(bytes.as_mut_ptr().cast(), self.address, self.len) }, 0);
        bytes
    }

    pub fn fill(&self, bytes: &[u8]) {
        // SAFETY: the slice has that many bytes.
        assert_eq!(unsafe { (self.rig.api.cuMemcpyHtoD_v2)(self.address, bytes.as_ptr().cast(), bytes.len()) }, 0);
    }

    pub fn free(&self) {
        // SAFETY: it takes a number.
        assert_eq!(unsafe { (self.rig.api.cuMemFree_v2)(self.address) }, 0);
    }
}

/// A page that can be made to vanish. Its address stays taken, so that no other thread's memory comes to lie there.
pub struct Page(memmap2::MmapMut);

impl Page {
    pub fn new() -> Page {
        Page(memmap2::MmapMut::map_anon(4096).unwrap())
    }

    pub fn place<T>(&self) -> *mut T {
        self.0.as_ptr().cast_mut().cast()
    }

    pub fn vanish(&self) {
        // SAFETY: a mapping of our own, to which there are no references.
        assert_eq!(unsafe { nix::libc::mprotect(self.place(), 4096, nix::libc::PROT_NONE) }, 0);
    }
}

fn api() -> &'static Api {
    static API: OnceLock<Api> = OnceLock::new();
    API.get_or_init(|| Api::load(library()))
}

fn library() -> &'static Library {
    static LIBRARY: OnceLock<Library> = OnceLock::new();
    LIBRARY.get_or_init(|| {
        let test = std::env::current_exe().unwrap();
        let path = test.ancestors().nth(2).unwrap().join("examples/libcuda.so");
        // SAFETY: our own library, whose loading runs no code of its own.
        unsafe { Library::new(&path) }.unwrap_or_else(|why| panic!("{why}; cargo build --example cuda makes it"))
    })
}

/// Bytes that differ from block to block and from byte to byte.
pub fn pattern(len: usize) -> Vec<u8> {
    (0..len).map(|at| (at / 4096 * 31 + at % 251 + 1) as u8).collect()
}

/// A file on a file system that can be read directly, or why there is none here.
pub struct Sample {
    pub file: File,
    pub path: tempfile::TempPath,
    pub bytes: Vec<u8>,
}

impl Sample {
    pub fn new(len: usize) -> Option<Sample> {
        for folder in [env!("CARGO_TARGET_TMPDIR"), "/var/tmp", "/tmp"] {
            if let Some(sample) = Sample::within(Path::new(folder), len) {
                return Some(sample);
            }
        }
        eprintln!("skipped: no folder here on a file system that cuFile would read directly");
        None
    }

    fn within(folder: &Path, len: usize) -> Option<Sample> {
        let mut file = tempfile::NamedTempFile::new_in(folder).ok()?;
        if is_tmpfs_or_overlay(file.as_file()) {
            return None;
        }
        let bytes = pattern(len);
        file.write_all(&bytes).unwrap();
        let path = file.into_temp_path();
        let file = open(&path, O_DIRECT).ok()?;
        Some(Sample { file, path, bytes })
    }

    pub fn fd(&self) -> i32 {
        self.file.as_raw_fd()
    }
}

pub fn open(path: &Path, flags: i32) -> std::io::Result<File> {
    File::options().read(true).custom_flags(flags).open(path)
}

pub fn is_tmpfs_or_overlay(file: &File) -> bool {
    use nix::libc::{OVERLAYFS_SUPER_MAGIC, TMPFS_MAGIC, fstatfs, statfs};
    // SAFETY: plain numbers, for which zero is a value; the kernel fills it.
    let mut about: statfs = unsafe { std::mem::zeroed() };
    // SAFETY: a place of our own.
    assert_eq!(unsafe { fstatfs(file.as_raw_fd(), &mut about) }, 0);
    matches!(about.f_type, TMPFS_MAGIC | OVERLAYFS_SUPER_MAGIC)
}
