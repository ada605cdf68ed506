//! The PCIe links that drives and the GPU hang on: what each carries as it ran, and at its best.

use std::fmt;

use forebay::facts::{Link, PciFunction};
use serde::{Serialize, Serializer};

/// One link. In the JSON a rate is what lanes and encoding carry one way; the heads of packets take some of it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Pcie {
    pub address: String,
    pub what: What,
    /// The fastest that it was seen to run: a link that rests is slower.
    #[serde(rename = "bytes_per_second", serialize_with = "carried")]
    pub link: Link,
    /// The best that the function itself can run.
    #[serde(rename = "best_bytes_per_second", serialize_with = "carried")]
    pub best: Link,
}

/// What hangs on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum What {
    Drive,
    Gpu,
}

impl Pcie {
    /// `None` where the kernel shows no link, as is usual in virtual machines.
    pub fn of(what: What, function: &PciFunction) -> Option<Self> {
        Some(Self { address: function.address.clone(), what, link: function.link?, best: function.best? })
    }
}

impl fmt::Display for Pcie {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}: {}", self.what, self.address, self.link)?;
        if self.link != self.best { write!(f, ", at best {}", self.best) } else { Ok(()) }
    }
}

impl fmt::Display for What {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Drive => "drive",
            Self::Gpu => "GPU",
        })
    }
}

/// Of two looks at the same links the faster, link by link.
pub fn fastest(before: Vec<Pcie>, now: Vec<Pcie>) -> Vec<Pcie> {
    let faster = |now: Pcie| match before.iter().find(|then| then.address == now.address) {
        Some(then) if then.link.bytes_per_second() > now.link.bytes_per_second() => then.clone(),
        _ => now,
    };
    now.into_iter().map(faster).collect()
}

/// All links of one kind as one: several drives are read at the same time.
#[derive(Clone, Debug, PartialEq)]
pub struct Together {
    pub bytes_per_second: f64,
    /// `the drive's PCIe link, 16 GT/s x4 (7.9 GB/s)`
    pub name: String,
}

/// What carried bytes at `rate`: more than a link carries says that it rested when it was looked at. `None` where there is none.
pub fn together(all: &[Pcie], what: What, rate: f64) -> Option<Together> {
    let of: Vec<&Pcie> = all.iter().filter(|pcie| pcie.what == what).collect();
    let sum = |link: fn(&Pcie) -> Link| of.iter().map(|pcie| link(pcie).bytes_per_second()).sum::<f64>();
    let link: fn(&Pcie) -> Link = if rate > sum(|pcie| pcie.link) { |pcie| pcie.best } else { |pcie| pcie.link };
    let name = match of[..] {
        [] => return None,
        [one] => format!("the {what}'s PCIe link, {}", link(one)),
        _ => format!("the {} PCIe links of the {what}s, {} together", of.len(), crate::byte_count::rate(sum(link))),
    };
    Some(Together { bytes_per_second: sum(link), name })
}

fn carried<S: Serializer>(link: &Link, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_f64(link.bytes_per_second())
}
