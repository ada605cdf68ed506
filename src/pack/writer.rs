//! One file, written once from front to back past the page cache where that can be had.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;

use nix::fcntl::{FallocateFlags, fallocate};
use nix::libc;

use super::error::PackError;
use super::header::BLOCK;
use crate::dataset::{Verified, shown};
use crate::memory::{Arena, Slot};
use crate::sys::limits;
use crate::sys::statfs::{self, FileSystem};
use crate::sys::statx::{self, DirectAlign};
use crate::temporary::Temporary;

/// In the hidden names of files that are not whole.
pub(super) const MAKER: &str = "forebay-pack";

/// Memory for one write at a time, page-aligned.
pub(super) struct Buffer(Slot);

impl Buffer {
    /// What one write takes at most: enough for a drive to work on in parallel.
    const LEN: usize = 8 << 20;

    pub(super) fn new() -> Result<Self, PackError> {
        let slot = Arena::new(Self::LEN as u64)?.loan(Self::LEN)?;
        Ok(Self(pollster::block_on(slot)?))
    }
}

pub(super) struct Writer<'a> {
    temporary: Temporary,
    /// What the file will be called, for errors.
    path: &'a Path,
    file: File,
    /// The same file past the page cache, until that is refused.
    direct: Option<File>,
    buffer: &'a mut Slot,
    filled: usize,
    /// Bytes in the file so far.
    written: u64,
    /// Bytes that it is to have.
    len: u64,
}

/// A file that is whole and synced, without its final name.
pub(super) struct Written {
    pub(super) temporary: Temporary,
    /// Whether all of it was written past the page cache.
    pub(super) direct: bool,
}

impl<'a> Writer<'a> {
    /// A file of `len` bytes that will be called `path`, in the same folder.
    pub(super) fn create(folder: &Path, path: &'a Path, len: u64, buffer: &'a mut Buffer) -> Result<Self, PackError> {
        let failed = |error| PackError::io(path, None, "create a file in its folder", error);
        let temporary = Temporary::create(folder, MAKER).map_err(failed)?;
        let file = temporary.file().and_then(File::try_clone).map_err(failed)?;
        reserve(&file, len).map_err(|error| PackError::io(path, 0, "reserve space for it", error))?;
        let direct = open_direct(&file, &temporary.path());
        Ok(Self { temporary, path, file, direct, buffer: &mut buffer.0, filled: 0, written: 0, len })
    }

    /// Data goes this way: it was checked where the dataset can check it.
    pub(super) fn write_verified(&mut self, bytes: &Verified<&[u8]>) -> Result<(), PackError> {
        self.write(bytes.bytes())
    }

    pub(super) fn write_header(&mut self, header: &[u8]) -> Result<(), PackError> {
        self.write(header)
    }

    fn write(&mut self, mut bytes: &[u8]) -> Result<(), PackError> {
        let sum = self.written.saturating_add(self.filled as u64).saturating_add(bytes.len() as u64);
        if sum > self.len {
            return Err(self.other_length());
        }
        while !bytes.is_empty() {
            let room = self.buffer.len() - self.filled;
            let (now, later) = bytes.split_at(bytes.len().min(room));
            self.buffer[self.filled..self.filled + now.len()].copy_from_slice(now);
            self.filled += now.len();
            bytes = later;
            if self.filled == self.buffer.len() {
                self.flush(self.filled)?;
            }
        }
        Ok(())
    }

    /// Writes what is left, cuts off what filled the last block, and syncs.
    pub(super) fn finish(mut self) -> Result<Written, PackError> {
        if self.written.saturating_add(self.filled as u64) != self.len {
            return Err(self.other_length());
        }
        let whole = self.filled.next_multiple_of(BLOCK);
        self.buffer[self.filled..whole].fill(0);
        self.flush(whole)?;
        let failed = |doing| move |error| PackError::io(self.path, self.len, doing, error);
        self.file.set_len(self.len).map_err(failed("cut it to its length"))?;
        self.file.sync_all().map_err(failed("sync it"))?;
        Ok(Written { temporary: self.temporary, direct: self.direct.is_some() })
    }

    /// Writes the first `len` bytes of the buffer: whole blocks.
    fn flush(&mut self, len: usize) -> Result<(), PackError> {
        let (file, past_cache) = (&self.file, self.direct.as_ref());
        let mut is_direct = self.direct.is_some();
        let write = |bytes: &[u8], at, is_direct: bool| match past_cache.filter(|_| is_direct) {
            Some(past_cache) => past_cache.write_at(bytes, at),
            None => file.write_at(bytes, at),
        };
        let answer = write_blocks(&self.buffer[..len], self.written, &mut is_direct, write);
        if !is_direct {
            self.direct = None;
        }
        answer.map_err(|(at, error)| PackError::io(self.path, at, "write", error))?;
        self.written += len as u64;
        self.filled = 0;
        Ok(())
    }

    fn other_length(&self) -> PackError {
        PackError::setting(
            format!("{}: the dataset gave other bytes than it said, {} with the header", shown(self.path), self.len),
            "correct the dataset",
        )
    }
}

