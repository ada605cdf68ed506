//! Packing, against the safetensors crate and the Python package, on full disks, and killed.
#[path = "../common/mod.rs"]
mod common;

mod damage;
mod faults;
mod files;
mod kills;
mod layouts;
mod made;
mod names;
mod oracle;
mod property;
