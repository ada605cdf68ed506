//! The loader against plain reads of the same files.

#[path = "../common/mod.rs"]
mod common;

mod equal;