/// Writes all of `bytes`, whole blocks, from offset `at` on by calls of `write(bytes, offset, is_direct)`, which may do less
/// than asked. Where a direct write is refused, or stops inside the first block, what is left is written otherwise and
/// `is_direct` is no more. On failure, the offset where it happened.
fn write_blocks(
    bytes: &[u8],
    at: u64,
    is_direct: &mut bool,
    write: impl Fn(&[u8], u64, bool) -> io::Result<usize>,
) -> Result<(), (u64, io::Error)> {
    let mut done = 0;
    while done < bytes.len() {
        let now = at + done as u64;
        match write(&bytes[done..], now, *is_direct) {
            Ok(0) => return Err((now, io::ErrorKind::WriteZero.into())),
            // A direct write goes on at a block only: what was begun of one is written again.
            Ok(n) if *is_direct => {
                done += n / BLOCK * BLOCK;
                *is_direct = n >= BLOCK;
            }
            Ok(n) => done += n,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) if *is_direct && error.raw_os_error() == Some(libc::EINVAL) => *is_direct = false,
            Err(error) => return Err((now, error)),
        }
    }
    Ok(())
}

/// The same file for direct writes, where its file system has them. It is not created so, since file systems without
/// create it and then refuse.
fn open_direct(file: &File, path: &Path) -> Option<File> {
    let fd = file.as_fd();
    let refused = statx::of_fd(fd).is_ok_and(|stat| stat.direct == DirectAlign::Refused);
    // Those in memory may accept the flag, and pass nothing by.
    if refused || statfs::of_fd(fd) == FileSystem::Memory {
        return None;
    }
    OpenOptions::new().write(true).custom_flags(libc::O_DIRECT).open(path).ok()
}

/// Has the file system set space aside, so that a full disk shows before anything is read, and writes need not make the
/// file longer. Not every file system can.
fn reserve(file: &File, len: u64) -> io::Result<()> {
    // The kernel would end the process by SIGXFSZ, where nobody takes that.
    if len.next_multiple_of(BLOCK as u64) > limits::file_size() {
        return Err(io::Error::from_raw_os_error(libc::EFBIG));
    }
    let whole = i64::try_from(len.next_multiple_of(BLOCK as u64)).unwrap_or(i64::MAX);
    match fallocate(file, FallocateFlags::empty(), 0, whole).map_err(io::Error::from) {
        Err(error) if matches!(error.raw_os_error(), Some(libc::ENOSPC | libc::EFBIG | libc::EDQUOT)) => Err(error),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use super::*;
    use proptest::prelude::*;

    /// How one call of `write` goes.
    #[derive(Clone, Debug)]
    enum Answer {
        Some(usize),
        Interrupted,
        Refused,
    }

    fn answer() -> impl Strategy<Value = Answer> {
        prop_oneof![(1..40_000_usize).prop_map(Answer::Some), Just(Answer::Interrupted), Just(Answer::Refused)]
    }

    proptest! {
        #[test]
        fn short_interrupted_and_refused_writes_lose_nothing(
            blocks in 1..8_usize, at in 0..3_u64, answers in prop::collection::vec(answer(), 0..12)
        ) {
            let bytes: Vec<u8> = (0..blocks * BLOCK).map(|i| (i / 7) as u8 | 1).collect();
            let at = at * BLOCK as u64;
            let (file, answers) = (RefCell::new(vec![0; at as usize + bytes.len()]), RefCell::new(answers.into_iter()));
            let was_refused = RefCell::new(false);
            let write = |bytes: &[u8], at: u64, is_direct: bool| {
                assert!(!is_direct || (at.is_multiple_of(BLOCK as u64) && bytes.len().is_multiple_of(BLOCK)), "a direct write of blocks");
                let wrote = match answers.borrow_mut().next() {
                    Some(Answer::Interrupted) => return Err(io::ErrorKind::Interrupted.into()),
                    Some(Answer::Refused) if is_direct => {
                        *was_refused.borrow_mut() = true;
                        return Err(io::Error::from_raw_os_error(libc::EINVAL));
                    }
                    Some(Answer::Some(n)) => n.min(bytes.len()),
                    _ => bytes.len(),
                };
                *was_refused.borrow_mut() |= is_direct && wrote < BLOCK;
                file.borrow_mut()[at as usize..][..wrote].copy_from_slice(&bytes[..wrote]);
                Ok(wrote)
            };
            let mut is_direct = true;
            write_blocks(&bytes, at, &mut is_direct, write).unwrap();
            prop_assert!(file.borrow()[at as usize..] == bytes);
            prop_assert_eq!(is_direct, !*was_refused.borrow());
        }
    }

    #[test]
    fn a_failed_write_tells_where() {
        let write = |_: &[u8], at: u64, _: bool| match at {
            4096 => Ok(BLOCK + 1),
            _ => Err(io::Error::from_raw_os_error(libc::ENOSPC)),
        };
        let (at, error) = write_blocks(&[0; 3 * BLOCK], 4096, &mut true, write).unwrap_err();
        assert_eq!((at, error.raw_os_error()), (8192, Some(libc::ENOSPC)));
        let nothing = |_: &[u8], _: u64, _: bool| Ok(0);
        let (at, error) = write_blocks(&[0; BLOCK], 0, &mut true, nothing).unwrap_err();
        assert_eq!((at, error.kind()), (0, io::ErrorKind::WriteZero));
    }
}
