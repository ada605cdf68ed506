//! Hardware that gives less than it could, before and during the runs: links below their best, errors on them, drives that
//! are too hot, and a drive and a GPU on different sockets.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use forebay::facts::gds::NvidiaGpu;
use forebay::facts::{self, BlockDevice, DeviceNumber, DiskKind, PciFunction};

use super::pcie::{Pcie, What};
use super::target::Target;
use crate::byte_count::shown;

/// What is watched.
pub struct Hardware {
    disks: Vec<BlockDevice>,
    /// The drives' before the GPU's.
    functions: Vec<(What, PciFunction)>,
}

impl Hardware {
    pub fn of(target: &Target, device: &forebay::Device) -> Self {
        let number = target.file.metadata().ok().map(|metadata| match metadata.rdev() {
            0 => metadata.dev(),
            own => own,
        });
        Self::read(facts::sys(), facts::proc(), number.map(DeviceNumber::from_raw), device.pci_address())
    }

    fn read(sys: &Path, proc: &Path, disk: Option<DeviceNumber>, gpu: Option<&str>) -> Self {
        let disk = disk.and_then(|number| BlockDevice::from_number(sys, number));
        let disks: Vec<BlockDevice> = disk.iter().flat_map(BlockDevice::leaves).cloned().collect();
        let of_drives = disks.iter().flat_map(PciFunction::of_disk).map(|function| (What::Drive, function));
        let mut functions: Vec<(What, PciFunction)> = of_drives.collect();
        if let Some(address) = gpu {
            let cards = NvidiaGpu::all(sys, proc).into_iter().map(|card| (What::Gpu, card.function));
            functions.extend(cards.filter(|(_, card)| card.address.eq_ignore_ascii_case(address)));
        }
        Self { disks, functions }
    }

    /// The links that the kernel shows. Of several drives all or none: the sum of some would be too little.
    pub fn pcie(&self) -> Vec<Pcie> {
        let links: Vec<Pcie> = self.functions.iter().filter_map(|(what, function)| Pcie::of(*what, function)).collect();
        let is_shown = |disk: &BlockDevice| {
            let own = PciFunction::of_disk(disk);
            !own.is_empty() && own.iter().all(|own| links.iter().any(|link| link.address == own.address))
        };
        let all = self.disks.iter().all(is_shown);
        links.into_iter().filter(|link| all || link.what != What::Drive).collect()
    }

    /// What the drives are, for people.
    pub fn drives(&self) -> Vec<String> {
        let name = |disk: &BlockDevice| {
            let model = disk.model.as_deref().map_or(String::new(), |model| format!(" {model}"));
            format!("{} ({}{model})", disk.disk, disk.kind)
        };
        self.disks.iter().map(name).collect()
    }

    /// Whether the queue of each drive can be polled; else why not, and what to do.
    pub fn can_poll(&self) -> Result<(), String> {
        if self.disks.is_empty() {
            return Err("the kernel does not tell which drive holds the file; name one on a drive of its own".into());
        }
        match self.disks.iter().find(|disk| disk.queue.io_poll != Some(true)) {
            None => Ok(()),
            Some(disk) => {
                let fix = match disk.kind {
                    DiskKind::Nvme => "boot with some (nvme.poll_queues=N)",
                    DiskKind::Virtio => "boot with some (virtio_blk.poll_queues=N)",
                    _ => "measure on a drive that has some, as NVMe with nvme.poll_queues=N",
                };
                Err(format!("{} has no polled queues; {fix}", disk.disk))
            }
        }
    }

    /// The same for reads of so many bytes: the kernel polls for none that it has to cut.
    pub fn can_poll_for(&self, bytes: u64) -> Result<(), String> {
        self.can_poll()?;
        let limit = |disk: &BlockDevice| disk.queue.max_sectors_kb.map(|kib| (kib << 10, disk.disk.clone()));
        match self.disks.iter().filter_map(limit).min() {
            Some((most, disk)) if bytes > most => Err(format!(
                "the kernel cuts reads of {} for {disk} and polls for none that are cut; give smaller ones (--chunk {})",
                shown(bytes),
                shown(most).replace(' ', "")
            )),
            _ => Ok(()),
        }
    }

    /// Of NVIDIA's GPU and the drives: what holds either back, with `before` as it was when the runs began.
    pub fn warnings(&self, before: &Self) -> Vec<String> {
        let mut warnings = Vec::new();
        for ((_, now), (_, then)) in self.functions.iter().zip(&before.functions) {
            if now.runs_below_best() == Some(true) {
                let show = |link: Option<facts::Link>| link.map_or("unknown".to_owned(), |link| link.to_string());
                warnings.push(format!(
                    "PCI {} runs at {} and could at {}; a link may also rest: look while it is busy, then reseat it",
                    now.address,
                    show(now.link),
                    show(now.best)
                ));
            }
            let Some((now_errors, then_errors)) = now.errors.as_ref().zip(then.errors.as_ref()) else { continue };
            for (what, now_count, before_count) in [
                ("corrected", &now_errors.correctable, &then_errors.correctable),
                ("nonfatal", &now_errors.nonfatal, &then_errors.nonfatal),
                ("fatal", &now_errors.fatal, &then_errors.fatal),
            ] {
                let risen =
                    now_count.as_ref().zip(before_count.as_ref()).map_or(0, |(n, b)| n.total.saturating_sub(b.total));
                if risen > 0 {
                    warnings.push(format!(
                        "PCI {}: {risen} {what} errors on its link during the runs; reseat or change it",
                        now.address
                    ));
                }
            }
        }
        let nodes: Vec<(&str, u32)> =
            self.functions.iter().filter_map(|(_, function)| Some((&*function.address, function.numa_node?))).collect();
        if let [first, .., last] = nodes[..]
            && first.1 != last.1
        {
            warnings.push(format!(
                "PCI {} is on NUMA node {} and {} on {}; pair drives and GPUs of one socket",
                first.0, first.1, last.0, last.1
            ));
        }
        warnings.extend(self.disks.iter().filter_map(|disk| too_hot(&disk.sysfs)));
        warnings
    }
}

/// A drive at or above the temperature from which it slows down, by its hwmon.
fn too_hot(disk: &Path) -> Option<String> {
    let controller = disk.join("device");
    let folders = [controller.join("hwmon"), controller.clone(), controller.join("device/hwmon")];
    let sensors = folders.iter().filter_map(|folder| fs::read_dir(folder).ok()).flatten().flatten();
    sensors.map(|entry| entry.path()).filter(|path| path.join("temp1_input").exists()).find_map(|sensor| {
        let read = |name: &str| fs::read_to_string(sensor.join(name)).ok()?.trim().parse::<i64>().ok();
        let (now, most) = (read("temp1_input")?, read("temp1_max")?);
        (now >= most).then(|| {
            format!(
                "{}: {} degrees, and it slows down from {}; cool it",
                disk.file_name().unwrap_or_default().to_string_lossy(),
                now / 1000,
                most / 1000
            )
        })
    })
}

#[cfg(test)]
mod tests;
