//! Files as datasets see them: who they are, and the few bytes of theirs that describe the others.

use std::fs;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;

use nix::errno::Errno;
use nix::unistd::{Whence, lseek};

use super::error::{DatasetError, DatasetFault};
use crate::error::Error;
use crate::route::Carrier;
use crate::storage::{Change, File, Identity, open_plain};

/// A file of a dataset: its path, and who it was when the dataset was opened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DataFile {
    path: Arc<Path>,
    len: u64,
    identity: Identity,
}

impl DataFile {
    /// Looks at a regular file or block device, and reads nothing of it.
    ///
    /// # Errors
    /// [`DatasetError`] where it is neither, or cannot be opened.
    pub fn new(path: impl AsRef<Path>) -> Result<Self, DatasetError> {
        Source::open(path.as_ref()).map(|source| source.file)
    }

    /// The path, as given.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Bytes.
    pub fn len(&self) -> u64 {
        self.len
    }

    /// Whether it has no bytes.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// When its content was written to: seconds since 1970, and nanoseconds. Zero of a block device.
    pub fn modified(&self) -> (i64, u32) {
        self.identity.modified().unwrap_or_default()
    }

    /// Opens it with a carrier, and sees that it is as it was.
    ///
    /// # Errors
    /// As [`Carrier::open`] and [`check`](Self::check).
    pub fn open(&self, carrier: &Carrier) -> Result<File, Error> {
        let file = carrier.open(&*self.path)?;
        self.check(&file)?;
        Ok(file)
    }

    /// Sees that what a reader or carrier has opened is this file, as it was.
    ///
    /// # Errors
    /// [`DatasetFault::Changed`].
    pub fn check(&self, opened: &File) -> Result<(), DatasetError> {
        match opened.inner.unless_tolerated(self.identity.change_to(&opened.inner.identity)) {
            Some(change) => Err(DatasetError::new(&*self.path, None, DatasetFault::Changed(change))),
            None => Ok(()),
        }
    }
}

/// A file that is open for what describes its data: headers and indices.
#[derive(Debug)]
pub(crate) struct Source {
    pub(crate) file: DataFile,
    open: fs::File,
}

impl Source {
    pub(crate) fn open(path: &Path) -> Result<Self, DatasetError> {
        let failed = |fault| DatasetError::new(path, None, DatasetFault::Open(fault));
        let (open, identity, len) = open_plain(path).map_err(failed)?;
        Ok(Self { file: DataFile { path: path.into(), len, identity }, open: open.into() })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.file.path
    }

    pub(crate) fn len(&self) -> u64 {
        self.file.len
    }

    /// Sees that this is `file`, as it was; what may have another mode, owner or number of links.
    pub(crate) fn check_is(&self, file: &DataFile) -> Result<(), DatasetError> {
        match file.identity.change_to(&self.file.identity).filter(|change| *change != Change::Status) {
            Some(change) => Err(DatasetError::new(file.path(), None, DatasetFault::Changed(change))),
            None => Ok(()),
        }
    }

    /// Fills `bytes` from `offset`, with what is called `what` where it does not fit into the file.
    pub(crate) fn read_at(&self, offset: u64, bytes: &mut [u8], what: &str) -> Result<(), DatasetError> {
        self.check_range(offset, bytes.len() as u64, what)?;
        self.open.read_exact_at(bytes, offset).map_err(|error| self.unreadable(offset, error))
    }

    /// The same into memory of its own: no more than the file has is ever asked for.
    pub(crate) fn read_vec(&self, offset: u64, len: u64, what: &str) -> Result<Vec<u8>, DatasetError> {
        self.read_vec_until(offset, len, what, |_| false)
    }

