//! The list of an archive's members, by PKWARE's APPNOTE 6.3: where each lies, told twice and compared.

use super::super::error::DatasetError;
use super::super::key::is_apple_double;
use super::super::source::Source;
use super::super::text::{in_message, text};
use super::end::{self, Directory};
use super::fields::Fields;

/// A member of an archive that is stored as it is.
#[derive(Debug)]
pub(super) struct Member {
    /// Its whole name, as text. It never leads to a file.
    pub(super) name: String,
    /// Where its entry in the central directory begins.
    pub(super) entry: u64,
    /// Where its bytes begin.
    pub(super) start: u64,
    /// Bytes.
    pub(super) len: u64,
    /// The CRC-32 of those.
    pub(super) crc: u32,
}

#[derive(Debug)]
pub(super) struct Members {
    pub(super) members: Vec<Member>,
    /// How many files there are that macOS keeps beside others.
    pub(super) apple_doubles: u64,
}

/// The members of an archive, in the order of its directory, but folders.
///
/// Bytes of members are not read here, so neither is their CRC checked.
pub(super) fn members(source: &Source) -> Result<Members, DatasetError> {
    let directory = end::directory(source)?;
    let bytes = source.read_vec(directory.start, directory.len, "the central directory")?;
    let mut fields = Fields::new(source, directory.start, &bytes, "the central directory");
    // An entry has at least 46 bytes, so there are no more than the directory has room for.
    let mut entries = Vec::new();
    for _ in 0..directory.entries {
        entries.push(Entry::read(&mut fields)?);
    }
    if fields.left() > 0 {
        let what = format!("{} bytes follow the last entry of the central directory", fields.left());
        return Err(source.malformed(fields.at(), what, REWRITE));
    }
    let ends = ends(source, &entries, &directory)?;
    let mut extra_left = MOST_EXTRA;
    let mut members = Members { members: Vec::with_capacity(entries.len()), apple_doubles: 0 };
    for (entry, end) in entries.iter().zip(ends) {
        if is_apple_double(entry.name) {
            members.apple_doubles += 1;
        } else if !(entry.name.ends_with(b"/") && entry.len == 0) {
            members.members.push(entry.member(source, end, &mut extra_left)?);
        }
    }
    Ok(members)
}

/// Where each member must end at the latest: where the next one begins, or the directory. Looked at before any member is,
/// since many entries that name one place would have it read as often.
fn ends(source: &Source, entries: &[Entry<'_>], directory: &Directory) -> Result<Vec<u64>, DatasetError> {
    let mut by_place: Vec<usize> = (0..entries.len()).collect();
    by_place.sort_unstable_by_key(|&i| entries[i].local);
    let mut ends = vec![directory.start; entries.len()];
    for pair in by_place.windows(2) {
        let &[first, second] = pair else { continue };
        let (one, next) = (&entries[first], &entries[second]);
        if one.local.saturating_add(LOCAL_LEN) > next.local {
            let [one, other] = [one, next].map(|entry| in_message(entry.name));
            return Err(source.malformed(next.local, format!("members {one} and {other} overlap"), REWRITE));
        }
        ends[first] = next.local;
    }
    Ok(ends)
}

pub(super) const REWRITE: &str = "write the archive again with numpy.savez";

const ENTRY: u32 = 0x0201_4b50;
const LOCAL: u32 = 0x0403_4b50;
/// Bytes of a local header without name and extra field.
const LOCAL_LEN: u64 = 30;
/// Bytes of all local extra fields that are read; numpy writes 20 a member.
const MOST_EXTRA: u64 = 8 << 20;
const ZIP64: u16 = 1;
/// A number that does not fit is this, and stands in the ZIP64 field.
const ELSEWHERE: u32 = u32::MAX;

const ENCRYPTED: u16 = 1;
/// Lengths and CRC stand behind the bytes.
const LENGTHS_BEHIND: u16 = 1 << 3;
/// Patches, strong encryption and masked headers.
const STRANGE: u16 = 1 << 5 | 1 << 6 | 1 << 13;

/// What the central directory says of a member.
struct Entry<'a> {
    at: u64,
    flags: u16,
    method: u16,
    crc: u32,
    compressed: u64,
    len: u64,
    local: u64,
    name: &'a [u8],
}

impl<'a> Entry<'a> {
    fn read(fields: &mut Fields<'a, '_>) -> Result<Self, DatasetError> {
        let at = fields.at();
        if fields.u32()? != ENTRY {
            return Err(fields.malformed(at, "an entry of the central directory does not begin as one", REWRITE));
        }
        let (_made_by, _needs) = (fields.u16()?, fields.u16()?);
        let (flags, method) = (fields.u16()?, fields.u16()?);
        let (_time, crc) = (fields.u32()?, fields.u32()?);
        let (compressed, len) = (fields.u32()?, fields.u32()?);
        let (name_len, extra_len, comment_len) = (fields.u16()?, fields.u16()?, fields.u16()?);
        let disk = fields.u16()?;
        let (_internal, _external) = (fields.u16()?, fields.u32()?);
        let local = fields.u32()?;
        let name = fields.bytes(name_len.into())?;
        let mut extra = fields.within(extra_len.into(), "the extra field")?;
        fields.bytes(comment_len.into())?;

        let [len, compressed, local] = wide(&mut extra, [len, compressed, local])?;
        if disk != 0 && disk != u16::MAX {
            return Err(fields.unsupported(at, "the archive is spread over several files", REWRITE));
        }
        if name.is_empty() || name.contains(&0) {
            return Err(fields.malformed(at, "a member has no name, or one with a zero byte", REWRITE));
        }
        Ok(Self { at, flags, method, crc, compressed, len, local, name })
    }

