//! How our FUSE file system misbehaves: short answers, failures, stalls, and files that change.
use std::ffi::OsStr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard};
use std::time::{Duration, SystemTime};

use fuser::{Errno, FileAttr, FileType, INodeNo, ReplyData};

use super::{Rng, data};

/// How the server answers. All of it may be turned while the file system is in use.
#[derive(Debug, Default)]
pub struct Knobs {
    files: Mutex<Vec<Served>>,
    /// FOPEN_DIRECT_IO on every open from now on: the kernel then passes each read through, as it is asked for.
    direct_io: AtomicBool,
    /// Attributes are asked for anew at each stat, so that changes are seen at once.
    volatile: AtomicBool,
    short: Mutex<Option<Short>>,
    fault: Mutex<Option<Fault>>,
    stall: Mutex<Stall>,
    reads: AtomicU64,
    shortened: AtomicU64,
    failed: AtomicU64,
}

/// How much of each answer is kept back.
#[derive(Debug, Clone)]
pub enum Short {
    /// This many bytes, but at least one is answered.
    By(u64),
    /// At most this many bytes are answered.
    AtMost(u64),
    /// A length drawn anew for each read.
    Random(Rng),
}

/// Which reads fail.
#[derive(Debug, Clone, Copy)]
pub struct Fault {
    /// Reads to let pass first.
    pub after: u64,
    /// Reads to fail then.
    pub times: u64,
    /// Only reads that touch this byte count.
    pub at: Option<u64>,
    pub errno: i32,
}

#[derive(Debug, Default)]
struct Stall {
    /// The inode whose reads are held back.
    ino: Option<u64>,
    waiting: Vec<(Ask, ReplyData)>,
}

#[derive(Debug)]
struct Served {
    name: String,
    seed: u64,
    len: u64,
    changed: SystemTime,
    /// The length in the attributes, where it is not that of the data.
    told: Option<u64>,
}

/// A read as the kernel asks it of the server.
#[derive(Debug, Clone, Copy)]
pub struct Ask {
    pub ino: u64,
    pub offset: u64,
    pub size: u64,
}

impl Knobs {
    pub fn add(&self, name: &str, seed: u64, len: u64) {
        self.files().push(Served { name: name.into(), seed, len, changed: SystemTime::now(), told: None });
    }

    /// Changes a file under its readers: its data (by seed) and its length, with new times.
    pub fn change(&self, name: &str, seed: u64, len: u64) {
        let mut files = self.files();
        let file = files.iter_mut().find(|file| file.name == name).unwrap();
        (file.seed, file.len, file.changed) = (seed, len, SystemTime::now());
    }

    /// Tells this length of a file in its attributes, whatever its data is.
    pub fn tell(&self, name: &str, len: u64) {
        let mut files = self.files();
        files.iter_mut().find(|file| file.name == name).unwrap().told = Some(len);
    }

    pub fn direct_io(&self, on: bool) {
        self.direct_io.store(on, Ordering::SeqCst);
    }

    pub fn volatile(&self, on: bool) {
        self.volatile.store(on, Ordering::SeqCst);
    }

    pub fn short(&self, short: Option<Short>) {
        *lock(&self.short) = short;
    }

    pub fn fault(&self, fault: Option<Fault>) {
        *lock(&self.fault) = fault;
    }

    /// Holds back every answer to a read of this file until `release`.
    pub fn stall(&self, name: &str) {
        let ino = self.find(OsStr::new(name));
        assert!(ino.is_some(), "{name} is not served");
        lock(&self.stall).ino = ino;
    }

    /// Asks what was held back, by what the file holds now, and holds nothing back from here on.
    pub fn release(&self) {
        let waiting = {
            let mut stall = lock(&self.stall);
            stall.ino = None;
            std::mem::take(&mut stall.waiting)
        };
        for (ask, reply) in waiting {
            self.answer(ask, reply);
        }
    }

    /// Answers so many of those held back, the first ones first, and goes on holding back.
    pub fn release_some(&self, count: usize) {
        let waiting: Vec<_> = {
            let mut stall = lock(&self.stall);
            let count = count.min(stall.waiting.len());
            stall.waiting.drain(..count).collect()
        };
        for (ask, reply) in waiting {
            self.answer(ask, reply);
        }
    }

    pub fn stalled(&self) -> usize {
        lock(&self.stall).waiting.len()
    }

