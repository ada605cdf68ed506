//! `forebay load`: a whole checkpoint to the device.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;

use forebay::checkpoint::{self, Checkpoint, CheckpointError, LoadOptions};
use forebay::dataset::{DType, Shape};
use forebay::{Carrier, Device};
use serde::Serialize;
use sha2::{Digest, Sha256};

use crate::args::{self, Common};
use crate::byte_count::{counted, rate, shown};
use crate::failure::{Failure, Outcome};
use crate::stderr::{Progress, one_line};
use crate::stdout::Stdout;
use crate::{carrier, json, memory};

pub fn run(common: &Common, load: &args::Load) -> Outcome {
    let device = carrier::device(common)?;
    let mut stdout = Stdout::open()?;
    let start = Instant::now();
    let model = checkpoint::load(&load.checkpoint, &device, &options(common, &device, load)?).map_err(failure)?;
    let summary = Summary::new(&model, start.elapsed().as_secs_f64());
    if load.hash {
        for tensor in model.tensors() {
            let bytes = model.to_host(tensor).map_err(Failure::of)?;
            let hashed = Hashed {
                name: tensor.name(),
                dtype: tensor.dtype(),
                shape: tensor.shape(),
                sha256: Sha256::digest(&bytes).iter().map(|byte| format!("{byte:02x}")).collect(),
            };
            let line = match common.json {
                true => json::line(&hashed)?,
                false => {
                    format!("{}  {} {} {}", hashed.sha256, one_line(hashed.name), hashed.dtype, hashed.shape)
                }
            };
            stdout.write(format!("{line}\n").as_bytes())?;
        }
    }
    let line = match common.json {
        true => json::line(&Line { summary })?,
        false => summary.in_words(),
    };
    stdout.write(format!("{line}\n").as_bytes())
}

/// The budget by the name of its flag.
fn failure(error: CheckpointError) -> Failure {
    match error {
        CheckpointError::NoRoom { need, budget, .. } => {
            let (need, budget) = (shown(need), shown(budget));
            Failure::Error(format!("the checkpoint needs {need} and the budget is {budget}; raise it (--budget)"))
        }
        error => Failure::of(error),
    }
}

fn options(common: &Common, device: &Device, load: &args::Load) -> Result<LoadOptions, Failure> {
    let reader = carrier::reader(common, device, Some(&load.checkpoint))?;
    let builder = carrier::routed(Carrier::builder().reader(reader), common.route);
    let options = LoadOptions::new().carrier(builder).allow_incomplete(load.allow_incomplete);
    let options = match common.budget {
        Some(budget) => options.budget(budget.0),
        None => options,
    };
    let bar = Arc::new(std::sync::OnceLock::new());
    Ok(options.progress(move |progress| {
        bar.get_or_init(|| Progress::start(progress.total)).reach(progress.bytes);
    }))
}

#[derive(Serialize)]
struct Hashed<'a> {
    name: &'a str,
    dtype: DType,
    shape: &'a Shape,
    sha256: String,
}

#[derive(Serialize)]
struct Line {
    summary: Summary,
}

#[derive(Serialize)]
struct Summary {
    tensors: usize,
    files: usize,
    bytes: u64,
    seconds: f64,
    bytes_per_second: f64,
    device: String,
    routes: BTreeMap<&'static str, u64>,
    /// `null` where the kernel does not say.
    peak_host_bytes: Option<u64>,
}

impl Summary {
    fn new(model: &Checkpoint, seconds: f64) -> Self {
        let bytes = model.carried().total();
        Self {
            tensors: model.tensors().len(),
            files: model.files(),
            bytes,
            seconds,
            bytes_per_second: if seconds > 0.0 { bytes as f64 / seconds } else { 0.0 },
            device: model.device().to_string(),
            routes: model.carried().by_name().collect(),
            peak_host_bytes: memory::peak(),
        }
    }

    fn in_words(&self) -> String {
        let routes: Vec<String> =
            self.routes.iter().map(|(route, bytes)| format!("{} by {route}", shown(*bytes))).collect();
        let peak =
            self.peak_host_bytes.map_or(String::new(), |peak| format!("; at most {} of host memory", shown(peak)));
        format!(
            "{} of {}, {} in {:.3} s to {}: {} ({}){peak}",
            counted(self.tensors as u64, "tensor"),
            counted(self.files as u64, "file"),
            shown(self.bytes),
            self.seconds,
            self.device,
            rate(self.bytes_per_second),
            if routes.is_empty() { "nothing to carry".to_owned() } else { routes.join(", ") },
        )
    }
}
