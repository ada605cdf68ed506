//! The end of an archive, which tells where its directory is.

use super::super::error::DatasetError;
use super::super::foreign;
use super::super::source::Source;
use super::fields::Fields;
use super::zip::REWRITE;

/// Where the central directory lies, and how many entries it has.
#[derive(Debug)]
pub(super) struct Directory {
    pub(super) start: u64,
    pub(super) len: u64,
    pub(super) entries: u64,
}

const END: u32 = 0x0605_4b50;
const END_LEN: u64 = 22;
const END64: u32 = 0x0606_4b50;
const END64_LEN: u64 = 56;
const LOCATOR: u32 = 0x0706_4b50;
const LOCATOR_LEN: u64 = 20;
/// A comment has at most as many bytes as a `u16` counts.
const LONGEST_TAIL: u64 = END_LEN + u16::MAX as u64 + LOCATOR_LEN;
/// Each member is a field of every sample: nobody has so many, and each costs a read.
const MOST_MEMBERS: u64 = 1 << 16;
/// Room for that many with names of 200 bytes.
const LONGEST_DIRECTORY: u64 = 16 << 20;

/// Finds the directory, and sees that it ends where what tells of it begins.
pub(super) fn directory(source: &Source) -> Result<Directory, DatasetError> {
    let tail_len = source.len().min(LONGEST_TAIL);
    let tail_at = source.len() - tail_len;
    let tail = source.read_vec(tail_at, tail_len, "the end of the archive")?;
    let end_at = find_end(&tail).ok_or_else(|| {
        let what = "the file has no end of a zip archive";
        source.malformed(source.len(), what, "get the file again: it may have been cut short")
    });
    let end_at = match end_at {
        Ok(at) => at,
        Err(cut) => return Err(other(source)?.unwrap_or(cut)),
    };

    let end = &tail[end_at..];
    let end_offset = tail_at + end_at as u64;
    let mut fields = Fields::new(source, end_offset, end, "the end of the archive");
    fields.u32()?;
    let disks = [fields.u16()?, fields.u16()?];
    let entries = [fields.u16()?, fields.u16()?];
    let (len, start) = (fields.u32()?, fields.u32()?);

    let told = Directory { start: start.into(), len: len.into(), entries: entries[1].into() };
    let locator = end_at.checked_sub(LOCATOR_LEN as usize).map(|at| &tail[at..end_at]);
    let (directory, ends_at) = match locator {
        Some(locator) if locator.starts_with(&LOCATOR.to_le_bytes()) => {
            let (wide, wide_at) = end64(source, locator, end_offset - LOCATOR_LEN)?;
            let same = |narrow: u64, most: u64, wide: u64| narrow == most || narrow == wide;
            let agree = same(told.start, u32::MAX.into(), wide.start)
                && same(told.len, u32::MAX.into(), wide.len)
                && same(told.entries, u16::MAX.into(), wide.entries);
            if !agree {
                return Err(source.malformed(end_offset, "the archive's two ends disagree", REWRITE));
            }
            (wide, wide_at)
        }
        _ => (told, end_offset),
    };
    if disks.iter().any(|&disk| disk != 0 && disk != u16::MAX) || entries[0] != entries[1] {
        return Err(source.unsupported(end_offset, "the archive is spread over several files", REWRITE));
    }
    check(source, directory, ends_at, end_offset)
}

/// What the file is in place of an archive, where that is known.
fn other(source: &Source) -> Result<Option<DatasetError>, DatasetError> {
    let mut head = [0; 512];
    let len = source.read_up_to(0, &mut head)?;
    Ok(Some(&head[..len]).filter(|head| !super::looks_like(head)).and_then(|head| foreign::instead(source, head)))
}

/// Where in a file's tail its archive's end begins: the last place from which a comment of the length that is told there
/// reaches just to the end of the file, or to the zeros with which bsdtar fills up what it writes to a pipe.
fn find_end(tail: &[u8]) -> Option<usize> {
    let last = tail.len().checked_sub(END_LEN as usize)?;
    let zeros = tail.iter().rposition(|&byte| byte != 0).map_or(0, |last| last + 1);
    (0..=last).rev().find(|&at| match tail.get(at..at + END_LEN as usize) {
        Some(end) if end.starts_with(&END.to_le_bytes()) => {
            let comment = usize::from(u16::from_le_bytes([end[20], end[21]]));
            // The end itself closes with zeros where there is no comment.
            let behind = at + END_LEN as usize + comment;
            behind <= tail.len() && zeros <= behind
        }
        _ => false,
    })
}

/// The end in its wide form, and where it begins.
fn end64(source: &Source, locator: &[u8], locator_at: u64) -> Result<(Directory, u64), DatasetError> {
    let mut fields = Fields::new(source, locator_at, locator, "the ZIP64 locator");
    fields.u32()?;
    let (disk, at, disks) = (fields.u32()?, fields.u64()?, fields.u32()?);
    if disk != 0 || disks > 1 {
        return Err(source.unsupported(locator_at, "the archive is spread over several files", REWRITE));
    }
    let fits = at.checked_add(END64_LEN).is_some_and(|end| end <= locator_at);
    if !fits {
        return Err(source.malformed(locator_at, "the ZIP64 end is not before its locator", REWRITE));
    }
    let mut bytes = [0; END64_LEN as usize];
    source.read_at(at, &mut bytes, "the ZIP64 end")?;
    let mut fields = Fields::new(source, at, &bytes, "the ZIP64 end");
    let (signature, rest) = (fields.u32()?, fields.u64()?);
    // Its length is that of what follows the length.
    if signature != END64 || rest.checked_add(at + 12) != Some(locator_at) {
        return Err(source.malformed(at, "there is no ZIP64 end that reaches to its locator", REWRITE));
    }
    let (_made_by, _needs) = (fields.u16()?, fields.u16()?);
    let disks = [fields.u32()?, fields.u32()?];
    let entries = [fields.u64()?, fields.u64()?];
    let (len, start) = (fields.u64()?, fields.u64()?);
    if disks != [0, 0] || entries[0] != entries[1] {
        return Err(source.unsupported(at, "the archive is spread over several files", REWRITE));
    }
    Ok((Directory { start, len, entries: entries[1] }, at))
}

fn check(source: &Source, directory: Directory, ends_at: u64, told_at: u64) -> Result<Directory, DatasetError> {
    if directory.start.checked_add(directory.len) != Some(ends_at) {
        let what = "the central directory does not lie just before the archive's end";
        return Err(source.malformed(told_at, what, REWRITE));
    }
    if directory.entries > MOST_MEMBERS || directory.len > LONGEST_DIRECTORY {
        let what = format!("the archive has {} members, more than the {MOST_MEMBERS} that are read", directory.entries);
        return Err(source.unsupported(told_at, what, "spread them over several archives"));
    }
    Ok(directory)
}
