//! A hang is a failure like any other: it must end the test, not the patience of whoever runs it.
//!
//! This is all that tests have clocks for. Nothing here says that something was fast, which a machine that does other things
//! makes wrong: that is counted (`work`), or shown by what comes before what.
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

///
/// Long enough for a disk to take what other tests write meanwhile, which whoever syncs a file waits for.
pub const PATIENCE: Duration = Duration::from_secs(120);
/// A child has watchdogs of its own, which say more about what hangs than killing the child does.
pub const CHILD_PATIENCE: Duration = Duration::from_secs(240);

/// Runs `work` on a thread of its own and panics if it has not ended within `PATIENCE`. The thread is then left
/// behind, so `work` must own what it uses; fixtures stay with the caller, whose unwinding unmounts them.
pub fn guarded<T: Send + 'static>(what: &str, work: impl FnOnce() -> T + Send + 'static) -> T {
    let (done, finished) = mpsc::channel();
    let worker = thread::Builder::new()
        .name(what.chars().take(15).collect())
        .spawn(move || {
            let result = work();
            let _ = done.send(());
            result
        })
        .unwrap();
    match finished.recv_timeout(PATIENCE) {
        Err(mpsc::RecvTimeoutError::Timeout) => panic!("{what}: still running after {PATIENCE:?}"),
        // Sent, or the sender was dropped by a panic in `work`: either way the thread has ended.
        _ => match worker.join() {
            Ok(result) => result,
            Err(panic) => std::panic::resume_unwind(panic),
        },
    }
}

/// Waits until `ready` says so, at most `PATIENCE`; false if it never did.
pub fn eventually(mut ready: impl FnMut() -> bool) -> bool {
    let end = Instant::now() + PATIENCE;
    while !ready() {
        if Instant::now() > end {
            return false;
        }
        thread::sleep(Duration::from_millis(5));
    }
    true
}
