//! One test's turn with the library, a device with a current context, and what most tests do with both.

use crate::abi::{self, Descr, DescrHandle, SUCCESS, Status};
use crate::api::{Api, api};
pub use crate::sample::{O_DIRECT, Page, Sample, is_tmpfs_or_overlay, open};
use std::ffi::{CStr, CString, c_void};
use std::ptr::null_mut;
use std::sync::{Mutex, MutexGuard, PoisonError};

pub const MIB: usize = 1 << 20;

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
            crate::common::skipped::skipped("one device only");
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
