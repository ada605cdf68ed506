//! The open descriptors: two a file at most, and a bounded number of files.
//!
//! A file keeps its pair while there is room. Where there is none, the pair that was not used for the longest is
//! closed, but never one that a read is using: reads hold their pair until they are done.

use std::fs::OpenOptions;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, Weak};
use std::time::{Duration, Instant};

use nix::fcntl::{FcntlArg, OFlag, fcntl};
use nix::libc;

use super::direct::NoDirect;
use super::error::OpenFault;
use super::file::{FileKind, Inner};
use super::identity::Identity;
use crate::memory::Owner;
use crate::sync::lock;
use crate::sys::statfs::{self, FileSystem};
use crate::sys::statx::{self, Statx};
use crate::sys::{block_size, limits, probe};

/// How long a read waits for a descriptor that other reads hold.
const PATIENCE: Duration = Duration::from_secs(30);

/// Tells somebody that the pair of this id is closed.
type Tell = Box<dyn Fn(u64) + Send>;

/// One file's descriptors.
pub(crate) struct Descriptors {
    /// Told apart from every other pair of this process, also of the same file.
    pub(crate) id: u64,
    buffered: OwnedFd,
    direct: Result<OwnedFd, NoDirect>,
    /// Who keeps something under this pair's id, and is told when it is closed.
    on_close: Mutex<Vec<Tell>>,
    // Left last of all: until then the descriptors are open.
    place: Place,
}

impl Descriptors {
    pub(crate) fn buffered(&self) -> BorrowedFd<'_> {
        self.buffered.as_fd()
    }

    pub(crate) fn direct(&self) -> Result<BorrowedFd<'_>, &NoDirect> {
        self.direct.as_ref().map(AsFd::as_fd)
    }

    pub(crate) fn on_close(&self, tell: Tell) {
        lock(&self.on_close).push(tell);
    }
}

impl std::fmt::Debug for Descriptors {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Descriptors").field("buffered", &self.buffered).field("direct", &self.direct).finish()
    }
}

impl Drop for Descriptors {
    fn drop(&mut self) {
        // In a forked child the locks may be held for ever, and the rings are the parent's.
        if !self.place.counter.owner.is_here() {
            return;
        }
        for tell in lock(&self.on_close).drain(..) {
            tell(self.id);
        }
    }
}

/// How many pairs are open, in use or not, or being opened.
#[derive(Debug)]
struct Counter {
    open: Mutex<Open>,
    freed: Condvar,
    owner: Owner,
}

#[derive(Debug, Default)]
struct Open {
    pairs: usize,
    /// How often a pair has come or gone.
    changes: u64,
}

/// A pair's place among those that may be open.
#[derive(Debug)]
struct Place {
    counter: Arc<Counter>,
    /// What `changes` was when it was taken.
    since: u64,
}

impl Place {
    fn take(counter: &Arc<Counter>, room: usize) -> Option<Self> {
        let mut open = lock(&counter.open);
        if open.pairs >= room {
            return None;
        }
        open.pairs += 1;
        open.changes += 1;
        Some(Self { counter: Arc::clone(counter), since: open.changes })
    }

    /// Whether no other pair has been open since.
    fn is_alone(&self) -> bool {
        let open = lock(&self.counter.open);
        open.pairs == 1 && open.changes == self.since
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        if !self.counter.owner.is_here() {
            return;
        }
        let mut open = lock(&self.counter.open);
        open.pairs -= 1;
        open.changes += 1;
        drop(open);
        self.counter.freed.notify_all();
    }
}

/// All open files of one reader.
#[derive(Debug)]
pub(crate) struct DescriptorCache {
    /// Pairs that may be open at once.
    room: usize,
    limit: u64,
    strict_ctime: bool,
    counter: Arc<Counter>,
    /// Files with a pair, in the order they are looked at for closing.
    kept: Mutex<std::collections::VecDeque<Weak<Inner>>>,
}

impl DescriptorCache {
    /// A cache that leaves the rest of the process most of the descriptors it may have.
    pub(crate) fn new(strict_ctime: bool) -> Arc<Self> {
        const MOST: u64 = 4096;
        let limit = limits::raise_open_files();
        // A pair is two descriptors, and one more where cuFile has it: a third of the limit, half with cuFile, and at
        // least two pairs where the limit is tiny.
        let room = (limit / 6).clamp(2, MOST) as usize;
        let counter = Counter { open: Mutex::default(), freed: Condvar::new(), owner: Owner::this() };
        Arc::new(Self { room, limit, strict_ctime, counter: Arc::new(counter), kept: Mutex::default() })
    }

