use std::fmt;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock};

use nix::libc;

use super::align::Alignment;
use super::descriptors::{DescriptorCache, Descriptors, len_of};
use super::direct::NoDirect;
use super::error::{Change, OpenError, OpenFault};
use super::identity::Identity;
use super::proof::Proof;
use crate::sys::statfs::{self, FileSystem};
use crate::sys::statx::DirectAlign;
use crate::sys::{cachestat, page, probe};

/// An open file, or block device, that a [`Reader`](super::Reader) reads from. Cloning gives another handle.
///
/// The file is the one that was opened: reads fail where its path has come to lead to another one, or to another
/// content. It may hold no descriptor at the moment; the reader opens and closes them as its limit allows.
#[derive(Clone)]
pub struct File {
    pub(crate) inner: Arc<Inner>,
}

/// What can be opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum FileKind {
    /// A regular file.
    Regular,
    /// A block device: a drive, a partition, a loop device.
    BlockDevice,
}

impl FileKind {
    /// The kind, or what else it is in words.
    pub(crate) fn from_mode(mode: u32) -> Result<Self, &'static str> {
        match mode & libc::S_IFMT {
            libc::S_IFREG => Ok(Self::Regular),
            libc::S_IFBLK => Ok(Self::BlockDevice),
            libc::S_IFDIR => Err("directory"),
            libc::S_IFIFO => Err("FIFO (a named pipe)"),
            libc::S_IFSOCK => Err("socket"),
            libc::S_IFCHR => Err("character device"),
            _ => Err("file of an unknown kind"),
        }
    }
}

pub(crate) struct Inner {
    pub(crate) id: u64,
    pub(crate) path: PathBuf,
    /// The path from the root, which stays right when the working directory changes.
    pub(crate) lookup: PathBuf,
    pub(crate) kind: FileKind,
    pub(crate) identity: Identity,
    pub(crate) len: u64,
    pub(crate) system: FileSystem,
    direct: Result<Alignment, NoDirect>,
    /// Set where a direct read was refused after all.
    degraded: OnceLock<NoDirect>,
    pub(crate) proof: Proof,
    /// A change of the ctime alone is an error.
    strict_ctime: bool,
    has_said_status: AtomicBool,
    /// Set where a polled ring cannot read this file.
    pub(crate) unpolled: AtomicBool,
    pub(crate) pair: Mutex<Option<Arc<Descriptors>>>,
    /// Used since the descriptor cache last looked.
    pub(crate) used: AtomicBool,
}

impl File {
    pub(crate) fn open(cache: &DescriptorCache, path: &Path) -> Result<Self, OpenError> {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let failed = |fault| OpenError { path: path.to_owned(), fault };
        let lookup = std::path::absolute(path).map_err(|error| failed(OpenFault::Io(error)))?;
        let (pair, stat, kind) = cache.open_first(&lookup).map_err(failed)?;
        let (len, system) = len_of(pair.buffered(), &stat, kind).map_err(failed)?;
        let inner = Arc::new(Inner {
            id: NEXT.fetch_add(1, Ordering::Relaxed),
            path: path.to_owned(),
            lookup,
            kind,
            identity: Identity::new(&stat, kind),
            len,
            system,
            direct: alignment(&pair, stat.direct, system),
            degraded: OnceLock::new(),
            proof: Proof::default(),
            strict_ctime: cache.strict_ctime(),
            has_said_status: AtomicBool::new(false),
            unpolled: AtomicBool::new(false),
            pair: Mutex::default(),
            used: AtomicBool::new(true),
        });
        cache.keep(&inner, &pair);
        Ok(Self { inner })
    }

    /// The path as it was given.
    pub fn path(&self) -> &Path {
        &self.inner.path
    }

    /// Bytes in the file when it was opened.
    pub fn len(&self) -> u64 {
        self.inner.len
    }

    /// Whether the file had no bytes when it was opened.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// A regular file or a block device.
    pub fn kind(&self) -> FileKind {
        self.inner.kind
    }

    /// The file system that it lies on, by the name people know.
    pub fn file_system(&self) -> String {
        match self.inner.kind {
            FileKind::Regular => statfs::name(self.inner.system),
            FileKind::BlockDevice => "block device".into(),
        }
    }

    /// How direct reads of this file must be aligned, or why there are none.
    ///
    /// # Errors
    /// The reason: the file system has none, the kernel refuses them, or one that was tried failed.
    pub fn direct(&self) -> Result<Alignment, NoDirect> {
        match self.inner.degraded.get() {
            Some(reason) => Err(reason.clone()),
            None => self.inner.direct.clone(),
        }
    }

