use super::BLOCK;
use super::header::Header;
use super::records::{Record, Records};
use crate::dataset::error::{DatasetError, DatasetFault};
use crate::dataset::foreign;
use crate::dataset::headers::Headers;
use crate::dataset::source::Source;
use crate::dataset::text::{in_message, shown};

/// A regular file in an archive. Its data is in the archive, all of it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Member<'a> {
    /// As the archive has it, of any bytes; it leads nowhere.
    pub(crate) name: &'a [u8],
    /// Where its data begins. Its own header is the block before.
    pub(crate) data: u64,
    /// Bytes of data.
    pub(crate) size: u64,
}

/// Shows `visit` each regular file in the archive, in order. Folders, links, devices and FIFOs have no data and are passed
/// over, and so is what is of no known kind, with its data; links are not followed.
///
/// The archive ends with a block of zeros or with the file; a file that ends without one is only warned about, as no data
/// is missing. What is behind the end is not read, as by other readers of tar.
///
/// # Errors
/// What [`super`] says is refused, with the offset of the header that is wrong; and those of `visit`.
pub(crate) fn each_file(
    source: &Source,
    visit: &mut dyn FnMut(Member<'_>) -> Result<(), DatasetError>,
) -> Result<(), DatasetError> {
    let mut headers = Headers::new(source);
    let mut records = Records::default();
    let mut name = Vec::new();
    let mut at = 0;
    while let Some(block) = next_block(source, &mut headers, at)? {
        let header = Header::new(&block).ok_or_else(|| not_a_header(source, at, &block))?;
        let size = header.size().map_err(|fault| {
            let what = format!("the size of member {} {fault}", in_message(header.last_name()));
            source.malformed(at, what, "the archive is damaged, get it again")
        })?;
        let data = at.saturating_add(BLOCK as u64);
        if Records::is_one(header.kind()) {
            source.check_range(data, size, "a record about the next member")?;
            records.take(source, &mut headers, Record { kind: header.kind(), at, data, size })?;
            at = behind(data, size);
            continue;
        }
        let (size, is_sparse) = records.of(header, size, &mut name);
        let size = size_in_archive(source, at, header, &name, size, is_sparse)?;
        if size > source.len().saturating_sub(data) {
            source.check_range(data, size, &format!("member {}", in_message(&name)))?;
        }
        if is_file(header) {
            visit(Member { name: &name, data, size })?;
        }
        at = behind(data, size);
    }
    match records.first {
        Some(first) => Err(source.malformed(first, "a record speaks of a member that does not follow", "get it again")),
        None => Ok(()),
    }
}

/// The block of the next header; `None` at the end of the archive.
fn next_block(source: &Source, headers: &mut Headers<'_>, at: u64) -> Result<Option<[u8; BLOCK]>, DatasetError> {
    let bytes = headers.read(at, BLOCK)?;
    if at == 0 && bytes.is_empty() {
        return Err(source.malformed(0, "it is empty, and an archive has at least its end", "get it again"));
    }
    match bytes.first_chunk::<BLOCK>() {
        Some(&block) if block[0] == 0 && is_zero(&block) => {
            warn_of_more(source, headers, at)?;
            Ok(None)
        }
        Some(&block) => Ok(Some(block)),
        None if is_zero(bytes) => {
            tracing::warn!("{}: no end of archive; no member is cut, but its writer was", shown(source.path()));
            Ok(None)
        }
        None if at == 0 => Err(not_a_header(source, at, bytes)),
        None => {
            let missing = (BLOCK - bytes.len()) as u64;
            Err(source.fault(at, DatasetFault::Truncated { what: "the header of a member".into(), missing }))
        }
    }
}

fn is_zero(bytes: &[u8]) -> bool {
    bytes.iter().all(|&byte| byte == 0)
}

/// Archives joined with `cat` end, for every reader, where the first of them does. Nobody means that.
fn warn_of_more(source: &Source, headers: &mut Headers<'_>, end: u64) -> Result<(), DatasetError> {
    /// Blocks that GNU tar and others fill up with zeros, and one more.
    const RECORD: usize = 21 * BLOCK;
    let behind = headers.read(end, RECORD)?;
    let mut blocks = behind.as_chunks::<BLOCK>().0.iter();
    if blocks.any(|block| !is_zero(block) && Header::new(block).is_some()) {
        tracing::warn!(
            "{} at {end}: members behind the end of the archive are not read; join archives with `tar --concatenate`",
            shown(source.path())
        );
    }
    Ok(())
}

/// Where the block behind the data begins. What passes the end of all numbers passes the file's, too.
fn behind(data: u64, size: u64) -> u64 {
    let end = data.saturating_add(size);
    end.checked_next_multiple_of(BLOCK as u64).unwrap_or(u64::MAX)
}

/// Bytes of the member's data in the archive, where readers agree on that.
fn size_in_archive(
    source: &Source,
    at: u64,
    header: Header<'_>,
    name: &[u8],
    size: u64,
    is_sparse: bool,
) -> Result<u64, DatasetError> {
    let refused = |kind: &str, fix| Err(source.unsupported(at, format!("member {} is {kind}", in_message(name)), fix));
    match header.kind() {
        _ if is_sparse => refused("sparse", "write the archive again without --sparse"),
        b'M' => refused("continued from another volume", "write the archive again in one volume"),
        // A hard link's size is the file's that it leads to, and has no data here.
        b'1' => Ok(0),
        b'2'..=b'6' if size > 0 => {
            refused("no file but has a size, which readers disagree on", "write it again with 0")
        }
        _ if is_old_folder(header) && size > 0 => {
            refused("a folder but has a size, which readers disagree on", "write it again with 0")
        }
        _ => Ok(size),
    }
}

/// Regular files, by the letters of ustar, of archives before it, and for files in one piece on the disk.
fn is_file(header: Header<'_>) -> bool {
    matches!(header.kind(), b'0' | 0 | b'7') && !is_old_folder(header)
}

/// Before ustar folders were files with a slash at the end.
fn is_old_folder(header: Header<'_>) -> bool {
    header.kind() == 0 && header.last_name().ends_with(b"/")
}

fn not_a_header(source: &Source, at: u64, block: &[u8]) -> DatasetError {
    if at > 0 {
        return source.malformed(at, "the checksum of a header is wrong", "the archive is damaged, get it again");
    }
    foreign::instead(source, block).unwrap_or_else(|| {
        source.malformed(0, "it is no tar archive: it does not begin with a header", "check the path")
    })
}
