//! An adversarial stand-in for the CUDA driver and cuFile, on host memory. Found as `libcuda.so.1` and as
//! `libcufile.so.0`, it exports both with the layouts of the real ones. It is never polite: queued work runs late and in
//! its own time, device memory faults when the host touches it, and what a real driver would let pass until it
//! corrupts data is reported as a violation.
#![allow(non_snake_case)]

mod call;
mod codes;
mod context;
mod control;
mod copy;
mod cufile;
mod device;
mod errors;
mod event;
mod link;
mod memory;
mod process;
mod script;
mod stream;
mod sync;
mod violations;
