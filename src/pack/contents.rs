//! What goes into which file: decided before the first is written, from names, types, shapes and places alone.

use std::path::PathBuf;

use super::error::PackError;
use super::header::{CAP, Header, SOFT_CAP};
use super::options::PackOptions;
use super::out::Out;
use crate::dataset::{FileRange, Layout, SampleSpec, TensorSpec};

/// All files of one pack, before they are written.
pub(super) trait Contents {
    fn layout(&self) -> Layout;

    /// How many files.
    fn shards(&self) -> usize;

    /// Bytes of data in all files.
    fn data_bytes(&self) -> u64;

    /// The header of one file.
    fn shard(&self, number: usize, options: &PackOptions) -> Result<Shard, PackError>;

    /// What says which file each tensor is in, where readers need it to find them.
    fn index(&self, _files: &[PathBuf]) -> Option<String> {
        None
    }

    /// Where the data of one file is now, in the order in which it is written.
    fn ranges(&self, number: usize, give: Give<'_>) -> Result<(), PackError>;
}

/// Takes a range, and the sample that it belongs to, where there are samples.
pub(super) type Give<'a> = &'a mut dyn FnMut(FileRange, Option<u64>) -> Result<(), PackError>;

/// One file, without its data.
pub(super) struct Shard {
    /// Its first bytes, up to the data.
    pub(super) header: Vec<u8>,
    pub(super) data: u64,
    pub(super) samples: u64,
    pub(super) tensors: u64,
}

impl Shard {
    pub(super) fn new(header: Header, samples: u64) -> Result<Self, PackError> {
        let (data, tensors) = (header.data(), header.tensors());
        Ok(Self { header: header.finish()?, data, samples, tensors })
    }

    pub(super) fn bytes(&self) -> u64 {
        (self.header.len() as u64).saturating_add(self.data)
    }
}

/// Where files are cut.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    /// Bytes of data.
    pub(super) data: u64,
    /// Bytes of JSON.
    pub(super) json: u64,
}

impl Limits {
    pub(super) fn new(out: &Out, options: &PackOptions) -> Result<Self, PackError> {
        const USUAL: u64 = 1 << 30;
        if options.shard_bytes == Some(0) {
            return Err(PackError::setting("shards of 0 bytes hold nothing", "give 1 byte or more"));
        }
        if let Some(key) = options.metadata.keys().find(|key| key.starts_with("forebay.")) {
            return Err(PackError::setting(format!("the metadata key {key:?} is our own"), "give it another name"));
        }
        Ok(match out {
            Out::Folder(_) => Self { data: options.shard_bytes.unwrap_or(USUAL), json: SOFT_CAP },
            Out::File(_) => Self { data: options.shard_bytes.unwrap_or(u64::MAX), json: CAP },
        })
    }
}

/// Sees that the places of a tensor hold what its type and shape say: a file is cut and described by that.
pub(super) fn check_bytes(tensor: &TensorSpec, ranges: &[FileRange]) -> Result<u64, String> {
    let held = ranges.iter().try_fold(0_u64, |sum, range| sum.checked_add(range.len));
    match (tensor.bytes(), held) {
        (Some(bytes), Some(held)) if bytes == held => Ok(bytes),
        (Some(bytes), Some(held)) => Err(format!(
            "its tensor {:?}, {} {}, takes {bytes} bytes, and its places hold {held}",
            tensor.name, tensor.dtype, tensor.shape
        )),
        _ => Err(format!("its tensor {:?}, {} {}, has no size in bytes", tensor.name, tensor.dtype, tensor.shape)),
    }
}

/// The sum, where a file can be that long.
pub(super) fn add_bytes(sum: u64, more: u64) -> Result<u64, PackError> {
    let fits = sum.checked_add(more).filter(|&sum| sum <= i64::MAX as u64 / 2);
    fits.ok_or_else(|| PackError::setting("the data is larger than any file system", "pack a part of it"))
}

/// The places of the tensor called `name`, which is most likely the one at `hint`.
pub(super) fn find<'a>(sample: &'a SampleSpec, name: &str, hint: usize) -> Option<(&'a TensorSpec, &'a [FileRange])> {
    let hinted = sample.fields().nth(hint).filter(|(tensor, _)| *tensor.name == *name);
    hinted.or_else(|| sample.fields().find(|(tensor, _)| *tensor.name == *name))
}
