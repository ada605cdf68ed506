//! How far two PCI functions are from each other, told by their place in the tree of devices.

use std::fmt;
use std::path::{Path, PathBuf};

use super::acs;
use super::machine::numa_nodes;
use super::pci::{PciFunction, address};
use super::text;

/// What lies between two PCI functions, nearest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Distance {
    /// A PCIe switch, by which data passes without reaching the processor.
    SameSwitch,
    /// One port of the processor.
    SameRootPort,
    /// Two ports of one host bridge of the processor.
    SameHostBridge,
    /// Two host bridges of one processor.
    SameSocket,
    /// The link between two processors.
    OtherSocket,
    /// Two host bridges of which the kernel does not tell the processor.
    Unknown,
}

impl fmt::Display for Distance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::SameSwitch => "same PCIe switch",
            Self::SameRootPort => "same root port",
            Self::SameHostBridge => "same host bridge, other root port",
            Self::SameSocket => "same socket, other host bridge",
            Self::OtherSocket => "other socket",
            Self::Unknown => "other host bridge, socket unknown",
        })
    }
}

impl Distance {
    /// The distance between two functions of one machine. `sys` is normally `/sys`.
    pub fn between(sys: &Path, one: &PciFunction, other: &PciFunction) -> Self {
        let (first, second) = (chain(&one.sysfs), chain(&other.sysfs));
        // The last of a chain is the function itself, which is nothing that lies between.
        let above = |chain: &[PathBuf]| chain.len().saturating_sub(1);
        let shared = first.iter().zip(&second).take_while(|(one, other)| one == other).count();
        match shared.min(above(&first)).min(above(&second)) {
            0 if host_bridge(&first).is_some() && host_bridge(&first) == host_bridge(&second) => Self::SameHostBridge,
            0 => by_socket(sys, one, other),
            1 => Self::SameRootPort,
            _ => Self::SameSwitch,
        }
    }
}

/// The bridges between two functions, both ways up to what they share, that redirect traffic between devices to the
/// processor (ACS), by address. `None` where their configuration may not be read, as by all but root.
pub fn redirecting_bridges(one: &PciFunction, other: &PciFunction) -> Option<Vec<String>> {
    let (first, second) = (chain(&one.sysfs), chain(&other.sysfs));
    let shared = first.iter().zip(&second).take_while(|(one, other)| one == other).count();
    let between = |chain: &[PathBuf]| {
        let end = chain.len().saturating_sub(1);
        chain.get(shared..end).map(<[PathBuf]>::to_vec).unwrap_or_default()
    };
    let mut redirecting = Vec::new();
    for bridge in between(&first).into_iter().chain(between(&second)) {
        if acs::redirects(&bridge)? {
            redirecting.extend(address(&bridge));
        }
    }
    Some(redirecting)
}

/// The PCI functions from the port of the processor down to the one whose folder it is, itself the last.
fn chain(folder: &Path) -> Vec<PathBuf> {
    let mut chain: Vec<PathBuf> =
        folder.ancestors().take_while(|folder| address(folder).is_some()).map(Path::to_owned).collect();
    chain.reverse();
    chain
}

fn host_bridge(chain: &[PathBuf]) -> Option<&Path> {
    chain.first()?.parent()
}

fn by_socket(sys: &Path, one: &PciFunction, other: &PciFunction) -> Distance {
    let packages = packages(sys);
    if let [_] = packages.as_slice() {
        return Distance::SameSocket;
    }
    let package = |node: u32| packages.iter().find(|(_, nodes)| nodes.contains(&node)).map(|(package, _)| *package);
    match (one.numa_node, other.numa_node) {
        (Some(one), Some(other)) if one == other => Distance::SameSocket,
        (Some(one), Some(other)) => match (package(one), package(other)) {
            (Some(one), Some(other)) if one == other => Distance::SameSocket,
            // Nodes whose socket is not shown have been of different sockets on all but a few machines.
            _ => Distance::OtherSocket,
        },
        _ => Distance::Unknown,
    }
}

