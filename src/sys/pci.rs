//! The PCI functions that disks and GPUs hang on: link now and at best, NUMA node, error counters.

use std::fmt;
use std::path::{Path, PathBuf};

use super::block::{self, BlockDevice, DiskKind};
use super::text;

/// A PCIe link: how fast and how wide.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub struct Link {
    /// Speed of one lane in GT/s: 2.5, 5, 8, 16, 32, 64.
    pub speed: f64,
    /// Number of lanes.
    pub width: u32,
}

impl Link {
    fn read(folder: &Path, which: &str) -> Option<Self> {
        let speed = text::word(&folder.join(format!("{which}_link_speed")))?;
        let speed: f64 = speed.split_whitespace().next()?.parse().ok()?;
        let width: u32 = text::text(&folder.join(format!("{which}_link_width")))?.parse().ok()?;
        // 0 and 255 lanes are how the kernel writes that it does not know.
        let known = speed.is_finite() && speed > 0.0 && (1..=32).contains(&width);
        known.then_some(Self { speed, width })
    }

    /// Bytes per second that the link's lanes and encoding carry one way, before packet overhead.
    ///
    /// The encodings are those of the PCI Express Base Specification 6.0, sections 4.2.1 (8b/10b), 4.2.2 (128b/130b) and
    /// 4.2.3: a FLIT of 256 bytes carries 236 of packets and 6 of the link's own, beside 14 of checks.
    pub fn bytes_per_second(&self) -> f64 {
        let encoding = match self.speed {
            speed if speed < 8.0 => 8.0 / 10.0,
            speed if speed < 64.0 => 128.0 / 130.0,
            _ => 242.0 / 256.0,
        };
        self.speed * 1e9 * encoding / 8.0 * f64::from(self.width)
    }

    fn is_below(&self, other: &Self) -> bool {
        self.speed < other.speed || self.width < other.width
    }

    fn at_most(&self, other: &Self) -> Self {
        Self { speed: self.speed.min(other.speed), width: self.width.min(other.width) }
    }
}

impl fmt::Display for Link {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} GT/s x{} ({:.1} GB/s)", self.speed, self.width, self.bytes_per_second() / 1e9)
    }
}

/// One class of errors that PCIe advanced error reporting counts.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ErrorCount {
    /// All errors of the class since boot.
    pub total: u64,
    /// The kinds that were seen at least once, with their counts.
    pub seen: Vec<(String, u64)>,
}

impl ErrorCount {
    fn read(path: &Path) -> Option<Self> {
        let text = text::word(path)?;
        let lines = text.lines().filter_map(|line| {
            let (name, count) = line.trim().rsplit_once(char::is_whitespace)?;
            Some((name.trim(), count.parse::<u64>().ok()?))
        });
        let (totals, kinds): (Vec<_>, Vec<_>) = lines.partition(|(name, _)| name.starts_with("TOTAL_"));
        if totals.is_empty() && kinds.is_empty() {
            return None;
        }
        let sum = || kinds.iter().fold(0_u64, |sum, (_, count)| sum.saturating_add(*count));
        let total = totals.first().map_or_else(sum, |(_, count)| *count);
        let seen = kinds.iter().filter(|(_, count)| *count > 0);
        Some(Self { total, seen: seen.map(|(name, count)| ((*name).to_owned(), *count)).collect() })
    }
}

/// The error counters of one function, as far as the kernel shows them.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ErrorCounters {
    /// Errors that the link repaired by itself; many of them cost bandwidth.
    pub correctable: Option<ErrorCount>,
    /// Errors that lost a transaction.
    pub nonfatal: Option<ErrorCount>,
    /// Errors after which the link cannot be trusted.
    pub fatal: Option<ErrorCount>,
}

impl ErrorCounters {
    fn read(folder: &Path) -> Option<Self> {
        let read = |class: &str| ErrorCount::read(&folder.join(format!("aer_dev_{class}")));
        let counters = Self { correctable: read("correctable"), nonfatal: read("nonfatal"), fatal: read("fatal") };
        let any = counters.correctable.is_some() || counters.nonfatal.is_some() || counters.fatal.is_some();
        any.then_some(counters)
    }
}

/// A PCI function. Every fact but the address may be missing; functions of virtual machines often have no link.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct PciFunction {
    /// Domain, bus, device and function: `0000:81:00.0`.
    pub address: String,
    /// Its folder in sysfs, links resolved.
    pub sysfs: PathBuf,
    /// The link as it runs now.
    pub link: Option<Link>,
    /// The best link that the function itself can run.
    pub best: Option<Link>,
    /// The best link that the port above it can run: the slot.
    pub slot: Option<Link>,
    /// NUMA node that the function is attached to; `None` where the kernel does not know.
    pub numa_node: Option<u32>,
    /// Error counters, where the kernel shows them.
    pub errors: Option<ErrorCounters>,
}

impl PciFunction {
    /// The functions that a disk hangs on: none for virtual disks, several for NVMe with more than one port. A stack
    /// (md, dm) has none of its own; ask its [leaves](BlockDevice::leaves).
    pub fn of_disk(disk: &BlockDevice) -> Vec<Self> {
        let starts = match disk.kind {
            DiskKind::Nvme => block::controllers(&disk.sysfs),
            _ => vec![disk.sysfs.clone()],
        };
        starts.iter().filter_map(|start| Self::above(start)).collect()
    }

    /// Whether the link runs slower or narrower than both ends of it can. `None` where a link is not shown.
    pub fn runs_below_best(&self) -> Option<bool> {
        let (link, best) = (self.link?, self.best?);
        let reachable = self.slot.map_or(best, |slot| best.at_most(&slot));
        Some(link.is_below(&reachable))
    }

    /// Whether the slot offers less than the function could use. `None` where either link is not shown.
    pub fn slot_is_narrower(&self) -> Option<bool> {
        Some(self.slot?.is_below(&self.best?))
    }

    /// The nearest function at or above a folder of sysfs.
    pub(super) fn above(folder: &Path) -> Option<Self> {
        let mut functions = folder.ancestors().filter_map(|folder| Some((folder, address(folder)?)));
        let (folder, address) = functions.next()?;
        Some(Self {
            address,
            link: Link::read(folder, "current"),
            best: Link::read(folder, "max"),
            slot: functions.next().and_then(|(port, _)| Link::read(port, "max")),
            numa_node: text::numa_node(&folder.join("numa_node")),
            errors: ErrorCounters::read(folder),
            sysfs: folder.to_path_buf(),
        })
    }
}

/// The folder's name if it is a PCI address, `DDDD:BB:DD.F` in hexadecimal; domains can be longer.
pub(super) fn address(folder: &Path) -> Option<String> {
    let name = folder.file_name()?.to_str()?;
    let (device, function) = name.split_once('.')?;
    let parts: Vec<&str> = device.split(':').collect();
    let lengths = parts.len() == 3 && parts[0].len() >= 4 && parts[1].len() == 2 && parts[2].len() == 2;
    let hex = |part: &&str| part.bytes().all(|byte| byte.is_ascii_hexdigit());
    (lengths && parts.iter().all(hex) && function.len() == 1 && hex(&function)).then(|| name.to_owned())
}

#[cfg(test)]
mod tests;
