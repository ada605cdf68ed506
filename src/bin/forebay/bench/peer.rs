//! The same work by other programs, where they are on PATH: fio to the host, gdsio to a GPU.

use std::process::{Command, Stdio};
use std::time::Duration;

use forebay::{Device, DeviceKind};

use super::case::Case;
use super::fio::Fio;
use super::gdsio::Gdsio;
use super::target::Target;

/// Another program.
pub enum Peer {
    Fio(Fio),
    Gdsio(Gdsio),
}

/// What one run of it came to.
#[derive(Clone, Copy, Debug)]
pub struct Outcome {
    pub bytes_per_second: f64,
    /// Median, 99 and 99.9 of a hundred, in seconds, where it tells them.
    pub latencies: Option<[f64; 3]>,
}

impl Peer {
    /// Who brings bytes to this device; `None` where it is not there.
    pub fn of(device: &Device) -> Option<Self> {
        match device.kind() {
            DeviceKind::Host => Fio::find().map(Self::Fio),
            _ => Gdsio::find(device).map(Self::Gdsio),
        }
    }

    pub fn name(&self) -> &str {
        match self {
            Self::Fio(fio) => &fio.version,
            Self::Gdsio(_) => "gdsio",
        }
    }

    /// Does what `case` says for `time`; nothing where it has no such way.
    pub fn run(&self, target: &Target, case: &Case, time: Duration, seed: u64) -> Result<Option<Outcome>, String> {
        match self {
            Self::Fio(fio) => fio.run(target, case, time, seed).map(Some),
            Self::Gdsio(gdsio) => gdsio.run(target, case, time),
        }
    }
}

/// Whether a program can be started.
pub fn starts(command: &mut Command) -> bool {
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok()
}
