use std::collections::HashMap;
use std::sync::Arc;

use super::Array;
use super::sums::{MemberSum, Room};
use crate::dataset::error::DatasetError;
use crate::dataset::fingerprint::Fingerprint;
use crate::dataset::interface::Dataset;
use crate::dataset::source::DataFile;
use crate::dataset::spec::{FileRange, SampleSpec, StoredTensor, StoredTensors};
use crate::dataset::verified::{Checksums, RangeCheck};

/// The arrays of archives that make no samples: whole, as they are stored.
#[derive(Debug, Default)]
pub(super) struct Arrays {
    files: Vec<DataFile>,
    tensors: Vec<StoredTensor>,
    /// The checksum of each tensor, by its file and offset.
    sums: HashMap<(u32, u64), MemberSum>,
    room: Arc<Room>,
}

impl Arrays {
    /// Adds an archive behind the others, of which there are less than 2^32.
    pub(super) fn push(&mut self, file: DataFile, arrays: Vec<Array>) {
        let number = self.files.len() as u32;
        let sums = arrays.iter().map(|array| ((number, array.header.data_offset), array.sum(&self.room)));
        self.sums.extend(sums);
        self.tensors.extend(arrays.into_iter().map(|Array { header, .. }| {
            // The header was checked by its bytes.
            let len = header.spec.bytes().unwrap_or_default();
            StoredTensor { spec: header.spec, range: FileRange { file: number, offset: header.data_offset, len } }
        }));
        self.files.push(file);
    }
}

impl Dataset for Arrays {
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
        Fingerprint::new("npz", "arrays", 0, &self.files)
    }

    fn checksums(&self) -> Checksums {
        Checksums::Members
    }

    fn check_range(&self, range: FileRange) -> Option<Box<dyn RangeCheck + '_>> {
        let sum = self.sums.get(&(range.file, range.offset))?;
        sum.check_range(self.files.get(range.file as usize)?, range)
    }

    fn stored(&self) -> StoredTensors<'_> {
        Box::new(self.tensors.iter().cloned().map(Ok))
    }
}
