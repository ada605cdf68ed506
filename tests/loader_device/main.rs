//! The loader on the emulated device: the bytes of every batch by every route, under adversarial timing, and whatever fails.
#[path = "../common/mod.rs"]
mod common;

mod consumer;
mod cycles;
mod data;
mod equal;
mod faults;
mod memory;
mod rig;
mod stalls;
mod streams;
mod turmoil;