    /// Whether a change of a file's ctime alone is an error.
    pub(crate) fn strict_ctime(&self) -> bool {
        self.strict_ctime
    }

    /// Pairs that may be open at once.
    pub(crate) fn room(&self) -> usize {
        self.room
    }

    /// Opens a file's pair for the first time.
    pub(crate) fn open_first(&self, path: &Path) -> Result<(Arc<Descriptors>, Statx, FileKind), OpenFault> {
        self.check_process()?;
        self.wait_for(|| self.try_open(path))
    }

    /// The file's pair, opened again if it was closed; `None` where all the room is taken by reads under way.
    pub(crate) fn pair(&self, file: &Arc<Inner>) -> Result<Option<Arc<Descriptors>>, PairError> {
        self.check_process()?;
        file.used.store(true, Ordering::Relaxed);
        if let Some(pair) = &*lock(&file.pair) {
            return Ok(Some(Arc::clone(pair)));
        }
        let Some((pair, stat, kind)) = self.try_open(&file.lookup)? else { return Ok(None) };
        if let Some(change) = file.unless_tolerated(file.identity.change_to(&Identity::new(&stat, kind))) {
            return Err(PairError::Changed(change));
        }
        self.keep(file, &pair);
        Ok(Some(pair))
    }

    /// As [`pair`](Self::pair), waiting for a read under way to end. The caller must hold no pair itself.
    pub(crate) fn pair_waiting(&self, file: &Arc<Inner>) -> Result<Arc<Descriptors>, PairError> {
        self.wait_for(|| self.pair(file))
    }

    pub(crate) fn keep(&self, file: &Arc<Inner>, pair: &Arc<Descriptors>) {
        if lock(&file.pair).replace(Arc::clone(pair)).is_none() {
            let mut kept = lock(&self.kept);
            if kept.len() >= 2 * self.room {
                kept.retain(|file| file.strong_count() > 0);
            }
            kept.push_back(Arc::downgrade(file));
        }
    }

    /// A descriptor of its own, for which a pair that no read uses is closed where the process has none left.
    pub(crate) fn clone_descriptor(&self, descriptor: BorrowedFd<'_>) -> io::Result<OwnedFd> {
        loop {
            match descriptor.try_clone_to_owned() {
                Err(error) if error.raw_os_error() == Some(libc::EMFILE) && self.close_one() => {}
                cloned => return cloned,
            }
        }
    }

    /// Refuses in a forked child, where locks may be held for ever.
    fn check_process(&self) -> Result<(), OpenFault> {
        if self.counter.owner.is_here() { Ok(()) } else { Err(OpenFault::Forked) }
    }

    fn wait_for<T, E: From<OpenFault>>(&self, mut attempt: impl FnMut() -> Result<Option<T>, E>) -> Result<T, E> {
        let give_up = Instant::now() + PATIENCE;
        loop {
            if let Some(got) = attempt()? {
                return Ok(got);
            }
            let open = lock(&self.counter.open);
            if Instant::now() >= give_up {
                return Err(OpenFault::NoDescriptor { seconds: PATIENCE.as_secs(), limit: self.limit }.into());
            }
            // Short, since a pair that came free between the attempt and this lock wakes nobody.
            let _ = self.counter.freed.wait_timeout(open, Duration::from_millis(20));
        }
    }

    /// Opens both descriptors; `None` where there is no room, or the process has no descriptor left and a read under
    /// way will give some back.
    fn try_open(&self, path: &Path) -> Result<Option<(Arc<Descriptors>, Statx, FileKind)>, OpenFault> {
        loop {
            let Some(place) = Place::take(&self.counter, self.room) else {
                if self.close_one() {
                    continue;
                }
                return Ok(None);
            };
            match open_pair(path) {
                Err(OpenFault::Io(error)) if error.raw_os_error() == Some(libc::EMFILE) => {
                    // Others may have had the descriptors when it was tried, also halves of pairs.
                    let alone = place.is_alone();
                    if self.close_one() {
                        continue;
                    }
                    return if alone { Err(OpenFault::Io(error)) } else { Ok(None) };
                }
                Err(error) => return Err(error),
                Ok((buffered, direct, stat, kind)) => {
                    static NEXT: AtomicU64 = AtomicU64::new(0);
                    let id = NEXT.fetch_add(1, Ordering::Relaxed);
                    let pair = Descriptors { id, buffered, direct, on_close: Mutex::default(), place };
                    return Ok(Some((Arc::new(pair), stat, kind)));
                }
            }
        }
    }

