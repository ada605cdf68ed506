//! What every export asks first: whose process this is, what the script wants, whether the driver is open.

use super::abi::{CUDA_ERROR_INVALID_CONTEXT, CUDA_ERROR_NOT_INITIALIZED, Status, code};
use super::state;
use crate::script::Verdict;
use crate::{context, process, script, violations};
use nix::libc;

/// Lets a call in that needs no open driver. `Some` is the most bytes the script lets it move.
pub fn enter(name: &'static str) -> Result<Option<u64>, Status> {
    // Asked before any lock is taken: in a forked child a lock may be held by a thread that no longer exists.
    if !process::is_ours() {
        return Err(Status::cuda(CUDA_ERROR_NOT_INITIALIZED));
    }
    match script::begin(name) {
        Verdict::Go => Ok(None),
        Verdict::Short(most) => Ok(Some(most)),
        Verdict::Fail(code) => Err(Status::of(code)),
    }
}

/// Lets a call in that needs an open driver.
pub fn enter_open(name: &'static str) -> Result<Option<u64>, Status> {
    let most = enter(name)?;
    if state::lock().open { Ok(most) } else { Err(Status::of(code::DRIVER_NOT_INITIALIZED)) }
}

/// The device whose context is current on this thread and in good health; to have none is a mistake.
pub fn current_device(name: &str) -> Result<usize, Status> {
    let device = context::current().ok_or_else(|| {
        violations::report(format!("{name}: no context is current on this thread"));
        Status::cuda(CUDA_ERROR_INVALID_CONTEXT)
    })?;
    context::health(device).map_err(Status::cuda)?;
    Ok(device)
}

/// A failure as the calls that return a size give it: a code of cuFile negated, or -1 and `errno`.
pub fn negative(code: i32) -> isize {
    if code >= 5000 {
        return -(code as isize);
    }
    // SAFETY: the C library's `errno` of this thread may always be written.
    unsafe { *libc::__errno_location() = code };
    -1
}

/// The outcome as a status.
pub fn answer(result: Result<(), Status>) -> Status {
    match result {
        Ok(()) => super::abi::SUCCESS,
        Err(status) => status,
    }
}

/// `pointer` where it is not null.
pub fn not_null<T>(pointer: *mut T) -> Result<*mut T, Status> {
    if pointer.is_null() { Err(Status::of(code::INVALID_VALUE)) } else { Ok(pointer) }
}