    /// The same up to a piece of the file, that one too, of which `is_end` says that what follows is not needed.
    pub(crate) fn read_vec_until(
        &self,
        offset: u64,
        len: u64,
        what: &str,
        is_end: impl Fn(&[u8]) -> bool,
    ) -> Result<Vec<u8>, DatasetError> {
        const PIECE: usize = 1 << 20;
        self.check_range(offset, len, what)?;
        let mut bytes = Vec::new();
        let room = usize::try_from(len).ok().is_some_and(|len| bytes.try_reserve_exact(len).is_ok());
        if !room {
            return Err(self.malformed(offset, format!("{what} has {len} bytes, more than memory"), "check the file"));
        }
        // Memory is there once it is written to: piece by piece, so that a hole in the file costs none beyond the end.
        let mut left = len as usize;
        while left > 0 {
            let (done, piece) = (bytes.len(), left.min(PIECE));
            bytes.resize(done + piece, 0);
            let (_, new) = bytes.split_at_mut(done);
            self.read_at(offset + done as u64, new, what)?;
            if is_end(new) {
                break;
            }
            left -= piece;
        }
        Ok(bytes)
    }

    /// The whole file, from its first byte on.
    pub(crate) fn reading(&self) -> Reading<'_> {
        Reading { source: self, at: 0 }
    }

    /// At most `bytes.len()` bytes from `offset`, fewer where the file ends: how many were read.
    pub(crate) fn read_up_to(&self, offset: u64, bytes: &mut [u8]) -> Result<usize, DatasetError> {
        let len = self.len().saturating_sub(offset).min(bytes.len() as u64) as usize;
        self.read_at(offset, &mut bytes[..len], "the file")?;
        Ok(len)
    }

    /// Where the next bytes from `offset` on are that are no hole; `offset` where that cannot be told, and the end of the
    /// file where there are none.
    pub(crate) fn next_data(&self, offset: u64) -> u64 {
        let Ok(from) = i64::try_from(offset) else { return offset };
        match lseek(&self.open, from, Whence::SeekData) {
            Ok(data) => u64::try_from(data).unwrap_or(offset).clamp(offset, self.len().max(offset)),
            Err(Errno::ENXIO) => self.len().max(offset),
            Err(_) => offset,
        }
    }

    /// Sees that the file has `len` bytes from `offset`.
    pub(crate) fn check_range(&self, offset: u64, len: u64, what: &str) -> Result<(), DatasetError> {
        let missing = u128::from(offset) + u128::from(len);
        match missing.saturating_sub(u128::from(self.len())) {
            0 => Ok(()),
            missing => {
                let missing = u64::try_from(missing).unwrap_or(u64::MAX);
                Err(self.fault(offset, DatasetFault::Truncated { what: what.into(), missing }))
            }
        }
    }

    pub(crate) fn malformed(&self, offset: u64, what: impl Into<String>, fix: &'static str) -> DatasetError {
        DatasetError::malformed(self.path(), offset, what, fix)
    }

    pub(crate) fn unsupported(&self, offset: u64, what: impl Into<String>, fix: &'static str) -> DatasetError {
        DatasetError::unsupported(self.path(), offset, what, fix)
    }

    pub(crate) fn fault(&self, offset: u64, fault: DatasetFault) -> DatasetError {
        DatasetError::new(self.path(), offset, fault)
    }

    fn unreadable(&self, offset: u64, error: io::Error) -> DatasetError {
        match error.kind() {
            // It had them a moment ago.
            io::ErrorKind::UnexpectedEof => {
                let to = self.open.metadata().map_or(0, |now| now.len());
                let change = crate::storage::Change::Shrank { from: self.len(), to };
                self.fault(offset, DatasetFault::Changed(change))
            }
            _ => self.fault(offset, DatasetFault::Io(error)),
        }
    }
}

/// Reads a file from front to back.
#[derive(Debug)]
pub(crate) struct Reading<'a> {
    source: &'a Source,
    at: u64,
}

impl io::Read for Reading<'_> {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        let len = self.source.read_up_to(self.at, bytes).map_err(io::Error::other)?;
        self.at += len as u64;
        Ok(len)
    }
}
