use super::header::Header;
use super::pax::Pax;
use crate::dataset::error::DatasetError;
use crate::dataset::headers::Headers;
use crate::dataset::source::Source;

/// Bytes that a record about the next member may have; names and times need some hundred.
const MOST: u64 = 1 << 20;

/// Bytes of records that an archive may have, and how many more with each member: who claims long ones before many members
/// has each of them read.
const MOST_IN_ALL: u64 = 64 << 20;
const MOST_A_MEMBER: u64 = 4 << 10;

/// What records say of the member that follows them. A member is what is no record: records in between are not it.
#[derive(Debug, Default)]
pub(super) struct Records {
    /// Where the first of them is.
    pub(super) first: Option<u64>,
    long_name: Option<Vec<u8>>,
    long_link: Option<Vec<u8>>,
    pax: Option<Pax>,
    /// Bytes of records so far, and members.
    read: u64,
    members: u64,
}

/// A record's header, and where its data is.
#[derive(Debug, Clone, Copy)]
pub(super) struct Record {
    pub(super) kind: u8,
    pub(super) at: u64,
    pub(super) data: u64,
    pub(super) size: u64,
}

impl Records {
    /// Whether a header of this kind is a record: a pax header (Solaris has its own letter for it), or GNU's long name or
    /// long link.
    pub(super) fn is_one(kind: u8) -> bool {
        matches!(kind, b'x' | b'X' | b'g' | b'L' | b'K')
    }

    /// Takes a record in, whose data is known to be in the file.
    pub(super) fn take(
        &mut self,
        source: &Source,
        headers: &mut Headers<'_>,
        record: Record,
    ) -> Result<(), DatasetError> {
        let Record { kind, at, data, size } = record;
        if size > MOST {
            let what = format!("a record about the next member has {size} bytes, and may have {MOST}");
            return Err(source.malformed(at, what, "write the archive again"));
        }
        if kind != b'g' {
            self.first.get_or_insert(at);
        }
        let twice = |what| Err(source.malformed(at, what, "write the archive again"));
        let bytes = headers.read(data, size as usize)?;
        self.read = self.read.saturating_add(size);
        if self.read > MOST_IN_ALL.saturating_add(self.members.saturating_mul(MOST_A_MEMBER)) {
            let what = format!("{} bytes of records tell of {} members up to here", self.read, self.members);
            return Err(source.unsupported(at, what, "write the archive again without extended attributes"));
        }
        match kind {
            b'L' if self.long_name.is_some() => return twice("one member has two long names"),
            b'L' => self.long_name = Some(before_nul(bytes)),
            b'K' if self.long_link.is_some() => return twice("one member has two long names of what it leads to"),
            b'K' => self.long_link = Some(before_nul(bytes)),
            b'g' => check_global(source, data, &parse(source, data, bytes)?)?,
            _ if self.pax.is_some() => return twice("one member has two pax headers"),
            _ => self.pax = Some(parse(source, data, bytes)?),
        }
        Ok(())
    }

    /// The name of the member with this header, what it leads to where it is a link, and its size; and whether it is sparse.
    /// Its records are used up.
    pub(super) fn of(&mut self, header: Header<'_>, size: u64, name: &mut Vec<u8>, link: &mut Vec<u8>) -> (u64, bool) {
        self.members += 1;
        header.name_into(name);
        link.clear();
        link.extend_from_slice(header.link_name());
        if self.first.take().is_none() {
            return (size, header.kind() == b'S');
        }
        let pax = self.pax.take().unwrap_or_default();
        // Both name it the same where both are written; POSIX gives the pax header the last word.
        if let Some(long) = pax.path.or(self.long_name.take()) {
            *name = long;
        }
        if let Some(long) = pax.link.or(self.long_link.take()) {
            *link = long;
        }
        (self.long_name, self.long_link) = (None, None);
        (pax.size.unwrap_or(size), pax.is_sparse || header.kind() == b'S')
    }
}

fn before_nul(bytes: &[u8]) -> Vec<u8> {
    bytes.split(|&byte| byte == 0).next().unwrap_or_default().to_vec()
}

fn parse(source: &Source, data: u64, bytes: &[u8]) -> Result<Pax, DatasetError> {
    Pax::parse(bytes).map_err(|(at, fault)| {
        source.malformed(data.saturating_add(at as u64), format!("a pax record {fault}"), "write the archive again")
    })
}

/// A global header speaks of all members that follow. Of their times, owners and comments it may.
fn check_global(source: &Source, data: u64, pax: &Pax) -> Result<(), DatasetError> {
    match pax {
        Pax { path: None, link: None, size: None, is_sparse: false } => Ok(()),
        _ => {
            let what = "a global pax header gives all members one path, one size or one map of holes";
            Err(source.malformed(data, what, "write the archive again"))
        }
    }
}
