//! The baseline for a warm page cache: one thread that reads into the same 1 MiB again and again.
//!
//! Its buffer stays in the CPU's cache, which makes it hard to beat with memory that has to be kept.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::time::Instant;

use crate::machine;
use crate::workload::{Outcome, Workload};

const BLOCK: usize = 1 << 20;

pub fn run(work: &Workload) -> Result<Outcome, String> {
    let told = |error| format!("{}: {error}", work.file.display());
    let file = File::open(&work.file).map_err(told)?;
    let mut block = vec![1u8; BLOCK];
    let cpu_before = machine::own_cpu_seconds();
    let start = Instant::now();
    let (mut bytes, mut offset) = (0, 0);
    while bytes < work.bytes {
        if offset >= work.file_len {
            offset = 0;
        }
        let want = (work.bytes - bytes).min(BLOCK as u64) as usize;
        let got = file.read_at(&mut block[..want], offset).map_err(told)? as u64;
        if got == 0 {
            return Err(format!("{} at {offset}: end of file", work.file.display()));
        }
        bytes += got;
        offset += got;
    }
    let seconds = start.elapsed().as_secs_f64();
    let cpu_seconds = machine::own_cpu_seconds() - cpu_before;
    Ok(Outcome { bytes, seconds, cpu_seconds, peak_rss: machine::peak_rss(), note: None })
}
