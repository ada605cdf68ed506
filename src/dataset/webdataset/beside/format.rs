//! The file: a header of 144 bytes, the lists of a [`Shard`], and the XXH3 of all that. Numbers are little-endian.
//!
//! | bytes | what |
//! |---|---|
//! | 16 | `forebay-tar-idx` and the version, a byte: 2 |
//! | 8 + 8 + 8 | the archive's size; seconds and nanoseconds of its time of writing |
//! | 8 × 8, 8 | places of headers, and their sum: see [`Probe`] |
//! | 8 × 4 | how many samples, members, bytes of keys, and extensions |
//! | 8 each | where each sample's key ends |
//! | 4 each | where each sample's members end |
//! | 8, 8, 4 each | offset, size and extension of each member: three lists |
//! | 4 each | the length of each extension |
//! | | the keys, then the extensions, one after the other |
//! | 8 + 8 + 4 | of links, AppleDouble files and others that were left out: how many, where the first is, the length of its name |
//! | | those three names |
//! | 8 | XXH3 of all before |

use std::io::{self, Write};

use xxhash_rust::xxh3::{Xxh3, xxh3_64};

use super::{LeftOut, Members, Probe, Shard};

/// Bytes that say what was left out for one reason, without a name.
const LEFT_OUT: u128 = 20;
const DAMAGED: &str = "the index is damaged: its checksum is wrong";
const MAGIC: &[u8; 16] = b"forebay-tar-idx\x02";

pub(super) fn write(out: &mut impl Write, probe: &Probe, shard: &Shard) -> io::Result<()> {
    let mut out = Summed { out, sum: Xxh3::new() };
    out.put(MAGIC)?;
    out.put(&probe.len.to_le_bytes())?;
    out.put(&probe.seconds.to_le_bytes())?;
    out.put(&u64::from(probe.nanoseconds).to_le_bytes())?;
    out.longs(&probe.data)?;
    out.longs(&[probe.sum])?;
    let counts = [shard.key_ends.len(), shard.offsets.len(), shard.keys.len(), shard.ext_bytes.len()];
    out.longs(&counts.map(|count| count as u64))?;
    out.longs(&shard.key_ends)?;
    out.ints(&shard.member_ends)?;
    out.longs(&shard.offsets)?;
    out.longs(&shard.sizes)?;
    out.ints(&shard.exts)?;
    let lens: Vec<u32> = shard.ext_bytes.iter().map(|ext| ext.len() as u32).collect();
    out.ints(&lens)?;
    out.put(&shard.keys)?;
    shard.ext_bytes.iter().try_for_each(|ext| out.put(ext))?;
    let LeftOut { links, apple_doubles, others } = &shard.left_out;
    for members in [links, apple_doubles, others] {
        out.longs(&[members.count, members.at])?;
        out.ints(&[members.name.len() as u32])?;
    }
    [links, apple_doubles, others].iter().try_for_each(|members| out.put(&members.name))?;
    let sum = out.sum.digest();
    out.out.write_all(&sum.to_le_bytes())
}

struct Summed<W> {
    out: W,
    sum: Xxh3,
}

impl<W: Write> Summed<W> {
    fn put(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.sum.update(bytes);
        self.out.write_all(bytes)
    }

    fn longs(&mut self, numbers: &[u64]) -> io::Result<()> {
        numbers.chunks(1024).try_for_each(|some| {
            let bytes: Vec<u8> = some.iter().flat_map(|number| number.to_le_bytes()).collect();
            self.put(&bytes)
        })
    }

    fn ints(&mut self, numbers: &[u32]) -> io::Result<()> {
        numbers.chunks(1024).try_for_each(|some| {
            let bytes: Vec<u8> = some.iter().flat_map(|number| number.to_le_bytes()).collect();
            self.put(&bytes)
        })
    }
}

/// What such a file holds. Nothing larger than the file is made room for.
///
/// # Errors
/// How it is no such file, or damaged.
pub(super) fn parse(bytes: &[u8]) -> Result<(Probe, Shard), &'static str> {
    check_magic(bytes)?;
    let Some((summed, sum)) = bytes.split_last_chunk() else { return Err(DAMAGED) };
    if xxh3_64(summed) != u64::from_le_bytes(*sum) {
        return Err(DAMAGED);
    }
    let mut rest = Rest(summed.get(MAGIC.len()..).unwrap_or_default());
    rest.probe().and_then(|probe| Some((probe, rest.shard()?))).filter(|_| rest.0.is_empty()).ok_or(DAMAGED)
}

/// Bytes before the lists.
pub(super) const HEAD: usize = 16 + 24 + 72 + 32;

