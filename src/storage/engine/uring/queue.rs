//! What a worker does with its ring's queues, by the ring's kind.

use std::io;
use std::time::{Duration, Instant};

use io_uring::{IoUring, squeue, types};
use nix::libc;

/// Puts a read, or the wake-up, into the submission queue.
pub(super) fn push(ring: &mut IoUring, entry: &squeue::Entry) {
    loop {
        // SAFETY: a read's memory is a part of a slot, whose request the job in `Worker::jobs` keeps alive until the
        // answer is taken (or for ever, see `Worker::drop`); its descriptor is kept open by the job too, or is a fixed
        // file of this ring. The bell's memory and descriptor are fields of the worker.
        if unsafe { ring.submission().push(entry) }.is_ok() {
            return;
        }
        // The queue holds every read that can be under way, so only a kernel thread that lags behind fills it.
        let _ = ring.submit();
        if ring.params().is_setup_sqpoll() {
            let _ = ring.submitter().squeue_wait();
        }
    }
}

/// Submits, and has the kernel work off what it has finished, without waiting.
pub(super) fn poll_once(ring: &mut IoUring) -> io::Result<()> {
    const GETEVENTS: u32 = 1;
    if ring.params().is_setup_sqpoll() {
        return ring.submit().map(drop);
    }
    let waiting = ring.submission().len() as u32;
    // SAFETY: no argument is passed.
    unsafe { ring.submitter().enter::<libc::sigset_t>(waiting, 0, GETEVENTS, None) }.map(drop)
}

/// Submits, and sleeps until something is answered or `due` has come.
pub(super) fn wait_until(ring: &IoUring, due: Instant) -> io::Result<()> {
    let left = due.saturating_duration_since(Instant::now());
    if !ring.params().is_feature_ext_arg() {
        ring.submit()?;
        std::thread::sleep(left.min(Duration::from_millis(1)));
        return Ok(());
    }
    let left = types::Timespec::from(left);
    match ring.submitter().submit_with_args(1, &types::SubmitArgs::new().timespec(&left)) {
        Err(error) if error.raw_os_error() == Some(libc::ETIME) => Ok(()),
        waited => waited.map(drop),
    }
}
