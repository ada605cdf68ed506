//! A stand-in for cuFile on host files: it reads with `pread` into the emulator's device memory. Right use works as the
//! documentation says and no better; wrong use that the real library would let pass is reported as a violation.
//!
//! `cufile_no_stats`, `cufile_no_batch` and `cufile_no_async` stand for a library that has those names and refuses the
//! calls. A library too old to have the names at all cannot be played by a script: that takes another library.

mod abi;
mod async_io;
mod batch;
mod batch_exports;
mod batch_workers;
mod buffers;
mod chance;
mod counters;
mod driver;
mod gate;
mod handles;
mod parameters;
mod peek;
mod read_write;
mod settings;
mod slabs;
mod state;
mod stats;
mod stats_exports;
mod transfer;

/// Forgets everything, as if the process had just begun.
pub fn reset() {
    state::reset();
    stats::reset();
    parameters::reset();
    counters::reset();
    chance::restart();
}
