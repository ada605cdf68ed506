use std::borrow::Cow;
use std::ops::Range;
use std::sync::Arc;

use xxhash_rust::xxh3::Xxh3;

use crate::dataset::{
    Checksums, DataFile, Dataset, DatasetError, Fields, FileRange, Fingerprint, RangeCheck, SampleSpec,
};

/// Some samples of a dataset, in an order of their own.
///
/// Files are all of the dataset's, whether samples are left in them or not; a sample keeps its name.
#[derive(Debug)]
pub struct Subset {
    dataset: Arc<dyn Dataset>,
    picked: Picked,
}

#[derive(Debug)]
enum Picked {
    /// These, and the XXH3 of their numbers.
    List { indices: Vec<u64>, sum: u64 },
    /// So many, each `step` behind the one before.
    Steps { start: u64, step: u64, len: u64 },
}

impl Subset {
    /// The samples of these numbers, in this order: 8 bytes of memory each. One may be there several times.
    ///
    /// # Errors
    /// [`DatasetFault::Setting`](crate::dataset::DatasetFault::Setting) where the dataset has no such sample.
    pub fn new(dataset: Arc<dyn Dataset>, indices: Vec<u64>) -> Result<Self, DatasetError> {
        let len = dataset.len();
        if let Some((position, index)) = indices.iter().enumerate().find(|(_, index)| **index >= len) {
            let what = format!("sample {index} at position {position} of a subset is not there: the dataset has {len}");
            return Err(DatasetError::setting("", what, "pick lower numbers"));
        }
        let mut sum = Xxh3::new();
        indices.iter().for_each(|index| sum.update(&index.to_le_bytes()));
        Ok(Self { dataset, picked: Picked::List { sum: sum.digest(), indices } })
    }

    /// Every `step`-th sample of a range, beginning with its first.
    ///
    /// # Errors
    /// [`DatasetFault::Setting`](crate::dataset::DatasetFault::Setting) where `step` is 0, or the range passes the
    /// dataset's end or runs backwards.
    pub fn slice(dataset: Arc<dyn Dataset>, range: Range<u64>, step: u64) -> Result<Self, DatasetError> {
        let wrong = |what: String, fix| Err(DatasetError::setting("", what, fix));
        let Range { start, end } = range;
        if step == 0 {
            return wrong("a slice has a step of 0".into(), "give a step of at least 1");
        }
        if end > dataset.len() {
            let len = dataset.len();
            return wrong(format!("a slice of {start}..{end} passes the dataset's end at {len}"), "end it there");
        }
        let Some(samples) = end.checked_sub(start) else {
            return wrong(format!("a slice of {start}..{end} ends before it begins"), "put the lower number first");
        };
        Ok(Self { dataset, picked: Picked::Steps { start, step, len: samples.div_ceil(step) } })
    }

    /// The number in the dataset of sample `index`.
    fn place(&self, index: u64) -> Option<u64> {
        match &self.picked {
            Picked::List { indices, .. } => usize::try_from(index).ok().and_then(|index| indices.get(index)).copied(),
            // Below the end of the range, which a `u64` holds.
            &Picked::Steps { start, step, len } => (index < len).then(|| start + index * step),
        }
    }
}

impl Dataset for Subset {
    fn len(&self) -> u64 {
        match &self.picked {
            Picked::List { indices, .. } => indices.len() as u64,
            Picked::Steps { len, .. } => *len,
        }
    }

    fn files(&self) -> &[DataFile] {
        self.dataset.files()
    }

    fn locate(&self, index: u64, sample: &mut SampleSpec) -> Result<(), DatasetError> {
        let index = self.place(index).ok_or_else(|| DatasetError::no_sample(index, self.len()))?;
        self.dataset.locate(index, sample)
    }

    fn fingerprint(&self) -> Fingerprint {
        let settings = match &self.picked {
            Picked::List { sum, .. } => format!("picks {sum:016x}"),
            Picked::Steps { start, step, .. } => format!("from {start} by {step}"),
        };
        Fingerprint::compound("subset", settings, self.len(), &[self.dataset.fingerprint()])
    }

    /// Those of the picked samples alone, which are looked at where the dataset's own differ.
    fn fields(&self) -> Option<Fields> {
        match self.dataset.fields() {
            Some(fields) if fields.is_uniform() => Some(fields),
            _ => Fields::of_all(self).ok(),
        }
    }

    fn checksums(&self) -> Checksums {
        self.dataset.checksums()
    }

    fn check_range(&self, range: FileRange) -> Option<Box<dyn RangeCheck + '_>> {
        self.dataset.check_range(range)
    }

    fn check(&self, index: u64, fields: &[&[u8]]) -> Result<(), DatasetError> {
        match self.place(index) {
            Some(index) => self.dataset.check(index, fields),
            None => Err(DatasetError::no_sample(index, self.len())),
        }
    }

    fn id(&self, index: u64) -> Cow<'_, str> {
        match self.place(index) {
            Some(index) => self.dataset.id(index),
            None => Cow::Owned(index.to_string()),
        }
    }
}
