//! Whether reads with `O_DIRECT` go past the page cache, as they claim. Some file systems accept the flag and read through
//! the cache all the same: btrfs where extents are compressed or inline.
//!
//! The rule: of each of the first reads of a file, and of every 16th from then on, one part that the cache does not hold is
//! looked at again when it has landed. What is in the cache then, somebody has read through it: the kernel for us, or another
//! reader for itself. Where the file system tells that
//! the part is compressed or inline, it was the kernel. Else that is told apart by doing. The part is dropped from the cache, which is how it was found, and one block
//! of it is read with `O_DIRECT` by itself; then the part is dropped again, and nothing is read for as long. Where the block
//! is in the cache after each of several such reads and after none of the pauses, reads of this file do not go past it. Where
//! others read the block meanwhile, or the kernel does not tell what the cache holds, or does not drop it, nothing follows.

use std::io;
use std::ops::Range;
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, OnceLock, Weak};
use std::thread;
use std::time::{Duration, Instant};

use nix::fcntl::{PosixFadviseAdvice, posix_fadvise};
use nix::libc;

use super::align::down;
use super::descriptors::Descriptors;
use super::direct::{CacheCause, NoDirect};
use super::file::{File, FileKind};
use super::layout::Part;
use crate::sys::extents::{self, Stored};
use crate::sys::statfs::FileSystem;
use crate::sys::{cachestat, page, probe};

/// What was found of one file.
#[derive(Debug, Default)]
pub(crate) struct Proof {
    reads: AtomicU32,
    looks: AtomicU32,
    filled: OnceLock<NoDirect>,
}

impl Proof {
    /// Why reads with `O_DIRECT` are not direct, once they were seen not to be.
    pub(crate) fn filled(&self) -> Option<&NoDirect> {
        self.filled.get()
    }

    /// As if it was just seen, by another read.
    #[cfg(test)]
    pub(super) fn pretend_filled(&self, reason: NoDirect) {
        let _ = self.filled.set(reason);
    }

    /// Whether the read that begins now is one of those that are looked at.
    fn is_due(&self) -> bool {
        const FIRST: u32 = 4;
        const EVERY: u32 = 16;
        if self.filled.get().is_some() {
            return false;
        }
        let number = self.reads.fetch_add(1, Ordering::Relaxed);
        self.looks.load(Ordering::Relaxed) < FIRST || number.is_multiple_of(EVERY)
    }
}

/// What a read claims to have read past the cache of one file, and the part that it is to be held to.
#[derive(Debug)]
pub(super) struct Claim {
    pub(super) file: u32,
    pub(super) bytes: u64,
    /// Weak, so that a read that has landed and is not polled yet keeps no descriptors from others, which may be waited for by
    /// the very thread that would poll it.
    part: Option<(Held, Weak<Descriptors>)>,
}

/// A part that a claim is held to.
#[derive(Debug)]
struct Held {
    range: Range<u64>,
    /// The cache held nothing of it before it was read.
    was_absent: bool,
}

impl Claim {
    /// `parts` are those of `file` that are to be read directly; `None` where there are none.
    pub(super) fn new<'a>(
        file: &File,
        pair: &Arc<Descriptors>,
        parts: impl Iterator<Item = &'a Part> + Clone,
    ) -> Option<Self> {
        let first = parts.clone().next()?;
        let bytes = parts.clone().map(|part| part.asked).sum();
        let part = if can_be_told(file) && file.inner.proof.is_due() { Self::part(file, pair, parts) } else { None };
        Some(Self { file: first.file, bytes, part: part.map(|part| (part, Arc::downgrade(pair))) })
    }

    /// Another one each time, if the cache does not hold any of it.
    fn part<'a>(file: &File, pair: &Descriptors, mut parts: impl Iterator<Item = &'a Part> + Clone) -> Option<Held> {
        let number = file.inner.proof.reads.load(Ordering::Relaxed).wrapping_sub(1) as usize;
        let count = parts.clone().count();
        let range = parts.nth((number + number / 16) % count)?.wide.clone();
        let (looks, kernel) = (&file.inner.proof.looks, Real::of(file, pair));
        match kernel.resident(&range) {
            Ok(0) => return Some(Held { range, was_absent: true }),
            // What is stored so is worth a look all the same.
            Ok(_) if looks.load(Ordering::Relaxed) == 0 && kernel.explains(&range) => {
                return Some(Held { range, was_absent: false });
            }
            _ => {}
        }
        looks.fetch_add(1, Ordering::Relaxed);
        None
    }

    /// Looks at the part now that it has landed. Whether the claim stands, and why not where it was just seen.
    pub(super) fn judge(&self, file: &File) -> Verdict {
        let proof = &file.inner.proof;
        if let Some((part, pair)) = &self.part
            && let Some(pair) = pair.upgrade()
        {
            let pair = &pair;
            proof.looks.fetch_add(1, Ordering::Relaxed);
            if held_to(&Real::of(file, pair), part) == Some(true) {
                let reason = reason(file, pair, &part.range);
                if proof.filled.set(reason.clone()).is_ok() {
                    return Verdict::Refuted(reason);
                }
            }
        }
        if proof.filled.get().is_some() { Verdict::Known } else { Verdict::Stands }
    }
}

/// What became of a claim.
#[derive(Debug)]
pub(super) enum Verdict {
    Stands,
    /// It was not direct, which is seen for the first time.
    Refuted(NoDirect),
    /// It was not direct, as is known of the file.
    Known,
}

