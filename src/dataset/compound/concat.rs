use std::borrow::Cow;
use std::sync::Arc;

use super::children::Children;
use crate::dataset::ends::Ends;
use crate::dataset::{
    Checksums, DataFile, Dataset, DatasetError, Fields, FileRange, Fingerprint, RangeCheck, SampleSpec, StoredTensors,
};

/// Datasets one after the other: all samples of the first, then those of the second, and so on.
///
/// Files are those of all children in the same order. A sample is called what its child calls it, with the child's
/// position in front where there are several: `1/0` is sample 0 of the second. Finding a sample is a binary search among
/// the children.
#[derive(Debug)]
pub struct Concat {
    children: Children,
    ends: Ends,
}

impl Concat {
    /// These datasets in this order; the same one may be there twice, and some may be empty.
    ///
    /// # Errors
    /// [`DatasetFault::Setting`](crate::dataset::DatasetFault::Setting) where there are none, or more than 2^64 - 1
    /// samples or 2^32 - 1 files together.
    pub fn new(datasets: Vec<Arc<dyn Dataset>>) -> Result<Self, DatasetError> {
        if datasets.is_empty() {
            return Err(DatasetError::setting("", "there are no datasets to concatenate", "give at least one"));
        }
        let mut ends = Ends::with_capacity(datasets.len());
        for dataset in &datasets {
            ends.push(dataset.len()).ok_or_else(|| {
                DatasetError::setting("", "the datasets have more than 2^64 - 1 samples together", "use fewer of them")
            })?;
        }
        Ok(Self { children: Children::new(datasets)?, ends })
    }
}

impl Dataset for Concat {
    fn len(&self) -> u64 {
        self.ends.len()
    }

    fn files(&self) -> &[DataFile] {
        self.children.files()
    }

    fn locate(&self, index: u64, sample: &mut SampleSpec) -> Result<(), DatasetError> {
        let (child, index) = self.ends.find(index).ok_or_else(|| DatasetError::no_sample(index, self.len()))?;
        self.children.locate(child, index, sample)
    }

    fn fingerprint(&self) -> Fingerprint {
        self.children.fingerprint("concat", String::new(), self.len())
    }

    fn id(&self, index: u64) -> Cow<'_, str> {
        match self.ends.find(index) {
            Some((child, index)) => self.children.id(child, index),
            None => Cow::Owned(index.to_string()),
        }
    }

    fn fields(&self) -> Option<Fields> {
        self.children.fields(|_| true)
    }

    fn checksums(&self) -> Checksums {
        self.children.checksums()
    }

    fn check_range(&self, range: FileRange) -> Option<Box<dyn RangeCheck + '_>> {
        self.children.check_range(range)
    }

    fn check(&self, index: u64, fields: &[&[u8]]) -> Result<(), DatasetError> {
        match self.ends.find(index) {
            Some((child, index)) => self.children.check(child, index, fields),
            None => Err(DatasetError::no_sample(index, self.len())),
        }
    }

    fn stored(&self) -> StoredTensors<'_> {
        self.children.stored()
    }
}
