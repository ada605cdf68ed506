use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use super::error::DatasetError;
use super::fields::Fields;
use super::fingerprint::Fingerprint;
use super::source::DataFile;
use super::spec::{FileRange, SampleSpec, StoredTensor, StoredTensors, TensorSpec};
use super::verified::{Checksums, RangeCheck};
use crate::error::Error;
use crate::route::Carrier;
use crate::storage::File;

/// Maps the number of a sample to its tensors and the places of their bytes, without reading any of those bytes.
///
/// Whoever implements it for a format of their own looks at the files once, when the dataset is opened, and answers
/// [`locate`](Self::locate) from memory, for any number at any time and from several threads at once: samples are asked
/// for in the order of training. `examples/own_format.rs` shows one.
///
/// Every method but the first four has a default, and what comes later will have one, such as for samples that must be
/// decoded from a stream.
pub trait Dataset: fmt::Debug + Send + Sync {
    /// How many samples there are.
    fn len(&self) -> u64;

    /// The files that samples lie in, which [`FileRange::file`](super::FileRange::file) numbers.
    fn files(&self) -> &[DataFile];

    /// Adds the tensors of sample `index` and the places of their bytes to `sample`, which is most often empty; what is
    /// there already, as where a batch is made of several samples, stays as it is. The places of a tensor hold as many bytes as its type and shape say.
    ///
    /// # Errors
    /// [`DatasetError::no_sample`] where `index` is not below [`len`](Self::len).
    fn locate(&self, index: u64, sample: &mut SampleSpec) -> Result<(), DatasetError>;

    /// What this dataset is: of the same files and the same settings it is the same, and of others it is another.
    fn fingerprint(&self) -> Fingerprint;

    /// The name of sample `index`; its number where it has no better one.
    fn id(&self, index: u64) -> Cow<'_, str> {
        Cow::Owned(index.to_string())
    }

    /// The tensors that samples have, those of any sample; `None` where that is not known. By default those of the first
    /// sample, which is right where all samples have the same. Where they differ, give those of all, as
    /// [`Fields::of_all`] finds them: a batch has a tensor for each, and a sample that lacks one is an
    /// [error, left out or absent](crate::loader::Missing).
    fn fields(&self) -> Option<Fields> {
        (!self.is_empty())
            .then(|| self.sample(0).ok())
            .flatten()
            .map(|sample| Fields::uniform(sample.tensors(), self.len()))
    }

    /// Whether there are no samples.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// What the files keep checksums of, so that what was read of a sample can be [checked](Self::check).
    fn checksums(&self) -> Checksums {
        Checksums::None
    }

    /// Checks what was read of sample `index` against the checksum that its file keeps. `fields` are the bytes of its
    /// tensors, in the order of [`locate`](Self::locate).
    ///
    /// # Errors
    /// [`DatasetFault::Malformed`](super::DatasetFault::Malformed) with path and offset where they are not those that were
    /// written.
    fn check(&self, index: u64, fields: &[&[u8]]) -> Result<(), DatasetError> {
        let _ = (index, fields);
        Ok(())
    }

    /// Begins the check of one range that [`locate`](Self::locate) or [`stored`](Self::stored) gave, for what reads files
    /// and not samples, such as [`pack`](crate::pack::pack). `None` where the files keep no checksum that covers it: then
    /// whole samples are read and [checked](Self::check).
    fn check_range(&self, range: FileRange) -> Option<Box<dyn RangeCheck + '_>> {
        let _ = range;
        None
    }

    /// The tensors of sample `index`, and the places of their bytes.
    ///
    /// # Errors
    /// As [`locate`](Self::locate).
    fn sample(&self, index: u64) -> Result<SampleSpec, DatasetError> {
        let mut sample = SampleSpec::new();
        self.locate(index, &mut sample)?;
        Ok(sample)
    }

    /// Opens all files with a carrier, and sees that they are as they were: what
    /// [`SampleSpec::extents`] takes.
    ///
    /// # Errors
    /// As [`DataFile::open`].
    fn open_files(&self, carrier: &Carrier) -> Result<Vec<File>, Error> {
        self.files().iter().map(|file| file.open(carrier)).collect()
    }

    /// The tensors as they lie in the files: what `forebay inspect` lists. By default those of each sample, whose names
    /// begin with the sample's; one that lies in pieces is listed by piece, as bytes.
    fn stored(&self) -> StoredTensors<'_> {
        Box::new((0..self.len()).flat_map(move |index| {
            let tensors: Vec<Result<StoredTensor, DatasetError>> = match self.sample(index) {
                Ok(sample) => stored_of(&self.id(index), &sample).into_iter().map(Ok).collect(),
                Err(error) => vec![Err(error)],
            };
            tensors
        }))
    }
}

