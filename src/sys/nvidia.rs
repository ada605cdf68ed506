//! NVIDIA's kernel driver, and whether this process may talk to it.

use std::fs::File;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use nix::libc;

use super::text;
use super::version::Version;

/// NVIDIA's kernel driver.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct NvidiaDriver {
    /// Its version; `None` where it is loaded and does not tell.
    pub version: Option<Version>,
    /// Open or proprietary; `None` where neither procfs nor sysfs tells.
    pub flavour: Option<DriverFlavour>,
    /// The device node `/dev/nvidiactl`, without which CUDA finds no device.
    pub control: DeviceNode,
    /// The device node `/dev/nvidia-uvm`, which CUDA needs, too.
    pub uvm: bool,
    /// Whether nvidia_peermem is loaded, which lends GPU memory to RDMA adapters.
    pub peermem: bool,
    /// The driver's registry, as set when it was loaded; `None` where it is not shown.
    pub registry: Option<Vec<(String, String)>>,
}

/// Which of its two kernel drivers NVIDIA's is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum DriverFlavour {
    /// The open kernel module, which peer-to-peer DMA of the kernel needs.
    Open,
    /// The proprietary kernel module.
    Proprietary,
}

/// What became of opening a device node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum DeviceNode {
    /// It can be opened.
    Usable,
    /// It is there and may not be opened by this process.
    Denied,
    /// It is not there, or no driver stands behind it.
    Missing,
}

impl NvidiaDriver {
    /// Reads the driver's folders under `sys` (normally `/sys`) and `proc` (`/proc`) and its nodes under `root` (`/`).
    /// `None` where there is no trace of a driver.
    pub fn read(sys: &Path, proc: &Path, root: &Path) -> Option<Self> {
        let module = sys.join("module/nvidia");
        let shown = text::word(&proc.join("driver/nvidia/version"));
        let control = DeviceNode::try_open(&root.join("dev/nvidiactl"));
        if shown.is_none() && !module.is_dir() && control == DeviceNode::Missing {
            return None;
        }
        let first_line = shown.as_deref().and_then(|text| text.lines().next());
        let module_version = || Version::parse(&text::word(&module.join("version"))?);
        Some(Self {
            version: first_line.and_then(version).or_else(module_version),
            flavour: first_line.and_then(flavour).or_else(|| flavour_of_taint(&module)),
            control,
            uvm: root.join("dev/nvidia-uvm").exists(),
            peermem: sys.join("module/nvidia_peermem").is_dir(),
            registry: text::word(&proc.join("driver/nvidia/params")).and_then(|text| registry(&text)),
        })
    }

    /// Whether a switch of the registry is on. `None` where the registry is not shown. Names are compared as the driver
    /// does, without regard to case.
    pub fn is_set(&self, key: &str) -> Option<bool> {
        let registry = self.registry.as_ref()?;
        let value = registry.iter().rev().find(|(name, _)| name.eq_ignore_ascii_case(key)).map(|(_, value)| value);
        Some(value.is_some_and(|value| !is_zero(value)))
    }
}

impl DeviceNode {
    /// Opens for reading and writing, as CUDA does: the file's mode cannot tell, since a container's rules for devices
    /// stand beside it.
    fn try_open(path: &Path) -> Self {
        let opened = File::options().read(true).write(true).custom_flags(libc::O_NONBLOCK).open(path);
        match opened {
            Ok(_) => Self::Usable,
            // A node outlives its driver, and then leads nowhere.
            Err(error) if matches!(error.raw_os_error(), Some(libc::ENOENT | libc::ENXIO | libc::ENODEV)) => {
                Self::Missing
            }
            Err(_) => Self::Denied,
        }
    }
}

/// `NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  570.86.15  Release Build  (…)`, or
/// `NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.104.05  Sat Aug 19 01:15:15 UTC 2023`.
fn version(line: &str) -> Option<Version> {
    line.split_whitespace().filter_map(Version::parse).find(|version| version.precision() >= 2)
}

fn flavour(line: &str) -> Option<DriverFlavour> {
    match line {
        line if line.contains("Open Kernel Module") => Some(DriverFlavour::Open),
        line if line.contains("Kernel Module") => Some(DriverFlavour::Proprietary),
        _ => None,
    }
}

/// The kernel marks what a module of a proprietary licence has tainted with `P`.
fn flavour_of_taint(module: &Path) -> Option<DriverFlavour> {
    let taint = text::word(&module.join("taint"))?;
    Some(if taint.contains('P') { DriverFlavour::Proprietary } else { DriverFlavour::Open })
}

