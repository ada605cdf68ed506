//! What each sample of a batch is, as a SHA-256.

use std::borrow::Cow;
use std::collections::HashMap;

use forebay::dataset::{Dataset, SampleSpec};
use forebay::{Batch, BatchTensor};
use sha2::{Digest, Sha256};

use crate::failure::Failure;

/// Of each sample of the batch, over its payloads one after the other, in the order of the dataset, which is the archive's.
pub fn of(batch: &Batch, dataset: &dyn Dataset) -> Result<Vec<String>, Failure> {
    let mut tensors = HashMap::new();
    for tensor in batch.tensors() {
        tensors.insert(tensor.name(), Rows::of(tensor)?);
    }
    let mut spec = SampleSpec::new();
    let mut hashes = Vec::with_capacity(batch.len());
    for (row, &index) in batch.indices().iter().enumerate() {
        spec.clear();
        dataset.locate(index, &mut spec).map_err(Failure::of)?;
        let mut hash = Sha256::new();
        for field in spec.tensors() {
            let bytes = tensors.get(&*field.name).and_then(|rows| rows.get(row));
            hash.update(bytes.ok_or_else(|| missing(batch, row, &field.name))?);
        }
        hashes.push(hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect());
    }
    Ok(hashes)
}

/// The rows of a tensor on the host, wherever the batch is.
struct Rows<'a> {
    tensor: BatchTensor<'a>,
    bytes: Cow<'a, [u8]>,
    offsets: Vec<usize>,
}

impl<'a> Rows<'a> {
    fn of(tensor: BatchTensor<'a>) -> Result<Self, Failure> {
        let bytes = match tensor.host() {
            Some(bytes) => Cow::Borrowed(bytes),
            None => Cow::Owned(tensor.to_host().map_err(Failure::of)?),
        };
        Ok(Self { tensor, bytes, offsets: tensor.offsets().collect() })
    }

    /// The bytes of a row without padding.
    fn get(&self, row: usize) -> Option<&[u8]> {
        let len = self.tensor.row_shape(row)?.bytes(self.tensor.dtype())?;
        let start = *self.offsets.get(row)?;
        self.bytes.get(start..start.checked_add(usize::try_from(len).ok()?)?)
    }
}

fn missing(batch: &Batch, row: usize, field: &str) -> Failure {
    let id = batch.ids().nth(row).unwrap_or_default();
    Failure::Error(format!("sample {id}: its batch does not have all of {field}; please report this"))
}
