//! Files of records that all have one length, with nothing before, between or behind them.

use std::path::{Path, PathBuf};

use super::error::DatasetError;
use super::fingerprint::Fingerprint;
use super::headerless::{OtherKind, warn_of};
use super::interface::Dataset;
use super::npy::array_of;
use super::open::Format;
use super::parallel::in_parallel;
use super::parts::{Parts, paths_of, stem};
use super::source::{DataFile, Source};
use super::spec::{FileRange, SampleSpec, StoredTensor, StoredTensors, TensorSpec};

/// Records of one type and shape, one after the other, in files that hold nothing else.
///
/// Sample `i` is record `i`, one tensor of the spec that was given. Of several files the records go on from each to the
/// next; none goes on from one file into another.
#[derive(Debug)]
pub struct Records {
    parts: Parts,
    record: TensorSpec,
    record_bytes: u64,
}

impl Records {
    /// Looks at the lengths of these files, whose records are each a tensor of `record`. Files that begin as those of
    /// another kind do, such as a saved web page or a gzip archive, are read all the same, with one warning that names them;
    /// [`open`](super::open()) refuses them.
    ///
    /// # Errors
    /// [`DatasetError`] where a file cannot be opened or ends within a record, and where a record has no bytes, or none
    /// that can be counted.
    pub fn open(paths: &[impl AsRef<Path>], record: TensorSpec) -> Result<Self, DatasetError> {
        Self::open_as(&paths_of(paths), record, OtherKind::Warn)
    }

    pub(crate) fn open_as(paths: &[PathBuf], record: TensorSpec, other: OtherKind) -> Result<Self, DatasetError> {
        let record_bytes = match record.bytes() {
            Some(0) => return Err(DatasetError::setting("", "a record has no bytes", "give at least 1")),
            Some(bytes) => bytes,
            None => {
                let what = format!("a record of {} of {} has no whole number of bytes", record.shape, record.dtype);
                return Err(DatasetError::setting("", what, "give another type or shape"));
            }
        };
        let mut parts = Parts::of(paths)?;
        let files = in_parallel(paths, |path| {
            let source = Source::open(path)?;
            let other = other.look(&source, Format::Records)?;
            Ok((source.file, other))
        })?;
        let mut others = Vec::new();
        for (path, (file, other)) in paths.iter().zip(files) {
            others.extend(other.map(|other| (path, other)));
            let (records, left_over) = (file.len() / record_bytes, file.len() % record_bytes);
            if left_over > 0 {
                let what = format!("{left_over} bytes are left over behind {records} records of {record_bytes}");
                let fix = "give the right length of a record, or get the file again if it was cut short";
                return Err(DatasetError::malformed(file.path(), file.len() - left_over, what, fix));
            }
            parts.push(file, records)?;
        }
        warn_of(&others, Format::Records);
        Ok(Self { parts, record, record_bytes })
    }
}

impl Dataset for Records {
    fn len(&self) -> u64 {
        self.parts.len()
    }

    fn files(&self) -> &[DataFile] {
        self.parts.files()
    }

    fn locate(&self, index: u64, sample: &mut SampleSpec) -> Result<(), DatasetError> {
        let (file, record) = self.parts.find(index)?;
        // All records of a file lie in it, so this is less than its length.
        let range = FileRange { file: file as u32, offset: record * self.record_bytes, len: self.record_bytes };
        sample.push(self.record.clone(), [range]);
        Ok(())
    }

    fn fingerprint(&self) -> Fingerprint {
        let settings = format!("{} of {}", self.record.shape, self.record.dtype);
        Fingerprint::new("records", settings, self.len(), self.files())
    }

    fn stored(&self) -> StoredTensors<'_> {
        Box::new(self.parts.iter().map(|(file, data, records)| {
            let range = FileRange { file: file as u32, offset: 0, len: data.len() };
            Ok(StoredTensor { spec: array_of(&self.record, records, stem(data.path())), range })
        }))
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::super::dtype::DType;
    use super::super::mutants::assert_sound;
    use super::*;

    fn record() -> TensorSpec {
        TensorSpec::new("image", DType::U16, [2, 3])
    }

    #[test]
    fn records_go_on_over_files() {
        let folder = tempfile::tempdir().unwrap();
        let paths: Vec<PathBuf> = [24, 0, 12].iter().map(|len| folder.path().join(format!("{len}.raw"))).collect();
        paths.iter().zip([24, 0, 12]).for_each(|(path, len)| fs::write(path, vec![0; len]).unwrap());
        let records = Records::open(&paths, record()).unwrap();
        assert_eq!(records.len(), 3);
        assert_eq!(records.sample(1).unwrap().tensors(), [record()]);
        assert_eq!(records.sample(1).unwrap().ranges(), [FileRange { file: 0, offset: 12, len: 12 }]);
        assert_eq!(records.sample(2).unwrap().ranges(), [FileRange { file: 2, offset: 0, len: 12 }]);
        assert_eq!(records.stored().map(|it| it.unwrap().spec.shape[0]).collect::<Vec<_>>(), [2, 0, 1]);
        assert_sound(&records);
    }

    /// Every length of a file: whole records open, and of the others the error names what is left over.
    #[test]
    fn a_part_of_a_record_is_an_error() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let paths = [file.path().to_owned()];
        for len in 0..40_u64 {
            file.as_file().set_len(len).unwrap();
            match Records::open(&paths, record()) {
                Ok(records) => assert_eq!((len % 12, records.len()), (0, len / 12)),
                Err(error) => {
                    assert_eq!(error.offset, Some(len / 12 * 12));
                    assert!(error.to_string().contains(&format!("{} bytes are left over", len % 12)), "{error}");
                }
            }
        }
    }

    #[test]
    fn records_without_bytes_or_with_half_bytes_are_refused() {
        let file = tempfile::NamedTempFile::new().unwrap();
        for (dtype, shape) in [(DType::U8, &[0][..]), (DType::F4, &[3]), (DType::F64, &[u64::MAX])] {
            let spec = TensorSpec::new("x", dtype, shape.to_vec());
            assert!(Records::open(&[file.path().to_owned()], spec).is_err(), "{dtype} {shape:?}");
        }
        assert!(Records::open(&[] as &[&Path], record()).is_err());
    }

    #[test]
    fn places_beyond_4_gib_are_right() {
        let file = tempfile::NamedTempFile::new().unwrap();
        file.as_file().set_len(6 << 30).unwrap();
        let spec = TensorSpec::new("x", DType::U8, [1 << 20]);
        let records = Records::open(&[file.path().to_owned()], spec).unwrap();
        assert_eq!(records.sample(6143).unwrap().ranges()[0].offset, 6143 << 20);
        assert_sound(&records);
    }
}
