//! Runs fio and reads its answer.
//!
//! What makes the comparison fair: the same file, block size, depth, jobs and number of bytes; fixed buffers and
//! registered files as on our side; offsets uniformly random with repeats (`norandommap`). Time is fio's own run time,
//! without its start-up. CPU time is that of the whole fio process, kernel workers included, less that of an fio with
//! the same arguments that reads one block; on our side it is that of the measured section, after the reader was built.

use std::fs;
use std::process::Command;

use serde_json::Value;

use crate::machine::children_cpu_seconds;
use crate::workload::{Outcome, Pattern, Workload};

/// How fio reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Engine {
    /// io_uring with fixed buffers and registered files.
    IoUring,
    /// One pread at a time per job.
    Psync,
}

/// fio as found on this machine.
#[derive(Clone, Debug)]
pub struct Fio {
    pub version: String,
    /// Submission in batches, no clock readings per read, buffers in huge pages: fio at its best.
    pub tuned: bool,
}

impl Fio {
    /// `Err` says why it cannot be had here.
    pub fn find(tuned: bool) -> Result<Self, String> {
        let output = Command::new("fio").arg("--version").output().map_err(|e| format!("no fio: {e}"))?;
        let version = String::from_utf8_lossy(&output.stdout).trim().to_owned();
        let version = if tuned { format!("{version} (tuned)") } else { version };
        Ok(Self { version, tuned })
    }

    /// Reads `work.bytes` bytes. `start_up` is what [`Fio::start_up`] answered for the same workload.
    pub fn run(&self, engine: Engine, work: &Workload, start_up: f64) -> Result<Outcome, String> {
        let mut command = self.command(engine, work);
        command.arg(format!("--io_size={}", work.bytes / u64::from(work.jobs)));
        let (bytes, seconds, cpu_seconds) = finish(command)?;
        if bytes != work.bytes {
            return Err(format!("fio read {bytes} bytes instead of {}", work.bytes));
        }
        // A run too short to stand out from the start-up has no CPU figure.
        let cpu_seconds = (cpu_seconds - start_up).max(0.0);
        Ok(Outcome { bytes, seconds, cpu_seconds, peak_rss: None, note: None })
    }

    /// Bytes per second of a run of `seconds`, whatever `work.bytes` says.
    pub fn rate(&self, engine: Engine, work: &Workload, seconds: f64) -> Result<f64, String> {
        let mut command = self.command(engine, work);
        command.arg("--time_based").arg(format!("--runtime={}ms", (seconds * 1e3) as u64));
        let (bytes, seconds, _) = finish(command)?;
        Ok(bytes as f64 / seconds)
    }

    /// CPU seconds that fio takes to start, read one block per job, and end: the least of three.
    pub fn start_up(&self, engine: Engine, work: &Workload) -> Result<f64, String> {
        let mut least = f64::INFINITY;
        for _ in 0..3 {
            let mut command = self.command(engine, work);
            command.arg(format!("--io_size={}", work.block));
            least = least.min(finish(command)?.2);
        }
        Ok(least)
    }

    fn command(&self, engine: Engine, work: &Workload) -> Command {
        let mut command = Command::new("fio");
        let file = work.file.to_string_lossy().replace(':', "\\:");
        let direct = u8::from(!work.warm);
        command.args(["--name=forebay-bench", "--output-format=json", "--eta=never", "--disk_util=0"]);
        command.args(["--readonly", "--allow_file_create=0", "--norandommap=1"]);
        // Jobs as threads share one address space, as our rings do. The page cache is prepared by us.
        command.args(["--thread=1", "--invalidate=0"]);
        command.arg(format!("--filename={file}")).arg(format!("--direct={direct}"));
        command.arg(format!("--bs={}", work.block)).arg(format!("--numjobs={}", work.jobs));
        command.arg(format!("--randseed={}", work.seed));
        match engine {
            Engine::IoUring => {
                command.args(["--ioengine=io_uring", "--fixedbufs=1", "--registerfiles=1"]);
                command.arg(format!("--iodepth={}", work.depth));
                if self.tuned {
                    command.arg("--gtod_reduce=1");
                    if huge_pages_free() >= huge_pages_needed(work) {
                        command.arg("--iomem=mmaphuge");
                    }
                    let batch = (work.depth / 4).max(1);
                    command.arg(format!("--iodepth_batch_submit={batch}"));
                    command.arg("--iodepth_batch_complete_min=1");
                    command.arg(format!("--iodepth_batch_complete_max={}", work.depth));
                }
            }
            Engine::Psync => {
                command.arg("--ioengine=psync");
            }
        }
        match work.pattern {
            Pattern::Random => command.arg("--rw=randread").arg(format!("--size={}", work.file_len)),
            // Each job has its own share of the file.
            Pattern::Sequential => {
                let share = work.file_len / u64::from(work.jobs);
                command.arg("--rw=read").arg(format!("--size={share}")).arg(format!("--offset_increment={share}"))
            }
        };
        command
    }
}

/// fio's buffers lie in pages of 4 KiB unless told otherwise, which cuts large reads into more segments than our
/// arena's huge pages do.
pub fn huge_pages_needed(work: &Workload) -> u64 {
    u64::from(work.jobs) * ((u64::from(work.depth) * work.block).div_ceil(2 << 20) + 1)
}

/// Reserved huge pages, of the default size, that nobody uses.
pub fn huge_pages_free() -> u64 {
    let text = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let count = text.lines().find_map(|line| line.strip_prefix("HugePages_Free:"));
    count.and_then(|count| count.trim().parse().ok()).unwrap_or(0)
}

/// Bytes, seconds and CPU seconds of one fio.
fn finish(mut command: Command) -> Result<(u64, f64, f64), String> {
    let before = children_cpu_seconds();
    let output = command.output().map_err(|e| format!("fio: {e}"))?;
    let cpu_seconds = children_cpu_seconds() - before;
    let text = String::from_utf8_lossy(&output.stdout);
    let failed = || {
        // What is wrong stands before the JSON, or on stderr.
        let said = text.split('{').next().unwrap_or_default().trim();
        format!("fio ({}): {said} {}", output.status, String::from_utf8_lossy(&output.stderr).trim())
    };
    if !output.status.success() {
        return Err(failed());
    }
    // Notes for people may stand before the JSON.
    let json = text.find('{').and_then(|at| serde_json::from_str::<Value>(&text[at..]).ok()).ok_or_else(failed)?;
    let jobs = json.get("jobs").and_then(Value::as_array).ok_or_else(failed)?;
    let (mut bytes, mut milliseconds) = (0, 0);
    for job in jobs {
        let read = job.get("read").ok_or_else(failed)?;
        bytes += read.get("io_bytes").and_then(Value::as_u64).ok_or_else(failed)?;
        milliseconds = milliseconds.max(read.get("runtime").and_then(Value::as_u64).ok_or_else(failed)?);
    }
    Ok((bytes, milliseconds.max(1) as f64 / 1e3, cpu_seconds))
}
