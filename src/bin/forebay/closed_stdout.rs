//! Whether stdout was closed when the command was started. Rust's runtime opens `/dev/null` in place of a closed stdout before
//! `main`, and nothing tells it from one that was asked for: so the descriptor is checked before the runtime starts.
#![allow(unsafe_code)]

use std::sync::atomic::{AtomicBool, Ordering};

use nix::libc;

use crate::failure::{Failure, Outcome};

static WAS_CLOSED: AtomicBool = AtomicBool::new(false);

// SAFETY: `.init_array` holds pointers to functions of the C ABI, which the dynamic loader calls once, before `main`; what it
// passes to them beyond their parameters is ignored.
#[used]
#[unsafe(link_section = ".init_array")]
static CHECK: extern "C" fn() = check;

extern "C" fn check() {
    // SAFETY: F_GETFD takes no pointer and changes nothing.
    let answer = unsafe { libc::fcntl(libc::STDOUT_FILENO, libc::F_GETFD) };
    WAS_CLOSED.store(answer == -1, Ordering::Relaxed);
}

/// Every command prints its result: one that cannot is refused before it does anything.
pub fn refuse() -> Outcome {
    match WAS_CLOSED.load(Ordering::Relaxed) {
        true => Err(Failure::Error("stdout: it is closed; redirect it to a file, or to /dev/null".to_owned())),
        false => Ok(()),
    }
}
