//! The routes to a device under the emulator: every error a clear one, nothing lost, and nothing waited for in vain.
#[path = "../common/mod.rs"]
mod common;

mod machines;
mod rig;
