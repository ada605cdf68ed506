//! The ways bytes take from files to a device, which one was chosen and why not the others, and proof of what each
//! carried.
//!
//! Owns: decisions, the thread that reads and copies at the same time, what landed. May touch: `storage`, `device`,
//! `memory` and `sys`, and nothing above itself.
#![forbid(unsafe_code)]

mod builder;
mod bytes;
mod carrier;
mod carry;
mod carry_into;
mod carry_placed;
mod conductor;
mod core;
mod decision;
mod direct;
mod direct_read;
mod error;
mod fill;
mod hindrance;
mod job;
mod landed;
mod pack;
mod per_file;
mod placed;
mod reason;
#[cfg(all(test, not(forebay_loom)))]
mod tests;
mod under_way;
mod upload;

pub use builder::CarrierBuilder;
pub use bytes::RouteBytes;
pub use carrier::Carrier;
pub use carry::Carry;
pub use carry_into::CarryInto;
pub(crate) use carry_placed::CarryPlaced;
pub use decision::{Decision, Rejected, Route, Switch};
pub use direct::DirectForm;
pub use error::{CarryError, CarryFault};
pub(crate) use fill::{Fill, FillPlan, Filled};
pub use hindrance::Hindrance;
pub use landed::Landed;
pub use placed::Placed;
pub use reason::NoRoute;
pub(crate) use upload::{Landing, Room, Upload};
