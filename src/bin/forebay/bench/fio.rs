//! The same work by fio, where it is on PATH.
//!
//! The same file, block, depth and jobs, with fixed buffers and registered files as on our side; offsets uniformly random
//! with repeats (`norandommap`). Time is fio's own run time, without its start-up.
//!
//! It has no loader. Beside one it reads whole blocks at random, as many as a record fills: 152 KiB for one of 150. It puts
//! nothing together, and all that it reads is counted, where a loader's rate is of the records alone.

use std::process::{Command, Stdio};
use std::time::Duration;

use forebay::{EngineChoice, Route};
use serde::Deserialize;

use super::cache;
use super::case::{Case, Pattern};
use super::peer::Outcome;
use super::target::Target;

/// Which fio there is.
pub struct Fio {
    pub version: String,
}

impl Fio {
    /// `None` where there is none.
    pub fn find() -> Option<Self> {
        let output = Command::new("fio").arg("--version").stderr(Stdio::null()).output().ok()?;
        let version = String::from_utf8_lossy(&output.stdout).trim().to_owned();
        (output.status.success() && !version.is_empty()).then_some(Self { version })
    }

    /// Does what `case` says for `time`.
    pub fn run(&self, target: &Target, case: &Case, time: Duration, seed: u64) -> Result<Outcome, String> {
        let mut command = Command::new("fio");
        let file = target.path.to_string_lossy().replace('\\', "\\\\").replace(':', "\\:");
        let direct = u8::from(case.route != Route::Cached);
        command
            .args(["--name=forebay-bench", "--output-format=json", "--eta=never", "--disk_util=0"])
            .args(["--readonly", "--allow_file_create=0", "--norandommap=1"])
            // Jobs as threads share one address space, as rings do. The page cache was prepared.
            .args(["--thread=1", "--invalidate=0"])
            .arg(format!("--filename={file}"))
            .arg(format!("--direct={direct}"))
            .arg(format!("--bs={}", case.block()))
            .arg(format!("--randseed={seed}"))
            // Ours are from a read's begin, too.
            .arg("--lat_percentiles=1")
            .arg(format!("--iomem_align={HUGE_PAGE}"))
            .env(TUNABLES, tunables(std::env::var(TUNABLES).ok()));
        match case.engine {
            EngineChoice::Pread => command.arg("--ioengine=psync").arg(format!("--numjobs={}", case.depth)),
            _ => command
                .args(["--ioengine=io_uring", "--fixedbufs=1", "--registerfiles=1"])
                .arg(format!("--iodepth={}", case.depth))
                .arg(format!("--numjobs={}", case.threads)),
        };
        if case.iopoll {
            command.arg("--hipri=1");
        }
        let jobs = if case.engine == EngineChoice::Pread { case.depth } else { case.threads };
        let share = target.len / u64::from(jobs) / case.block() * case.block();
        match case.pattern {
            Pattern::Random | Pattern::Loader => {
                command.arg("--rw=randread").arg(format!("--size={}", target.len / case.block() * case.block()))
            }
            // Each job has its own share of the file.
            Pattern::Sequential => {
                command.arg("--rw=read").arg(format!("--size={share}")).arg(format!("--offset_increment={share}"))
            }
        };
        let seconds = time.as_secs_f64();
        command.arg(format!("--runtime={}ms", (seconds * 1e3) as u64));
        // A page cache is cold once.
        match (case.is_once_over(), case.pattern) {
            (true, Pattern::Random | Pattern::Loader) => {
                let reads = cache::drawn_while_cold(share / case.block()).max(1);
                command.arg(format!("--io_size={}", reads * case.block()))
            }
            (true, Pattern::Sequential) => &mut command,
            (false, _) => command.arg("--time_based"),
        };
        finish(command)
    }
}

/// Ours lies in huge pages where there are some, which is worth a third to reads of 128 KiB on a virtual disk: so that the same
/// is measured, fio's does, too, by glibc from 2.35 on (`glibc.malloc.hugetlb`), where whole ones are in it.
const HUGE_PAGE: u64 = 2 << 20;
const TUNABLES: &str = "GLIBC_TUNABLES";

fn tunables(others: Option<String>) -> String {
    let others = others.filter(|others| !others.is_empty()).map_or(String::new(), |others| format!("{others}:"));
    format!("{others}glibc.malloc.hugetlb=1")
}

#[derive(Deserialize)]
struct Answer {
    jobs: Vec<Job>,
}

#[derive(Deserialize)]
struct Job {
    error: i64,
    read: Read,
}

#[derive(Deserialize)]
struct Read {
    io_bytes: f64,
    runtime: f64,
    lat_ns: Lat,
}

#[derive(Deserialize)]
struct Lat {
    #[serde(default)]
    percentile: std::collections::BTreeMap<String, f64>,
}

fn finish(mut command: Command) -> Result<Outcome, String> {
    let output = command.output().map_err(|error| format!("fio: {error}"))?;
    let text = String::from_utf8_lossy(&output.stdout);
    let failed = || {
        // What is wrong stands before the JSON, or on stderr.
        let said = text.split('{').next().unwrap_or_default();
        let said = [said, &String::from_utf8_lossy(&output.stderr)].join(" ");
        format!("fio ({}): {}", output.status, said.split_whitespace().collect::<Vec<_>>().join(" "))
    };
    let answer = text.find('{').and_then(|at| serde_json::from_str::<Answer>(&text[at..]).ok());
    let answer = answer.filter(|answer| output.status.success() && answer.jobs.iter().all(|job| job.error == 0));
    let answer = answer.ok_or_else(failed)?;
    let bytes: f64 = answer.jobs.iter().map(|job| job.read.io_bytes).sum();
    let seconds = answer.jobs.iter().map(|job| job.read.runtime).fold(0.0, f64::max) / 1e3;
    if seconds <= 0.0 || bytes <= 0.0 {
        return Err(failed());
    }
    // Of several jobs the worst.
    let quantile = |name: &str| {
        let of = |job: &Job| job.read.lat_ns.percentile.get(name).copied().unwrap_or(0.0);
        answer.jobs.iter().map(of).fold(0.0, f64::max) / 1e9
    };
    let latencies = [quantile("50.000000"), quantile("99.000000"), quantile("99.900000")];
    Ok(Outcome { bytes_per_second: bytes / seconds, latencies: Some(latencies) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tunables_that_somebody_has_set_stay() {
        assert_eq!(tunables(None), "glibc.malloc.hugetlb=1");
        assert_eq!(tunables(Some(String::new())), "glibc.malloc.hugetlb=1");
        assert_eq!(tunables(Some("glibc.malloc.check=3".into())), "glibc.malloc.check=3:glibc.malloc.hugetlb=1");
    }
}
