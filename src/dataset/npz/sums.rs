//! The CRC-32 that an archive keeps of a member, checked while the rows of its array are read in any order: what each row adds to it
//! is summed up in one number, and a bit says that the row was read. When all were, the sum must be the archive's.

mod crc;
mod rows;

use std::sync::{Arc, Mutex, OnceLock};

use crc32fast::Hasher;

use self::crc::Shift;
pub(super) use self::rows::Room;
use self::rows::{BLOCK, NoRoom, SeenRows};
use super::super::error::DatasetError;
use super::super::source::{DataFile, Source};
use super::super::spec::FileRange;
use super::super::text::{in_message, shown};
use super::super::verified::RangeCheck;
use super::Array;
use crate::sync::lock;

/// A member, and what was read of it.
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
    /// That of the header, once it was needed.
    header: OnceLock<u32>,
    room: Arc<Room>,
    state: Mutex<State>,
}

#[derive(Debug)]
enum State {
    /// A pass over all rows, in any order.
    Reading(Box<Pass>),
    /// A pass is over, and the next one is not begun.
    Idle,
    Damaged,
    /// There was no room to keep which rows were read.
    Unchecked,
}

#[derive(Debug)]
struct Pass {
    seen: SeenRows,
    /// The CRCs of the rows that were seen, each as what follows it shifts it.
    sum: u32,
}

/// What rows have led to.
#[derive(Debug)]
enum Noted {
    More,
    /// They are the last ones: the CRC of the header is needed, and they do not count yet.
    NeedsHeader,
    Damaged,
    /// There is no room any more.
    Unchecked,
}

impl MemberSum {
    /// `rows` rows of `row_bytes` each are all of the array's elements.
    pub(super) fn new(array: &Array, rows: u64, row_bytes: u64, room: &Arc<Room>) -> Self {
        Self {
            name: (&*array.header.spec.name).into(),
            start: array.start,
            data: array.header.data_offset,
            rows: if row_bytes == 0 { 0 } else { rows },
            row_bytes,
            crc: array.crc,
            header: OnceLock::new(),
            room: Arc::clone(room),
            state: Mutex::new(State::Idle),
        }
    }

    /// Checks a member whose array has no elements, so that none of its rows will ever be read.
    pub(super) fn check_empty(&self, source: &Source) -> Result<(), DatasetError> {
        match self.rows {
            0 if header_crc(source, self.start, self.data)? != self.crc => Err(self.damaged(&source.file)),
            _ => Ok(()),
        }
    }

    /// Takes what was read of one row.
    pub(super) fn check_row(&self, file: &DataFile, row: u64, bytes: &[u8]) -> Result<(), DatasetError> {
        match self.rows {
            0 => Ok(()),
            _ => self.note(file, row, &[crc32fast::hash(bytes)], || self.read_header(file)),
        }
    }

