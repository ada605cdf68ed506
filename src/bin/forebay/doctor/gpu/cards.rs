//! The GPUs themselves: who drives them, and the link they hang on.

use forebay::facts::gds::{IommuMode, NvidiaGpu};

use crate::byte_count::shown;
use crate::doctor::finding::Finding;

use super::Ways;

/// Cards without resizable BAR show 256 MiB of their memory at a time.
const SMALL_WINDOW: u64 = 1 << 30;

impl Ways<'_> {
    pub(super) fn cards(&self) -> Vec<Finding> {
        if self.cards.is_empty() {
            let reason = "NVIDIA's driver is here, but /sys shows no NVIDIA GPU on the PCI bus: distances to disks \
                          cannot be told";
            return vec![Finding::note("gpu", "none seen", reason).fix("give the container the host's /sys")];
        }
        self.cards.iter().flat_map(|card| self.card(card)).collect()
    }

    fn card(&self, card: &NvidiaGpu) -> Vec<Finding> {
        let mut findings = vec![driven(card)];
        findings.extend(link(card));
        findings.extend(window(card));
        findings.extend(self.node(card));
        findings
    }

    fn node(&self, card: &NvidiaGpu) -> Option<Finding> {
        let node = format!("dev/nvidia{}", card.minor?);
        if self.roots.root.join(&node).exists() {
            return None;
        }
        let reason = format!("/{node} is missing: CUDA does not see this GPU here");
        let fix = match self.platform.container {
            Some(_) => "give it to the container: `--gpus`, NVIDIA_VISIBLE_DEVICES, or the resource nvidia.com/gpu",
            None => "`nvidia-modprobe -c 0`, or start nvidia-persistenced",
        };
        Some(Finding::no("gpu_node", &card.function.address, reason, fix))
    }
}

fn driven(card: &NvidiaGpu) -> Finding {
    const KIND: &str = "gpu";
    let (address, facts) = (&card.function.address, facts(card).join(", "));
    match card.driver.as_deref() {
        Some("nvidia") => Finding::yes(KIND, address, facts),
        Some("nouveau" | "nova") => {
            let fix = "install NVIDIA's driver, which keeps this one from loading, and boot again";
            Finding::no(KIND, address, format!("{facts}: CUDA needs NVIDIA's own driver"), fix)
        }
        Some("vfio-pci") => {
            let fix = "run in the virtual machine that has it, or bind it to nvidia (`driverctl unset-override`)";
            Finding::no(KIND, address, format!("{facts}: it is set aside for a virtual machine"), fix)
        }
        Some(_) => Finding::no(KIND, address, format!("{facts}: CUDA needs NVIDIA's driver"), "bind it to nvidia"),
        None => {
            let fix = "`modprobe nvidia`; if that fails, install NVIDIA's driver for this kernel and look at dmesg";
            Finding::no(KIND, address, format!("{facts}: no driver holds it"), fix)
        }
    }
}

fn facts(card: &NvidiaGpu) -> Vec<String> {
    let facts = [
        Some(card.model.clone().unwrap_or_else(|| "model not told".to_owned())),
        card.driver.as_ref().map(|driver| format!("driver {driver}")),
        card.function.numa_node.map(|node| format!("NUMA node {node}")),
        card.function.link.map(|link| format!("link now {link}")),
        card.function.best.map(|best| format!("at best {best}")),
        card.bar1.map(|bytes| format!("{} reachable at a time (BAR1)", shown(bytes))),
        card.iommu.as_ref().map(|group| {
            let number = group.number.map(|number| format!(" {number}")).unwrap_or_default();
            let mode = match group.mode {
                Some(IommuMode::Passthrough) => " (passthrough)",
                Some(IommuMode::Translating) => " (translating)",
                _ => "",
            };
            format!("IOMMU group{number}{mode}")
        }),
    ];
    facts.into_iter().flatten().collect()
}

/// An idle GPU lowers the speed of its link by itself, but never its width.
fn link(card: &NvidiaGpu) -> Option<Finding> {
    const KIND: &str = "gpu_link";
    let (address, function) = (&card.function.address, &card.function);
    let (now, best) = (function.link?, function.best?);
    let reachable = function.slot.map_or(best.width, |slot| best.width.min(slot.width));
    if now.width < reachable {
        let reason = format!("it runs {} lanes wide where {reachable} are possible", now.width);
        let fix = "reseat the card or its riser, and check in the firmware set-up how the slot's lanes are split";
        return Some(Finding::no(KIND, address, reason, fix));
    }
    if let (Some(true), Some(slot)) = (function.slot_is_narrower(), function.slot) {
        let reason = format!("the slot gives at most {slot}, the GPU could run {best}");
        return Some(Finding::no(KIND, address, reason, "move the card to a faster or wider slot"));
    }
    if function.runs_below_best() == Some(true) {
        let reason = "slower now than it can; an idle GPU lowers its link's speed, so this may be nothing";
        let fix = "look again while bytes are copied to it; if it stays, check the slot in the firmware set-up";
        return Some(Finding::note(KIND, address, reason).fix(fix));
    }
    None
}

fn window(card: &NvidiaGpu) -> Option<Finding> {
    let bytes = card.bar1.filter(|bytes| *bytes < SMALL_WINDOW)?;
    let reason = format!(
        "disks reach {} of its memory at a time: larger buffers cannot be registered for direct reads",
        shown(bytes)
    );
    let fix = "switch on Resizable BAR and Above 4G Decoding in the firmware set-up, or keep device buffers smaller";
    Some(Finding::no("gpu_bar1", &card.function.address, reason, fix))
}

#[cfg(test)]
mod tests;
