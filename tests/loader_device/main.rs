//! The loader on the emulated device: the bytes of every batch by every route, under adversarial timing, and whatever fails.
#[path = "../common/mod.rs"]
mod common;

mod data;
mod equal;
mod memory;
mod rig;