/// The line `RegistryDwords: "Key=1;Other=0x2;"`.
fn registry(params: &str) -> Option<Vec<(String, String)>> {
    let line = params.lines().find_map(|line| line.trim().strip_prefix("RegistryDwords:"))?;
    let pairs = line.trim().trim_matches('"').split(';').filter_map(|pair| pair.split_once('='));
    Some(pairs.map(|(key, value)| (key.trim().to_owned(), value.trim().to_owned())).collect())
}

/// Values are written in decimal or, after `0x`, in hexadecimal.
fn is_zero(value: &str) -> bool {
    value.strip_prefix("0x").unwrap_or(value).bytes().all(|digit| digit == b'0')
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys::fake_tree::FakeTree;

    const OPEN: &str = "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  570.86.15  Release Build  (b@c)\n\
                        GCC version:  gcc version 12.3.0\n";
    const PROPRIETARY: &str =
        "NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.104.05  Sat Aug 19 01:15:15 UTC 2023\n";

    fn driver(files: &[(&str, &str)]) -> Option<NvidiaDriver> {
        let tree = FakeTree::new();
        tree.files(".", files);
        NvidiaDriver::read(&tree.path("sys"), &tree.path("proc"), tree.root())
    }

    #[test]
    fn version_and_flavour_from_the_driver_itself() {
        let open = driver(&[("proc/driver/nvidia/version", OPEN)]).unwrap();
        assert_eq!(open.version.unwrap().to_string(), "570.86.15");
        assert_eq!((open.flavour, open.control), (Some(DriverFlavour::Open), DeviceNode::Missing));
        let closed = driver(&[("proc/driver/nvidia/version", PROPRIETARY)]).unwrap();
        assert_eq!(closed.version.unwrap().to_string(), "535.104.05");
        assert_eq!(closed.flavour, Some(DriverFlavour::Proprietary));
    }

    #[test]
    fn where_procfs_hides_it_the_module_tells() {
        let of_taint = |taint: &str| {
            let files = [("sys/module/nvidia/version", "580.1\n"), ("sys/module/nvidia/taint", taint)];
            let driver = driver(&files).unwrap();
            (driver.version.unwrap().to_string(), driver.flavour)
        };
        assert_eq!(of_taint("POE\n"), ("580.1".to_owned(), Some(DriverFlavour::Proprietary)));
        assert_eq!(of_taint("OE\n"), ("580.1".to_owned(), Some(DriverFlavour::Open)));
        assert_eq!(of_taint("\n"), ("580.1".to_owned(), None));
    }

    #[test]
    fn no_trace_is_none_and_a_node_alone_is_a_trace() {
        assert_eq!(driver(&[]), None);
        let node = driver(&[("dev/nvidiactl", "")]).unwrap();
        assert_eq!((node.version, node.control), (None, DeviceNode::Usable));
    }

    #[test]
    fn garbage_is_a_driver_that_does_not_tell() {
        let garbage = driver(&[("proc/driver/nvidia/version", "\u{fffd}12 nonsense\n")]).unwrap();
        assert_eq!((garbage.version, garbage.flavour, garbage.registry), (None, None, None));
    }

    #[test]
    fn the_registry_is_read_without_regard_to_case() {
        let line = "EnableMSI: 1\nRegistryDwords: \"RMForceStaticBar1=0x1;RmForceDisableIomapWC=0;\"\nOther: 0\n";
        let set = driver(&[("dev/nvidiactl", ""), ("proc/driver/nvidia/params", line)]).unwrap();
        assert_eq!(set.is_set("RmForceStaticBAR1"), Some(true));
        assert_eq!((set.is_set("RMForceDisableIomapWC"), set.is_set("Absent")), (Some(false), Some(false)));
        let hidden = driver(&[("dev/nvidiactl", "")]).unwrap();
        assert_eq!(hidden.is_set("RMForceStaticBar1"), None);
    }

    #[test]
    fn a_node_that_leads_nowhere_is_missing_and_one_that_cannot_be_opened_denied() {
        let tree = FakeTree::new();
        // A socket answers an open as a node without a driver does: ENXIO.
        let _socket = std::os::unix::net::UnixListener::bind(tree.path("socket")).unwrap();
        assert_eq!(DeviceNode::try_open(&tree.path("socket")), DeviceNode::Missing);
        tree.dir("dev/nvidiactl");
        assert_eq!(DeviceNode::try_open(&tree.path("dev/nvidiactl")), DeviceNode::Denied);
    }
}
