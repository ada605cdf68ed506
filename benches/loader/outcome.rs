//! What one contender did, and how a child says so.

use std::process::{Command, Stdio};

use serde_json::{Value, json};

/// What was read in the measured time.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// Samples handed to the consumer; of fio blocks.
    pub samples: u64,
    /// Bytes of those.
    pub bytes: u64,
    pub seconds: f64,
    /// User and system time of all threads, kernel workers included, without start-up; where it is known.
    pub cpu_seconds: Option<f64>,
    /// The most resident memory of the process, in bytes; where it is known.
    pub peak: Option<u64>,
    /// CPU seconds of each thread in the measured time, where they are known.
    pub threads: Vec<(String, f64)>,
    /// Whatever a reader of the table must know.
    pub notes: Vec<String>,
}

impl Outcome {
    pub fn to_json(&self) -> Value {
        json!({
            "samples": self.samples, "bytes": self.bytes, "seconds": self.seconds, "cpu_seconds": self.cpu_seconds,
            "peak": self.peak, "threads": self.threads, "notes": self.notes,
        })
    }

    pub fn from_json(value: &Value) -> Option<Self> {
        let notes = value.get("notes").and_then(Value::as_array).into_iter().flatten();
        Some(Self {
            samples: value.get("samples")?.as_u64()?,
            bytes: value.get("bytes")?.as_u64()?,
            seconds: value.get("seconds")?.as_f64()?,
            cpu_seconds: value.get("cpu_seconds").and_then(Value::as_f64),
            peak: value.get("peak").and_then(Value::as_u64),
            threads: value.get("threads").and_then(|it| serde_json::from_value(it.clone()).ok()).unwrap_or_default(),
            notes: notes.filter_map(Value::as_str).map(str::to_owned).collect(),
        })
    }
}

/// Runs a child that prints its answer as JSON in its last line.
pub fn answer(mut command: Command) -> Result<Value, String> {
    let output = command.stdin(Stdio::null()).output().map_err(|e| format!("child: {e}"))?;
    let text = String::from_utf8_lossy(&output.stdout);
    let answer = text.lines().last().and_then(|line| serde_json::from_str(line).ok());
    match answer {
        Some(answer) if output.status.success() => Ok(answer),
        _ => {
            let said = String::from_utf8_lossy(&output.stderr);
            Err(format!("{}: {}", output.status, said.trim().lines().last().unwrap_or("no answer")))
        }
    }
}
