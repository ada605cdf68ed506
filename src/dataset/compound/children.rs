//! Several datasets side by side: their files under one numbering, their samples' names kept apart.

use std::borrow::Cow;
use std::sync::Arc;

use crate::dataset::{
    Checksums, DataFile, Dataset, DatasetError, Fields, FileRange, Fingerprint, RangeCheck, SampleSpec, StoredTensors,
};

#[derive(Debug)]
pub(super) struct Children {
    datasets: Vec<Arc<dyn Dataset>>,
    /// All files, child by child.
    files: Vec<DataFile>,
    /// For each child the number of its first file.
    first_files: Vec<u32>,
}

impl Children {
    pub(super) fn new(datasets: Vec<Arc<dyn Dataset>>) -> Result<Self, DatasetError> {
        let mut files = Vec::new();
        let mut first_files = Vec::with_capacity(datasets.len());
        for dataset in &datasets {
            let (first, more) = (files.len() as u64, dataset.files().len() as u64);
            match u32::try_from(first) {
                Ok(first_file) if first + more <= u64::from(u32::MAX) => first_files.push(first_file),
                _ => {
                    let what = format!("the datasets have more than {} files together", u32::MAX);
                    return Err(DatasetError::setting("", what, "use fewer, larger files"));
                }
            }
            files.extend_from_slice(dataset.files());
        }
        Ok(Self { datasets, files, first_files })
    }

    pub(super) fn files(&self) -> &[DataFile] {
        &self.files
    }

    pub(super) fn locate(&self, child: usize, index: u64, sample: &mut SampleSpec) -> Result<(), DatasetError> {
        // What was there before is not the child's.
        let first = sample.ranges().len();
        self.datasets[child].locate(index, sample)?;
        sample.shift_files(first, self.first_files[child]);
        Ok(())
    }

    /// The fields of those that `counts`, where all of them are known.
    pub(super) fn fields(&self, counts: impl Fn(usize) -> bool) -> Option<Fields> {
        let mut all = Fields::new();
        for (child, dataset) in self.datasets.iter().enumerate() {
            if counts(child) && !dataset.is_empty() {
                all.merge(&dataset.fields()?);
            }
        }
        Some(all)
    }

    /// Where any child's samples must be checked one by one, all are.
    pub(super) fn checksums(&self) -> Checksums {
        self.datasets.iter().map(|dataset| dataset.checksums()).max().unwrap_or_default()
    }

    pub(super) fn check_range(&self, range: FileRange) -> Option<Box<dyn RangeCheck + '_>> {
        // Of children without files, which have no ranges, the last begins where the next one does.
        let child = self.first_files.partition_point(|&first| first <= range.file).checked_sub(1)?;
        self.datasets[child].check_range(FileRange { file: range.file - self.first_files[child], ..range })
    }

    pub(super) fn check(&self, child: usize, index: u64, fields: &[&[u8]]) -> Result<(), DatasetError> {
        self.datasets[child].check(index, fields)
    }

    /// The child's name for the sample. Of two datasets both may have a sample 0, so the child's position is in front,
    /// as in `1/0`.
    pub(super) fn id(&self, child: usize, index: u64) -> Cow<'_, str> {
        let id = self.datasets[child].id(index);
        match self.datasets.len() {
            1 => id,
            _ => Cow::Owned(format!("{child}/{id}")),
        }
    }

    /// Every child's tensors once, their names with the child's position in front as [`id`](Self::id) has it.
    pub(super) fn stored(&self) -> StoredTensors<'_> {
        Box::new(self.datasets.iter().zip(&self.first_files).enumerate().flat_map(move |(child, (dataset, first))| {
            dataset.stored().map(move |stored| {
                let mut stored = stored?;
                stored.range.file = stored.range.file.saturating_add(*first);
                if self.datasets.len() > 1 {
                    stored.spec.name = format!("{child}/{}", stored.spec.name).into();
                }
                Ok(stored)
            })
        }))
    }

    pub(super) fn fingerprint(&self, format: &str, settings: String, samples: u64) -> Fingerprint {
        let children: Vec<_> = self.datasets.iter().map(|child| child.fingerprint()).collect();
        Fingerprint::compound(format, settings, samples, &children)
    }
}
