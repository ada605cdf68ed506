//! The order of training: uniform, the same for everybody, dealt out to ranks without loss, and resumed where it stood.

#[path = "../common/mod.rs"]
mod common;

mod allocations;
mod dealing;
mod mixing;
mod ranks;
mod resume;
mod rig;
mod stable;
mod uniform;
