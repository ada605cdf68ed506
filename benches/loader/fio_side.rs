//! fio's side of a race.

use std::path::PathBuf;
use std::process::Command;

use serde_json::Value;

use crate::fio::{Engine, Fio};
use crate::outcome::Outcome;
use crate::workload::{Pattern, Workload};

/// What fio reads, as often as it takes to fill the time.
#[derive(Clone, Debug)]
pub enum Reads {
    /// Random blocks of so many bytes of one file.
    Random { file: PathBuf, file_len: u64, block: u64 },
    /// These files one after the other, 1 MiB at a time.
    InOrder { files: Vec<PathBuf>, bytes: u64 },
}

const MIB: u64 = 1 << 20;

impl Reads {
    /// How many blocks, or passes over all files, fio reads in so many seconds; also the warm-up.
    pub fn amount(&self, fio: &Fio, depth: u32, seconds: f64) -> Result<u64, String> {
        let rate = fio.rate(Engine::IoUring, &self.work(depth, 0, 1), (seconds / 2.0).clamp(0.3, 2.0))?;
        let unit = match self {
            Self::Random { block, .. } => *block,
            Self::InOrder { bytes, .. } => *bytes,
        };
        Ok(((rate * seconds / unit as f64) as u64).max(1))
    }

    /// CPU seconds that fio takes to start and end.
    pub fn start_up(&self, fio: &Fio, depth: u32) -> Result<f64, String> {
        fio.start_up(Engine::IoUring, &self.work(depth, 0, 1))
    }

    pub fn run(&self, fio: &Fio, depth: u32, amount: u64, seed: u64, start_up: f64) -> Result<Outcome, String> {
        match self {
            Self::Random { block, .. } => {
                let done = fio.run(Engine::IoUring, &self.work(depth, amount * block, seed), start_up)?;
                Ok(Outcome {
                    samples: done.bytes / block,
                    bytes: done.bytes,
                    seconds: done.seconds,
                    cpu_seconds: Some(done.cpu_seconds),
                    peak: None,
                    threads: Vec::new(),
                    notes: Vec::new(),
                })
            }
            Self::InOrder { files, .. } => in_order(fio, files, depth, amount),
        }
    }

    fn work(&self, depth: u32, bytes: u64, seed: u64) -> Workload {
        let (file, file_len, pattern, block) = match self {
            Self::Random { file, file_len, block } => (file.clone(), *file_len, Pattern::Random, *block),
            Self::InOrder { files, bytes } => {
                let len = (bytes / files.len().max(1) as u64 / MIB).max(1) * MIB;
                (files.first().cloned().unwrap_or_default(), len, Pattern::Sequential, MIB)
            }
        };
        Workload { file, file_len, pattern, block, depth, jobs: 1, warm: false, bytes, seed }
    }
}

/// One fio over several files, which [`Fio`] has no way to say. What is left of a file behind whole blocks is not read.
fn in_order(fio: &Fio, files: &[PathBuf], depth: u32, passes: u64) -> Result<Outcome, String> {
    let names: Vec<String> = files.iter().map(|file| file.to_string_lossy().replace(':', "\\:")).collect();
    let mut command = Command::new("fio");
    command.args(["--name=forebay-bench", "--output-format=json", "--eta=never", "--disk_util=0", "--readonly"]);
    command.args(["--allow_file_create=0", "--thread=1", "--invalidate=0", "--direct=1", "--rw=read", "--bs=1m"]);
    command.args(["--ioengine=io_uring", "--fixedbufs=1", "--registerfiles=1", "--file_service_type=sequential"]);
    command.arg(format!("--filename={}", names.join(":")));
    command.arg(format!("--iodepth={depth}")).arg(format!("--loops={passes}"));
    if fio.tuned {
        command.arg("--gtod_reduce=1").arg(format!("--iodepth_batch_submit={}", (depth / 4).max(1)));
        command.arg("--iodepth_batch_complete_min=1").arg(format!("--iodepth_batch_complete_max={depth}"));
    }
    let output = command.output().map_err(|e| format!("fio: {e}"))?;
    let text = String::from_utf8_lossy(&output.stdout);
    let answer: Option<Value> = text.find('{').and_then(|at| serde_json::from_str(&text[at..]).ok());
    let number = |name: &str| answer.as_ref()?.get("jobs")?.get(0)?.get("read")?.get(name)?.as_u64();
    match (number("io_bytes"), number("runtime")) {
        (Some(bytes), Some(milliseconds)) if output.status.success() && bytes > 0 => Ok(Outcome {
            samples: bytes / MIB,
            bytes,
            seconds: milliseconds.max(1) as f64 / 1e3,
            cpu_seconds: None,
            peak: None,
            threads: Vec::new(),
            notes: Vec::new(),
        }),
        _ => Err(format!("fio ({}): {}", output.status, String::from_utf8_lossy(&output.stderr).trim())),
    }
}
