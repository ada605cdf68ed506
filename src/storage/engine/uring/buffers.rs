//! The arena as a ring's fixed buffers.

use std::io;
use std::ptr::NonNull;

use io_uring::Submitter;
use nix::libc;

use crate::memory::Arena;

/// The kernel takes no larger buffer.
const SEGMENT: usize = 1 << 30;

/// A registered arena. The ring keeps its pages pinned; this keeps them mapped.
#[derive(Debug)]
pub(super) struct Buffers {
    arena: Arena,
}

impl Buffers {
    pub(super) fn register(submitter: &Submitter<'_>, arena: &Arena) -> io::Result<Self> {
        let (base, len) = arena.span();
        let segments: Vec<libc::iovec> = (0..len)
            .step_by(SEGMENT)
            .map(|start| libc::iovec {
                iov_base: base.as_ptr().wrapping_add(start).cast(),
                iov_len: SEGMENT.min(len - start),
            })
            .collect();
        // SAFETY: the segments lie in the arena's mapping, which stays until the handle in `Self` is dropped, and the
        // worker drops that after its ring.
        unsafe { submitter.register_buffers(&segments) }?;
        Ok(Self { arena: arena.clone() })
    }

    /// The buffer that holds `len` bytes from `address` on; `None` where no single one does. A read that was cut there
    /// might end inside a block.
    pub(super) fn find(&self, address: NonNull<u8>, len: usize) -> Option<u16> {
        let (base, _) = self.arena.span();
        let offset = address.as_ptr() as usize - base.as_ptr() as usize;
        let number = offset / SEGMENT;
        // An arena has at most 2^14 segments, as many as the kernel registers.
        (len <= (number + 1) * SEGMENT - offset).then_some(number as u16)
    }
}