    /// The check of whole rows that lie in this range; `None` where it holds no whole ones, or those of another member.
    pub(super) fn check_range<'a>(&'a self, file: &'a DataFile, range: FileRange) -> Option<Box<dyn RangeCheck + 'a>> {
        let check = |first, left| -> Option<Box<dyn RangeCheck + 'a>> {
            let (crcs, hasher) = (Vec::new(), Hasher::new());
            Some(Box::new(RowsCheck { member: self, file, first, crcs, left, hasher, failed: None }))
        };
        if range.len == 0 {
            return check(0, 0);
        }
        let before = range.offset.checked_sub(self.data)?;
        let is_whole = |len: u64| len.checked_rem(self.row_bytes) == Some(0);
        let end = before.checked_add(range.len)?;
        if !is_whole(before) || !is_whole(range.len) || end > self.rows.checked_mul(self.row_bytes)? {
            return None;
        }
        check(before / self.row_bytes, self.row_bytes)
    }

    /// Takes the CRCs of rows of one block. `header` reads that of the header, without the lock: others go on meanwhile, and where it
    /// fails, the rows do not count and come again.
    fn note(
        &self,
        file: &DataFile,
        first: u64,
        crcs: &[u32],
        header: impl Fn() -> Result<u32, DatasetError>,
    ) -> Result<(), DatasetError> {
        loop {
            let noted = self.note_now(first, crcs, self.header.get().copied());
            match noted {
                Noted::More => return Ok(()),
                Noted::NeedsHeader => {
                    let crc = header()?;
                    self.header.get_or_init(|| crc);
                }
                Noted::Damaged => return Err(self.damaged(file)),
                Noted::Unchecked => {
                    self.warn_of_room(file);
                    return Ok(());
                }
            }
        }
    }

    fn note_now(&self, first: u64, crcs: &[u32], header: Option<u32>) -> Noted {
        let mut state = lock(&self.state);
        if let State::Idle = *state {
            *state = State::Reading(Box::new(Pass { seen: SeenRows::new(self.rows, &self.room), sum: 0 }));
        }
        let pass = match &mut *state {
            State::Reading(pass) => pass,
            State::Damaged => return Noted::Damaged,
            State::Unchecked | State::Idle => return Noted::More,
        };
        let count = crcs.len() as u64;
        let after = self.rows.saturating_sub(first.saturating_add(count));
        if header.is_none() && pass.seen.would_be_all(first, count) {
            return Noted::NeedsHeader;
        }
        if let Err(NoRoom) = pass.add(first, crcs, after, self.row_bytes) {
            *state = State::Unchecked;
            return Noted::Unchecked;
        }
        match header {
            Some(header) if pass.seen.are_all() => {
                let whole = Shift::by(self.rows.saturating_mul(self.row_bytes)).of(header) ^ pass.sum;
                let (next, noted) = match whole == self.crc {
                    true => (State::Idle, Noted::More),
                    false => (State::Damaged, Noted::Damaged),
                };
                *state = next;
                noted
            }
            _ => Noted::More,
        }
    }

    fn read_header(&self, file: &DataFile) -> Result<u32, DatasetError> {
        let source = Source::open(file.path())?;
        source.check_is(file)?;
        header_crc(&source, self.start, self.data)
    }

    fn damaged(&self, file: &DataFile) -> DatasetError {
        let what = format!("array {} does not match its CRC-32", in_message(self.name.as_bytes()));
        DatasetError::malformed(file.path(), self.start, what, "get the file again: it is damaged")
    }

    fn warn_of_room(&self, file: &DataFile) {
        if self.room.is_first_warning() {
            tracing::warn!(
                "{}: the CRC-32 of array {} and of others like it is not checked, since which of their rows were read takes too \
                 much memory in this order; shuffle in blocks, or check the archive by itself (`unzip -t`)",
                shown(file.path()),
                in_message(self.name.as_bytes())
            );
        }
    }
}

impl Pass {
    /// Adds rows of one block, of which `after` follow.
    fn add(&mut self, first: u64, crcs: &[u32], after: u64, row_bytes: u64) -> Result<(), NoRoom> {
        let row = (crcs.len() > 1).then(|| Shift::by(row_bytes));
        let (mut sum, mut next) = (0, crcs.iter());
        self.seen.note(first, crcs.len() as u64, |is_new| {
            let crc = next.next().copied().filter(|_| is_new).unwrap_or(0);
            sum = row.map_or(0, |row| row.of(sum)) ^ crc;
        })?;
        self.sum ^= Shift::by(after.saturating_mul(row_bytes)).of(sum);
        Ok(())
    }
}

fn header_crc(source: &Source, start: u64, data: u64) -> Result<u32, DatasetError> {
    let header = source.read_vec(start, data.saturating_sub(start), "the header of an array")?;
    Ok(crc32fast::hash(&header))
}

/// The check of rows that lie one behind the other.
#[derive(Debug)]
struct RowsCheck<'a> {
    member: &'a MemberSum,
    file: &'a DataFile,
    /// The CRCs of rows of one block that are not noted yet, and the number of the first.
    first: u64,
    crcs: Vec<u32>,
    /// Bytes that are left of the row behind them.
    left: u64,
    hasher: Hasher,
    failed: Option<DatasetError>,
}

impl RowsCheck<'_> {
    fn note(&mut self) {
        let (member, file) = (self.member, self.file);
        if self.failed.is_none() && !self.crcs.is_empty() {
            self.failed = member.note(file, self.first, &self.crcs, || member.read_header(file)).err();
        }
        self.first += self.crcs.len() as u64;
        self.crcs.clear();
    }
}

impl RangeCheck for RowsCheck<'_> {
    fn update(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() && self.failed.is_none() {
            let (now, later) = bytes.split_at(self.left.min(bytes.len() as u64) as usize);
            self.hasher.update(now);
            self.left -= now.len() as u64;
            bytes = later;
            if self.left == 0 {
                self.crcs.push(std::mem::take(&mut self.hasher).finalize());
                self.left = self.member.row_bytes;
                if (self.first + self.crcs.len() as u64).is_multiple_of(BLOCK) {
                    self.note();
                }
            }
        }
    }

    fn finish(mut self: Box<Self>) -> Result<(), DatasetError> {
        self.note();
        self.failed.map_or(Ok(()), Err)
    }
}

#[cfg(test)]
mod tests;
