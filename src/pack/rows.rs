//! Samples that all have the same tensors: each field one tensor, one sample a row.

use std::cmp::Reverse;

use super::contents::{Contents, Give, Limits, Shard, add_bytes, check_bytes, find};
use super::error::PackError;
use super::header::{Header, METADATA};
use super::options::PackOptions;
use crate::dataset::{Dataset, DatasetError, Layout, SampleSpec, TensorSpec};

/// One field of every sample.
#[derive(Debug)]
pub(super) struct Field {
    row: TensorSpec,
    /// Bytes of a row.
    bytes: u64,
    /// Where it most likely is among the tensors of a sample.
    place: usize,
}

/// A file of a hundred bytes may have as many rows of nothing as there are numbers, which nobody would see the end of.
const MOST_EMPTY: u64 = 1 << 24;

/// The fields that all samples have, those of wide types first; `None` where samples differ. Reads no payload.
pub(super) fn fields(dataset: &dyn Dataset) -> Result<Option<Vec<Field>>, PackError> {
    if dataset.is_empty() {
        return Err(DatasetError::no_samples(dataset.files()).into());
    }
    let mut first = SampleSpec::new();
    dataset.locate(0, &mut first)?;
    let mut fields = fields_of(dataset, &first)?;
    // Of one sample, a field that the other samples share in another order is found again by name.
    fields.sort_by(|a, b| (Reverse(a.row.dtype), &a.row.name).cmp(&(Reverse(b.row.dtype), &b.row.name)));
    let twice = fields.iter().zip(fields.iter().skip(1)).find(|(a, b)| a.row.name == b.row.name);
    if let Some((field, _)) = twice {
        return Err(refused(dataset, 0, format!("it has two tensors called {:?}", field.row.name)));
    }
    if fields.is_empty() {
        return Err(refused(dataset, 0, "it has no tensors".into()));
    }
    let mut sample = SampleSpec::new();
    let mut bytes = first.bytes();
    for index in 1..dataset.len() {
        if index == MOST_EMPTY && bytes == 0 {
            let what = format!("the first {MOST_EMPTY} of {} samples have no bytes", dataset.len());
            return Err(PackError::setting(what, "pack a dataset whose samples hold something"));
        }
        sample.clear();
        dataset.locate(index, &mut sample)?;
        let same = sample.tensors() == first.tensors() || has_all(&sample, &fields);
        if !same {
            return Ok(None);
        }
        for (tensor, ranges) in sample.fields() {
            check_bytes(tensor, ranges).map_err(|what| refused(dataset, index, what))?;
        }
        bytes = bytes.saturating_add(sample.bytes());
    }
    if let Some(field) = fields.iter().find(|field| *field.row.name == *METADATA) {
        return Err(reserved(&field.row.name));
    }
    Ok(Some(fields))
}

pub(super) fn reserved(name: &str) -> PackError {
    PackError::tensor(name, "safetensors files keep their metadata under this name", "give the tensor another one")
}

fn fields_of(dataset: &dyn Dataset, sample: &SampleSpec) -> Result<Vec<Field>, PackError> {
    let field = |(place, (tensor, ranges)): (usize, (&TensorSpec, &[_]))| {
        let bytes = check_bytes(tensor, ranges).map_err(|what| refused(dataset, 0, what))?;
        Ok(Field { row: tensor.clone(), bytes, place })
    };
    sample.fields().enumerate().map(field).collect()
}

fn has_all(sample: &SampleSpec, fields: &[Field]) -> bool {
    sample.tensors().len() == fields.len()
        && fields.iter().all(|field| find(sample, &field.row.name, field.place).is_some_and(|(it, _)| *it == field.row))
}

/// What a dataset says of a sample and cannot be.
pub(super) fn refused(dataset: &dyn Dataset, index: u64, what: String) -> PackError {
    unfit(dataset, index, what, "correct the dataset")
}

/// What a dataset may say of a sample and cannot be written.
pub(super) fn unfit(dataset: &dyn Dataset, index: u64, what: String, fix: &'static str) -> PackError {
    PackError::Sample { index, id: dataset.id(index).into_owned(), what, fix }
}

pub(super) struct Rows<'a> {
    dataset: &'a dyn Dataset,
    fields: Vec<Field>,
    /// Bytes of one row of all fields.
    row: u64,
    /// Rows of every file but the last.
    rows: u64,
}

impl<'a> Rows<'a> {
    pub(super) fn new(dataset: &'a dyn Dataset, fields: Vec<Field>, limits: Limits) -> Result<Self, PackError> {
        let row = fields.iter().try_fold(0, |sum, field| add_bytes(sum, field.bytes))?;
        let rows = limits.data.checked_div(row).unwrap_or(u64::MAX).clamp(1, dataset.len());
        let total = row.saturating_mul(dataset.len());
        add_bytes(0, total)?;
        Ok(Self { dataset, fields, row, rows })
    }

    fn samples(&self, number: usize) -> std::ops::Range<u64> {
        let start = (number as u64).saturating_mul(self.rows);
        start..start.saturating_add(self.rows).min(self.dataset.len())
    }
}

impl Contents for Rows<'_> {
    fn layout(&self) -> Layout {
        Layout::Rows
    }

    fn shards(&self) -> usize {
        usize::try_from(self.dataset.len().div_ceil(self.rows)).unwrap_or(usize::MAX)
    }

    fn data_bytes(&self) -> u64 {
        self.row.saturating_mul(self.dataset.len())
    }

    fn shard(&self, number: usize, options: &PackOptions) -> Result<Shard, PackError> {
        let samples = self.samples(number);
        let rows = samples.end - samples.start;
        let mut in_sample: Vec<&Field> = self.fields.iter().collect();
        in_sample.sort_by_key(|field| field.place);
        let names: Vec<&str> = in_sample.iter().map(|field| &*field.row.name).collect();
        let is_other = !names.iter().copied().eq(self.fields.iter().map(|field| &*field.row.name));
        let mut header = Header::new(Layout::Rows, options, is_other.then_some(&names));
        for field in &self.fields {
            header.add(&field.row.name, &field.row, Some(rows), field.bytes.saturating_mul(rows));
        }
        Shard::new(header, rows)
    }

    fn ranges(&self, number: usize, give: Give<'_>) -> Result<(), PackError> {
        let mut sample = SampleSpec::new();
        for field in &self.fields {
            for index in self.samples(number) {
                sample.clear();
                self.dataset.locate(index, &mut sample)?;
                let found = find(&sample, &field.row.name, field.place).filter(|(tensor, _)| **tensor == field.row);
                let Some((tensor, ranges)) = found else {
                    let what = format!("its tensor {:?} has changed while it was packed", field.row.name);
                    return Err(refused(self.dataset, index, what));
                };
                check_bytes(tensor, ranges).map_err(|what| refused(self.dataset, index, what))?;
                ranges.iter().try_for_each(|&range| give(range, Some(index)))?;
            }
        }
        Ok(())
    }
}
