//! Self-describing files: each 8-byte word is a mix of the file's seed and the word's own offset, so any byte can be
//! checked without reading the file a second time, and a wrong word tells which offset it really came from.
use std::fs::File;
use std::io::{self, Write};
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::Path;

const PHI: u64 = 0x9e37_79b9_7f4a_7c15;
const MUL: u64 = 0xd6e8_feb8_6659_fd93;

/// The most one Linux read call moves.
pub const MAX_RW: u64 = 0x7fff_f000;

/// The word at `offset` (a multiple of 8) of the file with `seed`.
pub fn word(seed: u64, offset: u64) -> u64 {
    let w = offset.wrapping_add(seed.wrapping_mul(PHI)).wrapping_mul(MUL);
    w ^ (w >> 32)
}

/// Fills `buf` with what a self-describing file holds from `offset` on.
pub fn fill(buf: &mut [u8], seed: u64, offset: u64) {
    let lead = ((8 - offset % 8) % 8).min(buf.len() as u64) as usize;
    let (head, rest) = buf.split_at_mut(lead);
    head.copy_from_slice(&word(seed, offset & !7).to_le_bytes()[(offset % 8) as usize..][..lead]);
    let mut at = offset + lead as u64;
    let mut words = rest.chunks_exact_mut(8);
    for chunk in &mut words {
        chunk.copy_from_slice(&word(seed, at).to_le_bytes());
        at += 8;
    }
    let tail = words.into_remainder();
    tail.copy_from_slice(&word(seed, at).to_le_bytes()[..tail.len()]);
}

/// What a self-describing file holds in `offset..offset + len`.
pub fn bytes(seed: u64, offset: u64, len: u64) -> Vec<u8> {
    let mut buf = vec![0; len as usize];
    fill(&mut buf, seed, offset);
    buf
}

/// Checks bytes said to lie at `offset` of the self-describing file with `seed`.
pub fn check(got: &[u8], seed: u64, offset: u64) -> Result<(), String> {
    same(got, &bytes(seed, offset, got.len() as u64), offset)
        .map_err(|wrong| format!("{wrong}{}", origin(got, seed, offset)))
}

/// Compares bytes said to lie at `offset` with the oracle's.
pub fn same(got: &[u8], want: &[u8], offset: u64) -> Result<(), String> {
    if got == want {
        return Ok(());
    }
    if got.len() != want.len() {
        return Err(format!("{} bytes at {offset} where {} were asked for", got.len(), want.len()));
    }
    let first = got.iter().zip(want).position(|(g, w)| g != w).unwrap();
    let wrong = got.iter().zip(want).filter(|(g, w)| g != w).count();
    let zeros = if got[first..].iter().take(64).all(|&b| b == 0) { " (zeros)" } else { "" };
    Err(format!(
        "WRONG BYTES: {wrong} of {} differ, the first at file offset {} ({first} into the extent){zeros}",
        got.len(),
        offset + first as u64,
    ))
}

/// Where the first wrong whole word comes from, if it is a word of the same file.
fn origin(got: &[u8], seed: u64, offset: u64) -> String {
    let lead = ((8 - offset % 8) % 8) as usize;
    let words = got.get(lead..).unwrap_or_default().chunks_exact(8);
    for (i, chunk) in words.enumerate() {
        let at = offset + lead as u64 + i as u64 * 8;
        let got = u64::from_le_bytes(chunk.try_into().unwrap());
        if got == word(seed, at) {
            continue;
        }
        let w = got ^ (got >> 32);
        let from = w.wrapping_mul(inverse(MUL)).wrapping_sub(seed.wrapping_mul(PHI));
        if from.is_multiple_of(8) && from < 1 << 40 {
            return format!("; the word at {at} belongs to offset {from}");
        }
        return String::new();
    }
    String::new()
}

/// The inverse of an odd number modulo 2^64, by Newton's iteration.
fn inverse(odd: u64) -> u64 {
    let mut x = odd;
    for _ in 0..6 {
        x = x.wrapping_mul(2u64.wrapping_sub(odd.wrapping_mul(x)));
    }
    x
}

/// Writes a self-describing file of `len` bytes and syncs it, so that its pages can be dropped.
pub fn write_dense(path: &Path, seed: u64, len: u64) -> io::Result<()> {
    write_islands(path, seed, len, std::slice::from_ref(&(0..len)))
}

/// Writes a file of `len` bytes that is a hole but for the given islands of self-describing data, and syncs it.
pub fn write_islands(path: &Path, seed: u64, len: u64, islands: &[Range<u64>]) -> io::Result<()> {
    let file = File::create(path)?;
    file.set_len(len)?;
    let mut block = vec![0; 1 << 20];
    for island in islands {
        let mut at = island.start;
        while at < island.end.min(len) {
            let n = (island.end.min(len) - at).min(block.len() as u64);
            fill(&mut block[..n as usize], seed, at);
            file.write_all_at(&block[..n as usize], at)?;
            at += n;
        }
    }
    file.sync_all()
}

/// Islands around the offsets where 31-bit, 0x7ffff000 and 32-bit arithmetic breaks, and at both ends of the file.
pub fn boundary_islands(len: u64) -> Vec<Range<u64>> {
    let around = 192 << 10;
    [0, MAX_RW, 1 << 31, 1 << 32, len]
        .into_iter()
        .map(|at: u64| at.saturating_sub(around)..(at + around).min(len))
        .filter(|island| island.start < island.end)
        .collect()
}

/// The oracle: `offset..offset + len` through std::fs, whole or an error.
pub fn oracle(path: &Path, offset: u64, len: u64) -> io::Result<Vec<u8>> {
    let mut buf = vec![0; len as usize];
    File::open(path)?.read_exact_at(&mut buf, offset)?;
    Ok(buf)
}

/// Asks the kernel to drop the file's clean pages, so that the next read is a cold one.
pub fn drop_cache(path: &Path) -> io::Result<()> {
    use std::os::fd::AsRawFd;
    let file = File::open(path)?;
    // SAFETY: the descriptor is open for the length of the call; the call touches no memory of ours.
    let rc = unsafe { nix::libc::posix_fadvise(file.as_raw_fd(), 0, 0, nix::libc::POSIX_FADV_DONTNEED) };
    if rc == 0 { Ok(()) } else { Err(io::Error::from_raw_os_error(rc)) }
}

/// Reads `range` through the page cache, so that the next read of it is a warm one.
pub fn warm_cache(path: &Path, range: Range<u64>) -> io::Result<()> {
    oracle(path, range.start, range.end - range.start).map(drop)
}

/// Overwrites the whole file in place with another seed's data, without changing its length.
pub fn overwrite(path: &Path, seed: u64) -> io::Result<()> {
    let mut file = File::options().write(true).open(path)?;
    let len = file.metadata()?.len();
    file.write_all(&bytes(seed, 0, len))
}
