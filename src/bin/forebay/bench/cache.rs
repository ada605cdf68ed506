//! The page cache of the file that is measured: emptied or filled, and what it holds proven.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use nix::fcntl::{PosixFadviseAdvice, posix_fadvise};
use nix::libc;

use super::case::Cache;
use super::target::Target;

/// More than this share in the page cache, and a file is not cold; less than the rest of it, and it is not warm.
const SLACK: f64 = 0.001;

/// Of a cold file of so many chunks, how many are read at random through the page cache before the run ends. They are drawn
/// with repeats: of a sixteenth, 3 of 100 on the average find one that an earlier one has brought, and what is read once over
/// says nothing of a cold cache. More would also make the kernel read ahead, which it does beside what is there.
pub fn drawn_while_cold(chunks: u64) -> u64 {
    chunks / 16
}

/// What was proven of the page cache before a run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Proven {
    /// As it was to be.
    Yes,
    /// The kernel does not tell.
    Unknown,
    /// This share is there, though it was to be otherwise.
    No(f64),
}

/// Share of the file in the page cache, from 0 to 1; `None` where the kernel does not tell.
pub fn share(target: &Target) -> Option<f64> {
    forebay::facts::cached_share(&target.file, 0, target.len).ok()
}

/// Brings the page cache to what a case is to find.
pub fn prepare(target: &Target, cache: Cache) -> io::Result<Proven> {
    match cache {
        Cache::Cold => {
            // Dirty pages are not dropped: what was just written is not cold.
            match target.file.sync_data() {
                // Nothing is dirty on a file system that cannot be written to; those without a way to sync say EINVAL
                // (squashfs, erofs). Whether the file is cold is proven below.
                Err(error) if matches!(error.raw_os_error(), Some(libc::EROFS | libc::EINVAL)) => {}
                synced => synced?,
            }
            posix_fadvise(&target.file, 0, 0, PosixFadviseAdvice::POSIX_FADV_DONTNEED)?;
        }
        Cache::Warm => fill(&target.file, target.len)?,
    }
    Ok(match (share(target), cache) {
        (None, _) => Proven::Unknown,
        (Some(share), Cache::Cold) if share > SLACK => Proven::No(share),
        (Some(share), Cache::Warm) if share < 1.0 - SLACK => Proven::No(share),
        (Some(_), _) => Proven::Yes,
    })
}

fn fill(file: &File, len: u64) -> io::Result<()> {
    if forebay::facts::cached_share(file, 0, len).is_ok_and(|share| share >= 1.0) {
        return Ok(());
    }
    let mut piece = vec![0; 1 << 20];
    let mut at = 0;
    while at < len {
        match file.read_at(&mut piece, at)? {
            0 => break,
            read => at += read as u64,
        }
    }
    Ok(())
}