    /// The member, where its local header says the same.
    fn member(&self, source: &Source, end: u64, extra_left: &mut u64) -> Result<Member, DatasetError> {
        let name = text(self.name).into_owned();
        let not_read = |what: &str, fix| {
            Err(source.unsupported(self.at, format!("member {} is {what}", in_message(name.as_bytes())), fix))
        };
        if self.flags & (ENCRYPTED | STRANGE) != 0 {
            return not_read("encrypted or patched", "write the archive without a password");
        }
        if self.method != 0 {
            let how = match self.method {
                8 => "compressed (deflate)".to_owned(),
                method => format!("compressed (method {method})"),
            };
            return not_read(&how, "write it with numpy.savez in place of numpy.savez_compressed");
        }
        let wrong =
            |what: &str| source.malformed(self.at, format!("member {} {what}", in_message(name.as_bytes())), REWRITE);
        if self.compressed != self.len {
            return Err(wrong("is stored as it is, and yet has two lengths"));
        }
        let start = self.check_local(source, end, extra_left).map_err(|disagreement| match disagreement {
            Disagreement::Said(error) => error,
            Disagreement::Of(what) => wrong(what),
        })?;
        match start.checked_add(self.len) {
            Some(its) if its <= end => Ok(Member { entry: self.at, start, len: self.len, crc: self.crc, name }),
            _ => Err(wrong("reaches into the next one or the central directory: they overlap")),
        }
    }

    /// Where the member's bytes begin.
    fn check_local(&self, source: &Source, end: u64, extra_left: &mut u64) -> Result<u64, Disagreement> {
        let head_end = self.local.checked_add(LOCAL_LEN).filter(|&head| head <= end);
        let head_end = head_end.ok_or(Disagreement::Of("lies behind the central directory"))?;
        let mut head = [0; LOCAL_LEN as usize];
        source.read_at(self.local, &mut head, "the local header")?;
        let mut fields = Fields::new(source, self.local, &head, "the local header");
        if fields.u32()? != LOCAL {
            return Err(Disagreement::Of("has no local header where the central directory says"));
        }
        let _needs = fields.u16()?;
        let (flags, method) = (fields.u16()?, fields.u16()?);
        let (_time, crc) = (fields.u32()?, fields.u32()?);
        let (compressed, len) = (fields.u32()?, fields.u32()?);
        let (name_len, extra_len) = (fields.u16()?, fields.u16()?);

        let rest_len = u64::from(name_len) + u64::from(extra_len);
        if head_end + rest_len > end {
            return Err(Disagreement::Of("has a local header that reaches into the next member or the directory"));
        }
        *extra_left = extra_left
            .checked_sub(extra_len.into())
            .ok_or(Disagreement::Of("has an extra field that, with those before it, is longer than anybody needs"))?;
        let rest = source.read_vec(head_end, rest_len, "the local header")?;
        let mut fields = Fields::new(source, head_end, &rest, "the local header");
        if fields.bytes(name_len.into())? != self.name {
            return Err(Disagreement::Of("has another name in its local header"));
        }
        let mut extra = fields.within(extra_len.into(), "the extra field")?;
        let [len, compressed, _] = wide(&mut extra, [len, compressed, 0])?;

        if (flags ^ self.flags) & (ENCRYPTED | STRANGE) != 0 || method != self.method {
            return Err(Disagreement::Of("is stored in another way by its local header"));
        }
        // Who writes to a pipe knows some of it beforehand, as Info-ZIP and bsdtar do, or nothing.
        let behind = (flags | self.flags) & LENGTHS_BEHIND != 0;
        let agrees = |told: u64, is: u64| told == is || (behind && (told == 0 || told == u64::from(ELSEWHERE)));
        if !agrees(len, self.len)
            || !agrees(compressed, self.compressed)
            || !agrees(u64::from(crc), u64::from(self.crc))
        {
            return Err(Disagreement::Of("has another length or CRC in its local header"));
        }
        Ok(head_end + rest_len)
    }
}

/// What a local header says otherwise.
enum Disagreement {
    Of(&'static str),
    Said(DatasetError),
}

impl From<DatasetError> for Disagreement {
    fn from(error: DatasetError) -> Self {
        Disagreement::Said(error)
    }
}

/// Length, compressed length and place, from the ZIP64 extra field where they do not fit.
fn wide(extra: &mut Fields<'_, '_>, narrow: [u32; 3]) -> Result<[u64; 3], DatasetError> {
    let mut wide = narrow.map(u64::from);
    let mut found = false;
    while extra.left() > 0 {
        let at = extra.at();
        let (id, len) = (extra.u16()?, extra.u16()?);
        let mut field = extra.within(len.into(), "an extra field")?;
        if id != ZIP64 {
            continue;
        }
        if found {
            return Err(extra.malformed(at, "a member has two ZIP64 fields", REWRITE));
        }
        found = true;
        for (narrow, wide) in narrow.iter().zip(&mut wide) {
            if *narrow == ELSEWHERE {
                *wide = field.u64()?;
            }
        }
    }
    Ok(wide)
}
