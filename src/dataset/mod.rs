//! What a sample is: datasets map its number to tensors and the places of their bytes, and read none of those bytes.
#![forbid(unsafe_code)]

// Owns: types and shapes, the formats and how each is told from the others, datasets made of others. May touch:
// `storage` and `route` for opening files, and nothing above itself.

mod compound;
mod dtype;
mod ends;
mod error;
mod fields;
mod fingerprint;
mod foreign;
mod headerless;
mod headers;
#[cfg(test)]
pub(crate) mod heard;
mod interface;
mod key;
mod layout;
mod megatron;
#[cfg(test)]
mod mutants;
mod npy;
mod npz;
mod open;
mod parallel;
mod parts;
mod records;
mod safetensors;
mod shape;
mod source;
mod spec;
mod split;
mod tar;
mod text;
mod tfrecord;
mod tokens;
mod verified;
mod webdataset;
mod whole;

pub use compound::{Concat, Mixture, Subset};
pub use dtype::{DType, UnknownDType};
pub use error::{DatasetError, DatasetFault, FieldHints};
pub(crate) use fields::Compared;
pub use fields::Fields;
pub use fingerprint::Fingerprint;
pub use interface::Dataset;
pub(crate) use key::split_text as split_key;
pub use layout::Layout;
pub use megatron::Megatron;
pub use npy::Npy;
pub use npz::Npz;
pub(crate) use open::checkpoint_files;
pub use open::{Format, OpenOptions, Stored, UnknownFormat, open, open_stored};
pub use records::Records;
pub use safetensors::Safetensors;
pub use shape::Shape;
pub use source::DataFile;
pub use spec::{FileRange, SampleSpec, StoredTensor, StoredTensors, TensorSpec};
pub use split::Split;
pub(crate) use text::brief;
pub use text::shown;
pub use tfrecord::{Corrupt, TfRecord};
pub use tokens::Tokens;
pub use verified::{Checksums, RangeCheck};
pub(crate) use verified::{StreamCheck, Verified};
pub use webdataset::{TarIndex, WebDataset};
