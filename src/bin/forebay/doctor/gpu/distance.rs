//! How far a path's disks are from each GPU.

use forebay::facts::gds::{Distance, NvidiaGpu, redirecting_bridges};
use forebay::facts::{BlockDevice, DiskKind, PciFunction};

use crate::doctor::finding::Finding;

use super::Ways;
use super::platform::ACS_FIX;

const KIND: &str = "gpu_distance";

impl Ways<'_> {
    /// One finding for each GPU, by the farthest of the disks; none where no NVMe disk on PCI lies under the path.
    pub(super) fn distances(&self, device: Option<&BlockDevice>) -> Vec<Finding> {
        let leaves = device.map(BlockDevice::leaves).unwrap_or_default();
        let nvme = leaves.into_iter().filter(|disk| disk.kind == DiskKind::Nvme);
        let functions: Vec<(&str, PciFunction)> = nvme
            .flat_map(|disk| PciFunction::of_disk(disk).into_iter().map(|function| (disk.disk.as_str(), function)))
            .collect();
        self.cards.iter().filter_map(|card| self.distance(card, &functions)).collect()
    }

    fn distance(&self, card: &NvidiaGpu, disks: &[(&str, PciFunction)]) -> Option<Finding> {
        let measured = disks
            .iter()
            .map(|(name, function)| (Distance::between(self.roots.sys, &card.function, function), *name, function));
        let mut measured: Vec<(Distance, &str, &PciFunction)> = measured.collect();
        measured.sort_by_key(|(distance, name, _)| (*distance, *name));
        let (farthest, _, function) = *measured.last()?;
        let address = &card.function.address;
        let made_up = match self.platform.virtual_machine {
            Some(true) => " (as this virtual machine shows it, which need not be how it is)",
            _ => "",
        };
        let place = format!("{}{made_up}", places(&measured));
        if farthest == Distance::SameSwitch {
            return Some(self.same_switch(address, &place, card, function));
        }
        Some(match farthest {
            Distance::SameRootPort => {
                Finding::yes(KIND, address, format!("{place}: direct reads pass by that port alone"))
            }
            Distance::SameHostBridge | Distance::SameSocket => {
                let reason = format!(
                    "{place}: direct reads pass through the processor, which not every processor does at full speed"
                );
                Finding::note(KIND, address, reason).fix("measure it; a disk below the GPU's own switch is the best")
            }
            Distance::OtherSocket => {
                let reason = format!("{place}: direct reads would cross the link between the processors, slowly");
                let fix = "use a GPU of the disk's socket, or --route bounce, which is faster for such a pair";
                Finding::no(KIND, address, reason, fix)
            }
            _ => Finding::note(KIND, address, format!("{place}: only a measurement can tell")),
        })
    }

    fn same_switch(&self, address: &str, place: &str, card: &NvidiaGpu, disk: &PciFunction) -> Finding {
        match redirecting_bridges(&card.function, disk) {
            Some(bridges) if !bridges.is_empty() => {
                let reason = format!(
                    "{place}, but {} sends what passes between them up to the processor (ACS)",
                    bridges.join(", ")
                );
                Finding::no(KIND, address, reason, ACS_FIX)
            }
            _ => Finding::yes(KIND, address, format!("{place}: direct reads never reach the processor")),
        }
    }
}

/// `same PCIe switch as nvme0n1, nvme1n1; other socket than nvme2n1`.
fn places(measured: &[(Distance, &str, &PciFunction)]) -> String {
    let mut groups: Vec<(Distance, Vec<&str>)> = Vec::new();
    for (distance, name, _) in measured {
        match groups.last_mut() {
            Some((last, names)) if last == distance => names.push(name),
            _ => groups.push((*distance, vec![name])),
        }
    }
    let texts: Vec<String> = groups.iter().map(|(distance, names)| place(*distance, &names.join(", "))).collect();
    texts.join("; ")
}

fn place(distance: Distance, disks: &str) -> String {
    match distance {
        Distance::SameSwitch => format!("same PCIe switch as {disks}"),
        Distance::SameRootPort => format!("same root port as {disks}"),
        Distance::SameHostBridge => format!("same host bridge as {disks}, other root port"),
        Distance::SameSocket => format!("same socket as {disks}, other host bridge"),
        Distance::OtherSocket => format!("other socket than {disks}"),
        _ => format!("other host bridge than {disks}, of unknown socket"),
    }
}

#[cfg(test)]
mod tests;
