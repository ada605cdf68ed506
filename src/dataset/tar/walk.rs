use super::BLOCK;
use super::end::End;
use super::header::Header;
use super::links::is_same;
use super::records::{Record, Records};
use crate::dataset::error::{DatasetError, DatasetFault};
use crate::dataset::foreign;
use crate::dataset::headers::Headers;
use crate::dataset::source::Source;
use crate::dataset::text::in_message;

/// A member of an archive that is no folder.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Member<'a> {
    /// As the archive has it, of any bytes; it leads nowhere.
    pub(crate) name: &'a [u8],
    /// Where its header begins.
    pub(crate) at: u64,
    /// Where its data begins. Its own header is the block before.
    pub(crate) data: u64,
    /// Bytes of data; all of them are in the archive.
    pub(crate) size: u64,
    pub(crate) kind: Kind<'a>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind<'a> {
    File,
    /// Another name of a member that is called so.
    HardLink(&'a [u8]),
    /// A path, from the folder of the link on.
    SymbolicLink(&'a [u8]),
    /// A device, a FIFO or what is of no known kind.
    Other,
}

/// Shows `visit` each member of the archive that is no folder, in order, and those of the archives that are joined to it.
/// Nothing is opened by the names that members and links have.
///
/// An archive ends with a block of zeros or with the file; how it did is the result.
///
/// # Errors
/// What [`super`] says is refused, with the offset of the header that is wrong; and those of `visit`.
pub(crate) fn each_member(
    source: &Source,
    visit: &mut dyn FnMut(Member<'_>) -> Result<(), DatasetError>,
) -> Result<End, DatasetError> {
    let mut headers = Headers::new(source);
    let mut records = Records::default();
    let (mut name, mut link) = (Vec::new(), Vec::new());
    let mut end = End::default();
    let mut next = 0;
    while let Some((at, block)) = next_block(source, &mut headers, next, &records, &mut end)? {
        let header = Header::new(&block).ok_or_else(|| not_a_header(source, at, &block))?;
        let size = header.size().map_err(|fault| {
            let what = format!("the size of member {} {fault}", in_message(header.last_name()));
            source.malformed(at, what, "the archive is damaged, get it again")
        })?;
        let data = at.saturating_add(BLOCK as u64);
        if Records::is_one(header.kind()) {
            source.check_range(data, size, "a record about the next member")?;
            records.take(source, &mut headers, Record { kind: header.kind(), at, data, size })?;
            next = behind(data, size);
            continue;
        }
        let (size, is_sparse) = records.of(header, size, &mut name, &mut link);
        let size = size_in_archive(source, at, header, &name, size, is_sparse)?;
        if size > source.len().saturating_sub(data) {
            source.check_range(data, size, &format!("member {}", in_message(&name)))?;
        }
        if let Some(kind) = kind_of(header, &name, &link) {
            visit(Member { name: &name, at, data, size, kind })?;
        }
        next = behind(data, size);
    }
    Ok(end)
}

/// The next header and its place; `None` at the end of the archive, and of those joined to it.
fn next_block(
    source: &Source,
    headers: &mut Headers<'_>,
    at: u64,
    records: &Records,
    end: &mut End,
) -> Result<Option<(u64, [u8; BLOCK])>, DatasetError> {
    let bytes = headers.read(at, BLOCK)?;
    if at == 0 && bytes.is_empty() {
        return Err(source.malformed(0, "it is empty, and an archive has at least its end", "get it again"));
    }
    let block = bytes.first_chunk::<BLOCK>().copied();
    if !is_zero(bytes) {
        return match block {
            Some(block) => Ok(Some((at, block))),
            None if at == 0 => Err(not_a_header(source, at, bytes)),
            None => {
                let missing = (BLOCK - bytes.len()) as u64;
                Err(source.fault(at, DatasetFault::Truncated { what: "the header of a member".into(), missing }))
            }
        };
    }
    if let Some(first) = records.first {
        return Err(source.malformed(first, "a record speaks of a member that does not follow", "get it again"));
    }
    match block {
        Some(_) => end.next_archive(source, headers, at),
        None => {
            end.is_missing = true;
            Ok(None)
        }
    }
}

fn is_zero(bytes: &[u8]) -> bool {
    bytes.iter().all(|&byte| byte == 0)
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

/// `None` of folders, and of what GNU tar notes about volumes and folders.
fn kind_of<'a>(header: Header<'_>, name: &[u8], link: &'a [u8]) -> Option<Kind<'a>> {
    match header.kind() {
        _ if is_old_folder(header) => None,
        // By the letters of ustar, of archives before it, and for files in one piece on the disk.
        b'0' | 0 | b'7' => Some(Kind::File),
        // A file that GNU tar was given twice: the second time it is a link to itself.
        b'1' if is_same(name, link) => None,
        b'1' => Some(Kind::HardLink(link)),
        b'2' => Some(Kind::SymbolicLink(link)),
        b'5' | b'D' | b'V' => None,
        _ => Some(Kind::Other),
    }
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
