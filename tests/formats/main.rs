//! Formats against those who write them: numpy, the safetensors package, GNU tar, Python's tarfile, webdataset; and
//! against files that break their rules.
#[path = "../common/mod.rs"]
mod common;

mod bytes;
mod compound;
mod corpus;
mod fingerprint;
mod megatron;
mod npy;
mod npz;
mod open;
mod other_kinds;
mod records;
mod safetensors;
mod shard_sets;
mod tar;
mod tfrecord;
mod tokens;
mod told;
mod untold_size;
mod webdataset;

use common::heard::by_thread as heard;
