//! What a test may ask: how often, how much, and what is going on now.

use super::state;
use std::ffi::{CStr, c_char};
use std::sync::atomic::{AtomicU64, Ordering};

pub static OPENS: AtomicU64 = AtomicU64::new(0);
pub static HANDLE_REGISTRATIONS: AtomicU64 = AtomicU64::new(0);
pub static BUFFER_REGISTRATIONS: AtomicU64 = AtomicU64::new(0);
pub static READS: AtomicU64 = AtomicU64::new(0);
pub static UNALIGNED: AtomicU64 = AtomicU64::new(0);
pub static UNREGISTERED: AtomicU64 = AtomicU64::new(0);
pub static BYTES_P2P: AtomicU64 = AtomicU64::new(0);
pub static BYTES_NVFS: AtomicU64 = AtomicU64::new(0);
pub static BYTES_POSIX: AtomicU64 = AtomicU64::new(0);
pub static IN_FLIGHT_BATCH: AtomicU64 = AtomicU64::new(0);
pub static IN_FLIGHT_ASYNC: AtomicU64 = AtomicU64::new(0);

pub fn add(counter: &AtomicU64, amount: u64) {
    counter.fetch_add(amount, Ordering::Relaxed);
}

pub fn reset() {
    for counter in [
        &OPENS,
        &HANDLE_REGISTRATIONS,
        &BUFFER_REGISTRATIONS,
        &READS,
        &UNALIGNED,
        &UNREGISTERED,
        &BYTES_P2P,
        &BYTES_NVFS,
        &BYTES_POSIX,
    ] {
        counter.store(0, Ordering::Relaxed);
    }
}

/// One more of something in flight, until dropped.
#[derive(Debug)]
pub struct InFlight(&'static AtomicU64);

impl InFlight {
    /// Also says how many there are now, this one included.
    pub fn begin(counter: &'static AtomicU64) -> (InFlight, u64) {
        let before = counter.fetch_add(1, Ordering::SeqCst);
        (InFlight(counter), before + 1)
    }
}

impl Drop for InFlight {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

/// `u64::MAX` for a name that does not exist, which no test can take for a count.
///
/// # Safety
/// `name` is null or a C string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn emulator_cufile_counter(name: *const c_char) -> u64 {
    if name.is_null() || !crate::process::is_ours() {
        return u64::MAX;
    }
    // SAFETY: a C string by this function's contract.
    let name = unsafe { CStr::from_ptr(name) };
    let counter = match name.to_bytes() {
        b"handles" => return state::lock().handles.len() as u64,
        b"buffers" => return state::lock().buffers.len() as u64,
        b"opens" => &OPENS,
        b"handle_registrations" => &HANDLE_REGISTRATIONS,
        b"buffer_registrations" => &BUFFER_REGISTRATIONS,
        b"reads" => &READS,
        b"unaligned" => &UNALIGNED,
        b"unregistered" => &UNREGISTERED,
        b"bytes_p2p" => &BYTES_P2P,
        b"bytes_nvfs" => &BYTES_NVFS,
        b"bytes_posix" => &BYTES_POSIX,
        b"in_flight_batch" => &IN_FLIGHT_BATCH,
        b"in_flight_async" => &IN_FLIGHT_ASYNC,
        _ => return u64::MAX,
    };
    counter.load(Ordering::SeqCst)
}

/// Forgets everything of cuFile, as if the process had just begun.
#[unsafe(no_mangle)]
pub extern "C" fn emulator_cufile_reset() {
    if crate::process::is_ours() {
        super::reset();
    }
}
