//! The CRC-32 that an archive keeps of a member, checked while the rows of its array are read in any order: the CRC of
//! each row is kept, and they are put together when every row was seen.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crc32fast::Hasher;

use super::super::error::DatasetError;
use super::super::source::{DataFile, Source};
use super::super::spec::FileRange;
use super::super::text::in_message;
use super::super::verified::RangeCheck;
use super::Array;

/// A member, and what was seen of it: 4 bytes and a bit for each row that was read.
#[derive(Debug)]
pub(super) struct MemberSum {
    name: Box<str>,
    /// Where its bytes begin: the header of an array, and then the rows.
    start: u64,
    data: u64,
    rows: u64,
    row_bytes: u64,
    /// As the archive has it.
    crc: u32,
    seen: Mutex<Seen>,
}

#[derive(Debug, Default)]
struct Seen {
    blocks: HashMap<u64, Box<Block>>,
    rows: u64,
    is_damaged: bool,
}

const BLOCK: usize = 1024;

#[derive(Debug)]
struct Block {
    crcs: [u32; BLOCK],
    is_seen: [u64; BLOCK / 64],
}

impl MemberSum {
    /// `rows` rows of `row_bytes` each are all of the array's elements.
    pub(super) fn new(array: &Array, rows: u64, row_bytes: u64) -> Self {
        Self {
            name: (&*array.header.spec.name).into(),
            start: array.start,
            data: array.header.data_offset,
            rows: if row_bytes == 0 { 0 } else { rows },
            row_bytes,
            crc: array.crc,
            seen: Mutex::default(),
        }
    }

    /// Checks a member whose array has no elements, so that none of its rows will ever be read.
    pub(super) fn check_empty(&self, source: &Source) -> Result<(), DatasetError> {
        match self.rows {
            0 => self.compare(&source.file, header_crc(source, self.start, self.data)?),
            _ => Ok(()),
        }
    }

    /// Takes what was read of one row.
    pub(super) fn check_row(&self, file: &DataFile, row: u64, bytes: &[u8]) -> Result<(), DatasetError> {
        match self.rows {
            0 => Ok(()),
            _ => self.note(file, row, crc32fast::hash(bytes)),
        }
    }

    /// The check of whole rows that lie in this range; `None` where it holds no whole ones, or those of another member.
    pub(super) fn check_range<'a>(&'a self, file: &'a DataFile, range: FileRange) -> Option<Box<dyn RangeCheck + 'a>> {
        if range.len == 0 {
            return Some(Box::new(RowsCheck {
                member: self,
                file,
                row: 0,
                left: 0,
                hasher: Hasher::new(),
                failed: None,
            }));
        }
        let before = range.offset.checked_sub(self.data)?;
        let is_whole = |len: u64| len.checked_rem(self.row_bytes) == Some(0);
        let end = before.checked_add(range.len)?;
        if !is_whole(before) || !is_whole(range.len) || end > self.rows.checked_mul(self.row_bytes)? {
            return None;
        }
        let row = before / self.row_bytes;
        let (left, hasher) = (self.row_bytes, Hasher::new());
        Some(Box::new(RowsCheck { member: self, file, row, left, hasher, failed: None }))
    }

    fn note(&self, file: &DataFile, row: u64, crc: u32) -> Result<(), DatasetError> {
        let mut seen = self.seen();
        if seen.is_damaged {
            return Err(self.damaged(file));
        }
        let (number, at) = (row / BLOCK as u64, (row % BLOCK as u64) as usize);
        let block = seen.blocks.entry(number).or_insert_with(Block::new);
        let bit = 1 << (at % 64);
        if block.is_seen[at / 64] & bit != 0 {
            // Later epochs, and rows that fill up a batch.
            return match block.crcs[at] == crc {
                true => Ok(()),
                false => Err(self.changed(file, row)),
            };
        }
        // Before the row counts: where this fails, it comes again.
        let header = if seen.rows + 1 == self.rows { Some(self.header(file)?) } else { None };
        let block = seen.blocks.entry(number).or_insert_with(Block::new);
        block.is_seen[at / 64] |= bit;
        block.crcs[at] = crc;
        seen.rows += 1;
        let Some(header) = header else { return Ok(()) };
        let compared = self.compare(file, seen.joined(header, self.rows, self.row_bytes));
        seen.is_damaged = compared.is_err();
        compared
    }

    fn header(&self, file: &DataFile) -> Result<u32, DatasetError> {
        let source = Source::open(file.path())?;
        source.check_is(file)?;
        header_crc(&source, self.start, self.data)
    }