/// The sockets and the NUMA nodes of each; a socket can have several.
fn packages(sys: &Path) -> Vec<(u64, Vec<u32>)> {
    let mut packages: Vec<(u64, Vec<u32>)> = Vec::new();
    for node in numa_nodes(sys) {
        let Some(cpu) = node.cpus.first() else { continue };
        let file = sys.join(format!("devices/system/cpu/cpu{cpu}/topology/physical_package_id"));
        let Some(package) = text::number(&file) else { continue };
        match packages.iter_mut().find(|(known, _)| *known == package) {
            Some((_, nodes)) => nodes.push(node.number),
            None => packages.push((package, vec![node.number])),
        }
    }
    packages
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys::fake_tree::FakeTree;

    const SWITCH: &str = "devices/pci0000:80/0000:80:01.0/0000:81:00.0";

    /// Two sockets of two NUMA nodes each.
    fn machine() -> FakeTree {
        let sys = FakeTree::new();
        for (node, package) in [(0, 0), (1, 0), (2, 1), (3, 1)] {
            sys.file(&format!("devices/system/node/node{node}/cpulist"), &format!("{node}\n"));
            sys.file(&format!("devices/system/cpu/cpu{node}/topology/physical_package_id"), &format!("{package}\n"));
        }
        sys
    }

    fn function(sys: &FakeTree, folder: &str, node: &str) -> PciFunction {
        sys.file(&format!("{folder}/numa_node"), node);
        PciFunction::above(&sys.path(folder)).unwrap()
    }

    fn between(one: (&str, &str), other: (&str, &str)) -> Distance {
        let sys = machine();
        let (one, other) = (function(&sys, one.0, one.1), function(&sys, other.0, other.1));
        let distance = Distance::between(sys.root(), &one, &other);
        assert_eq!(Distance::between(sys.root(), &other, &one), distance);
        distance
    }

    #[test]
    fn below_one_switch() {
        let gpu = format!("{SWITCH}/0000:82:00.0/0000:83:00.0");
        let disk = format!("{SWITCH}/0000:82:04.0/0000:84:00.0");
        assert_eq!(between((&gpu, "2"), (&disk, "2")), Distance::SameSwitch);
    }

    #[test]
    fn below_one_root_port_or_one_host_bridge() {
        let port = "devices/pci0000:80/0000:80:01.0";
        let (gpu, disk) = (format!("{port}/0000:81:00.0"), format!("{port}/0000:81:01.0"));
        assert_eq!(between((&gpu, "2"), (&disk, "2")), Distance::SameRootPort);
        let elsewhere = "devices/pci0000:80/0000:80:03.0/0000:90:00.0";
        assert_eq!(between((&gpu, "2"), (elsewhere, "2")), Distance::SameHostBridge);
        let flat = ["devices/pci0000:00/0000:00:04.0", "devices/pci0000:00/0000:00:05.0"];
        assert_eq!(between((flat[0], "-1"), (flat[1], "-1")), Distance::SameHostBridge);
    }

    #[test]
    fn other_host_bridges_are_told_apart_by_socket() {
        let (one, other) = ("devices/pci0000:00/0000:00:01.0/0000:01:00.0", "devices/pci0000:80/0000:80:01.0");
        assert_eq!(between((one, "0"), (other, "0")), Distance::SameSocket);
        assert_eq!(between((one, "0"), (other, "1")), Distance::SameSocket);
        assert_eq!(between((one, "0"), (other, "2")), Distance::OtherSocket);
        assert_eq!(between((one, "0"), (other, "-1")), Distance::Unknown);
    }

    #[test]
    fn a_machine_of_one_socket_has_no_other() {
        let sys = FakeTree::new();
        sys.file("devices/system/node/node0/cpulist", "0-7\n");
        sys.file("devices/system/cpu/cpu0/topology/physical_package_id", "0\n");
        let one = function(&sys, "devices/pci0000:00/0000:00:01.0", "-1");
        let other = function(&sys, "devices/pci0000:80/0000:80:01.0", "-1");
        assert_eq!(Distance::between(sys.root(), &one, &other), Distance::SameSocket);
    }

    #[test]
    fn bridges_between_are_asked_and_one_silent_makes_it_unknown() {
        let sys = machine();
        let ports = [format!("{SWITCH}/0000:82:00.0"), format!("{SWITCH}/0000:82:04.0")];
        let gpu = function(&sys, &format!("{}/0000:83:00.0", ports[0]), "0");
        let disk = function(&sys, &format!("{}/0000:84:00.0", ports[1]), "0");
        assert_eq!(redirecting_bridges(&gpu, &disk), None);
        sys.bytes(&format!("{}/config", ports[0]), &acs::tests::config(0b1100));
        assert_eq!(redirecting_bridges(&gpu, &disk), None);
        sys.bytes(&format!("{}/config", ports[1]), &acs::tests::config(0));
        assert_eq!(redirecting_bridges(&gpu, &disk).unwrap(), ["0000:82:00.0"]);
    }
}