    /// Closes the pair of one file that no read uses, a file not used since it was last looked at before the others.
    fn close_one(&self) -> bool {
        let mut kept = lock(&self.kept);
        for _ in 0..2 * kept.len() {
            let Some(weak) = kept.pop_front() else { return false };
            let Some(file) = weak.upgrade() else { continue };
            let mut pair = lock(&file.pair);
            let in_use = pair.as_ref().is_some_and(|pair| Arc::strong_count(pair) > 1);
            if in_use || file.used.swap(false, Ordering::Relaxed) {
                kept.push_back(weak);
                continue;
            }
            let closed = pair.take();
            drop(pair);
            // Its last handle may be this one, and closing tells the engines: neither under the lock.
            drop(kept);
            drop((closed, file));
            return true;
        }
        false
    }
}

type OpenPair = (OwnedFd, Result<OwnedFd, NoDirect>, Statx, FileKind);

fn open_pair(path: &Path) -> Result<OpenPair, OpenFault> {
    let (buffered, stat, kind) = open_checked(path, 0)?;
    let direct = match open_checked(path, libc::O_DIRECT) {
        // Another file by now: its content must not be mixed with the first one's. One that changes is found by reads.
        Ok((_, now, _)) if !Identity::new(&now, kind).is_same_file(&Identity::new(&stat, kind)) => {
            return Err(OpenFault::Io(io::Error::from_raw_os_error(libc::ESTALE)));
        }
        Ok((direct, _, _)) => Ok(direct),
        // Nothing is wrong with the file then.
        Err(OpenFault::Io(error))
            if matches!(error.raw_os_error(), Some(libc::EMFILE | libc::ENFILE | libc::ENOMEM | libc::EINTR)) =>
        {
            return Err(OpenFault::Io(error));
        }
        Err(OpenFault::Io(error)) => Err(NoDirect::Open(error.raw_os_error().unwrap_or(libc::EINVAL))),
        Err(other) => return Err(other),
    };
    Ok((buffered, direct, stat, kind))
}

/// One descriptor for reads through the page cache: who the file is, and its bytes.
pub(crate) fn open_plain(path: &Path) -> Result<(OwnedFd, Identity, u64), OpenFault> {
    let (fd, stat, kind) = open_checked(path, 0)?;
    let (len, _) = len_of(fd.as_fd(), &stat, kind)?;
    Ok((fd, Identity::new(&stat, kind), len))
}

/// Bytes in the file or on the device, and the file system that it lies on; an error where what is told of them is not true.
pub(super) fn len_of(fd: BorrowedFd<'_>, stat: &Statx, kind: FileKind) -> Result<(u64, FileSystem), OpenFault> {
    if kind == FileKind::BlockDevice {
        return Ok((block_size::of_fd(fd).map_err(OpenFault::Io)?, FileSystem::Other(0)));
    }
    let system = statfs::of_fd(fd);
    // Not told by reading: a read of one may wait for ever, as /proc/kmsg does.
    if system == FileSystem::MadeUp {
        return Err(OpenFault::MadeUp);
    }
    // Asked again, since the first bytes of a file may be written between the two: it was empty when it was opened.
    if stat.size == 0
        && probe::has_a_byte(fd).map_err(OpenFault::Io)?
        && statx::of_fd(fd).map_err(OpenFault::Io)?.size == 0
    {
        return Err(OpenFault::UntoldSize);
    }
    Ok((stat.size, system))
}

/// Opens without waiting (a FIFO has no writer), refuses what is not a file, and makes the descriptor an ordinary one.
fn open_checked(path: &Path, direct: libc::c_int) -> Result<(OwnedFd, Statx, FileKind), OpenFault> {
    let file = OpenOptions::new()
        .read(true)
        .custom_flags(direct | libc::O_NONBLOCK | libc::O_NOCTTY)
        .open(path)
        .map_err(OpenFault::Io)?;
    let stat = statx::of_fd(file.as_fd()).map_err(OpenFault::Io)?;
    let kind = FileKind::from_mode(stat.mode).map_err(OpenFault::NotAFile)?;
    // io_uring answers EAGAIN instead of waiting on a descriptor that says it must not wait.
    let flags = OFlag::from_bits_retain(direct);
    fcntl(&file, FcntlArg::F_SETFL(flags)).map_err(|errno| OpenFault::Io(errno.into()))?;
    Ok((file.into(), stat, kind))
}

/// Why a file's pair could not be opened again.
#[derive(Debug)]
pub(crate) enum PairError {
    Open(OpenFault),
    Changed(super::error::Change),
}

impl From<OpenFault> for PairError {
    fn from(fault: OpenFault) -> Self {
        Self::Open(fault)
    }
}