    fn seen(&self) -> MutexGuard<'_, Seen> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn compare(&self, file: &DataFile, crc: u32) -> Result<(), DatasetError> {
        if crc == self.crc { Ok(()) } else { Err(self.damaged(file)) }
    }

    fn damaged(&self, file: &DataFile) -> DatasetError {
        let what = format!("array {} does not match its CRC-32", in_message(self.name.as_bytes()));
        DatasetError::malformed(file.path(), self.start, what, "get the file again: it is damaged")
    }

    fn changed(&self, file: &DataFile, row: u64) -> DatasetError {
        let name = in_message(self.name.as_bytes());
        let what = format!("row {row} of array {name} does not hold what was read of it before");
        DatasetError::malformed(
            file.path(),
            self.data + row * self.row_bytes,
            what,
            "check the device and the memory of the machine",
        )
    }
}

impl Block {
    fn new() -> Box<Self> {
        Box::new(Self { crcs: [0; BLOCK], is_seen: [0; BLOCK / 64] })
    }
}

impl Seen {
    /// The CRC of what is before the rows and of all rows.
    fn joined(&self, header: u32, rows: u64, row_bytes: u64) -> u32 {
        let shift = Shift::by(row_bytes);
        let mut crc = header;
        let mut left = rows;
        for number in 0..rows.div_ceil(BLOCK as u64) {
            let Some(block) = self.blocks.get(&number) else { continue };
            let some = left.min(BLOCK as u64);
            crc = block.crcs[..some as usize].iter().fold(crc, |crc, row| shift.of(crc) ^ row);
            left -= some;
        }
        crc
    }
}

fn header_crc(source: &Source, start: u64, data: u64) -> Result<u32, DatasetError> {
    let header = source.read_vec(start, data.saturating_sub(start), "the header of an array")?;
    Ok(crc32fast::hash(&header))
}

/// What a CRC becomes when so many bytes follow: linear, so four look-ups. Combining two CRCs anew for each row would take as
/// long as the CRC of some 100 KiB.
struct Shift([[u32; 256]; 4]);

impl Shift {
    fn by(bytes: u64) -> Self {
        let of_bit = |bit: usize| {
            let mut crc = Hasher::new_with_initial_len(1 << bit, 0);
            crc.combine(&Hasher::new_with_initial_len(0, bytes));
            crc.finalize()
        };
        let mut tables = [[0; 256]; 4];
        for (number, table) in tables.iter_mut().enumerate() {
            for bit in 0..8 {
                let one = of_bit(8 * number + bit);
                for (value, entry) in table.iter_mut().enumerate() {
                    *entry ^= if value >> bit & 1 == 1 { one } else { 0 };
                }
            }
        }
        Self(tables)
    }

    fn of(&self, crc: u32) -> u32 {
        let [a, b, c, d] = crc.to_le_bytes().map(usize::from);
        self.0[0][a] ^ self.0[1][b] ^ self.0[2][c] ^ self.0[3][d]
    }
}

/// The check of rows that lie one behind the other.
#[derive(Debug)]
struct RowsCheck<'a> {
    member: &'a MemberSum,
    file: &'a DataFile,
    row: u64,
    /// Bytes that are left of it.
    left: u64,
    hasher: Hasher,
    failed: Option<DatasetError>,
}

impl RangeCheck for RowsCheck<'_> {
    fn update(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() && self.failed.is_none() {
            let (now, later) = bytes.split_at(self.left.min(bytes.len() as u64) as usize);
            self.hasher.update(now);
            self.left -= now.len() as u64;
            bytes = later;
            if self.left == 0 {
                let crc = std::mem::take(&mut self.hasher).finalize();
                self.failed = self.member.note(self.file, self.row, crc).err();
                (self.row, self.left) = (self.row + 1, self.member.row_bytes);
            }
        }
    }

    fn finish(self: Box<Self>) -> Result<(), DatasetError> {
        self.failed.map_or(Ok(()), Err)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn rows_put_together_have_the_crc_of_all_bytes(
            header in prop::collection::vec(any::<u8>(), 0..200), rows in 1_usize..3000, row_bytes in 1_usize..9, seed: u32
        ) {
            let data: Vec<u8> = (0..rows * row_bytes).map(|i| (seed.wrapping_mul(i as u32 | 1) >> 13) as u8).collect();
            let mut seen = Seen::default();
            for (i, row) in data.chunks(row_bytes).enumerate() {
                let block = seen.blocks.entry((i / BLOCK) as u64).or_insert_with(Block::new);
                block.crcs[i % BLOCK] = crc32fast::hash(row);
            }
            let joined = seen.joined(crc32fast::hash(&header), rows as u64, row_bytes as u64);
            prop_assert_eq!(joined, crc32fast::hash(&[header, data].concat()));
        }
    }
}
