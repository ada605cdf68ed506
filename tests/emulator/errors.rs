//! cuGetErrorName and cuGetErrorString.
use std::ffi::{CStr, c_char};

use crate::call::{Answer, early, put};
use crate::{codes, process};

fn tell(code: i32, to: *mut *const c_char, which: fn((&'static CStr, &'static CStr)) -> &'static CStr) -> Answer {
    match codes::told(code) {
        Some(names) => put(to, which(names).as_ptr()),
        None => {
            put(to, std::ptr::null())?;
            Err(codes::INVALID_VALUE)
        }
    }
}

/// In a forked child too: somebody has to say what went wrong there.
fn anywhere(name: &'static str, body: impl FnOnce() -> Answer) -> i32 {
    if process::is_ours() { early(name, body) } else { body().err().unwrap_or(0) }
}

#[unsafe(no_mangle)]
extern "C" fn cuGetErrorName(code: i32, name: *mut *const c_char) -> i32 {
    anywhere("cuGetErrorName", || tell(code, name, |(name, _)| name))
}

#[unsafe(no_mangle)]
extern "C" fn cuGetErrorString(code: i32, text: *mut *const c_char) -> i32 {
    anywhere("cuGetErrorString", || tell(code, text, |(_, text)| text))
}
