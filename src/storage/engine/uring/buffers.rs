//! The arena as a ring's fixed buffers: registered as it grows, by the ring's thread, when it first meets a part there.

use std::io;
use std::ptr::NonNull;

use io_uring::Submitter;
use nix::libc;

use crate::memory::Arena;
use crate::sys::{limits, process};
use crate::units::Size;

/// The kernel takes no larger buffer.
const SEGMENT: usize = 1 << 30;

/// As many buffers as the kernel registers.
const MOST: usize = 1 << 14;

/// An arena as far as it is registered, with one ring or two that share it. The rings keep its pages pinned; this keeps them
/// mapped.
#[derive(Debug)]
pub(super) struct Buffers {
    arena: Arena,
    /// Where each buffer ends, in bytes from the arena's start: by number, each begins where the one before ends.
    ends: Vec<usize>,
    /// Room in the rings' tables.
    places: usize,
    /// One was refused, and no more are tried.
    refused: bool,
    warns: bool,
}

impl Buffers {
    /// Registers what is touched of the arena by now, in a table with room for all. `warns` says whether it says so where the
    /// kernel refuses more later.
    pub(super) fn register(submitter: &Submitter<'_>, arena: &Arena, warns: bool) -> io::Result<Self> {
        let places = places(arena.budget());
        make_table(submitter, places)?;
        let mut buffers =
            Self { arena: arena.clone(), ends: Vec::with_capacity(places), places, refused: false, warns };
        buffers.grow(&[submitter])?;
        Ok(buffers)
    }

    /// Registers the same buffers with a second ring.
    pub(super) fn register_too(&self, submitter: &Submitter<'_>) -> io::Result<()> {
        make_table(submitter, self.places)?;
        let mut start = 0;
        for (number, &end) in self.ends.iter().enumerate() {
            self.put(submitter, number, start, end)?;
            start = end;
        }
        Ok(())
    }

    /// The buffer that holds `len` bytes from `address` on, registered now with all of `submitters` where it is not yet; `None`
    /// where no single one does. A read that was cut there might end inside a block.
    pub(super) fn find(&mut self, address: NonNull<u8>, len: usize, submitters: &[&Submitter<'_>]) -> Option<u16> {
        let (base, _) = self.arena.touched_span();
        let start = address.as_ptr() as usize - base.as_ptr() as usize;
        let end = start + len;
        if end > self.registered()
            && !self.refused
            && let Err(error) = self.grow(submitters)
        {
            self.refuse(&error);
        }
        let number = self.ends.partition_point(|&end| end <= start);
        self.ends.get(number).filter(|&&holds| end <= holds).map(|_| number as u16)
    }

    fn registered(&self) -> usize {
        self.ends.last().copied().unwrap_or(0)
    }

    /// Registers what was touched meanwhile.
    fn grow(&mut self, submitters: &[&Submitter<'_>]) -> io::Result<()> {
        let (_, touched) = self.arena.touched_span();
        while self.registered() < touched {
            let (number, start) = (self.ends.len(), self.registered());
            let end = touched.min(start + SEGMENT);
            if number == self.places {
                return Err(io::Error::other("the table of buffers is full"));
            }
            for submitter in submitters {
                self.put(submitter, number, start, end)?;
            }
            self.ends.push(end);
        }
        Ok(())
    }

    fn put(&self, submitter: &Submitter<'_>, number: usize, start: usize, end: usize) -> io::Result<()> {
        let (base, _) = self.arena.touched_span();
        let buffer = libc::iovec { iov_base: base.as_ptr().wrapping_add(start).cast(), iov_len: end - start };
        // SAFETY: the buffer lies in the arena's mapping, which stays until the handle in `Self` is dropped, and the worker
        // drops that after its rings. It takes an empty place of the table.
        unsafe { submitter.register_buffers_update(number as u32, &[buffer], None) }
    }

    fn refuse(&mut self, error: &io::Error) {
        self.refused = true;
        if self.warns {
            warn(error, &format!(" beyond the first {}", Size(self.registered() as u64)), &self.arena);
        }
    }
}

/// Says that an arena, or the rest of it, is not registered.
pub(super) fn warn(error: &io::Error, which: &str, arena: &Arena) {
    tracing::warn!(
        "io_uring runs without registered buffers{which}, which costs some speed: {error}; {}",
        registration_fix(error, arena.budget())
    );
}

/// What to do where `bytes` of memory could not be registered. Pages beyond the limit are ENOMEM, as too little memory is.
fn registration_fix(error: &io::Error, bytes: u64) -> String {
    match (error.raw_os_error(), limits::locked_memory()) {
        (Some(libc::ENOMEM), Some(limit)) => format!(
            "RLIMIT_MEMLOCK is {} and the arena {}: raise it with `ulimit -l`, or lower the budget",
            Size(limit),
            Size(bytes)
        ),
        (Some(libc::ENOMEM), None) => format!("free memory, or lower the budget, which is {}", Size(bytes)),
        (Some(libc::EPERM | libc::EACCES | libc::ENOSYS), _) => process::forbidden("io_uring_register"),
        _ => "see the kernel log, or lower the budget".into(),
    }
}

/// Enough for an arena that grows by its usual steps, and then some: where memory is short they are smaller.
fn places(budget: u64) -> usize {
    const STEP: u64 = 64 << 20;
    const FIRST: u64 = 64;
    (budget / STEP + FIRST).min(MOST as u64) as usize
}

/// A table of empty places. Before Linux 5.19 it is made of buffers that are none, and before 5.13 not at all.
fn make_table(submitter: &Submitter<'_>, places: usize) -> io::Result<()> {
    let empty = libc::iovec { iov_base: std::ptr::null_mut(), iov_len: 0 };
    submitter.register_buffers_sparse(places as u32).or_else(|error| match error.raw_os_error() {
        // SAFETY: they refer to no memory.
        Some(libc::EINVAL) => unsafe { submitter.register_buffers(&vec![empty; places]) },
        _ => Err(error),
    })
}
