//! What a child is told to do.

use std::path::PathBuf;

use serde_json::{Value, json};

#[derive(Clone, Debug, Default)]
pub struct Order {
    pub case: String,
    pub files: Vec<PathBuf>,
    pub batch: u64,
    /// Reads in flight of the one ring; as the loader has it by itself where there is none.
    pub depth: Option<u32>,
    /// Bytes of host memory; as the loader has it by itself where there are none.
    pub budget: Option<u64>,
    /// Batches ahead; as many as memory allows where there is none.
    pub prefetch: Option<u64>,
    /// At least so many samples are read.
    pub samples: u64,
    pub seed: u64,
    pub seconds: f64,
}

impl Order {
    pub fn to_json(&self) -> Value {
        json!({
            // The paths are made by this program from a UTF-8 command line.
            "files": self.files.iter().map(|file| file.to_string_lossy()).collect::<Vec<_>>(),
            "case": self.case, "batch": self.batch, "depth": self.depth, "budget": self.budget, "prefetch": self.prefetch,
            "samples": self.samples, "seed": self.seed,
            "seconds": self.seconds,
        })
    }

    pub fn from_json(value: &Value) -> Option<Self> {
        let number = |name: &str| value.get(name)?.as_u64();
        let files = value.get("files")?.as_array()?.iter();
        Some(Self {
            case: value.get("case")?.as_str()?.to_owned(),
            files: files.filter_map(Value::as_str).map(PathBuf::from).collect(),
            batch: number("batch")?,
            depth: number("depth").and_then(|depth| depth.try_into().ok()),
            budget: number("budget"),
            prefetch: number("prefetch"),
            samples: number("samples")?,
            seed: number("seed")?,
            seconds: value.get("seconds")?.as_f64()?,
        })
    }
}
