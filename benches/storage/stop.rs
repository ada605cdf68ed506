//! Ctrl-C and SIGTERM ask for a stop; the guards then unmount and delete what the benchmark made.

use std::sync::atomic::{AtomicBool, Ordering};

use nix::libc;

static STOP: AtomicBool = AtomicBool::new(false);

extern "C" fn remember(_signal: libc::c_int) {
    STOP.store(true, Ordering::Relaxed);
}

/// Makes SIGINT and SIGTERM set a flag instead of ending the process at once.
pub fn watch() {
    for signal in [libc::SIGINT, libc::SIGTERM] {
        let handler: extern "C" fn(libc::c_int) = remember;
        // SAFETY: `remember` only stores into an atomic, which a signal handler may do.
        unsafe { libc::signal(signal, handler as libc::sighandler_t) };
    }
}

/// An error once a stop was asked for; called between runs, each of which lasts seconds.
pub fn check() -> Result<(), String> {
    match STOP.load(Ordering::Relaxed) {
        true => Err("stopped by a signal".into()),
        false => Ok(()),
    }
}
