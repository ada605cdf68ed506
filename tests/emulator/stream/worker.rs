//! A stream's thread.
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::Duration;

use nix::libc;

use super::{Entry, IN_FLIGHT, Kind, Stream};
use crate::call::{Answer, under};
use crate::script::{self, Verdict};
use crate::sync::{lock, wait};
use crate::{codes, context, link};

/// Starts the thread of a stream. It takes no signals: those are for the program's own threads.
pub fn start(stream: Arc<Stream>) -> Answer {
    // SAFETY: both sets are plain data that the calls fill; the mask of this thread is put back as it was.
    unsafe {
        let mut every: libc::sigset_t = std::mem::zeroed();
        let mut before: libc::sigset_t = std::mem::zeroed();
        libc::sigfillset(&mut every);
        libc::pthread_sigmask(libc::SIG_SETMASK, &every, &mut before);
        let started = thread::Builder::new().name("emulated-stream".into()).spawn(move || work(&stream));
        libc::pthread_sigmask(libc::SIG_SETMASK, &before, std::ptr::null_mut());
        started.map(drop).map_err(|_| codes::OUT_OF_MEMORY)
    }
}

fn work(stream: &Stream) {
    // SAFETY: the call takes a number. Without it each sleep of the link's model ends some 50 us late.
    unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, 1) };
    let seed = (script::SEED.get() as u64).wrapping_add(stream.id as u64);
    let mut random = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    while let Some(entry) = next(stream) {
        let kind = entry.kind;
        link::not_before(entry.queued);
        if kind == Kind::Work {
            be_late(&mut random);
        }
        run(stream, entry);
        if kind == Kind::Work {
            IN_FLIGHT.fetch_sub(1, Ordering::AcqRel);
        }
        lock(&stream.state).done += 1;
        stream.changed.notify_all();
    }
}

/// The next in the queue; None when the stream was destroyed and all of it is done.
fn next(stream: &Stream) -> Option<Entry> {
    let mut state = lock(&stream.state);
    loop {
        if let Some(entry) = state.queue.pop_front() {
            return Some(entry);
        }
        if state.closed {
            return None;
        }
        state = wait(&stream.changed, state);
    }
}

fn be_late(random: &mut u64) {
    while script::PAUSED.is_on() {
        thread::sleep(Duration::from_millis(1));
    }
    let most = script::JITTER_US.get() as u64;
    if most > 0 {
        *random ^= *random << 13;
        *random ^= *random >> 7;
        *random ^= *random << 17;
        link::delay(Duration::from_micros(*random % (most + 1)));
    }
}

/// Runs it, unless the script or an earlier failure of the device says otherwise; then it is dropped.
fn run(stream: &Stream, entry: Entry) {
    let Entry { what, kind, run, .. } = entry;
    if kind == Kind::Work {
        if let Verdict::Fail(code) = script::begin("execute") {
            context::fail(stream.device, code);
        }
        if context::health(stream.device).is_err() {
            return drop(catch_unwind(AssertUnwindSafe(|| drop(run))));
        }
    }
    let _ = under(what, || {
        run();
        Ok(())
    });
}
