//! How an exported driver function runs: counted, refused in a forked child and before cuInit, and never unwinding into
//! the caller.
use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::script::{self, Verdict};
use crate::stream::capture;
use crate::{codes, process, violations};

/// A driver function's outcome: nothing, or the CUresult that says why not.
pub type Answer<T = ()> = Result<T, i32>;

thread_local! {
    static NAME: Cell<&'static str> = const { Cell::new("?") };
}

/// The name under which host functions run. They may not call the driver: the real one would wait for itself.
pub const HOST_FUNCTION: &str = "a host function";

/// The call being made, or carried out, on this thread.
pub fn name() -> &'static str {
    NAME.try_with(Cell::get).unwrap_or("?")
}

/// For calls that need cuInit first.
pub fn call(name: &'static str, body: impl FnOnce() -> Answer) -> i32 {
    early(name, || {
        if !process::is_initialised() {
            return Err(codes::NOT_INITIALIZED);
        }
        capture::permit(name)?;
        body()
    })
}

/// For calls that may come before cuInit.
pub fn early(name: &'static str, body: impl FnOnce() -> Answer) -> i32 {
    if let Verdict::Fail(code) = script::begin(name) {
        return code;
    }
    if self::name() == HOST_FUNCTION {
        violations::report(format!("{name}: called from a host function"));
        return codes::NOT_PERMITTED;
    }
    under(name, body).err().unwrap_or(0)
}

/// Runs something in a call's name. A panic would abort the process at the border to C.
pub fn under(name: &'static str, body: impl FnOnce() -> Answer) -> Answer {
    let before = NAME.try_with(|cell| cell.replace(name)).unwrap_or("?");
    let result = catch_unwind(AssertUnwindSafe(body)).unwrap_or_else(|_| {
        violations::own(format!("{name}: the emulator panicked"));
        Err(codes::UNKNOWN)
    });
    let _ = NAME.try_with(|cell| cell.set(before));
    result
}

/// Reports a violation in the name of the call under way, and gives the code to answer.
pub fn wrong<T>(code: i32, what: impl std::fmt::Display) -> Answer<T> {
    violations::report(format!("{}: {what}", name()));
    Err(code)
}

/// Writes a result where the caller wants it.
pub fn put<T>(to: *mut T, value: T) -> Answer {
    if to.is_null() {
        return Err(codes::INVALID_VALUE);
    }
    // SAFETY: the driver's contract: the caller gives the address of a variable of this type to write to.
    unsafe { to.write(value) };
    Ok(())
}

/// Writes as much of a text as fits, and the NUL.
pub fn put_text(to: *mut std::ffi::c_char, room: usize, text: &str) -> Answer {
    if to.is_null() || room == 0 {
        return Err(codes::INVALID_VALUE);
    }
    let len = text.len().min(room - 1);
    // SAFETY: the caller gives `room` bytes to write to, and len + 1 is at most that.
    unsafe {
        to.cast::<u8>().copy_from_nonoverlapping(text.as_ptr(), len);
        to.add(len).write(0);
    }
    Ok(())
}
