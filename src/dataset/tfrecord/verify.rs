use super::frame::masked;
use super::{Corrupt, TfRecord};
use crate::dataset::error::DatasetError;
use crate::dataset::headers::Headers;
use crate::dataset::interface::Dataset;
use crate::dataset::source::Source;
use crate::dataset::spec::FileRange;
use crate::dataset::verified::RangeCheck;

/// Bytes of a long record that are read at once. Short ones are read many at once.
const PIECE: u64 = 256 << 10;

impl TfRecord {
    /// Checks what was read of record `index` against the checksum that the file keeps of it.
    ///
    /// # Errors
    /// [`DatasetFault::Malformed`](super::super::DatasetFault::Malformed) with path and offset where `bytes` are not those
    /// that were written, and [`DatasetFault::NoSample`](super::super::DatasetFault::NoSample).
    pub fn verify(&self, index: u64, bytes: &[u8]) -> Result<(), DatasetError> {
        let (range, _) = self.record(index)?;
        if bytes.len() as u64 != range.len {
            let what = format!("record {index} has {} bytes and not the {} given", range.len, bytes.len());
            return Err(self.fault(index, what, "give what its range holds"));
        }
        self.check_sum(index, crc32c::crc32c(bytes))
    }

    /// Reads all records, in pieces, and checks them: how many are sound. Under [`Corrupt::Skip`] those that are not are
    /// warned about and not counted.
    ///
    /// # Errors
    /// That of the first record that is not sound, under [`Corrupt::Refuse`]; and, where a file cannot be read or is no
    /// longer the one that was opened, that.
    pub fn verify_all(&self) -> Result<u64, DatasetError> {
        let mut sound = 0;
        for (i, file) in self.files().iter().enumerate() {
            let source = Source::open(file.path())?;
            source.check_is(file)?;
            let mut pieces = Headers::new(&source);
            for index in self.parts.range(i) {
                let crc = self.read_crc(&mut pieces, index)?;
                match self.check_sum(index, crc) {
                    Ok(()) => sound += 1,
                    Err(error) if self.corrupt == Corrupt::Skip => tracing::warn!("{error}"),
                    Err(error) => return Err(error),
                }
            }
        }
        Ok(sound)
    }

    pub(super) fn check_record(&self, range: FileRange) -> Option<Box<dyn RangeCheck + '_>> {
        let number = self.records.get(range.file as usize)?.at(range.offset)? as u64;
        let index = self.parts.range(range.file as usize).start + number;
        let (data, _) = self.record(index).ok()?;
        (data == range).then(|| Box::new(RecordCheck { records: self, index, crc: 0 }) as _)
    }

    fn read_crc(&self, pieces: &mut Headers<'_>, index: u64) -> Result<u32, DatasetError> {
        let (range, _) = self.record(index)?;
        let mut crc = 0;
        let mut done = 0;
        while done < range.len {
            let some = (range.len - done).min(PIECE);
            crc = crc32c::crc32c_append(crc, pieces.read(range.offset + done, some as usize)?);
            done += some;
        }
        Ok(crc)
    }

    fn check_sum(&self, index: u64, crc: u32) -> Result<(), DatasetError> {
        let (_, sum) = self.record(index)?;
        match masked(crc) == sum {
            true => Ok(()),
            false => Err(self.fault(index, format!("the checksum of record {index} is wrong"), "get the file again")),
        }
    }

    fn fault(&self, index: u64, what: String, fix: &'static str) -> DatasetError {
        match self.record(index) {
            Ok((range, _)) => {
                DatasetError::malformed(self.files()[range.file as usize].path(), range.offset, what, fix)
            }
            Err(error) => error,
        }
    }
}

/// The check of one record, whose data comes in pieces.
#[derive(Debug)]
struct RecordCheck<'a> {
    records: &'a TfRecord,
    index: u64,
    crc: u32,
}

impl RangeCheck for RecordCheck<'_> {
    fn update(&mut self, bytes: &[u8]) {
        self.crc = crc32c::crc32c_append(self.crc, bytes);
    }

    fn finish(self: Box<Self>) -> Result<(), DatasetError> {
        self.records.check_sum(self.index, self.crc)
    }
}
