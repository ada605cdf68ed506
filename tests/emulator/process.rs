//! Whose process this is, and that the library stays in it.
use std::ffi::c_void;
use std::sync::Once;
use std::sync::atomic::{AtomicI32, Ordering};

use nix::libc;

/// The process that called cuInit; 0 before that.
static OWNER: AtomicI32 = AtomicI32::new(0);

/// False in a child that was forked after the driver was initialised: there the driver is dead, and its locks may be
/// held by threads that do not exist.
pub fn is_ours() -> bool {
    let owner = OWNER.load(Ordering::Acquire);
    owner == 0 || owner == pid()
}

pub fn is_initialised() -> bool {
    OWNER.load(Ordering::Acquire) != 0
}

/// cuInit has succeeded here.
pub fn own() {
    OWNER.store(pid(), Ordering::Release);
}

fn pid() -> i32 {
    // SAFETY: getpid takes nothing and cannot fail.
    unsafe { libc::getpid() }
}

/// Keeps the library mapped after its last dlclose: a prober opens and closes it while stream threads run in it.
pub fn stay_loaded() {
    static PINNED: Once = Once::new();
    PINNED.call_once(|| {
        let here = stay_loaded as *const () as *const c_void;
        // SAFETY: Dl_info is plain data; dladdr fills it for an address of this library, and the name it points to is
        // the loader's and lives as long as the library.
        unsafe {
            let mut info: libc::Dl_info = std::mem::zeroed();
            if libc::dladdr(here, &mut info) != 0 && !info.dli_fname.is_null() {
                libc::dlopen(info.dli_fname, libc::RTLD_NOW | libc::RTLD_NOLOAD | libc::RTLD_NODELETE);
            }
        }
    });
}
