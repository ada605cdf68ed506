//! Aligned host memory that bytes pass through, and the system calls that move them. Descriptors are opened with
//! `O_DIRECT` as a rule, so every read is widened to whole blocks.

use nix::libc;
use std::alloc::{Layout, alloc, dealloc};

/// Blocks are 4 KiB nearly everywhere; a device of larger ones refuses those with `EINVAL`.
const BLOCKS: [u64; 2] = [4096, 65536];

/// Host memory for one piece of a transfer.
#[derive(Debug)]
pub struct Slab {
    memory: *mut u8,
}

impl Slab {
    /// The longest piece, in bytes.
    pub const MOST: usize = 1 << 20;
    /// Room for a piece widened at both ends.
    const ROOM: usize = Slab::MOST + 2 * 65536;

    pub fn new() -> Slab {
        // SAFETY: the layout is not of size 0.
        Slab { memory: Slab::layout().map_or(std::ptr::null_mut(), |layout| unsafe { alloc(layout) }) }
    }

    /// Up to `wanted` bytes (at most [`Slab::MOST`]) at `offset`, fewer at the end of the file.
    pub fn read(&mut self, fd: i32, offset: u64, wanted: usize) -> Result<&[u8], i32> {
        if self.memory.is_null() {
            return Err(libc::ENOMEM);
        }
        let mut refused = libc::EINVAL;
        for block in BLOCKS {
            match self.read_blocks(fd, offset, wanted, block) {
                Ok((skip, len)) => {
                    // SAFETY: `read_blocks` filled `skip + len` bytes of this memory.
                    return Ok(unsafe { std::slice::from_raw_parts(self.memory.add(skip), len) });
                }
                Err(libc::EINVAL) => refused = libc::EINVAL,
                Err(error) => return Err(error),
            }
        }
        Err(refused)
    }

    /// Where the wanted bytes begin in this memory, and how many there are.
    fn read_blocks(&mut self, fd: i32, offset: u64, wanted: usize, block: u64) -> Result<(usize, usize), i32> {
        let start = offset / block * block;
        let skip = (offset - start) as usize;
        let span = (skip + wanted.min(Slab::MOST)).next_multiple_of(block as usize);
        let mut filled = 0;
        while filled < span {
            let at = (start as i64).checked_add(filled as i64).ok_or(libc::EINVAL)?;
            // SAFETY: `span` is within this memory's room, and `filled` within `span`.
            let got = unsafe { libc::pread(fd, self.memory.add(filled).cast(), span - filled, at) };
            if got < 0 {
                match last_error() {
                    libc::EINTR => continue,
                    // An odd end of file was reached by a direct read, from where no further one may begin.
                    libc::EINVAL if filled % block as usize != 0 => break,
                    error => return Err(error),
                }
            }
            if got == 0 {
                break;
            }
            filled += got as usize;
        }
        Ok((skip.min(filled), filled.saturating_sub(skip).min(wanted)))
    }

    /// Writes them all, through the page cache: a direct write of odd length would need what is around it.
    pub fn write(&mut self, fd: i32, offset: u64, bytes: &[u8]) -> Result<usize, i32> {
        use std::os::unix::fs::FileExt;
        // SAFETY: asks for flags of a descriptor; any number is answered.
        let flags = unsafe { libc::fcntl(fd, libc::F_GETFL) };
        if flags & libc::O_ACCMODE == libc::O_RDONLY {
            return Err(libc::EBADF);
        }
        let file = std::fs::OpenOptions::new().write(true).open(format!("/proc/self/fd/{fd}"));
        let written = file.and_then(|file| file.write_all_at(bytes, offset));
        written.map(|()| bytes.len()).map_err(|error| error.raw_os_error().unwrap_or(libc::EIO))
    }

    fn layout() -> Option<Layout> {
        Layout::from_size_align(Slab::ROOM, 65536).ok()
    }
}

impl Drop for Slab {
    fn drop(&mut self) {
        if let (false, Some(layout)) = (self.memory.is_null(), Slab::layout()) {
            // SAFETY: allocated with this layout, and not used after.
            unsafe { dealloc(self.memory, layout) };
        }
    }
}

fn last_error() -> i32 {
    std::io::Error::last_os_error().raw_os_error().unwrap_or(libc::EIO)
}
