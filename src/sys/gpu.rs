//! The NVIDIA GPUs on the PCI bus, as sysfs and the driver's folder in procfs show them.

use std::path::Path;

use super::block::{entries, file_name};
use super::iommu::IommuGroup;
use super::pci::PciFunction;
use super::text;

const NVIDIA: &str = "0x10de";
/// Class of display controllers: VGA 0x0300, 3D 0x0302.
const DISPLAY: &str = "0x03";

/// An NVIDIA GPU. Every fact but the PCI address may be missing.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct NvidiaGpu {
    /// Where it sits: address, link now and at best, NUMA node.
    pub function: PciFunction,
    /// Model name, which only NVIDIA's driver tells.
    pub model: Option<String>,
    /// The number N of its device node `/dev/nvidiaN`, which only NVIDIA's driver tells.
    pub minor: Option<u32>,
    /// The kernel driver that holds it: `nvidia`, `nouveau`, `vfio-pci`; `None` where none does.
    pub driver: Option<String>,
    /// Bytes of its memory that other devices can reach at a time: the size of its largest prefetchable PCI window,
    /// which NVIDIA calls BAR1.
    pub bar1: Option<u64>,
    /// The IOMMU group it is in; `None` where no IOMMU is on.
    pub iommu: Option<IommuGroup>,
}

impl NvidiaGpu {
    /// The GPUs on the PCI bus in the order of their addresses; empty where there are none, or sysfs shows no PCI.
    /// `sys` is normally `/sys`, `proc` `/proc`.
    pub fn all(sys: &Path, proc: &Path) -> Vec<Self> {
        let links = entries(&sys.join("bus/pci/devices"));
        let folders = links.iter().filter(|link| is_gpu(link)).filter_map(|link| link.canonicalize().ok());
        folders.filter_map(|folder| Self::read(proc, &folder)).collect()
    }

    fn read(proc: &Path, folder: &Path) -> Option<Self> {
        let function = PciFunction::above(folder)?;
        let information = text::word(&proc.join("driver/nvidia/gpus").join(&function.address).join("information"));
        let told = |field: &str| information.as_deref().and_then(|text| value(text, field));
        Some(Self {
            model: told("Model:"),
            minor: told("Device Minor:").and_then(|minor| minor.parse().ok()),
            driver: folder.join("driver").canonicalize().ok().and_then(|driver| file_name(&driver)),
            bar1: text::word(&folder.join("resource")).and_then(|table| largest_window(&table)),
            iommu: IommuGroup::of_folder(folder),
            function,
        })
    }
}

/// Whether anything shows that this machine has an NVIDIA GPU: one on the PCI bus, NVIDIA's driver in procfs, or a device
/// node of it (those of other buses, and of the Windows Subsystem for Linux, too). `sys` is normally `/sys`, `proc`
/// `/proc`, and `root` `/`.
pub fn is_nvidia_gpu_shown(sys: &Path, proc: &Path, root: &Path) -> bool {
    const NODES: [&str; 4] = ["nvidia", "nvhost", "nvmap", "dxg"];
    let is_node =
        |path: &std::path::PathBuf| file_name(path).is_some_and(|name| NODES.iter().any(|node| name.starts_with(node)));
    entries(&sys.join("bus/pci/devices")).iter().any(|link| is_gpu(link))
        || proc.join("driver/nvidia").exists()
        || entries(&root.join("dev")).iter().any(is_node)
}

fn is_gpu(folder: &Path) -> bool {
    text::text(&folder.join("vendor")).as_deref() == Some(NVIDIA)
        && text::text(&folder.join("class")).is_some_and(|class| class.starts_with(DISPLAY))
}

fn value(text: &str, field: &str) -> Option<String> {
    let value = text.lines().find_map(|line| line.trim_start().strip_prefix(field))?.trim();
    (!value.is_empty()).then(|| value.to_owned())
}

/// The number of its line differs between models, for a 64-bit window takes two; the window on the memory is always the
/// largest of the prefetchable ones. Lines are `first last flags` in hexadecimal.
fn largest_window(table: &str) -> Option<u64> {
    const WINDOWS: usize = 6;
    const MEMORY: u64 = 0x200;
    const PREFETCHABLE: u64 = 0x2000;
    let sizes = table.lines().take(WINDOWS).filter_map(|line| {
        let numbers: Vec<u64> = line.split_whitespace().filter_map(hexadecimal).collect();
        let [first, last, flags] = numbers.as_slice() else { return None };
        let wanted = flags & MEMORY != 0 && flags & PREFETCHABLE != 0;
        wanted.then(|| last.checked_sub(*first)?.checked_add(1)).flatten()
    });
    sizes.max()
}