fn stored_of(id: &str, sample: &SampleSpec) -> Vec<StoredTensor> {
    let mut stored = Vec::with_capacity(sample.ranges().len());
    for (spec, ranges) in sample.fields() {
        let name: Arc<str> = format!("{id}.{}", spec.name).into();
        for &range in ranges {
            let spec = match ranges.len() {
                1 => TensorSpec { name: Arc::clone(&name), ..spec.clone() },
                _ => TensorSpec::new(Arc::clone(&name), super::DType::U8, [range.len]),
            };
            stored.push(StoredTensor { spec, range });
        }
    }
    stored
}

macro_rules! dataset_behind {
    ($pointer:ty) => {
        impl<D: Dataset + ?Sized> Dataset for $pointer {
            fn len(&self) -> u64 {
                (**self).len()
            }

            fn files(&self) -> &[DataFile] {
                (**self).files()
            }

            fn locate(&self, index: u64, sample: &mut SampleSpec) -> Result<(), DatasetError> {
                (**self).locate(index, sample)
            }

            fn fingerprint(&self) -> Fingerprint {
                (**self).fingerprint()
            }

            fn id(&self, index: u64) -> Cow<'_, str> {
                (**self).id(index)
            }

            fn fields(&self) -> Option<Fields> {
                (**self).fields()
            }

            fn is_empty(&self) -> bool {
                (**self).is_empty()
            }

            fn checksums(&self) -> Checksums {
                (**self).checksums()
            }

            fn check(&self, index: u64, fields: &[&[u8]]) -> Result<(), DatasetError> {
                (**self).check(index, fields)
            }

            fn check_range(&self, range: FileRange) -> Option<Box<dyn RangeCheck + '_>> {
                (**self).check_range(range)
            }

            fn sample(&self, index: u64) -> Result<SampleSpec, DatasetError> {
                (**self).sample(index)
            }

            fn stored(&self) -> StoredTensors<'_> {
                (**self).stored()
            }
        }
    };
}

dataset_behind!(Box<D>);
dataset_behind!(Arc<D>);
dataset_behind!(&D);

#[cfg(test)]
mod tests {
    use super::*;

    /// A dataset that answers for itself where there are defaults.
    #[derive(Debug)]
    struct Own;

    impl Dataset for Own {
        fn len(&self) -> u64 {
            1
        }

        fn files(&self) -> &[DataFile] {
            &[]
        }

        fn locate(&self, index: u64, _: &mut SampleSpec) -> Result<(), DatasetError> {
            Err(DatasetError::no_sample(index, 1))
        }

        fn fingerprint(&self) -> Fingerprint {
            Fingerprint::new("own", "", 1, &[])
        }

        fn id(&self, _: u64) -> Cow<'_, str> {
            "own".into()
        }

        fn fields(&self) -> Option<Fields> {
            Some(Fields::new())
        }

        fn is_empty(&self) -> bool {
            true
        }

        fn sample(&self, _: u64) -> Result<SampleSpec, DatasetError> {
            Ok(SampleSpec::new())
        }

        fn stored(&self) -> StoredTensors<'_> {
            Box::new(std::iter::empty())
        }
    }

    #[test]
    fn behind_a_pointer_a_dataset_is_what_it_is() {
        fn is_own(dataset: impl Dataset) {
            assert!(dataset.is_empty() && dataset.len() == 1 && dataset.id(5) == "own");
            assert!(dataset.sample(0).is_ok() && dataset.fields().is_some() && dataset.stored().next().is_none());
        }
        is_own(&Own);
        is_own(Box::new(Own));
        is_own(Arc::new(Own) as Arc<dyn Dataset>);
        is_own(&Arc::new(Own) as &dyn Dataset);
    }
}
