//! Datasets for these tests: in memory what they are, on disk where a dataset's own code may lie or fail.
use std::borrow::Cow;
use std::fmt;
use std::path::Path;
use std::sync::Arc;

use forebay::dataset::{DType, DataFile, Dataset, DatasetError, FileRange, Fingerprint, SampleSpec, TensorSpec};

type Locate = dyn Fn(u64, &mut SampleSpec) -> Result<(), DatasetError> + Send + Sync;

/// A dataset whose answers are a closure's.
pub struct Told {
    pub files: Vec<DataFile>,
    pub len: u64,
    pub locate: Box<Locate>,
}

impl Told {
    pub fn shared(
        paths: &[impl AsRef<Path>],
        len: u64,
        locate: impl Fn(u64, &mut SampleSpec) -> Result<(), DatasetError> + Send + Sync + 'static,
    ) -> Arc<dyn Dataset> {
        let files = paths.iter().map(|path| DataFile::new(path).unwrap()).collect();
        Arc::new(Self { files, len, locate: Box::new(locate) })
    }
}

/// Adds a tensor `x` of so many bytes.
pub fn push(sample: &mut SampleSpec, file: u32, offset: u64, len: u64) {
    sample.push(TensorSpec::new("x", DType::U8, [len]), [FileRange { file, offset, len }]);
}

impl Dataset for Told {
    fn len(&self) -> u64 {
        self.len
    }

    fn files(&self) -> &[DataFile] {
        &self.files
    }

    fn locate(&self, index: u64, sample: &mut SampleSpec) -> Result<(), DatasetError> {
        (self.locate)(index, sample)
    }

    fn fingerprint(&self) -> Fingerprint {
        Fingerprint::new("told", "", self.len, &self.files)
    }

    fn id(&self, index: u64) -> Cow<'_, str> {
        Cow::Owned(format!("sample-{index}"))
    }
}

impl fmt::Debug for Told {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Told").field("len", &self.len).finish_non_exhaustive()
    }
}

/// One sample for each length, one behind the other in one self-describing file, from its start.
pub fn lengths(folder: &Path, lens: &[u64]) -> Arc<dyn Dataset> {
    let path = folder.join("lengths.bin");
    crate::common::data::write_dense(&path, 1, lens.iter().sum()).unwrap();
    let lens = lens.to_vec();
    Told::shared(&[path], lens.len() as u64, move |index, sample| {
        push(sample, 0, lens[..index as usize].iter().sum(), lens[index as usize]);
        Ok(())
    })
}
