//! Building a ring with the best flags that the kernel takes, tried by doing.

use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::ptr;
use std::time::Duration;

use io_uring::{IoUring, opcode, squeue, types};
use nix::sys::eventfd::{EfdFlags, EventFd};

use super::super::{EngineError, EngineKind, EngineStep};
use super::UringSettings;
use super::buffers::{self, Buffers};
use crate::memory::Arena;

/// What a ring turned out to have.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct RingFeatures {
    /// `IORING_SETUP_SINGLE_ISSUER`: one thread submits.
    pub single_issuer: bool,
    /// `IORING_SETUP_DEFER_TASKRUN`: completions are worked off when that thread asks for them.
    pub defer_taskrun: bool,
    /// `IORING_SETUP_COOP_TASKRUN`: completions do not interrupt that thread.
    pub coop_taskrun: bool,
    /// `IORING_SETUP_SQPOLL`: a kernel thread submits.
    pub sqpoll: bool,
    /// A second ring polls for completions of direct reads (`IORING_SETUP_IOPOLL`).
    pub iopoll: bool,
    /// The arena is registered as far as it was touched when the reader was built, so that the kernel need not pin its pages for each
    /// read; so is what it grows by, unless a warning says that the kernel refused that.
    pub fixed_buffers: bool,
    /// The error number with which the kernel refused to register the arena; `None` where it was registered, or not tried.
    pub fixed_buffers_error: Option<i32>,
    /// Files can be registered, so that the kernel need not look them up for each read.
    pub fixed_files: bool,
}

/// Builds a ring with room for `depth` reads and the wake-up, on the thread that will own it.
pub(super) fn ring(settings: &UringSettings) -> Result<(IoUring, RingFeatures), EngineError> {
    let entries = (settings.depth + 1).next_power_of_two();
    let mut last = io::Error::from(io::ErrorKind::Unsupported);
    for features in wishes(settings.sqpoll) {
        // A read by itself: that it is unknown must not be taken for an unknown flag of the ring.
        match build(entries, features, settings.sqpoll).and_then(try_out) {
            Ok(ring) => return Ok((read_once(ring, settings)?, features)),
            Err(error) => {
                // An unknown flag is EINVAL: a plainer ring may do. Anything else plainness does not mend.
                let unknown = error.kind() == io::ErrorKind::InvalidInput;
                last = error;
                if !unknown {
                    break;
                }
            }
        }
    }
    Err(EngineError::Refused { kind: EngineKind::Uring, step: EngineStep::Ring, error: last })
}

/// A second ring for polled reads, which cannot serve anything else.
fn polled_ring(depth: u32) -> io::Result<IoUring> {
    let mut builder = IoUring::builder();
    builder.dontfork().setup_single_issuer().setup_defer_taskrun().setup_iopoll();
    builder.build(depth.next_power_of_two()).or_else(|_| IoUring::builder().dontfork().setup_iopoll().build(depth))
}

/// Registers the arena as far as it is touched, which the ring can do without; `None` in place of an error where it was not
/// tried.
pub(super) fn registered(ring: &IoUring, arena: &Arena, warns: bool) -> Result<Buffers, Option<i32>> {
    if !arena.is_touched() {
        return Err(None);
    }
    match Buffers::register(&ring.submitter(), arena, warns) {
        Ok(buffers) => Ok(buffers),
        Err(error) => {
            if warns {
                buffers::warn(&error, "", arena);
            }
            Err(error.raw_os_error())
        }
    }
}

/// A ring for polled reads with the same memory, or nothing, which is said aloud.
pub(super) fn polled(depth: u32, buffers: Option<&Buffers>, warns: bool) -> Option<IoUring> {
    let ring = polled_ring(depth).and_then(|ring| {
        if let Some(buffers) = buffers {
            buffers.register_too(&ring.submitter())?;
        }
        Ok(ring)
    });
    match ring {
        Ok(ring) => Some(ring),
        Err(error) => {
            if warns {
                tracing::warn!("polled reads cannot be had: {error}; the ring waits for interrupts instead");
            }
            None
        }
    }
}

