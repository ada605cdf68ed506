//! What the kernel's own peer-to-peer DMA (P2PDMA) needs, by which cuFile can do without nvidia-fs.

use std::path::Path;

use super::kernel_config;
use super::machine::kernel_release;
use super::text;
use super::version::Version;

/// The parts that the kernel has to play; NVIDIA's driver has its own (see `NvidiaDriver`).
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct P2pDma {
    /// Version of the kernel.
    pub kernel: Option<Version>,
    /// Whether the kernel was built with CONFIG_PCI_P2PDMA; `None` where neither a configuration nor symbols are shown.
    pub built_in: Option<bool>,
    /// Whether the kernel puts itself at a random address (KASLR), with which P2PDMA of GPU memory has been seen to fail.
    pub random_address: Option<bool>,
    /// Whether the NVMe driver's own multipath is on, which P2PDMA does not pass; `None` where the driver is not loaded.
    pub nvme_multipath: Option<bool>,
}

impl P2pDma {
    /// The oldest kernel that carries P2PDMA from files to a program's memory.
    pub const OLDEST_KERNEL: [u32; 2] = [6, 2];
    /// The oldest open driver of NVIDIA that offers GPU memory for it, by its first number.
    pub const OLDEST_DRIVER: u32 = 570;

    /// `sys` is normally `/sys`, `proc` `/proc`, and `root` `/`.
    pub fn read(sys: &Path, proc: &Path, root: &Path) -> Self {
        const FUNCTION: &str = "pci_p2pdma_add_resource";
        let configured = |name: &str| kernel_config::option(proc, root, name);
        Self {
            kernel: kernel_release(proc).and_then(|release| Version::parse(&release)),
            built_in: configured("CONFIG_PCI_P2PDMA").or_else(|| kernel_config::has_function(proc, FUNCTION)),
            random_address: random_address(proc, configured("CONFIG_RANDOMIZE_BASE")),
            nvme_multipath: match text::text(&sys.join("module/nvme_core/parameters/multipath")).as_deref() {
                Some("Y" | "1") => Some(true),
                Some("N" | "0") => Some(false),
                _ => None,
            },
        }
    }
}

fn random_address(proc: &Path, configured: Option<bool>) -> Option<bool> {
    let line = text::text(&proc.join("cmdline"))?;
    if line.split_whitespace().any(|word| word == "nokaslr") { Some(false) } else { configured }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys::fake_tree::FakeTree;

    fn read(files: &[(&str, &str)]) -> P2pDma {
        let tree = FakeTree::new();
        tree.files(".", files);
        P2pDma::read(&tree.path("sys"), &tree.path("proc"), tree.root())
    }

    const RELEASE: (&str, &str) = ("proc/sys/kernel/osrelease", "6.8.0-45-generic\n");
    const CONFIG: &str = "boot/config-6.8.0-45-generic";
    const SYMBOL: &str = "0000000000000000 T pci_p2pdma_add_resource\n";

    #[test]
    fn a_configuration_tells_first_and_symbols_after() {
        assert_eq!(read(&[RELEASE, (CONFIG, "CONFIG_PCI_P2PDMA=y\n")]).built_in, Some(true));
        let off = (CONFIG, "# CONFIG_PCI_P2PDMA is not set\n");
        assert_eq!(read(&[RELEASE, off, ("proc/kallsyms", SYMBOL)]).built_in, Some(false));
        assert_eq!(read(&[RELEASE, ("proc/kallsyms", SYMBOL)]).built_in, Some(true));
        assert_eq!(read(&[RELEASE]).built_in, None);
    }

    #[test]
    fn the_command_line_outweighs_the_configuration() {
        let config = (CONFIG, "CONFIG_RANDOMIZE_BASE=y\n");
        assert_eq!(read(&[RELEASE, config, ("proc/cmdline", "quiet")]).random_address, Some(true));
        assert_eq!(read(&[RELEASE, config, ("proc/cmdline", "nokaslr quiet")]).random_address, Some(false));
        assert_eq!(read(&[RELEASE, ("proc/cmdline", "quiet")]).random_address, None);
    }

    #[test]
    fn multipath_and_version() {
        let multipath = "sys/module/nvme_core/parameters/multipath";
        assert_eq!(read(&[(multipath, "Y\n")]).nvme_multipath, Some(true));
        assert_eq!(read(&[(multipath, "N\n")]).nvme_multipath, Some(false));
        let bare = read(&[RELEASE]);
        assert_eq!(bare.nvme_multipath, None);
        assert!(bare.kernel.unwrap().is_at_least(&P2pDma::OLDEST_KERNEL));
    }
}
