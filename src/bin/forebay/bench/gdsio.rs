//! NVIDIA's gdsio, which comes with CUDA: whole reads by threads of its own, each of which waits for one at a time.
//!
//! As its help and its users' outputs have it; it was never run beside this, since no GPU was to be had.

use std::process::Command;
use std::time::Duration;

use forebay::{Device, Route};

use super::case::{Case, Pattern};
use super::peer::{Outcome, starts};
use super::target::Target;

/// To one GPU.
pub struct Gdsio {
    gpu: String,
}

impl Gdsio {
    pub fn find(device: &Device) -> Option<Self> {
        let gpu = device.to_string().strip_prefix("cuda:")?.to_owned();
        starts(Command::new("gdsio").arg("-h")).then_some(Self { gpu })
    }

    /// As many threads as reads are under way on our side.
    pub fn run(&self, target: &Target, case: &Case, time: Duration) -> Result<Option<Outcome>, String> {
        let way = match case.route {
            Route::Direct => "0",
            // Past the page cache to host memory, and a copy.
            Route::Bounce => "2",
            _ => return Ok(None),
        };
        let order = match case.pattern {
            Pattern::Sequential => "0",
            Pattern::Random | Pattern::Loader => "2",
        };
        let size = target.len / case.block() * case.block();
        let mut command = Command::new("gdsio");
        command
            .arg("-f")
            .arg(&target.path)
            .args(["-d", &self.gpu, "-x", way, "-I", order])
            .args(["-w", &case.in_flight().to_string(), "-i", &case.block().to_string(), "-s", &size.to_string()])
            // Whole seconds.
            .args(["-T", &time.as_secs_f64().ceil().max(1.0).to_string()]);
        let output = command.output().map_err(|error| format!("gdsio: {error}"))?;
        let text = String::from_utf8_lossy(&output.stdout);
        let failed = || {
            let said = [&*text, &*String::from_utf8_lossy(&output.stderr)].join(" ");
            format!("gdsio ({}): {}", output.status, said.split_whitespace().collect::<Vec<_>>().join(" "))
        };
        if !output.status.success() {
            return Err(failed());
        }
        throughput(&text).map(|rate| Some(Outcome { bytes_per_second: rate, latencies: None })).ok_or_else(failed)
    }
}

/// `… Throughput: 6.524658 GiB/sec, Avg_Latency: 1197.370995 usecs …`, in bytes per second.
fn throughput(text: &str) -> Option<f64> {
    const UNITS: [(&str, u32); 3] = [("GiB/sec", 30), ("MiB/sec", 20), ("KiB/sec", 10)];
    let mut words = text.split_once("Throughput:")?.1.split_whitespace();
    let number = words.next()?.parse::<f64>().ok().filter(|rate| rate.is_finite() && *rate > 0.0)?;
    let unit = words.next()?.trim_end_matches(',');
    let (_, shift) = UNITS.iter().find(|(name, _)| *name == unit)?;
    Some(number * (1_u64 << shift) as f64)
}

#[cfg(test)]
mod tests {
    use super::throughput;

    #[test]
    fn its_rate_is_read_from_its_line() {
        let line = "IoType: READ XferType: GPUD Threads: 4 DataSetSize: 660071168/4194304(KiB) IOSize: 256(KiB) \
                    Throughput: 1.500000 GiB/sec, Avg_Latency: 185.122957 usecs ops: 2578403 total_time 119.2 secs\n";
        assert_eq!(throughput(line), Some(1.5 * (1 << 30) as f64));
        for wrong in ["", "Throughput:", "Throughput: x GiB/sec", "Throughput: 0.0 GiB/sec", "Throughput: 2 furlongs"] {
            assert_eq!(throughput(wrong), None, "{wrong}");
        }
    }
}
