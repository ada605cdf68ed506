//! Formats against those who write them: numpy, the safetensors package, GNU tar, Python's tarfile, webdataset; and
//! against files that break their rules.
#[path = "../common/mod.rs"]
mod common;

mod bytes;
mod safetensors;
