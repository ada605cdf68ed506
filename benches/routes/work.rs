//! What a contender is asked to do, and what it did.

use std::collections::BTreeMap;
use std::path::PathBuf;

use forebay::Device;
use serde_json::{Value, json};

use crate::contender::Contender;

/// One run of one contender.
#[derive(Clone, Debug)]
pub struct Order {
    pub contender: Contender,
    /// `host` or `cuda:N`.
    pub device: String,
    pub file: PathBuf,
    /// Bytes that are read before they are copied at once.
    pub chunk: u64,
    /// Reads in flight.
    pub depth: u32,
    /// Bytes of host memory.
    pub budget: u64,
    /// Bytes of one request.
    pub request: u64,
    /// Requests under way at once.
    pub ahead: usize,
    /// Bytes of the pieces, in random order all over the file, that a request is made of; 0 for one run of bytes after
    /// the other.
    pub piece: u64,
    /// Whether pieces lie in a buffer of the caller's, in the order asked, rather than where the carrier puts them.
    pub into: bool,
    /// No request begins after so many bytes.
    pub bytes: u64,
    /// No request begins after so many seconds.
    pub seconds: f64,
    pub seed: u64,
    /// Whether some of what was carried is compared with the file afterwards.
    pub check: bool,
    /// The control group that the run is to be in.
    pub group: Option<PathBuf>,
}

impl Order {
    pub fn to_json(&self) -> Value {
        json!({
            "contender": self.contender.name(),
            "device": self.device,
            // The paths come from a UTF-8 command line.
            "file": self.file.to_string_lossy(),
            "chunk": self.chunk,
            "depth": self.depth,
            "budget": self.budget,
            "request": self.request,
            "ahead": self.ahead,
            "piece": self.piece,
            "into": self.into,
            "bytes": self.bytes,
            "seconds": self.seconds,
            "seed": self.seed,
            "check": self.check,
            "group": self.group.as_ref().map(|group| group.to_string_lossy()),
        })
    }

    pub fn from_json(value: &Value) -> Option<Self> {
        let number = |name: &str| value.get(name)?.as_u64();
        let text = |name: &str| value.get(name)?.as_str();
        Some(Self {
            contender: Contender::of_name(text("contender")?)?,
            device: text("device")?.to_owned(),
            file: PathBuf::from(text("file")?),
            chunk: number("chunk")?,
            depth: number("depth")? as u32,
            budget: number("budget")?,
            request: number("request")?,
            ahead: number("ahead")? as usize,
            piece: number("piece")?,
            into: value.get("into")?.as_bool()?,
            bytes: number("bytes")?,
            seconds: value.get("seconds")?.as_f64()?,
            seed: number("seed")?,
            check: value.get("check")?.as_bool()?,
            group: text("group").map(PathBuf::from),
        })
    }

    /// The device by its name.
    pub fn open_device(&self) -> Result<Device, String> {
        if self.device == "host" {
            return Ok(Device::host());
        }
        let number = self.device.strip_prefix("cuda:").and_then(|number| number.parse().ok());
        Device::cuda(number.ok_or("a device is host or cuda:N")?).map_err(|e| e.to_string())
    }

    /// The same bytes as requests that keep storage busy and hold little memory; scattered pieces stay as they are.
    pub fn with_requests_of_storage(self) -> Self {
        match self.piece {
            0 => Self { request: 2 << 20, ahead: 32, ..self },
            _ => self,
        }
    }

    pub fn is_host(&self) -> bool {
        self.device == "host"
    }
}

/// What one contender did in its measured section.
#[derive(Clone, Debug, Default)]
pub struct Outcome {
    pub bytes: u64,
    pub seconds: f64,
    /// User and system time of all threads, kernel workers included, without start-up.
    pub cpu_seconds: f64,
    /// Peak resident bytes of the whole process, its start-up included.
    pub peak_rss: Option<u64>,
    /// The device's own name.
    pub device: String,
    /// The driver is the tests' stand-in: what it copied and how fast says nothing about a GPU.
    pub emulated: bool,
    /// Bytes by the route that carried them.
    pub routes: BTreeMap<String, u64>,
    /// Whatever a reader of the table must know.
    pub note: Option<String>,
}

impl Outcome {
    pub fn bytes_per_second(&self) -> f64 {
        self.bytes as f64 / self.seconds
    }

    pub fn cpu_seconds_per_gb(&self) -> f64 {
        self.cpu_seconds / (self.bytes as f64 / 1e9)
    }

    pub fn to_json(&self) -> Value {
        json!({
            "bytes": self.bytes,
            "seconds": self.seconds,
            "cpu_seconds": self.cpu_seconds,
            "peak_rss": self.peak_rss,
            "device": self.device,
            "emulated": self.emulated,
            "routes": self.routes,
            "note": self.note,
        })
    }

    pub fn from_json(value: &Value) -> Option<Self> {
        let routes = value.get("routes")?.as_object()?;
        Some(Self {
            bytes: value.get("bytes")?.as_u64()?,
            seconds: value.get("seconds")?.as_f64()?,
            cpu_seconds: value.get("cpu_seconds")?.as_f64()?,
            peak_rss: value.get("peak_rss")?.as_u64(),
            device: value.get("device")?.as_str()?.to_owned(),
            emulated: value.get("emulated")?.as_bool()?,
            routes: routes.iter().filter_map(|(name, bytes)| Some((name.clone(), bytes.as_u64()?))).collect(),
            note: value.get("note")?.as_str().map(str::to_owned),
        })
    }
}
