//! What surrounds this process, and the IOMMU between devices.

use forebay::facts::gds::IommuMode;

use crate::doctor::finding::Finding;

use super::Ways;

impl Ways<'_> {
    pub(super) fn platform(&self) -> Vec<Finding> {
        let mut findings = Vec::new();
        if self.platform.wsl {
            let reason = "Windows Subsystem for Linux: cuFile does not read directly here";
            findings.push(Finding::no("platform", "wsl", reason, "use Linux itself, or --route bounce"));
        }
        if let Some(container) = &self.platform.container {
            let reason = "a container: it sees the devices, nodes and folders that it was given";
            findings.push(Finding::note("platform", container, reason));
        }
        findings.extend(self.udev());
        findings
    }

    fn udev(&self) -> Option<Finding> {
        const SUBJECT: &str = "/run/udev";
        if self.platform.udev {
            return None;
        }
        let reason = "it cannot be listed: cuFile does not find out what disk a file lies on and fails with 5030 \
                      (internal error)";
        let fix = match self.platform.container {
            Some(_) => "start the container with `-v /run/udev:/run/udev:ro`",
            None => "start udev (`systemctl start systemd-udevd`); in a container, bind the host's /run/udev read-only",
        };
        Some(Finding::no("udev", SUBJECT, reason, fix))
    }

    pub(super) fn iommu(&self) -> Vec<Finding> {
        const KIND: &str = "iommu";
        let options = self.iommu.as_ref().map(|iommu| iommu.options.join(" ")).unwrap_or_default();
        let booted = if options.is_empty() { String::new() } else { format!(" (booted with {options})") };
        let subject = "machine";
        let finding = match self.iommu_mode() {
            Some(IommuMode::Off) if self.platform.virtual_machine == Some(true) => {
                Finding::note(KIND, subject, "none in this virtual machine; the host's is not shown from here")
            }
            Some(IommuMode::Off) => Finding::yes(KIND, subject, format!("off: devices reach each other{booted}")),
            Some(IommuMode::Passthrough) => {
                let reason = format!("passes addresses through{booted}: direct reads work on most machines");
                Finding::note(KIND, subject, reason).fix("if they fail or are slow, boot with `iommu=off`")
            }
            Some(IommuMode::Translating) => {
                let reason = format!(
                    "translates what GPUs and disks send each other{booted}: direct reads go through the processor, \
                     slowly, or fail"
                );
                let fix = "boot with `iommu=pt`, or switch it off with `intel_iommu=off` or `amd_iommu=off`";
                Finding::no(KIND, subject, reason, fix)
            }
            _ => Finding::note(KIND, subject, format!("the kernel does not tell what it does{booted}"))
                .fix("boot with `iommu=pt` if direct reads fail or are slow"),
        };
        let mut findings = vec![finding];
        findings.extend(self.acs());
        findings
    }

    /// nvidia-fs lists the bridges that redirect; without it, those between a disk and a GPU are looked at.
    fn acs(&self) -> Option<Finding> {
        let bridges = self.nvidia_fs.as_ref()?.redirecting_bridges.as_ref().filter(|bridges| !bridges.is_empty())?;
        const SHOWN: usize = 4;
        let names: Vec<&str> = bridges.iter().take(SHOWN).map(String::as_str).collect();
        let more = if bridges.len() > SHOWN { ", …" } else { "" };
        let reason = format!(
            "{} PCI bridges send what passes between devices up to the processor: {}{more}",
            bridges.len(),
            names.join(", ")
        );
        Some(Finding::no("acs", "bridges", reason, ACS_FIX))
    }
}

/// What turns redirection off.
pub(super) const ACS_FIX: &str = "switch ACS off in the firmware set-up, or on each bridge with \
                                  `setpci -s BRIDGE ECAP_ACS+0x6.w=0000`";

#[cfg(test)]
mod tests;
