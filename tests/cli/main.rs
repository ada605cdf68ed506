//! The command line as scripts see it: exit codes, stdout, stderr, JSON.

#[path = "../common/mod.rs"]
mod common;
#[path = "../../benches/routes/throttle.rs"]
mod throttle;

mod bench;
mod bench_devices;
mod bench_ended;
mod bench_html;
mod bench_loader;
mod bench_lost;
mod bench_polled;
mod bench_read_only;
mod bench_tune;
mod cat;
mod device;
mod direct_claims;
mod doctor;
mod inspect;
mod launchers;
mod load;
mod no_gpu;
mod numbers;
mod order;
mod pack;
mod read;
mod run;
mod saved;
mod usage;
mod without_proc;
