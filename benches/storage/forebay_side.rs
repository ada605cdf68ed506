//! Our side of a run.
use crate::workload::{Outcome, Workload};
pub fn run(_engine: &str, _budget: u64, work: &Workload) -> Result<Outcome, String> {
    crate::pread_loop::run(work)
}
