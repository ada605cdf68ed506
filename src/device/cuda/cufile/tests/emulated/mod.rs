//! cuFile's forms on the stand-in for CUDA and cuFile.

mod faults;
mod mutants;
mod objects;
mod reads;
mod rig;

use crate::emulated::{is_child, mutant};

/// Runs an ignored test of this folder under the emulator, and wants it to pass.
fn pass(name: &str, script: &str) {
    crate::emulated::pass(&path(name), script);
}

fn path(name: &str) -> String {
    let module = module_path!().split_once("::").unwrap().1;
    format!("{module}::{name}")
}