    /// Reads seen, answered short and failed so far: a test that turned a knob asserts that it turned something.
    pub fn reads(&self) -> u64 {
        self.reads.load(Ordering::SeqCst)
    }

    pub fn shortened(&self) -> u64 {
        self.shortened.load(Ordering::SeqCst)
    }

    pub fn failed(&self) -> u64 {
        self.failed.load(Ordering::SeqCst)
    }
}

/// What the server asks of its knobs.
impl Knobs {
    pub(super) fn find(&self, name: &OsStr) -> Option<u64> {
        self.files().iter().position(|file| OsStr::new(&file.name) == name).map(|i| i as u64 + FIRST_INO)
    }

    pub(super) fn names(&self) -> Vec<(u64, String)> {
        self.files().iter().enumerate().map(|(i, file)| (i as u64 + FIRST_INO, file.name.clone())).collect()
    }

    pub(super) fn opens_for_direct_io(&self) -> bool {
        self.direct_io.load(Ordering::SeqCst)
    }

    /// Answers a read, or puts it aside: the thread that serves a stalled file serves all the others too.
    pub(super) fn read(&self, ask: Ask, reply: ReplyData) {
        self.reads.fetch_add(1, Ordering::SeqCst);
        let mut stall = lock(&self.stall);
        if stall.ino == Some(ask.ino) {
            stall.waiting.push((ask, reply));
            return;
        }
        drop(stall);
        self.answer(ask, reply);
    }

    pub(super) fn attr(&self, ino: u64) -> Option<FileAttr> {
        if ino == 1 {
            return Some(attr(1, 0, SystemTime::UNIX_EPOCH, FileType::Directory));
        }
        let files = self.files();
        let file = files.get(index(ino))?;
        Some(attr(ino, file.told.unwrap_or(file.len), file.changed, FileType::RegularFile))
    }

    pub(super) fn ttl(&self) -> Duration {
        if self.volatile.load(Ordering::SeqCst) { Duration::ZERO } else { Duration::from_secs(3600) }
    }

    fn answer(&self, ask: Ask, reply: ReplyData) {
        let Some((seed, len)) = self.files().get(index(ask.ino)).map(|file| (file.seed, file.len)) else {
            return reply.error(Errno::ENOENT);
        };
        if let Some(errno) = self.faulty(ask) {
            self.failed.fetch_add(1, Ordering::SeqCst);
            return reply.error(Errno::from_i32(errno));
        }
        let whole = len.saturating_sub(ask.offset).min(ask.size);
        let given = match &mut *lock(&self.short) {
            None => whole,
            Some(Short::By(n)) => whole.saturating_sub(*n).max(1),
            Some(Short::AtMost(n)) => whole.min(*n),
            Some(Short::Random(rng)) => 1 + rng.below(whole.max(1)),
        }
        .min(whole);
        if given < whole {
            self.shortened.fetch_add(1, Ordering::SeqCst);
        }
        reply.data(&data::bytes(seed, ask.offset, given));
    }

    fn faulty(&self, ask: Ask) -> Option<i32> {
        let mut fault = lock(&self.fault);
        let it = fault.as_mut()?;
        if it.at.is_some_and(|at| at < ask.offset || at >= ask.offset + ask.size) {
            return None;
        }
        if it.after > 0 {
            it.after -= 1;
            return None;
        }
        it.times = it.times.checked_sub(1)?;
        Some(it.errno)
    }

    fn files(&self) -> MutexGuard<'_, Vec<Served>> {
        lock(&self.files)
    }
}

const FIRST_INO: u64 = 2;

fn index(ino: u64) -> usize {
    ino.checked_sub(FIRST_INO).map_or(usize::MAX, |i| i as usize)
}

fn attr(ino: u64, size: u64, changed: SystemTime, kind: FileType) -> FileAttr {
    FileAttr {
        ino: INodeNo(ino),
        size,
        blocks: size.div_ceil(512),
        atime: changed,
        mtime: changed,
        ctime: changed,
        crtime: changed,
        kind,
        perm: if kind == FileType::Directory { 0o755 } else { 0o644 },
        nlink: 1,
        uid: 0,
        gid: 0,
        rdev: 0,
        blksize: 4096,
        flags: 0,
    }
}

/// A panicking test must not poison the server: the kernel would wait for its answers.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}
