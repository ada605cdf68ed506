//! A device's address space: addresses that fault when the host touches them, and beside them the shadow, where the
//! bytes are. Both are address space alone until something is allocated in them.
use std::ffi::c_void;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::ptr;
use std::sync::OnceLock;

use nix::libc;

/// What fresh device memory holds.
const FRESH: u8 = 0xa5;
/// What memory holds that was freed while an operation still used it.
const FREED: u8 = 0xdf;
/// Poison is mapped from files of this size, copied on write: a large allocation costs only what is written to it.
const POISON: usize = 4 << 20;
/// More addresses than memory, so that a freed address is not soon used again.
const ROOM: usize = 4;
const PAGE: usize = 4096;
/// Between allocations, so that running over one does not reach the next.
const GAP: usize = 64 << 10;

#[derive(Debug)]
pub struct Space {
    base: usize,
    shadow: usize,
    size: usize,
    /// Where the next allocation is tried.
    next: usize,
}

impl Space {
    pub fn reserve(memory: usize) -> Option<Space> {
        let size = memory.checked_mul(ROOM)?.max(1 << 30);
        Some(Space { base: reserve(size)?, shadow: reserve(size)?, size, next: 0 })
    }

    pub fn contains(&self, ptr: u64) -> bool {
        (self.base as u64..(self.base + self.size) as u64).contains(&ptr)
    }

    /// Makes room of so many bytes and says where: the device pointer and its shadow. `taken` gives the end of an
    /// allocation that overlaps a range of pointers.
    pub fn place(&mut self, len: usize, taken: impl Fn(u64, u64) -> Option<u64>) -> Option<(u64, *mut u8)> {
        let room = len.checked_next_multiple_of(GAP)?.checked_add(GAP)?;
        let mut wrapped = false;
        let mut at = self.next;
        loop {
            if at.checked_add(room)? > self.size {
                if wrapped {
                    return None;
                }
                (wrapped, at) = (true, 0);
            }
            let start = (self.base + at) as u64;
            match taken(start, start + room as u64) {
                Some(end) => at = (end as usize - self.base).next_multiple_of(GAP),
                None => break,
            }
        }
        self.next = at + room;
        // Small allocations are not page-aligned on the real thing either.
        let inset = if len < 1 << 20 { 512 } else { 0 };
        let shadow = (self.shadow + at) as *mut u8;
        poison(shadow, len + inset, FRESH).then(|| ((self.base + at + inset) as u64, shadow.wrapping_add(inset)))
    }

    /// Takes back the room of an allocation. What is still in use stays, poisoned.
    pub fn vacate(shadow: *mut u8, len: usize, in_use: bool) {
        let (start, len) = pages(shadow as usize, len);
        if in_use {
            poison(start as *mut u8, len, FREED);
        } else {
            // SAFETY: the pages are this shadow's own and no operation uses them.
            unsafe { libc::mmap(start as *mut c_void, len, libc::PROT_NONE, RESERVED | libc::MAP_FIXED, -1, 0) };
        }
    }
}

const RESERVED: i32 = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;

fn reserve(size: usize) -> Option<usize> {
    // SAFETY: a new mapping, at an address that the kernel chooses.
    let start = unsafe { libc::mmap(ptr::null_mut(), size, libc::PROT_NONE, RESERVED, -1, 0) };
    (start != libc::MAP_FAILED).then_some(start as usize)
}

/// Maps poison over the pages of a piece of shadow.
fn poison(start: *mut u8, len: usize, byte: u8) -> bool {
    static FILES: [OnceLock<Option<OwnedFd>>; 2] = [OnceLock::new(), OnceLock::new()];
    let Some(file) = FILES[usize::from(byte == FREED)].get_or_init(|| poison_file(byte)) else { return false };
    let (start, len) = pages(start as usize, len);
    (0..len).step_by(POISON).all(|done| {
        let (at, size) = ((start + done) as *mut c_void, POISON.min(len - done));
        let access = libc::PROT_READ | libc::PROT_WRITE;
        let flags = libc::MAP_PRIVATE | libc::MAP_FIXED | libc::MAP_NORESERVE;
        // SAFETY: the range is within a shadow, which is this module's own, and the file is as long as the mapping.
        unsafe { libc::mmap(at, size, access, flags, file.as_raw_fd(), 0) != libc::MAP_FAILED }
    })
}

fn poison_file(byte: u8) -> Option<OwnedFd> {
    // SAFETY: the name is a C string; a descriptor that is not negative is new and nobody else's.
    let file = unsafe {
        let raw = libc::memfd_create(c"emulator-poison".as_ptr(), libc::MFD_CLOEXEC);
        (raw >= 0).then(|| OwnedFd::from_raw_fd(raw))?
    };
    let chunk = vec![byte; POISON];
    let mut done = 0;
    while done < POISON {
        // SAFETY: the rest of the vector is as long as we say.
        let n = unsafe { libc::write(file.as_raw_fd(), chunk.as_ptr().add(done).cast(), POISON - done) };
        done += usize::try_from(n).ok().filter(|&n| n > 0)?;
    }
    Some(file)
}

fn pages(start: usize, len: usize) -> (usize, usize) {
    let first = start & !(PAGE - 1);
    (first, (start + len).next_multiple_of(PAGE) - first)
}

/// Whether all of it is mapped in this process, so that touching it does not end the process.
pub fn is_mapped(start: usize, len: usize) -> bool {
    let (start, len) = pages(start, len);
    // SAFETY: MS_ASYNC starts nothing: the call only walks the range and tells whether a page of it is not mapped.
    len == 0 || unsafe { libc::msync(start as *mut c_void, len, libc::MS_ASYNC) == 0 }
}