/// Whose index it is that begins so, where it has the length that it says.
///
/// # Errors
/// As [`parse`].
pub(super) fn probe(head: &[u8], len: u64) -> Result<Probe, &'static str> {
    check_magic(head)?;
    let mut rest = Rest(head.get(MAGIC.len()..).unwrap_or_default());
    let said = rest.probe().and_then(|probe| Some((probe, rest.lists_len()?)));
    match said {
        Some((probe, lists)) if u128::from(len) >= HEAD as u128 + lists + 8 => Ok(probe),
        _ => Err(DAMAGED),
    }
}

fn check_magic(bytes: &[u8]) -> Result<(), &'static str> {
    if !bytes.starts_with(&MAGIC[..15]) {
        return Err("it is no index of an archive");
    }
    match bytes.get(15) == MAGIC.last() {
        true => Ok(()),
        false => Err("the index is of another version of forebay"),
    }
}

struct Rest<'a>(&'a [u8]);

impl<'a> Rest<'a> {
    fn probe(&mut self) -> Option<Probe> {
        let len = self.long()?;
        let seconds = self.long()?.cast_signed();
        let nanoseconds = u32::try_from(self.long()?).ok()?;
        let data = self.longs(8)?.try_into().ok()?;
        Some(Probe { len, seconds, nanoseconds, data, sum: self.long()? })
    }

    /// Bytes of the lists that the counts tell of; those of the extensions have a length each, and more.
    fn lists_len(&mut self) -> Option<u128> {
        let [samples, members, keys, exts] = [self.long()?, self.long()?, self.long()?, self.long()?].map(u128::from);
        Some(samples * 12 + members * 20 + keys + exts * 4 + 3 * LEFT_OUT)
    }

    fn shard(&mut self) -> Option<Shard> {
        let [samples, members, keys, exts] = [self.long()?, self.long()?, self.long()?, self.long()?];
        let mut shard = Shard {
            key_ends: self.longs(samples)?,
            member_ends: self.ints(samples)?,
            offsets: self.longs(members)?,
            sizes: self.longs(members)?,
            exts: self.ints(members)?,
            ..Shard::default()
        };
        let lens = self.ints(exts)?;
        shard.keys = self.bytes(keys)?.to_vec();
        shard.ext_bytes = lens.iter().map(|&len| self.bytes(u64::from(len)).map(Into::into)).collect::<Option<_>>()?;
        let left_out = [self.members()?, self.members()?, self.members()?];
        let [links, apple_doubles, others] =
            left_out.map(|(members, len)| Some(Members { name: self.bytes(len)?.into(), ..members }));
        shard.left_out = LeftOut { links: links?, apple_doubles: apple_doubles?, others: others? };
        Some(shard)
    }

    /// Members that were left out, and the length of the first one's name.
    fn members(&mut self) -> Option<(Members, u64)> {
        let [count, at] = [self.long()?, self.long()?];
        let len = self.ints(1)?.first().copied()?;
        Some((Members { count, at, name: Box::default() }, len.into()))
    }

    fn bytes(&mut self, len: u64) -> Option<&'a [u8]> {
        let (bytes, rest) = self.0.split_at_checked(usize::try_from(len).ok()?)?;
        self.0 = rest;
        Some(bytes)
    }

    fn long(&mut self) -> Option<u64> {
        self.longs(1)?.first().copied()
    }

    fn longs(&mut self, count: u64) -> Option<Vec<u64>> {
        let bytes = self.bytes(count.checked_mul(8)?)?;
        Some(bytes.as_chunks().0.iter().map(|number| u64::from_le_bytes(*number)).collect())
    }

    fn ints(&mut self, count: u64) -> Option<Vec<u32>> {
        let bytes = self.bytes(count.checked_mul(4)?)?;
        Some(bytes.as_chunks().0.iter().map(|number| u32::from_le_bytes(*number)).collect())
    }
}

/// Sees that a shard that was read names nothing outside itself and outside an archive of `len` bytes. A sum is no proof
/// of that: anyone can write one.
pub(super) fn check(shard: &Shard, len: u64) -> Result<(), &'static str> {
    let members = shard.offsets.len();
    let ends_well = |last: Option<u64>, all: usize| last.unwrap_or(0) == all as u64;
    let are_sound = shard.key_ends.is_sorted()
        && ends_well(shard.key_ends.last().copied(), shard.keys.len())
        && shard.member_ends.is_sorted()
        && ends_well(shard.member_ends.last().map(|&end| u64::from(end)), members)
        && shard.exts.iter().all(|&ext| (ext as usize) < shard.ext_bytes.len())
        && shard
            .offsets
            .iter()
            .zip(&shard.sizes)
            .all(|(offset, size)| offset.checked_add(*size).is_some_and(|end| end <= len));
    if are_sound { Ok(()) } else { Err("the index names what is not in the archive") }
}
