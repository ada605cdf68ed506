//! The routes to a device under the emulator: every error a clear one, nothing lost, and nothing waited for in vain.
#[path = "../common/mod.rs"]
mod common;

mod changes;
mod consumers;
mod contexts;
mod crowds;
mod decisions;
mod drops;
mod edges;
mod faults;
mod forks;
mod fuzz;
mod machines;
mod many_files;
mod memory;
mod rig;
mod steady;
