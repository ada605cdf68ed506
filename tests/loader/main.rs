//! The loader against plain reads of the same files, through every setting, and in bad weather.

#[path = "../formats/bytes.rs"]
mod bytes;
#[path = "../common/mod.rs"]
mod common;
use common::heard;
#[path = "../pack/made.rs"]
mod made;
mod stream;

mod budgets;
mod datasets;
mod drops;
mod equal;
mod faults;
mod formats;
mod liars;
mod memory;
mod missing;
mod mixes;
mod order;
mod processes;
mod ragged;
mod resume;
mod settings;
mod skips;
mod stalls;
mod telemetry;
mod transforms;
mod waits;
