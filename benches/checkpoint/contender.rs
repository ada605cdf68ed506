//! Who loads, and how each is run: in a process of its own, which has loaded nothing before.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use forebay::checkpoint::{self, LoadOptions};
use forebay::{Carrier, Device, Reader};
use serde_json::{Value, json};

use crate::fio::{Engine, Fio};
use crate::machine;
use crate::model::Model;
use crate::workload::{Pattern, Workload};

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Contender {
    /// Reads the file one block after the other into the same few buffers.
    Fio,
    /// `checkpoint::load`, whose memory the kernel has yet to give.
    Fresh,
    /// The same into memory that held a load before.
    Recycled,
    /// A loader in Python.
    Peer(&'static str),
}

pub const PEERS: [&str; 4] = ["safetensors-mmap", "safetensors-clone", "fastsafetensors", "runai-model-streamer"];

/// The hidden argument that makes this program a child.
pub const FLAG: &str = "--child";

/// What one run did.
#[derive(Clone, Copy, Debug)]
pub struct Outcome {
    pub bytes: u64,
    pub seconds: f64,
    /// The most resident memory of the process, in bytes, where it is known.
    pub peak: Option<u64>,
}

impl Outcome {
    pub fn rate(&self) -> f64 {
        self.bytes as f64 / self.seconds
    }
}

impl Contender {
    pub fn name(&self) -> String {
        match self {
            Self::Fio => "fio".into(),
            Self::Fresh => "forebay fresh".into(),
            Self::Recycled => "forebay recycled".into(),
            Self::Peer(name) => (*name).into(),
        }
    }

    pub fn run(&self, model: &Model, fio: Option<&Fio>, python: Option<&Path>) -> Result<Outcome, String> {
        match self {
            Self::Fio => read_by_fio(fio.ok_or("no fio")?, &model.files),
            Self::Fresh => ours("fresh", model.path()),
            Self::Recycled => ours("recycled", model.path()),
            Self::Peer(name) => {
                let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("benches/peers/load.py");
                let mut command = Command::new(python.ok_or("no Python")?);
                command.arg(script).arg(name).args(&model.files);
                answer(command)
            }
        }
    }
}

fn read_by_fio(fio: &Fio, files: &[PathBuf]) -> Result<Outcome, String> {
    let (mut all, mut seconds) = (0, 0.0);
    for file in files {
        let len = file.metadata().map_err(|e| format!("{}: {e}", file.display()))?.len();
        let (block, depth) = (1 << 20, 32);
        let bytes = (len / block).max(1) * block.min(len);
        let work = Workload {
            file: file.clone(),
            file_len: bytes,
            pattern: Pattern::Sequential,
            block: block.min(len),
            depth,
            jobs: 1,
            warm: false,
            bytes,
            seed: 1,
        };
        let outcome = fio.run(Engine::IoUring, &work, 0.0)?;
        all += outcome.bytes;
        seconds += outcome.seconds;
    }
    Ok(Outcome { bytes: all, seconds, peak: None })
}

fn ours(how: &str, path: &Path) -> Result<Outcome, String> {
    let mut command = Command::new(std::env::current_exe().map_err(|e| format!("own program: {e}"))?);
    command.arg(FLAG).arg(how).arg(path);
    answer(command)
}

/// Runs a child that prints its outcome as JSON in its last line.
fn answer(mut command: Command) -> Result<Outcome, String> {
    let output = command.stdin(Stdio::null()).output().map_err(|e| format!("child: {e}"))?;
    let text = String::from_utf8_lossy(&output.stdout);
    let answer: Option<Value> = text.lines().last().and_then(|line| serde_json::from_str(line).ok());
    let number = |name: &str| answer.as_ref().and_then(|answer| answer.get(name)?.as_f64());
    match (number("bytes"), number("seconds")) {
        (Some(bytes), Some(seconds)) if output.status.success() => {
            Ok(Outcome { bytes: bytes as u64, seconds, peak: number("peak").map(|peak| peak as u64) })
        }
        _ => Err(String::from_utf8_lossy(&output.stderr).lines().last().unwrap_or("no answer").to_owned()),
    }
}

/// The child: loads, and prints what it did.
pub fn child(how: &str, path: &Path) -> Result<(), String> {
    let told = |error: &dyn std::fmt::Display| error.to_string();
    let device = Device::host();
    let start = Instant::now();
    let (seconds, model) = match how {
        "fresh" => {
            let model = checkpoint::load(path, &device, &LoadOptions::new()).map_err(|e| told(&e))?;
            (start.elapsed().as_secs_f64(), model)
        }
        "recycled" => {
            // Its memory is there before the clock runs, as after an earlier load. Two rings, as the load has by itself.
            let room = room(path).map_err(|e| told(&e))?;
            let carrier = Carrier::builder()
                .reader(Reader::builder().rings(2).prefault(true))
                .budget(room)
                .build()
                .map_err(|e| told(&e))?;
            let options = LoadOptions::new().with(&carrier);
            let start = Instant::now();
            let model = checkpoint::load(path, &device, &options).map_err(|e| told(&e))?;
            (start.elapsed().as_secs_f64(), model)
        }
        other => return Err(format!("unknown contender {other}")),
    };
    let bytes = model.carried().total();
    println!("{}", json!({"bytes": bytes, "seconds": seconds, "peak": machine::peak_rss()}));
    Ok(())
}

/// The bytes of the files, and some for alignment.
fn room(path: &Path) -> std::io::Result<u64> {
    let len = |path: &Path| path.metadata().map(|file| file.len() + (16 << 10));
    if path.is_file() {
        return len(path);
    }
    std::fs::read_dir(path)?.map(|entry| len(&entry?.path())).sum()
}
