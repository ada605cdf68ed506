//! Whole checkpoints against the safetensors crate, tensor by tensor: every route, every share, every machine that fails.
#[path = "../common/mod.rs"]
mod common;

mod devices;
mod equal;
mod faults;
mod machines;
mod memory;
mod model;
mod reads;
mod real;
mod room;
mod shares;
