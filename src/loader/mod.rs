//! Batches for training.
#![forbid(unsafe_code)]

pub mod transform;
