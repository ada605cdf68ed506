//! Arrays that make no samples: whole, as they are stored.

use super::error::DatasetError;
use super::fingerprint::Fingerprint;
use super::interface::Dataset;
use super::source::DataFile;
use super::spec::{FileRange, SampleSpec, StoredTensor, StoredTensors, TensorSpec};

#[derive(Debug)]
pub(super) struct Whole {
    format: &'static str,
    files: Vec<DataFile>,
    arrays: Vec<StoredTensor>,
}

impl Whole {
    pub(super) fn new(format: &'static str) -> Self {
        Self { format, files: Vec::new(), arrays: Vec::new() }
    }

    /// Adds a file behind the others, of which there are less than 2^32: its arrays, and where each begins. Their headers
    /// were checked by the file's bytes.
    pub(super) fn push(&mut self, file: DataFile, arrays: impl IntoIterator<Item = (TensorSpec, u64)>) {
        let number = self.files.len() as u32;
        self.arrays.extend(arrays.into_iter().map(|(spec, offset)| {
            let len = spec.bytes().unwrap_or_default();
            StoredTensor { spec, range: FileRange { file: number, offset, len } }
        }));
        self.files.push(file);
    }
}

impl Dataset for Whole {
    fn len(&self) -> u64 {
        0
    }

    fn files(&self) -> &[DataFile] {
        &self.files
    }

    fn locate(&self, index: u64, _: &mut SampleSpec) -> Result<(), DatasetError> {
        Err(DatasetError::no_sample(index, 0))
    }

    fn fingerprint(&self) -> Fingerprint {
        Fingerprint::new(self.format, "arrays", 0, &self.files)
    }

    fn stored(&self) -> StoredTensors<'_> {
        Box::new(self.arrays.iter().cloned().map(Ok))
    }
}
