//! The payload on its way from the dataset's files to the writer: read ahead in pieces of bounded size, while what came
//! before is written.

use std::collections::VecDeque;

use super::error::PackError;
use super::header::BLOCK;
use super::writer::Writer;
use crate::dataset::{Checksums, Dataset, DatasetError, FileRange, StreamCheck, Verified};
use crate::route::{Carrier, Carry};
use crate::storage::{Extent, File};

/// Pieces under way beside the one that is being written.
const AHEAD: usize = 2;

pub(super) struct Feed<'a> {
    carrier: &'a Carrier,
    dataset: &'a dyn Dataset,
    check: StreamCheck<'a>,
    /// The sample that was last checked as a whole, since its ranges cannot be checked by themselves.
    checked: Option<u64>,
    opened: Vec<Option<File>>,
    /// What comes into the next piece, and the memory that it takes at most.
    piece: Vec<Extent>,
    cost: u64,
    /// Memory of one piece.
    limit: u64,
    under_way: VecDeque<Carry>,
    done: u64,
    progress: &'a dyn Fn(u64),
}

impl<'a> Feed<'a> {
    pub(super) fn new(carrier: &'a Carrier, dataset: &'a dyn Dataset, progress: &'a dyn Fn(u64)) -> Self {
        const MOST: u64 = 16 << 20;
        // One for what lies scattered between the others.
        let limit = (carrier.reader().arena().budget() / (AHEAD as u64 + 2)).min(MOST);
        Self {
            carrier,
            dataset,
            check: StreamCheck::new(dataset),
            checked: None,
            opened: vec![None; dataset.files().len()],
            piece: Vec::new(),
            cost: 0,
            limit,
            under_way: VecDeque::new(),
            done: 0,
            progress,
        }
    }

    /// Takes the bytes of a range behind those before, and writes what has arrived meanwhile. `sample` is the one that it
    /// belongs to.
    pub(super) fn push(
        &mut self,
        range: FileRange,
        sample: Option<u64>,
        writer: &mut Writer<'_>,
    ) -> Result<(), PackError> {
        let has_check = self.check.expect(range)?;
        if let Some(sample) = sample.filter(|_| !has_check && self.dataset.checksums() == Checksums::Samples) {
            self.check_sample(sample, writer)?;
        }
        let FileRange { mut offset, len: mut rest, .. } = range;
        if rest == 0 {
            return Ok(());
        }
        let file = self.open(&range)?;
        let block = file.inner.offset_align().max(BLOCK as u64);
        while rest > 0 {
            let last = self.piece.last();
            let joins =
                last.is_some_and(|last| last.file.inner.id == file.inner.id && last.offset + last.len == offset);
            // What alignment, the landing and gaps to its neighbours may add.
            let apart = if joins { 0 } else { 3 * block + self.carrier.reader().settings().gap };
            let room = self.limit.saturating_sub(self.cost.saturating_add(apart));
            if room < rest.min(block) && !self.piece.is_empty() {
                self.begin(writer)?;
                continue;
            }
            let len = up_to_a_block(offset, rest, room.max(block), block);
            match self.piece.last_mut().filter(|_| joins) {
                Some(last) => last.len += len,
                None => self.piece.push(Extent::new(&file, offset, len)),
            }
            self.cost = self.cost.saturating_add(apart).saturating_add(len);
            offset += len;
            rest -= len;
        }
        Ok(())
    }

    /// Writes all that was taken.
    pub(super) fn finish(&mut self, writer: &mut Writer<'_>) -> Result<(), PackError> {
        self.begin(writer)?;
        while !self.under_way.is_empty() {
            self.land(writer)?;
        }
        Ok(())
    }

    fn begin(&mut self, writer: &mut Writer<'_>) -> Result<(), PackError> {
        if !self.piece.is_empty() {
            self.under_way.push_back(self.carrier.carry(&self.piece));
            self.piece.clear();
            self.cost = 0;
        }
        if self.under_way.len() > AHEAD { self.land(writer) } else { Ok(()) }
    }

    fn land(&mut self, writer: &mut Writer<'_>) -> Result<(), PackError> {
        let Some(carry) = self.under_way.pop_front() else { return Ok(()) };
        let landed = carry.wait()?;
        for piece in landed.host().into_iter().flat_map(|pieces| pieces.iter()) {
            writer.write_verified(&self.check.pass(piece)?)?;
            self.done = self.done.saturating_add(piece.len() as u64);
        }
        (self.progress)(self.done);
        Ok(())
    }

    /// Reads a sample by itself and checks it: its ranges may be apart in what is written.
    fn check_sample(&mut self, index: u64, writer: &mut Writer<'_>) -> Result<(), PackError> {
        if self.checked.replace(index) == Some(index) {
            return Ok(());
        }
        // What was read ahead gives its memory back first.
        self.finish(writer)?;
        let sample = self.dataset.sample(index)?;
        let mut extents = Vec::with_capacity(sample.ranges().len());
        for range in sample.ranges() {
            extents.push(Extent::new(&self.open(range)?, range.offset, range.len));
        }
        let landed = self.carrier.carry(&extents).wait()?;
        let mut pieces = landed.host().into_iter().flat_map(|pieces| pieces.iter());
        let fields: Vec<Vec<u8>> = sample
            .fields()
            .map(|(_, ranges)| pieces.by_ref().take(ranges.len()).flatten().copied().collect())
            .collect();
        let fields: Vec<&[u8]> = fields.iter().map(Vec::as_slice).collect();
        Verified::sample(self.dataset, index, &fields)?;
        Ok(())
    }

    /// The file of a range that lies inside it, opened once and seen to be the one that the dataset has looked at.
    fn open(&mut self, range: &FileRange) -> Result<File, PackError> {
        let number = range.file as usize;
        let files = self.dataset.files();
        let Some(listed) = files.get(number) else {
            let what = format!("a sample lies in file {number}, and there are {}", files.len());
            return Err(DatasetError::setting("", what, "correct the dataset").into());
        };
        if range.offset.checked_add(range.len).is_none_or(|end| end > listed.len()) {
            let what = format!("{} bytes of a sample pass the end of the file, which has {}", range.len, listed.len());
            return Err(DatasetError::malformed(listed.path(), range.offset, what, "correct the dataset").into());
        }
        if let Some(Some(file)) = self.opened.get(number) {
            return Ok(file.clone());
        }
        let file = self.carrier.open(listed.path())?;
        listed.check(&file)?;
        if let Some(place) = self.opened.get_mut(number) {
            *place = Some(file.clone());
        }
        Ok(file)
    }
}

/// How much of `rest` to take where there is room for `room`: all, or up to a block's end, so that no block is read twice.
fn up_to_a_block(offset: u64, rest: u64, room: u64, block: u64) -> u64 {
    if rest <= room {
        return rest;
    }
    let end = offset + room;
    (end - end % block).checked_sub(offset).filter(|&len| len > 0).unwrap_or(room)
}
