//! What a sample is: datasets map its number to tensors and the places of their bytes, and read none of those bytes.
//!
//! Owns: types and shapes, the formats and how each is told from the others, datasets made of others. May touch:
//! `storage` for opening files, and nothing above itself.
#![forbid(unsafe_code)]

mod compressed;
mod dtype;
mod error;
mod fingerprint;
mod headers;
#[cfg(test)]
mod heard;
mod in_a_row;
mod interface;
mod parallel;
mod safetensors;
mod shape;
mod source;
mod spec;
mod tar;
mod text;
mod tfrecord;
mod webdataset;

pub use dtype::{DType, UnknownDType};
pub use error::{DatasetError, DatasetFault};
pub use fingerprint::Fingerprint;
pub use interface::Dataset;
pub use safetensors::Safetensors;
pub use shape::Shape;
pub use source::DataFile;
pub use spec::{FileRange, SampleSpec, StoredTensor, StoredTensors, TensorSpec};
pub use tfrecord::{Corrupt, TfRecord};
pub use webdataset::{TarIndex, WebDataset};
