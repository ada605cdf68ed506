//! The kernel's own peer-to-peer DMA, by which cuFile (CUDA 12.8 or newer) reads directly without nvidia-fs.

use forebay::facts::gds::{DriverFlavour, P2pDma};

use crate::doctor::finding::Finding;

use super::Ways;

const KIND: &str = "p2pdma";
/// Only on x86 does the driver need to be told to lay out GPU memory for it.
const NEEDS_REGISTRY: bool = cfg!(target_arch = "x86_64");
const REGISTRY: [&str; 2] = ["RMForceStaticBar1", "RmForceDisableIomapWC"];

/// What is missing: the part that lacks it, why, and what mends it.
pub(super) type Lack = (&'static str, String, &'static str);

impl Ways<'_> {
    /// One "no" for each part that is missing; a single note where nvidia-fs does the work anyway.
    pub(super) fn p2pdma(&self) -> Vec<Finding> {
        let (lacks, untold) = (self.p2pdma_lacks(), self.p2pdma_untold());
        if lacks.is_empty() {
            return vec![self.p2pdma_possible(&untold)];
        }
        if self.nvidia_fs_works() {
            let reasons: Vec<&str> = lacks.iter().map(|(_, reason, _)| reason.as_str()).collect();
            let reason = format!("not possible, nor needed with nvidia-fs: {}", reasons.join("; "));
            return vec![Finding::note(KIND, "kernel", reason)];
        }
        lacks.into_iter().map(|(part, reason, fix)| Finding::no(KIND, part, reason, fix)).collect()
    }

    fn p2pdma_possible(&self, untold: &[&str]) -> Finding {
        let finding = match untold {
            [] => Finding::note(
                KIND,
                "kernel",
                "kernel and driver have all that it needs; whether a file is read directly is tried by its route",
            ),
            untold => {
                let reason = format!("nothing speaks against it, but not told: {}", untold.join("; "));
                Finding::note(KIND, "kernel", reason)
            }
        };
        match self.p2pdma.random_address {
            Some(true) => finding.fix("if direct reads fail all the same, boot with `nokaslr`"),
            _ => finding,
        }
    }

    pub(super) fn p2pdma_lacks(&self) -> Vec<Lack> {
        let mut lacks: Vec<Lack> = self.kernel_lacks().into_iter().collect();
        lacks.extend(self.driver_lacks());
        if self.p2pdma.nvme_multipath == Some(true) {
            let fix = "`options nvme_core multipath=N` in /etc/modprobe.d, make the initramfs anew, boot again";
            lacks.push(("nvme", "the NVMe driver's multipath is on".to_owned(), fix));
        }
        lacks
    }

    fn kernel_lacks(&self) -> Option<Lack> {
        let old = self.p2pdma.kernel.as_ref().filter(|kernel| !kernel.is_at_least(&P2pDma::OLDEST_KERNEL));
        if let Some(kernel) = old {
            return Some(("kernel", format!("kernel {kernel} is older than 6.2"), "boot Linux 6.2 or newer"));
        }
        let fix = "boot a kernel with CONFIG_PCI_P2PDMA=y, as current distributions build it";
        (self.p2pdma.built_in == Some(false))
            .then(|| ("kernel", "the kernel was built without CONFIG_PCI_P2PDMA".to_owned(), fix))
    }

    fn driver_lacks(&self) -> Vec<Lack> {
        let Some(driver) = &self.driver else { return vec![("driver", "no NVIDIA driver".to_owned(), INSTALL)] };
        let mut lacks = Vec::new();
        let proprietary = driver.flavour == Some(DriverFlavour::Proprietary);
        let old = driver.version.as_ref().filter(|version| version.major() < P2pDma::OLDEST_DRIVER);
        let reason = match (proprietary, old) {
            (true, Some(_)) => Some("NVIDIA's driver is the proprietary one and older than 570"),
            (true, None) => Some("NVIDIA's driver is the proprietary one"),
            (false, Some(_)) => Some("NVIDIA's driver is older than 570"),
            (false, None) => None,
        };
        lacks.extend(reason.map(|reason| ("driver", reason.to_owned(), INSTALL)));
        let unset: Vec<&str> = REGISTRY.into_iter().filter(|key| driver.is_set(key) == Some(false)).collect();
        if NEEDS_REGISTRY && !unset.is_empty() {
            let fix = "`options nvidia NVreg_RegistryDwords=\"RMForceStaticBar1=1;RmForceDisableIomapWC=1;\"` in \
                       /etc/modprobe.d, make the initramfs anew, boot again";
            lacks.push(("driver", format!("the driver was loaded without {}", unset.join(" and ")), fix));
        }
        lacks
    }

    fn p2pdma_untold(&self) -> Vec<&'static str> {
        let driver = self.driver.as_ref();
        let hidden = driver.is_some_and(|driver| driver.registry.is_none());
        let untold = [
            self.p2pdma.kernel.is_none().then_some("the kernel's version"),
            self.p2pdma.built_in.is_none().then_some("whether the kernel has CONFIG_PCI_P2PDMA"),
            driver.is_some_and(|driver| driver.version.is_none()).then_some("the driver's version"),
            driver.is_some_and(|driver| driver.flavour.is_none()).then_some("whether the driver is the open one"),
            (NEEDS_REGISTRY && hidden).then_some("the driver's registry"),
        ];
        untold.into_iter().flatten().collect()
    }
}

const INSTALL: &str = "install NVIDIA's open kernel module 570 or newer (package nvidia-open), boot again";

#[cfg(test)]
mod tests;
