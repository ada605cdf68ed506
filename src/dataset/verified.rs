//! Bytes of a dataset that agree with the checksums its files keep. [`Verified`] is made here alone, and only by checking:
//! whatever passes samples on takes that type.

use std::collections::VecDeque;
use std::fmt;

use super::error::DatasetError;
use super::interface::Dataset;
use super::spec::FileRange;

/// What the files of a dataset keep checksums of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Checksums {
    /// Of nothing.
    #[default]
    None,
    /// Of parts that hold many samples: damage is found once all samples of a part have been checked.
    Members,
    /// Of each sample.
    Samples,
}

/// The check of one range, whose bytes are given in order, in pieces of any length.
pub trait RangeCheck: fmt::Debug {
    /// Takes the next bytes.
    fn update(&mut self, bytes: &[u8]);

    /// Compares them with what the file keeps, after the last byte.
    ///
    /// # Errors
    /// [`DatasetFault::Malformed`](super::DatasetFault::Malformed) with path and offset where they differ.
    fn finish(self: Box<Self>) -> Result<(), DatasetError>;
}

/// Bytes that were checked.
#[derive(Debug)]
pub(crate) struct Verified<T>(T);

impl<T> Verified<T> {
    pub(crate) fn bytes(&self) -> &T {
        &self.0
    }
}

impl<'a> Verified<&'a [&'a [u8]]> {
    /// The tensors of one sample.
    pub(crate) fn sample(dataset: &dyn Dataset, index: u64, fields: &'a [&'a [u8]]) -> Result<Self, DatasetError> {
        if dataset.checksums() != Checksums::None {
            dataset.check(index, fields)?;
        }
        Ok(Self(fields))
    }
}

/// Checks a stream of bytes that is made of ranges of a dataset's files, one after the other.
#[derive(Debug)]
pub(crate) struct StreamCheck<'a> {
    dataset: &'a dyn Dataset,
    expected: VecDeque<Run>,
    /// The check of the range that the stream is inside of, and the bytes that are left of it.
    current: Option<(Option<Box<dyn RangeCheck + 'a>>, u64)>,
}

/// Ranges of one length that lie side by side: rows of an array are many, and shorter than what would describe each.
#[derive(Debug)]
struct Run {
    first: FileRange,
    count: u64,
    has_check: bool,
}

impl<'a> StreamCheck<'a> {
    pub(crate) fn new(dataset: &'a dyn Dataset) -> Self {
        Self { dataset, expected: VecDeque::new(), current: None }
    }

    /// The stream goes on with this range. Whether there is a check of it: where there is none, the sample that it belongs
    /// to must be checked as a whole, if the dataset keeps checksums of samples.
    ///
    /// # Errors
    /// That of a range without bytes.
    pub(crate) fn expect(&mut self, range: FileRange) -> Result<bool, DatasetError> {
        if self.dataset.checksums() == Checksums::None {
            return Ok(true);
        }
        if range.len == 0 {
            let check = self.dataset.check_range(range);
            let has_check = check.is_some();
            return check.map_or(Ok(()), RangeCheck::finish).map(|()| has_check);
        }
        if let Some(run) = self.expected.back_mut()
            && run.first.file == range.file
            && run.first.len == range.len
            && run.first.len.checked_mul(run.count).and_then(|len| len.checked_add(run.first.offset))
                == Some(range.offset)
        {
            run.count += 1;
            return Ok(run.has_check);
        }
        let has_check = self.dataset.check_range(range).is_some();
        self.expected.push_back(Run { first: range, count: 1, has_check });
        Ok(has_check)
    }

    /// The next bytes of the stream, looked at. A range that ends in them is checked; one that goes on behind them is not
    /// yet, so nothing that is made of the stream counts before its last range has passed.
    pub(crate) fn pass<'b>(&mut self, bytes: &'b [u8]) -> Result<Verified<&'b [u8]>, DatasetError> {
        let mut rest = bytes;
        while !rest.is_empty() && self.dataset.checksums() != Checksums::None {
            let Some((check, left)) = self.current.take().or_else(|| self.next()) else { break };
            let (now, later) = rest.split_at(left.min(rest.len() as u64) as usize);
            let mut check = check;
            if let Some(check) = &mut check {
                check.update(now);
            }
            match left - now.len() as u64 {
                0 => check.map_or(Ok(()), RangeCheck::finish)?,
                left => self.current = Some((check, left)),
            }
            rest = later;
        }
        Ok(Verified(bytes))
    }

    fn next(&mut self) -> Option<(Option<Box<dyn RangeCheck + 'a>>, u64)> {
        let run = self.expected.front_mut()?;
        let range = run.first;
        run.first.offset += range.len;
        run.count -= 1;
        if run.count == 0 {
            self.expected.pop_front();
        }
        Some((self.dataset.check_range(range), range.len))
    }
}
