//! Whether an IOMMU stands between PCI devices and memory.

use std::path::Path;

use super::block::{entries, file_name};
use super::pci::PciFunction;
use super::text;

/// What an IOMMU does with the addresses of a device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum IommuMode {
    /// There is none, or it is switched off.
    Off,
    /// It lets addresses through as they are (`iommu=pt`).
    Passthrough,
    /// It translates every address, those of one device to another too.
    Translating,
}

/// The IOMMU group of a PCI function.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct IommuGroup {
    /// The group's number.
    pub number: Option<u32>,
    /// What the IOMMU does for the group; `None` where the kernel does not tell.
    pub mode: Option<IommuMode>,
}

impl IommuGroup {
    /// The group of a function; `None` where no IOMMU is on.
    pub fn of_function(function: &PciFunction) -> Option<Self> {
        Self::of_folder(&function.sysfs)
    }

    pub(super) fn of_folder(folder: &Path) -> Option<Self> {
        let group = folder.join("iommu_group").canonicalize().ok()?;
        let number = file_name(&group).and_then(|name| name.parse().ok());
        Some(Self { number, mode: mode_of_type(&group) })
    }
}

fn mode_of_type(group: &Path) -> Option<IommuMode> {
    match text::text(&group.join("type"))?.as_str() {
        "identity" => Some(IommuMode::Passthrough),
        "DMA" | "DMA-FQ" => Some(IommuMode::Translating),
        _ => None,
    }
}

/// What the IOMMU does on the whole machine.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Iommu {
    /// What it does for most groups; `None` where it is on and the kernel does not tell more.
    pub mode: Option<IommuMode>,
    /// The words of the kernel's command line that set it: `iommu=pt`, `intel_iommu=on`.
    pub options: Vec<String>,
}

impl Iommu {
    /// Reads the groups under `sys` (normally `/sys`) and the command line under `proc` (normally `/proc`). `None` where
    /// there is no sysfs to tell.
    pub fn read(sys: &Path, proc: &Path) -> Option<Self> {
        if !sys.join("kernel").is_dir() {
            return None;
        }
        let line = text::text(&proc.join("cmdline")).unwrap_or_default();
        let options: Vec<String> = line.split_whitespace().filter(|word| is_option(word)).map(str::to_owned).collect();
        Some(Self { mode: mode(sys, &options), options })
    }
}

fn is_option(word: &str) -> bool {
    ["iommu=", "intel_iommu=", "amd_iommu=", "iommu.passthrough="].iter().any(|option| word.starts_with(option))
}

fn mode(sys: &Path, options: &[String]) -> Option<IommuMode> {
    let groups = entries(&sys.join("kernel/iommu_groups"));
    if groups.is_empty() {
        return Some(IommuMode::Off);
    }
    let modes: Vec<IommuMode> = groups.iter().filter_map(|group| mode_of_type(group)).collect();
    let count = |wanted: IommuMode| modes.iter().filter(|mode| **mode == wanted).count();
    match (count(IommuMode::Passthrough), count(IommuMode::Translating)) {
        (0, 0) => passes_through(options).then_some(IommuMode::Passthrough),
        (through, translated) if through > translated => Some(IommuMode::Passthrough),
        _ => Some(IommuMode::Translating),
    }
}

/// Kernels that show no types (before 5.11) are told by what they were booted with.
fn passes_through(options: &[String]) -> bool {
    options.iter().any(|option| option == "iommu=pt" || option == "iommu.passthrough=1")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys::fake_tree::FakeTree;

    fn mode(types: &[&str], cmdline: &str) -> Option<IommuMode> {
        let (sys, proc) = (FakeTree::new(), FakeTree::new());
        sys.dir("kernel");
        for (number, kind) in types.iter().enumerate() {
            sys.file(&format!("kernel/iommu_groups/{number}/type"), kind);
        }
        proc.file("cmdline", cmdline);
        Iommu::read(sys.root(), proc.root()).unwrap().mode
    }

    #[test]
    fn off_passing_and_translating() {
        assert_eq!(mode(&[], "quiet"), Some(IommuMode::Off));
        assert_eq!(mode(&["identity\n", "identity\n", "DMA\n"], ""), Some(IommuMode::Passthrough));
        assert_eq!(mode(&["DMA-FQ\n", "DMA\n"], "iommu=on"), Some(IommuMode::Translating));
    }

    #[test]
    fn without_types_the_command_line_tells() {
        assert_eq!(mode(&[""], "intel_iommu=on iommu=pt"), Some(IommuMode::Passthrough));
        assert_eq!(mode(&["auto"], "intel_iommu=on"), None);
    }

    #[test]
    fn options_are_kept_and_no_sysfs_is_none() {
        let (sys, proc) = (FakeTree::new(), FakeTree::new());
        assert_eq!(Iommu::read(sys.root(), proc.root()), None);
        sys.dir("kernel");
        proc.file("cmdline", "root=/dev/x amd_iommu=off noiommu=1 quiet");
        assert_eq!(Iommu::read(sys.root(), proc.root()).unwrap().options, ["amd_iommu=off"]);
    }

    #[test]
    fn the_group_of_a_function() {
        let sys = FakeTree::new();
        assert_eq!(IommuGroup::of_folder(sys.root()), None);
        sys.file("kernel/iommu_groups/17/type", "DMA-FQ\n");
        sys.dir("devices/gpu");
        sys.link("devices/gpu/iommu_group", "kernel/iommu_groups/17");
        let group = IommuGroup::of_folder(&sys.path("devices/gpu")).unwrap();
        assert_eq!((group.number, group.mode), (Some(17), Some(IommuMode::Translating)));
    }
}