fn hexadecimal(word: &str) -> Option<u64> {
    u64::from_str_radix(word.strip_prefix("0x")?, 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys::fake_tree::FakeTree;

    const FOLDER: &str = "devices/pci0000:80/0000:80:01.0/0000:81:00.0";

    fn machine(class: &str, vendor: &str) -> FakeTree {
        let sys = FakeTree::new();
        sys.files(FOLDER, &[("class", class), ("vendor", vendor), ("numa_node", "1\n")]);
        sys.link("bus/pci/devices/0000:81:00.0", FOLDER);
        sys
    }

    #[test]
    fn a_gpu_with_all_its_facts() {
        let (sys, proc) = (machine("0x030200\n", "0x10de\n"), FakeTree::new());
        sys.file(
            &format!("{FOLDER}/resource"),
            "0x0000210042000000 0x0000210042ffffff 0x000000000014220c\n\
             0x0000000000000000 0x0000000000000000 0x0000000000000000\n\
             0x0000200000000000 0x0000201fffffffff 0x000000000014220c\n",
        );
        sys.file(&format!("{FOLDER}/iommu_group/type"), "identity\n");
        sys.dir("bus/pci/drivers/nvidia");
        sys.link(&format!("{FOLDER}/driver"), "bus/pci/drivers/nvidia");
        proc.file(
            "driver/nvidia/gpus/0000:81:00.0/information",
            "Model: \t\t NVIDIA H200\nIRQ:   \t\t 16\nDevice Minor: \t 3\n",
        );
        let gpus = NvidiaGpu::all(sys.root(), proc.root());
        let [gpu] = gpus.as_slice() else { panic!("{gpus:?}") };
        assert_eq!((gpu.function.address.as_str(), gpu.function.numa_node), ("0000:81:00.0", Some(1)));
        assert_eq!((gpu.model.as_deref(), gpu.minor), (Some("NVIDIA H200"), Some(3)));
        assert_eq!((gpu.driver.as_deref(), gpu.bar1), (Some("nvidia"), Some(128 << 30)));
        assert!(gpu.iommu.is_some());
    }

    #[test]
    fn what_is_not_shown_is_none_and_garbage_too() {
        let (sys, proc) = (machine("0x030000\n", "0x10de\n"), FakeTree::new());
        for resource in ["", "0x1 0x2\n", "x y z\n", "0x5 0x1 0x2200\n", "0x0 0xffffffffffffffff 0x2200\n"] {
            sys.file(&format!("{FOLDER}/resource"), resource);
            proc.file("driver/nvidia/gpus/0000:81:00.0/information", "Model:\nDevice Minor: -1\n");
            let gpus = NvidiaGpu::all(sys.root(), proc.root());
            assert_eq!(gpus.len(), 1);
            assert_eq!((&gpus[0].model, gpus[0].minor, &gpus[0].driver, gpus[0].bar1), (&None, None, &None, None));
        }
    }

    #[test]
    fn other_devices_are_not_gpus() {
        let empty = FakeTree::new();
        assert_eq!(NvidiaGpu::all(empty.root(), empty.root()), []);
        for (class, vendor) in [("0x030000", "0x1002"), ("0x040300", "0x10de"), ("", "")] {
            assert_eq!(NvidiaGpu::all(machine(class, vendor).root(), empty.root()), [], "{class} {vendor}");
        }
    }

    #[test]
    fn a_gpu_is_shown_by_its_bus_its_driver_or_a_node() {
        let empty = FakeTree::new();
        let shown = |sys: &FakeTree, root: &FakeTree| is_nvidia_gpu_shown(sys.root(), &root.path("proc"), root.root());
        assert!(!shown(&empty, &empty));
        assert!(shown(&machine("0x030200\n", "0x10de\n"), &empty));
        // A sound device of the same maker, and another maker's GPU.
        assert!(!shown(&machine("0x040300\n", "0x10de\n"), &empty));
        assert!(!shown(&machine("0x030000\n", "0x1002\n"), &empty));
        for (name, is_gpu) in [
            ("proc/driver/nvidia/version", true),
            ("dev/nvidiactl", true),
            ("dev/nvidia0", true),
            ("dev/dxg", true),
            ("dev/nvme0n1", false),
            ("dev/dri/card0", false),
        ] {
            let root = FakeTree::new();
            root.file(name, "");
            assert_eq!(shown(&empty, &root), is_gpu, "{name}");
        }
    }
}
