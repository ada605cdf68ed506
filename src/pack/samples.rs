//! Samples that differ: each tensor of each is one by itself, called `{id}.{field}`.

use std::collections::HashSet;
use std::ops::Range;

use xxhash_rust::xxh3::xxh3_128;

use super::contents::{Contents, Give, Limits, Shard, add_bytes, check_bytes};
use super::error::PackError;
use super::header::{Header, align, json_bytes};
use super::options::PackOptions;
use super::rows::{refused, unfit};
use crate::dataset::{DType, Dataset, FileRange, Layout, SampleSpec, TensorSpec, split_key};

pub(super) struct Samples<'a> {
    dataset: &'a dyn Dataset,
    cuts: Vec<Cut>,
    data: u64,
}

/// What one file holds.
#[derive(Debug, Default)]
struct Cut {
    samples: Range<u64>,
    data: u64,
    json: u64,
    /// The types of its tensors, a bit each.
    dtypes: u32,
    /// Whether every tensor is aligned to its type where all lie in the order of the samples.
    aligned: bool,
}

impl<'a> Samples<'a> {
    /// Looks at every sample once. Keeps 16 bytes for each tensor while it does, to find names that come twice.
    pub(super) fn new(dataset: &'a dyn Dataset, limits: Limits) -> Result<Self, PackError> {
        let mut all = Self { dataset, cuts: Vec::new(), data: 0 };
        let mut names = HashSet::new();
        let mut cut = Cut::at(0);
        for index in 0..dataset.len() {
            let sample = One::find(dataset, index)?;
            sample.check(&mut names)?;
            let (data, json) = sample.size()?;
            let is_full = add_bytes(cut.data, data)? > limits.data || cut.json.saturating_add(json) > limits.json;
            if is_full && !cut.samples.is_empty() {
                all.cuts.push(std::mem::replace(&mut cut, Cut::at(index)));
            }
            cut.take(&sample, json);
            all.data = add_bytes(all.data, data)?;
        }
        all.cuts.push(cut);
        Ok(all)
    }

    /// Every tensor of a file with its sample, in the order in which they are written.
    fn each(
        &self,
        number: usize,
        mut take: impl FnMut(&One<'_>, &TensorSpec, &[FileRange]) -> Result<(), PackError>,
    ) -> Result<(), PackError> {
        let Some(cut) = self.cuts.get(number) else { return Ok(()) };
        for only in cut.passes() {
            for index in cut.samples.clone() {
                let sample = One::find(self.dataset, index)?;
                for (tensor, ranges) in sample.spec.fields() {
                    if only.is_none_or(|dtype| dtype == tensor.dtype) {
                        check_bytes(tensor, ranges).map_err(|what| sample.refused(what))?;
                        take(&sample, tensor, ranges)?;
                    }
                }
            }
        }
        Ok(())
    }
}

impl Contents for Samples<'_> {
    fn layout(&self) -> Layout {
        Layout::Samples
    }

    fn shards(&self) -> usize {
        self.cuts.len()
    }

    fn data_bytes(&self) -> u64 {
        self.data
    }

    fn shard(&self, number: usize, options: &PackOptions) -> Result<Shard, PackError> {
        let mut header = Header::new(Layout::Samples, options, None);
        self.each(number, |sample, tensor, ranges| {
            header.add(&sample.name(tensor), tensor, None, ranges.iter().map(|range| range.len).sum());
            Ok(())
        })?;
        let samples = self.cuts.get(number).map_or(0, |cut| cut.samples.end - cut.samples.start);
        Shard::new(header, samples)
    }

    fn ranges(&self, number: usize, give: Give<'_>) -> Result<(), PackError> {
        self.each(number, |sample, _, ranges| ranges.iter().try_for_each(|&range| give(range, Some(sample.index))))
    }
}

impl Cut {
    fn at(index: u64) -> Self {
        Self { samples: index..index, aligned: true, ..Self::default() }
    }

    fn take(&mut self, sample: &One<'_>, json: u64) {
        self.samples.end += 1;
        self.json = self.json.saturating_add(json);
        for (tensor, ranges) in sample.spec.fields() {
            self.aligned &= self.data.is_multiple_of(align(tensor.dtype.bits()));
            self.dtypes |= 1 << tensor.dtype as u32;
            // The sum was found to be no more than any file has.
            self.data += ranges.iter().map(|range| range.len).sum::<u64>();
        }
    }

    /// All tensors at once, or those of one type after the other, the widest first: in that order all are aligned.
    fn passes(&self) -> Vec<Option<DType>> {
        if self.aligned {
            return vec![None];
        }
        let mut dtypes: Vec<_> = DType::all().filter(|&dtype| self.dtypes >> dtype as u32 & 1 == 1).map(Some).collect();
        dtypes.reverse();
        dtypes
    }
}

/// One sample with its name.
struct One<'a> {
    dataset: &'a dyn Dataset,
    index: u64,
    id: std::borrow::Cow<'a, str>,
    spec: SampleSpec,
}

impl<'a> One<'a> {
    fn find(dataset: &'a dyn Dataset, index: u64) -> Result<Self, PackError> {
        Ok(Self { dataset, index, id: dataset.id(index), spec: dataset.sample(index)? })
    }

    fn name(&self, tensor: &TensorSpec) -> String {
        format!("{}.{}", self.id, tensor.name)
    }

    fn refused(&self, what: String) -> PackError {
        refused(self.dataset, self.index, what)
    }

    fn check(&self, names: &mut HashSet<u128>) -> Result<(), PackError> {
        if self.spec.tensors().is_empty() {
            return Err(self.refused("it has no tensors".into()));
        }
        for tensor in self.spec.tensors() {
            let name = self.name(tensor);
            let read_back = split_key(&name);
            if read_back != Some((&self.id, &tensor.name)) {
                let what = match read_back {
                    Some((id, field)) => format!("{name:?} would be read back as {field:?} of sample {id:?}"),
                    None => format!("{name:?} would be read back as no sample's"),
                };
                let fix = "give it a name without dots after its last slash, and its tensors names without slashes";
                return Err(unfit(self.dataset, self.index, what, fix));
            }
            if !names.insert(xxh3_128(name.as_bytes())) {
                let what = format!("another tensor is called {name:?}, too");
                return Err(unfit(self.dataset, self.index, what, "give every sample a name of its own"));
            }
        }
        Ok(())
    }

    /// Bytes of data, and of JSON at most.
    fn size(&self) -> Result<(u64, u64), PackError> {
        let (mut data, mut json) = (0, 0_u64);
        for (tensor, ranges) in self.spec.fields() {
            data = add_bytes(data, check_bytes(tensor, ranges).map_err(|what| self.refused(what))?)?;
            json = json.saturating_add(json_bytes(&self.name(tensor), tensor));
        }
        Ok((data, json))
    }
}
