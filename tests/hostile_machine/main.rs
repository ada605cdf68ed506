//! Machines that forbid things: denied system calls, small limits, signals. The bytes stay the same; what was fallen
//! back from is said once; what was forced and cannot be had is a clean error.
#[path = "../common/mod.rs"]
mod common;

mod command;
mod library;
mod limits;
mod reasons;
mod signals;

/// Every test here reads one file of this length and seed, or says which other.
const LEN: u64 = (3 << 20) + 1234;
const SEED: u64 = 42;
