//! TFRecord: records of bytes in a frame of lengths and checksums.

mod frame;
mod verify;
mod walk;

#[cfg(test)]
mod tests;

use std::path::Path;
use std::sync::Arc;

use self::walk::Records;
use super::dtype::DType;
use super::error::DatasetError;
use super::fingerprint::Fingerprint;
use super::interface::Dataset;
use super::parallel::in_parallel_each;
use super::parts::{Parts, paths_of};
use super::source::{DataFile, Source};
use super::spec::{FileRange, SampleSpec, TensorSpec};
use super::verified::{Checksums, RangeCheck};

/// What to do with a file whose records cannot all be found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Corrupt {
    /// It is an error.
    #[default]
    Refuse,
    /// The rest of the file is left out, with a warning that names the place, and counted: see
    /// [`TfRecord::skipped`]. A record whose length is damaged or cut hides those behind it.
    Skip,
}

/// Records in TFRecord files, each a sample of one field, `record`, of type U8 and shape `[bytes]`. What is in them, such as
/// a `tf.train.Example`, is the caller's to decode.
///
/// The frame is that of TensorFlow's documentation ("TFRecord and tf.train.Example", TFRecords format details): the length
/// as a little-endian `u64`, its masked CRC-32C, the data, and its masked CRC-32C. To find the records only lengths and
/// their checksums are read, and those of the data are kept: a loader and
/// [`pack`](crate::pack::pack) check each record that they read, and [`verify_all`](Self::verify_all) reads and checks all.
#[derive(Debug)]
pub struct TfRecord {
    parts: Parts,
    records: Vec<Records>,
    corrupt: Corrupt,
    name: Arc<str>,
}

impl TfRecord {
    /// Finds the records of these files, on as many threads as there are processors.
    ///
    /// # Errors
    /// [`DatasetError`] where no file is given; with path and offset, where a file cannot be read or is compressed; and, if `corrupt` is to be
    /// refused, where a record is cut or the checksum of a length is wrong.
    pub fn open(paths: &[impl AsRef<Path>], corrupt: Corrupt) -> Result<Self, DatasetError> {
        let paths = &paths_of(paths)[..];
        let mut parts = Parts::of(paths)?;
        let found = in_parallel_each(paths, |path| {
            let source = Source::open(path)?;
            let records = walk::find(&source, corrupt)?;
            Ok((source.file, records))
        })?;
        let mut records = Vec::with_capacity(paths.len());
        for (file, its_records) in found {
            parts.push(file, its_records.len() as u64)?;
            records.push(its_records);
        }
        Ok(Self { parts, records, corrupt, name: "record".into() })
    }

    /// How many files have a rest that was left out, because it could not be followed: none, unless corrupt ones are
    /// [skipped](Corrupt::Skip).
    pub fn skipped(&self) -> u64 {
        self.records.iter().filter(|records| records.is_cut).count() as u64
    }

    /// Whether a file that begins so holds such records: the checksum of the first length is right.
    pub(crate) fn looks_like(head: &[u8]) -> bool {
        head.first_chunk().is_some_and(|head| frame::length(head).is_some())
    }

    /// Where a record's data is, and the checksum behind it.
    fn record(&self, index: u64) -> Result<(FileRange, u32), DatasetError> {
        let (file, number) = self.parts.find(index)?;
        let found = self.records.get(file).and_then(|records| {
            let (offset, len, sum) = records.get(number as usize)?;
            Some((FileRange { file: file as u32, offset, len }, sum))
        });
        found.ok_or_else(|| DatasetError::no_sample(index, self.len()))
    }
}

impl Dataset for TfRecord {
    fn len(&self) -> u64 {
        self.parts.len()
    }

    fn files(&self) -> &[DataFile] {
        self.parts.files()
    }

    fn locate(&self, index: u64, sample: &mut SampleSpec) -> Result<(), DatasetError> {
        let (range, _) = self.record(index)?;
        sample.push(TensorSpec::new(Arc::clone(&self.name), DType::U8, [range.len]), [range]);
        Ok(())
    }

    fn fingerprint(&self) -> Fingerprint {
        Fingerprint::new("tfrecord", "", self.len(), self.files())
    }

    fn checksums(&self) -> Checksums {
        Checksums::Samples
    }

    fn check_range(&self, range: FileRange) -> Option<Box<dyn RangeCheck + '_>> {
        self.check_record(range)
    }

    fn check(&self, index: u64, fields: &[&[u8]]) -> Result<(), DatasetError> {
        self.verify(index, fields.first().copied().unwrap_or_default())
    }
}
