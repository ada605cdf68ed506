//! The stand-in for cuFile: right use of it is clean, and each wrong use is caught.
//!
//! The library is one per process, so tests take turns and begin with everything reset. It is loaded by its path: no
//! driver of the machine is touched.

#[path = "../emulator/cufile/abi.rs"]
#[allow(dead_code)]
mod abi;
mod api;
mod batch;
mod batch_misuse;
mod buffers;
#[path = "../common/mod.rs"]
mod common;
mod driver;
mod fork;
mod handles;
mod layout;
mod reads;
mod rig;
mod sample;
mod statistics;
mod streams;
