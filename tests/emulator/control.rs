//! What a test asks of the emulator itself, beside the two libraries' own functions.
use std::ffi::{CStr, c_char, c_int, c_void};
use std::fmt::Write;
use std::sync::{Mutex, Once};

use nix::libc;

use crate::sync::lock;
use crate::{event, memory, process, script, stream, violations};

/// What was lost with a context that was released.
static LEAKED: Mutex<Vec<String>> = Mutex::new(Vec::new());

pub fn leaked(what: impl Iterator<Item = String>) {
    lock(&LEAKED).extend(what);
}

fn leaks() -> Vec<String> {
    let mut all = lock(&LEAKED).clone();
    all.extend(memory::alive());
    all.extend(stream::alive(|_| true));
    all.extend(event::alive(|_| true));
    all
}

/// `report=PATH`: what a program cannot be asked after it has ended is written down as it ends.
pub fn report_at_exit() {
    static ONCE: Once = Once::new();
    extern "C" fn report() {
        let Some(path) = script::setting("report").filter(|_| process::is_ours()) else { return };
        let mut text = String::new();
        for (kind, all) in
            [("violation", violations::violations().1), ("note", violations::notes().1), ("leak", leaks())]
        {
            for what in all {
                let _ = writeln!(text, "{kind}: {what}");
            }
        }
        for (name, count) in script::all_calls() {
            let _ = writeln!(text, "calls: {name} {count}");
        }
        if let Err(error) = std::fs::write(&path, text) {
            violations::report(format!("report={path}: {error}"));
        }
    }
    ONCE.call_once(|| {
        // SAFETY: the function takes nothing, does not unwind, and the library is never unloaded.
        unsafe { libc::atexit(report) };
    });
}

/// Takes in more of the script; -1 if it is not understood, which is said on stderr.
#[unsafe(no_mangle)]
extern "C" fn emulator_script(text: *const c_char) -> c_int {
    match read(text).map(|text| script::add(&text)) {
        Some(Ok(())) => 0,
        Some(Err(why)) => {
            violations::report(format!("emulator_script: {why}"));
            -1
        }
        None => -1,
    }
}

/// How often a function was called since the last reset.
#[unsafe(no_mangle)]
extern "C" fn emulator_calls(name: *const c_char) -> u64 {
    read(name).map_or(0, |name| script::calls(&name))
}

#[unsafe(no_mangle)]
extern "C" fn emulator_reset_calls() {
    if process::is_ours() {
        script::reset_calls();
    }
}

/// How many violations there were since the last reset; their messages, a line each, into `text`.
#[unsafe(no_mangle)]
extern "C" fn emulator_violations(text: *mut c_char, room: usize) -> u64 {
    told(text, room, violations::violations)
}

/// As `emulator_violations`, for what is worth seeing and no mistake.
#[unsafe(no_mangle)]
extern "C" fn emulator_notes(text: *mut c_char, room: usize) -> u64 {
    told(text, room, violations::notes)
}

#[unsafe(no_mangle)]
extern "C" fn emulator_reset_violations() {
    if process::is_ours() {
        violations::reset();
    }
}

/// As `emulator_violations`, for what is allocated, registered or created now, or was lost with its context.
#[unsafe(no_mangle)]
extern "C" fn emulator_leaks(text: *mut c_char, room: usize) -> u64 {
    told(text, room, || {
        let all = leaks();
        (all.len() as u64, all)
    })
}

/// Copies device memory out behind all streams' backs; -1 if it is not allocated.
#[unsafe(no_mangle)]
extern "C" fn emulator_read_device(ptr: u64, to: *mut c_void, len: usize) -> c_int {
    if !process::is_ours() || to.is_null() {
        return -1;
    }
    match memory::live_range(ptr, len) {
        Ok(range) => {
            // SAFETY: the range is in a live allocation's shadow, and the test gives room for `len` bytes.
            unsafe { to.cast::<u8>().copy_from_nonoverlapping(range.shadow, range.len) };
            0
        }
        Err(_) => -1,
    }
}

/// Operations queued or running on streams.
#[unsafe(no_mangle)]
extern "C" fn emulator_in_flight() -> u64 {
    stream::in_flight()
}

/// None in a forked child too, where the locks may be held for ever.
fn read(text: *const c_char) -> Option<String> {
    if text.is_null() || !process::is_ours() {
        return None;
    }
    // SAFETY: the test gives a C string.
    let text = unsafe { CStr::from_ptr(text) };
    Some(text.to_string_lossy().into_owned())
}

fn told(text: *mut c_char, room: usize, all: impl FnOnce() -> (u64, Vec<String>)) -> u64 {
    if !process::is_ours() {
        return 0;
    }
    let (count, messages) = all();
    if room > 0 {
        let _ = crate::call::put_text(text, room, &messages.join("\n"));
    }
    count
}
