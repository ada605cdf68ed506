//! GPUs, and what stands between them and disks: judged from files in /sys, /proc, /dev and /etc alone. Nothing of CUDA
//! is called here.

mod cards;
mod cufile_json;
mod cufile_settings;
mod distance;
mod driver;
mod nvidia_fs;
mod p2pdma;
mod platform;
mod storage;

use std::ffi::OsString;
use std::path::Path;

use forebay::facts::gds::{Iommu, IommuMode, NvidiaDriver, NvidiaFs, NvidiaGpu, P2pDma, Platform};
use forebay::facts::{BlockDevice, Mount};

use super::finding::Finding;
use cufile_json::CuFileJson;

/// The trees that facts are read from: `/sys`, `/proc` and `/` but in tests.
#[derive(Debug, Clone, Copy)]
pub struct Roots<'a> {
    pub sys: &'a Path,
    pub proc: &'a Path,
    pub root: &'a Path,
}

/// The GPUs of the machine, or where it has none what it is.
#[derive(Debug)]
pub struct Gpus<'a>(Result<Box<Ways<'a>>, Platform>);

impl<'a> Gpus<'a> {
    /// `env` looks up a variable of the environment.
    pub fn read(roots: Roots<'a>, env: impl Fn(&str) -> Option<OsString>) -> Self {
        let Roots { sys, proc, root } = roots;
        let (cards, driver) = (NvidiaGpu::all(sys, proc), NvidiaDriver::read(sys, proc, root));
        let platform = Platform::read(proc, root);
        // A driver without a card is a container that hides the PCI bus.
        if cards.is_empty() && driver.is_none() {
            return Self(Err(platform));
        }
        Self(Ok(Box::new(Ways {
            roots,
            cards,
            driver,
            nvidia_fs: NvidiaFs::read(sys, proc, root),
            p2pdma: P2pDma::read(sys, proc, root),
            iommu: Iommu::read(sys, proc),
            platform,
            config: CuFileJson::read(root, env),
        })))
    }

    /// Findings on the machine; a single one where it has no GPU. `budget` is the memory in bytes that a reader takes.
    pub fn machine(&self, budget: u64) -> Vec<Finding> {
        match &self.0 {
            Ok(ways) => ways.machine(budget),
            Err(platform) => vec![none(platform)],
        }
    }

    /// Findings on one path as it was given, by the mount and the disks it lies on; none where the machine has no GPU.
    pub fn path(&self, path: &Path, mount: Option<&Mount>, device: Option<&BlockDevice>) -> Vec<Finding> {
        match &self.0 {
            Ok(ways) => ways.path(path, mount, device),
            Err(_) => Vec::new(),
        }
    }
}

fn none(platform: &Platform) -> Finding {
    if platform.wsl {
        let reason = "under Windows (WSL) GPUs are not on the PCI bus and cuFile does not read directly";
        return Finding::note("gpu", "none seen", reason).fix("use Linux itself for direct reads");
    }
    Finding::note("gpu", "none", "no NVIDIA GPU on the PCI bus, and no driver for one")
}

/// The GPUs, and all that decides by which ways bytes reach them.
#[derive(Debug)]
struct Ways<'a> {
    roots: Roots<'a>,
    cards: Vec<NvidiaGpu>,
    driver: Option<NvidiaDriver>,
    nvidia_fs: Option<NvidiaFs>,
    p2pdma: P2pDma,
    iommu: Option<Iommu>,
    platform: Platform,
    config: CuFileJson,
}

impl Ways<'_> {
    fn machine(&self, budget: u64) -> Vec<Finding> {
        let mut findings = self.cards();
        findings.extend(self.driver());
        if self.driver.is_none() {
            // Nothing else matters before there is one.
            return findings;
        }
        findings.extend(self.platform());
        findings.push(self.nvidia_fs());
        findings.extend(self.p2pdma());
        findings.extend(self.iommu());
        findings.extend(self.cufile_settings(budget));
        findings
    }

    fn path(&self, path: &Path, mount: Option<&Mount>, device: Option<&BlockDevice>) -> Vec<Finding> {
        let mut findings = self.storage(path, mount, device);
        findings.extend(self.distances(device));
        findings
    }

    fn nvidia_fs_works(&self) -> bool {
        self.nvidia_fs.as_ref().is_some_and(|module| !module.is_broken() && module.nodes)
    }

    /// What the IOMMU does to the GPUs, the worst of all; that of the machine where it is not told of them.
    fn iommu_mode(&self) -> Option<IommuMode> {
        let modes = || self.cards.iter().filter_map(|card| card.iommu.as_ref()?.mode);
        if modes().any(|mode| mode == IommuMode::Translating) {
            return Some(IommuMode::Translating);
        }
        modes().next().or_else(|| self.iommu.as_ref()?.mode)
    }
}

#[cfg(test)]
mod fake_machine;