/// From the best to the plainest.
fn wishes(sqpoll: Option<Duration>) -> Vec<RingFeatures> {
    let plain = RingFeatures { sqpoll: sqpoll.is_some(), ..RingFeatures::default() };
    let single = RingFeatures { single_issuer: true, ..plain };
    let coop = RingFeatures { coop_taskrun: true, ..plain };
    match sqpoll {
        // The kernel thread does the work that the other flags are about.
        Some(_) => vec![single, plain],
        None => vec![RingFeatures { defer_taskrun: true, coop_taskrun: true, ..single }, coop, plain],
    }
}

fn build(entries: u32, features: RingFeatures, sqpoll: Option<Duration>) -> io::Result<IoUring> {
    let mut builder = IoUring::builder();
    builder.dontfork();
    if features.single_issuer {
        builder.setup_single_issuer();
    }
    if features.defer_taskrun {
        builder.setup_defer_taskrun();
    }
    if features.coop_taskrun {
        builder.setup_coop_taskrun();
    }
    if let Some(idle) = sqpoll {
        builder.setup_sqpoll(u32::try_from(idle.as_millis()).unwrap_or(u32::MAX));
    }
    builder.build(entries)
}

/// One operation that does nothing: a ring can be built and still be of no use, as under a filter that lets only the
/// set-up through.
fn try_out(mut ring: IoUring) -> io::Result<IoUring> {
    // SAFETY: a nop refers to no memory.
    match unsafe { carry_out(&mut ring, &opcode::Nop::new().build()) }? {
        0 => Ok(ring),
        answer => Err(io::Error::from_raw_os_error(answer.saturating_neg())),
    }
}

/// The operation that reads are made of, which some kernels with rings do not know, on an eventfd like the one that wakes the
/// ring's thread.
fn read_once(mut ring: IoUring, settings: &UringSettings) -> Result<IoUring, EngineError> {
    let refused = |step, error| EngineError::Refused { kind: EngineKind::Uring, step, error };
    let eventfd = EventFd::from_value_and_flags(1, EfdFlags::EFD_CLOEXEC)
        .map_err(|errno| refused(EngineStep::Eventfd, errno.into()))?;
    // Leaked if the ring fails: the kernel may still write to it.
    let heard = Box::leak(Box::new(0_u64));
    let read = opcode::Read::new(types::Fd(eventfd.as_fd().as_raw_fd()), ptr::from_mut(heard).cast(), 8).build();
    // SAFETY: `heard` is never freed while the kernel may write to it, and not touched before it has answered.
    let answer = unsafe { carry_out(&mut ring, &read) }.map_err(|error| refused(EngineStep::Read, error))?;
    // SAFETY: it came from a box, and the kernel has answered the one operation that wrote to it.
    let heard = unsafe { Box::from_raw(heard) };
    #[cfg(test)]
    let answer = settings.faults.as_ref().and_then(|faults| faults.first_read()).unwrap_or(answer);
    let _ = settings;
    match answer {
        8 if *heard == 1 => Ok(ring),
        answer if answer < 0 => Err(refused(EngineStep::Read, io::Error::from_raw_os_error(answer.saturating_neg()))),
        _ => Err(refused(EngineStep::Read, io::Error::other("it read something else"))),
    }
}

/// The kernel's answer to one operation of a ring that has no other.
///
/// # Safety
/// What the operation refers to must stay valid until the kernel has answered: for ever, if this fails.
unsafe fn carry_out(ring: &mut IoUring, entry: &squeue::Entry) -> io::Result<i32> {
    const TRIAL: u64 = 7;
    // SAFETY: the caller's promise.
    unsafe { ring.submission().push(&entry.clone().user_data(TRIAL)) }.map_err(io::Error::other)?;
    loop {
        match ring.submit_and_wait(1) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
            Ok(_) => break,
        }
    }
    match ring.completion().next() {
        Some(answer) if answer.user_data() == TRIAL => Ok(answer.result()),
        _ => Err(io::Error::other("the ring does not answer")),
    }
}
