//! The emulated driver itself: each mistake it is there to catch is caught, and the correct program beside it is clean.
//! Without these tests a clean run under the emulator would say nothing.
#[path = "../common/mod.rs"]
mod common;
mod rig;

mod contexts;
mod copies;
mod devices;
mod events;
mod links;
mod memory;
mod pinned;
mod processes;
mod safe_layer;
mod scripts;
mod streams;
mod turmoil;