    /// Why reads of this file with `O_DIRECT` are not direct, where they were seen to fill the page cache; `None` where they
    /// were not. One read in a few is looked at; what was read so is counted as buffered, also where direct reads alone were
    /// asked for.
    pub fn fills_cache(&self) -> Option<&NoDirect> {
        self.inner.proof.filled()
    }

    /// What is different about the file since it was opened; `None` where nothing is.
    ///
    /// # Errors
    /// The kernel's, where it does not say.
    pub fn change(&self) -> std::io::Result<Option<Change>> {
        self.inner.identity.change_at(&self.inner.lookup, self.inner.kind)
    }

    /// The same, where it makes another file of it: the content may be another.
    pub(crate) fn content_change(&self) -> std::io::Result<Option<Change>> {
        Ok(self.inner.unless_tolerated(self.change()?))
    }

    /// Gives up direct reads of this file, where others may be made.
    pub(crate) fn read_buffered(&self, reason: NoDirect) {
        let _ = self.inner.degraded.set(reason);
    }

    /// Gives up direct reads of this file after one was refused, and says so once.
    pub(crate) fn degrade(&self, reason: NoDirect) {
        if self.inner.degraded.set(reason.clone()).is_ok() {
            tracing::warn!("{}: read through the page cache from here on, since {reason}", self.path().display());
        }
    }
}

impl Inner {
    /// A change, unless it is one of the ctime alone, and the reader is not strict about that: then one warning says so.
    pub(crate) fn unless_tolerated(&self, change: Option<Change>) -> Option<Change> {
        if self.strict_ctime || change != Some(Change::Status) {
            return change;
        }
        if !self.has_said_status.swap(true, Ordering::Relaxed) {
            tracing::warn!(
                "{}: {}; it is read on, since its size and mtime are the same (strict_ctime makes this an error)",
                self.path.display(),
                Change::Status
            );
        }
        None
    }
}

impl fmt::Debug for File {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("File").field("path", &self.inner.path).field("len", &self.inner.len).finish()
    }
}

/// What the kernel says of direct reads, or what trying says where the kernel is silent.
fn alignment(pair: &Descriptors, said: DirectAlign, system: FileSystem) -> Result<Alignment, NoDirect> {
    if system == FileSystem::Memory {
        return Err(NoDirect::InMemory);
    }
    let direct = pair.direct().map_err(Clone::clone)?;
    match said {
        DirectAlign::Refused => Err(NoDirect::Refused),
        DirectAlign::Said { memory, offset } => Alignment::new(memory, offset).ok_or(NoDirect::Refused),
        // The process behind a FUSE mount may not answer for long: the first real read will tell.
        DirectAlign::Unsaid if system == FileSystem::Fuse => Ok(Alignment::USUAL),
        DirectAlign::Unsaid => try_alignments(direct),
    }
}

fn try_alignments(direct: BorrowedFd<'_>) -> Result<Alignment, NoDirect> {
    let mut refusal = libc::EINVAL;
    for align in [Alignment::USUAL.offset, 16 << 10, 64 << 10] {
        match probe::aligned_read(direct, align as usize) {
            Ok(()) => return Ok(Alignment { memory: align, offset: align }),
            Err(error) => refusal = error.raw_os_error().unwrap_or(libc::EINVAL),
        }
        if refusal != libc::EINVAL {
            break;
        }
    }
    Err(NoDirect::Read(refusal))
}

impl Inner {
    /// How direct reads are aligned, also where they were given up.
    pub(crate) fn alignment(&self) -> Option<Alignment> {
        self.direct.as_ref().ok().copied()
    }

    /// What the offsets of direct reads are multiples of, in bytes.
    pub(crate) fn offset_align(&self) -> u64 {
        self.direct.as_ref().map_or(1, |align| u64::from(align.offset))
    }

    /// How much of a range is in the page cache, from 0 to 1; 0 where the kernel does not say.
    pub(crate) fn resident_share(&self, pair: &Descriptors, offset: u64, len: u64) -> f64 {
        let pages = (offset + len).div_ceil(page::size() as u64) - offset / page::size() as u64;
        match cachestat::resident_pages(pair.buffered().as_fd(), offset, len) {
            Ok(resident) => resident as f64 / pages as f64,
            Err(_) => 0.0,
        }
    }
}