/// Holds a file to its first block, whatever the cache has of it; `None` where nothing can be told.
pub(super) fn prove(file: &File, pair: &Descriptors) -> Option<Result<(), NoDirect>> {
    if let Some(reason) = file.inner.proof.filled() {
        return Some(Err(reason.clone()));
    }
    if !can_be_told(file) || file.is_empty() {
        return None;
    }
    let kernel = Real::of(file, pair);
    let first = 0..kernel.block.min(file.len());
    match fills(&kernel, &first, 0)? {
        false => Some(Ok(())),
        true => {
            let reason = reason(file, pair, &first);
            Some(Err(file.inner.proof.filled.get_or_init(|| reason).clone()))
        }
    }
}

/// A device's cache is not its file's, and the process behind a FUSE mount may keep a read waiting.
fn can_be_told(file: &File) -> bool {
    file.kind() == FileKind::Regular && file.inner.system != FileSystem::Fuse
}

fn reason(file: &File, pair: &Descriptors, part: &Range<u64>) -> NoDirect {
    let cause = match extents::stored(pair.buffered(), part) {
        Stored::Inline => CacheCause::Inline,
        Stored::Compressed => CacheCause::Compressed,
        Stored::Encrypted => CacheCause::Encrypted,
        Stored::Plain => CacheCause::Unknown,
    };
    NoDirect::FillsCache { file_system: file.file_system(), cause }
}

/// What is asked of the kernel, or in tests of one that is made up.
trait Kernel {
    /// Pages of a range that are in the cache.
    fn resident(&self, range: &Range<u64>) -> io::Result<u64>;
    fn drop_pages(&self, range: &Range<u64>);
    /// Reads one block with `O_DIRECT`.
    fn read_block(&self, offset: u64) -> io::Result<()>;
    fn pause(&self, time: Duration);
    /// Whether the file system tells of a range what keeps direct reads of it from being direct.
    fn explains(&self, range: &Range<u64>) -> bool;
    /// Bytes of a block: a multiple of a page and of what direct reads are aligned to.
    fn block(&self) -> u64;
}

/// Whether a part that has been read directly was read through the cache; `None` where that cannot be told.
fn held_to(kernel: &impl Kernel, held: &Held) -> Option<bool> {
    let part = &held.range;
    if kernel.resident(part).ok()? == 0 {
        return Some(false);
    }
    // It was not there, it is there, and the file system tells why: nothing is left to be told apart.
    if held.was_absent && kernel.explains(part) {
        return Some(true);
    }
    // Some of it may be stored in another way than the rest.
    const PLACES: u64 = 64;
    let block = kernel.block();
    let first = down(part.start, block);
    let step = (part.end - first).div_ceil(PLACES).next_multiple_of(block);
    let mut places = (first..part.end).step_by(usize::try_from(step).ok()?);
    let offset = places.find(|&at| kernel.resident(&(at..at + block)).is_ok_and(|pages| pages > 0))?;
    fills(kernel, part, offset)
}

/// Whether a direct read of the block at `offset` brings it to the cache, and nothing else does. `around` is dropped before,
/// since of a large folio no single page is.
fn fills(kernel: &impl Kernel, around: &Range<u64>, offset: u64) -> Option<bool> {
    // Others who keep reading the block pass for the kernel if they are seen after each read and never after a pause: at the
    // worst, every second time, once in 4^TIMES. Where the file system explains it, fewer will do.
    let times = if kernel.explains(around) { 3 } else { 10 };
    let block = offset..offset + kernel.block();
    for _ in 0..times {
        kernel.drop_pages(around);
        if kernel.resident(&block).ok()? > 0 {
            return None;
        }
        let begun = Instant::now();
        kernel.read_block(offset).ok()?;
        if kernel.resident(&block).ok()? == 0 {
            return Some(false);
        }
        let took = begun.elapsed();
        kernel.drop_pages(around);
        if kernel.resident(&block).ok()? > 0 {
            return None;
        }
        kernel.pause(took);
        if kernel.resident(&block).ok()? > 0 {
            return None;
        }
    }
    Some(true)
}

struct Real<'a> {
    pair: &'a Descriptors,
    block: u64,
}

impl<'a> Real<'a> {
    fn of(file: &File, pair: &'a Descriptors) -> Self {
        let align = file.inner.alignment().map_or(1, |align| u64::from(align.offset.max(align.memory)));
        Self { pair, block: align.max(page::size() as u64) }
    }
}

impl Kernel for Real<'_> {
    fn resident(&self, range: &Range<u64>) -> io::Result<u64> {
        cachestat::resident_pages(self.pair.buffered(), range.start, range.end - range.start)
    }

    fn drop_pages(&self, range: &Range<u64>) {
        let (Ok(start), Ok(len)) = (libc::off_t::try_from(range.start), libc::off_t::try_from(range.end - range.start))
        else {
            return;
        };
        // What stays is seen by looking.
        let _ = posix_fadvise(self.pair.buffered().as_fd(), start, len, PosixFadviseAdvice::POSIX_FADV_DONTNEED);
    }

    fn read_block(&self, offset: u64) -> io::Result<()> {
        let direct = self.pair.direct().map_err(|reason| io::Error::other(reason.to_string()))?;
        probe::aligned_read_at(direct, usize::try_from(self.block).map_err(io::Error::other)?, offset)
    }

    fn pause(&self, time: Duration) {
        thread::sleep(time);
    }

    fn explains(&self, range: &Range<u64>) -> bool {
        extents::are_read_through_cache(self.pair.buffered(), range)
    }

    fn block(&self) -> u64 {
        self.block
    }
}

#[cfg(all(test, not(forebay_loom)))]
mod tests;
