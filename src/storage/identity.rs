//! Which file it is, so that another one, or another content, under the same path is noticed.

use std::io;
use std::path::Path;

use super::error::Change;
use super::file::FileKind;
use crate::sys::statx::{self, Statx};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Identity {
    device: (u32, u32),
    inode: u64,
    size: u64,
    /// Nothing for a block device, whose node's times say nothing of its content.
    times: Option<Times>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Times {
    /// When its content was written to, unless somebody has set it.
    modified: (i64, u32),
    /// When its content, mode, owner, name or number of links was changed.
    changed: (i64, u32),
}

impl Identity {
    pub(crate) fn new(stat: &Statx, kind: FileKind) -> Self {
        match kind {
            FileKind::Regular => Self {
                device: stat.device,
                inode: stat.inode,
                size: stat.size,
                times: Some(Times { modified: stat.modified, changed: stat.changed }),
            },
            FileKind::BlockDevice => Self { device: stat.special, inode: 0, size: 0, times: None },
        }
    }

    /// The number of the file system or block device.
    pub(crate) fn device(&self) -> (u32, u32) {
        self.device
    }

    /// When the content was written to; nothing of a block device.
    pub(crate) fn modified(&self) -> Option<(i64, u32)> {
        self.times.map(|times| times.modified)
    }

    /// What is different about the file that `path` leads to now.
    ///
    /// # Errors
    /// The kernel's, where it does not say.
    pub(crate) fn change_at(&self, path: &Path, kind: FileKind) -> io::Result<Option<Change>> {
        match statx::of_path(path) {
            Ok(stat) => Ok(self.change_to(&Self::new(&stat, kind))),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Some(Change::Removed)),
            Err(error) => Err(error),
        }
    }

    pub(crate) fn is_same_file(&self, other: &Self) -> bool {
        (self.device, self.inode) == (other.device, other.inode)
    }

    pub(crate) fn change_to(&self, now: &Self) -> Option<Change> {
        let (from, to) = (self.size, now.size);
        if !self.is_same_file(now) {
            Some(Change::Replaced)
        } else if to < from {
            Some(Change::Shrank { from, to })
        } else if to > from {
            Some(Change::Grew { from, to })
        } else if self.modified() != now.modified() {
            Some(Change::Touched)
        } else if self.times != now.times {
            Some(Change::Status)
        } else {
            None
        }
    }
}
