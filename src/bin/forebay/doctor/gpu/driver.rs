//! NVIDIA's kernel driver, and the device nodes that lead to it.

use forebay::facts::gds::{DeviceNode, DriverFlavour, NvidiaDriver};

use crate::doctor::finding::Finding;

use super::Ways;

impl Ways<'_> {
    pub(super) fn driver(&self) -> Vec<Finding> {
        const KIND: &str = "nvidia_driver";
        let Some(driver) = &self.driver else {
            let fix = "install NVIDIA's driver (570 or newer, open kernel module), then `modprobe nvidia`";
            return vec![Finding::no(KIND, "kernel", "NVIDIA's kernel driver is not loaded", fix)];
        };
        let version = driver.version.as_ref().map_or("unknown".to_owned(), |version| version.to_string());
        let flavour = match driver.flavour {
            Some(DriverFlavour::Open) => "open kernel module",
            Some(DriverFlavour::Proprietary) => "proprietary kernel module",
            _ => "loaded; it does not tell whether it is the open or the proprietary module",
        };
        let mut findings = vec![Finding::yes(KIND, version, flavour)];
        findings.extend(self.control(driver));
        if driver.peermem {
            findings.push(Finding::note("nvidia_peermem", "kernel", "loaded: RDMA adapters can reach GPU memory"));
        }
        findings
    }

    fn control(&self, driver: &NvidiaDriver) -> Option<Finding> {
        const KIND: &str = "gpu_node";
        let missing = |node: &str| format!("{node} is missing: CUDA does not see any GPU here");
        let (subject, reason) = match driver.control {
            DeviceNode::Missing => ("/dev/nvidiactl", missing("it")),
            DeviceNode::Denied => ("/dev/nvidiactl", "this process may not open it: CUDA finds no GPU".to_owned()),
            _ if !driver.uvm => ("/dev/nvidia-uvm", missing("it")),
            _ => return None,
        };
        let fix = match self.platform.container {
            Some(_) => "give the GPU to the container: `--gpus all` or NVIDIA_VISIBLE_DEVICES with NVIDIA's runtime",
            None => "`nvidia-modprobe -c 0 -u` makes the nodes; their groups and modes are set in /etc/modprobe.d",
        };
        Some(Finding::no(KIND, subject, reason, fix))
    }
}

#[cfg(test)]
mod tests;
