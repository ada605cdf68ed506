//! A stand-in for cuFile on host files: it reads with `pread` into the emulator's device memory. Right use works as the
//! documentation says and no better; wrong use that the real library would let pass is reported as a violation.
//!
//! What the script can set, beside failures, stalls and short results of every call by its name:
//!
//! | setting | what it does |
//! |---|---|
//! | `cufile_path=p2p\|nvfs\|compat` | the path underneath, at the time a file is registered; p2p by default |
//! | `cufile_no_compat` | compatibility mode is forbidden: files that would fall to it are refused |
//! | `cufile_open=CODE`, `cufile_refuse_handle=CODE` | opening, registering a file fails with that code |
//! | `cufile_version=1150`, `cufile_nvfs_version=2.28` | versions; without nvidia-fs the latter is 0.0 unless set |
//! | `cufile_batch=128`, `cufile_max_direct_io_kb=16384`, `cufile_bar_kb=N` | limits |
//! | `cufile_pinned_max=32GiB` | the most device memory that may be registered, per device |
//! | `cufile_posix_slabs=64` | entries that compatibility mode takes before it stalls for ever |
//! | `cufile_late_us=200` | how late bytes land at most; `jitter_us` by default |
//! | `cufile_no_stats`, `cufile_no_batch`, `cufile_no_async` | the library has those names and refuses the calls |
//!
//! Single operations are `batch_entry`, counted in the order of submission, and `async_entry`, in the order of
//! execution: `fail=batch_entry@3:5030`. A setting with `=0` is taken back. A library too old to have a name at all
//! cannot be played by a script: that takes another library.

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
