//! Tensors as a dataset: those whose names begin with the name of a sample, as `pack` writes samples that differ.

use std::collections::HashMap;
use std::sync::Arc;

use crate::dataset::error::DatasetError;
use crate::dataset::key::split_text as split;
use crate::dataset::source::DataFile;
use crate::dataset::spec::{SampleSpec, StoredTensor, TensorSpec};

/// The samples in the order of their first tensors; each tensor is called `{id}.{field}`, split as WebDataset splits the
/// names of members.
#[derive(Debug)]
pub(super) struct Named {
    /// The numbers of the tensors, sample by sample.
    members: Vec<u32>,
    /// For each sample where its members end.
    ends: Vec<u32>,
    /// For each tensor the name of its field; samples share them.
    fields: Vec<Arc<str>>,
}

impl Named {
    pub(super) fn new(files: &[DataFile], tensors: &[StoredTensor]) -> Result<Self, DatasetError> {
        const FIX: &str = "pack the dataset again";
        let refused = |tensor: &StoredTensor, what: String| {
            let path = files.get(tensor.range.file as usize).map_or(std::path::Path::new(""), DataFile::path);
            Err(DatasetError::setting(path, what, FIX))
        };
        let mut samples: HashMap<&str, u32> = HashMap::new();
        let mut names: HashMap<&str, Arc<str>> = HashMap::new();
        let (mut of_sample, mut fields, mut counts) = (Vec::new(), Vec::new(), Vec::new());
        for tensor in tensors {
            let Some((id, field)) = split(&tensor.spec.name) else {
                return refused(tensor, format!("tensor {:?} has no name of a sample before a dot", tensor.spec.name));
            };
            let next = counts.len() as u32;
            let sample = *samples.entry(id).or_insert(next);
            if sample == next {
                // The file of its first tensor.
                counts.push((0, tensor.range.file));
            }
            let (count, file) = &mut counts[sample as usize];
            if *file != tensor.range.file {
                return refused(tensor, format!("sample {id:?} is in an earlier file, too"));
            }
            *count += 1;
            of_sample.push(sample);
            fields.push(Arc::clone(names.entry(field).or_insert_with(|| field.into())));
        }
        let ends: Vec<u32> = counts
            .iter()
            .scan(0, |end, (count, _)| {
                *end += count;
                Some(*end)
            })
            .collect();
        let mut next: Vec<u32> = ends.iter().zip(&counts).map(|(end, (count, _))| end - count).collect();
        let mut members = vec![0; tensors.len()];
        for (sample, tensor) in of_sample.into_iter().zip(0..) {
            let place = &mut next[sample as usize];
            members[*place as usize] = tensor;
            *place += 1;
        }
        Ok(Self { members, ends, fields })
    }

    pub(super) fn len(&self) -> u64 {
        self.ends.len() as u64
    }

    pub(super) fn id<'a>(&self, index: u64, tensors: &'a [StoredTensor]) -> Option<&'a str> {
        let first = *self.members_of(index)?.first()?;
        split(&tensors.get(first as usize)?.spec.name).map(|(id, _)| id)
    }

    pub(super) fn locate(
        &self,
        index: u64,
        tensors: &[StoredTensor],
        sample: &mut SampleSpec,
    ) -> Result<(), DatasetError> {
        let members = self.members_of(index).ok_or_else(|| DatasetError::no_sample(index, self.len()))?;
        for &member in members {
            let (StoredTensor { spec, range }, name) = (&tensors[member as usize], &self.fields[member as usize]);
            sample.push(TensorSpec { name: Arc::clone(name), ..spec.clone() }, [*range]);
        }
        Ok(())
    }

    fn members_of(&self, index: u64) -> Option<&[u32]> {
        let index = usize::try_from(index).ok()?;
        let end = *self.ends.get(index)?;
        let start = index.checked_sub(1).map_or(0, |before| self.ends[before]);
        self.members.get(start as usize..end as usize)
    }
}
