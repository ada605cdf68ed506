//! cuFile and the driver played by functions in this file's folder, in this process: for what the emulator, which plays
//! a cuFile that keeps its promises, does not do.

mod batches;
mod counts;
mod functions;
mod others;
mod streams;
mod world;

use super::super::error::Group;
use super::super::*;
