//! Where this process runs: in a container, in a virtual machine, under Windows.

use std::path::Path;

use super::machine::kernel_release;
use super::text;

/// What surrounds this process, as far as it changes how GPUs and disks are seen.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Platform {
    /// The kind of container: `docker`, `podman`, `kubernetes`, `lxc`; `None` where nothing speaks of one.
    pub container: Option<String>,
    /// True under the Windows Subsystem for Linux, which cuFile does not support.
    pub wsl: bool,
    /// Whether this is a virtual machine, whose PCI tree is made up by the host; `None` where the kernel does not tell.
    pub virtual_machine: Option<bool>,
    /// Whether `/run/udev` can be listed; without it cuFile cannot tell what disk a file lies on.
    pub udev: bool,
}

impl Platform {
    /// `proc` is normally `/proc`, and `root` `/`.
    pub fn read(proc: &Path, root: &Path) -> Self {
        let release = kernel_release(proc).unwrap_or_default().to_ascii_lowercase();
        Self {
            container: container(proc, root),
            wsl: release.contains("microsoft") || release.contains("wsl"),
            virtual_machine: virtual_machine(proc),
            udev: std::fs::read_dir(root.join("run/udev")).is_ok(),
        }
    }
}

fn container(proc: &Path, root: &Path) -> Option<String> {
    if root.join(".dockerenv").exists() {
        return Some("docker".to_owned());
    }
    if root.join("run/.containerenv").exists() {
        return Some("podman".to_owned());
    }
    // systemd writes the container's kind here.
    let told = text::word(&root.join("run/systemd/container"));
    told.or_else(|| of_groups(&text::text(&proc.join("1/cgroup"))?))
}

/// Control groups of the first process are named after what manages the container. (Version 2 hides them.)
fn of_groups(groups: &str) -> Option<String> {
    const NAMES: [(&str, &str); 4] =
        [("kubepods", "kubernetes"), ("docker", "docker"), ("libpod", "podman"), ("/lxc", "lxc")];
    let (_, name) = NAMES.iter().find(|(word, _)| groups.contains(word))?;
    Some((*name).to_owned())
}

fn virtual_machine(proc: &Path) -> Option<bool> {
    let cpus = text::text(&proc.join("cpuinfo"))?;
    // Only x86 has a flag for it.
    let flags = cpus.lines().find(|line| line.starts_with("flags"))?;
    Some(flags.split_whitespace().any(|flag| flag == "hypervisor"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys::fake_tree::FakeTree;

    fn read(files: &[(&str, &str)]) -> Platform {
        let tree = FakeTree::new();
        tree.files(".", files);
        Platform::read(&tree.path("proc"), tree.root())
    }

    #[test]
    fn containers_by_their_marks() {
        let kind = |name: &str, text: &str| read(&[(name, text)]).container;
        assert_eq!(kind(".dockerenv", "").as_deref(), Some("docker"));
        assert_eq!(kind("run/.containerenv", "").as_deref(), Some("podman"));
        assert_eq!(kind("run/systemd/container", "lxc\n").as_deref(), Some("lxc"));
        assert_eq!(kind("proc/1/cgroup", "0::/kubepods.slice/pod1\n").as_deref(), Some("kubernetes"));
        assert_eq!(kind("proc/1/cgroup", "0::/init.scope\n"), None);
    }

    #[test]
    fn windows_and_virtual_machines() {
        let bare = read(&[("proc/sys/kernel/osrelease", "6.8.0\n"), ("proc/cpuinfo", "flags\t: fpu vme\n")]);
        assert_eq!((bare.wsl, bare.virtual_machine), (false, Some(false)));
        let wsl = read(&[
            ("proc/sys/kernel/osrelease", "5.15.153.1-microsoft-standard-WSL2\n"),
            ("proc/cpuinfo", "processor\t: 0\nflags\t\t: fpu hypervisor\n"),
        ]);
        assert_eq!((wsl.wsl, wsl.virtual_machine), (true, Some(true)));
        assert_eq!(read(&[("proc/cpuinfo", "Features\t: fp\n")]).virtual_machine, None);
    }

    #[test]
    fn udev_is_there_or_not() {
        assert!(!read(&[]).udev);
        assert!(read(&[("run/udev/data/b259:0", "")]).udev);
    }
}
