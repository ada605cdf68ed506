//! Tells the tests' stand-in for the driver from the driver, and finds the one that was built beside this program.

use std::ffi::CString;
use std::os::unix::fs::symlink;
use std::path::PathBuf;

use nix::libc;

/// Whether the driver of this process is the stand-in: only that exports `emulator_calls`.
pub fn is_loaded() -> bool {
    ["libcuda.so.1", "libcuda.so"].iter().any(|name| {
        let name = CString::new(*name).unwrap_or_default();
        // SAFETY: the name is a C string; without loading anything the call gives a handle to what is loaded already.
        let library = unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_NOLOAD | libc::RTLD_LAZY) };
        if library.is_null() {
            return false;
        }
        // SAFETY: the handle is of a library that stays loaded, and the symbol is only looked for.
        unsafe { !libc::dlsym(library, c"emulator_calls".as_ptr()).is_null() }
    })
}

/// A folder in which the loader finds the stand-in under the names of the real libraries.
pub fn folder() -> Result<tempfile::TempDir, String> {
    let me = std::env::current_exe().map_err(|e| format!("own program: {e}"))?;
    let beside = |folder: &str| Some(me.parent()?.parent()?.join(folder).join("libcuda.so"));
    let library: PathBuf = beside("examples")
        .filter(|path| path.exists())
        .ok_or("the stand-in for the driver is not built: cargo build --release --example cuda")?;
    let dir = tempfile::Builder::new().prefix("forebay-emulator-").tempdir().map_err(|e| e.to_string())?;
    for name in ["libcuda.so", "libcuda.so.1", "libcufile.so.0"] {
        symlink(&library, dir.path().join(name)).map_err(|e| format!("{name}: {e}"))?;
    }
    Ok(dir)
}
