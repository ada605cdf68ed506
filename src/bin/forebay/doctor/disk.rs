//! The disks under a path, and the PCIe links that they hang on.

use forebay::facts::{BlockDevice, DiskKind, ErrorCount, NumaNode, PciFunction};

use crate::byte_count::shown;

use super::finding::Finding;

/// Findings on a device and on every disk below it. `nodes` are the machine's NUMA nodes.
pub fn findings(device: &BlockDevice, nodes: &[NumaNode]) -> Vec<Finding> {
    let mut findings = vec![block_device(device)];
    let leaves = device.leaves();
    for disk in leaves {
        if disk.disk != device.disk {
            findings.push(block_device(disk));
        }
        findings.extend(queue(disk));
        for function in PciFunction::of_disk(disk) {
            findings.extend(link(disk, &function));
            findings.extend(errors(disk, &function));
            findings.extend(node(disk, &function, nodes));
        }
    }
    findings
}

fn block_device(disk: &BlockDevice) -> Finding {
    const KIND: &str = "block_device";
    let facts = facts(disk).join(", ");
    if disk.rotational == Some(true) && tells_rotation(disk) {
        return Finding::no(KIND, &disk.disk, format!("{facts}: a disk that spins"), "move the data to an NVMe drive");
    }
    match (disk.kind, disk.transport.as_deref()) {
        (DiskKind::Nvme, None | Some("pcie")) => Finding::yes(KIND, &disk.disk, facts),
        (DiskKind::Nvme, Some(fabric)) => {
            Finding::note(KIND, &disk.disk, format!("{facts}: over {fabric}, not on PCIe here"))
        }
        (DiskKind::Md | DiskKind::DeviceMapper, _) if !disk.members.is_empty() => {
            let members: Vec<&str> = disk.members.iter().map(|member| member.name.as_str()).collect();
            Finding::note(KIND, &disk.disk, format!("{facts}: made of {}", members.join(", ")))
        }
        (DiskKind::Loop, _) => {
            let file = disk.backing_file.as_ref().map_or("an unknown file".into(), |file| file.to_string_lossy());
            Finding::note(KIND, &disk.disk, format!("{facts}: plays a disk from {file}"))
        }
        (DiskKind::Virtio, _) => {
            Finding::note(KIND, &disk.disk, format!("{facts}: a virtual disk, the drive behind it is not shown"))
        }
        _ => Finding::note(KIND, &disk.disk, format!("{facts}: not NVMe")),
    }
}

/// Hypervisors call their virtual disks spinning unless told otherwise, and what is made of other disks says what they
/// say.
fn tells_rotation(disk: &BlockDevice) -> bool {
    !matches!(disk.kind, DiskKind::Virtio | DiskKind::Loop | DiskKind::Ram) && disk.members.is_empty()
}

fn facts(disk: &BlockDevice) -> Vec<String> {
    let yes = |flag: Option<bool>, words: &str| (flag == Some(true)).then(|| words.to_owned());
    let facts = [
        Some(disk.kind.to_string()),
        (disk.name != disk.disk).then(|| format!("partition {}", disk.name)),
        disk.model.clone(),
        disk.size.map(shown),
        disk.logical_block.map(|bytes| format!("logical block {bytes}")),
        disk.physical_block.map(|bytes| format!("physical block {bytes}")),
        yes(disk.zoned, "zoned"),
        disk.queue.scheduler.as_ref().map(|scheduler| format!("scheduler {scheduler}")),
        disk.queue.nr_requests.map(|requests| format!("{requests} requests")),
        disk.queue.max_sectors_kb.map(|kib| format!("largest request {}", shown(kib.saturating_mul(1024)))),
        disk.numa_node.map(|node| format!("NUMA node {node}")),
    ];
    facts.into_iter().flatten().collect()
}

/// What only an NVMe queue is expected to do.
fn queue(disk: &BlockDevice) -> Vec<Finding> {
    if disk.kind != DiskKind::Nvme {
        return Vec::new();
    }
    let mut findings = Vec::new();
    let scheduler = disk.queue.scheduler.as_deref().filter(|scheduler| *scheduler != "none");
    if let Some(scheduler) = scheduler {
        let fix = format!("`echo none > /sys/block/{}/queue/scheduler`", disk.disk);
        findings.push(Finding::no(
            "scheduler",
            &disk.disk,
            format!("{scheduler} costs CPU that NVMe has no use for"),
            fix,
        ));
    }
    match disk.queue.io_poll {
        Some(true) => findings.push(Finding::yes("io_poll", &disk.disk, "its queues can be polled (IOPOLL)")),
        Some(false) => {
            let fix = "load the nvme module with poll_queues=N; only needed for IOPOLL, which is off by default";
            findings.push(Finding::no("io_poll", &disk.disk, "it has no polled queues", fix));
        }
        None => {}
    }
    findings
}

fn link(disk: &BlockDevice, function: &PciFunction) -> Option<Finding> {
    const KIND: &str = "pcie_link";
    let (Some(now), Some(best)) = (function.link, function.best) else {
        let reason = format!("{}: the kernel shows no link, as is usual in virtual machines", disk.disk);
        return Some(Finding::note(KIND, &function.address, reason));
    };
    let now_and_best = format!("{}: now {now}, at best {best}", disk.disk);
    if function.runs_below_best() == Some(true) {
        let fix = "look again while it reads, for an idle link may save power; if it stays, reseat the drive or its \
                   riser and check the slot in the firmware set-up";
        return Some(Finding::no(KIND, &function.address, format!("{now_and_best}: it runs below its best"), fix));
    }
    if let (Some(true), Some(slot)) = (function.slot_is_narrower(), function.slot) {
        let reason = format!("{now_and_best}: the slot gives at most {slot}");
        return Some(Finding::no(KIND, &function.address, reason, "move the drive to a faster or wider slot"));
    }
    Some(Finding::yes(KIND, &function.address, now_and_best))
}

fn errors(disk: &BlockDevice, function: &PciFunction) -> Option<Finding> {
    const KIND: &str = "pcie_errors";
    let Some(errors) = &function.errors else {
        let reason = format!("{}: the kernel shows no error counters (AER) here", disk.disk);
        return Some(Finding::note(KIND, &function.address, reason));
    };
    let classes = [("fatal", &errors.fatal), ("nonfatal", &errors.nonfatal), ("correctable", &errors.correctable)];
    let counted = classes.iter().filter_map(|(name, count)| Some((*name, count.as_ref()?)));
    let seen: Vec<(&str, &ErrorCount)> = counted.filter(|(_, count)| count.total > 0).collect();
    if seen.is_empty() {
        return Some(Finding::yes(KIND, &function.address, format!("{}: none counted", disk.disk)));
    }
    let texts: Vec<String> = seen.iter().map(|(name, count)| counts(name, count)).collect();
    let reason = format!("{}: {}", disk.disk, texts.join("; "));
    let fix = "if the counts grow, check the drive, its riser and cables, and the kernel log for AER";
    match seen.iter().all(|(name, _)| *name == "correctable") {
        true => Some(Finding::note(KIND, &function.address, reason).fix(fix)),
        false => Some(Finding::no(KIND, &function.address, reason, fix)),
    }
}

fn counts(class: &str, count: &ErrorCount) -> String {
    let kinds: Vec<String> = count.seen.iter().map(|(kind, number)| format!("{kind} {number}")).collect();
    match kinds.is_empty() {
        true => format!("{} {class}", count.total),
        false => format!("{} {class} ({})", count.total, kinds.join(", ")),
    }
}

/// Where the disk is attached, told only where that makes a difference.
fn node(disk: &BlockDevice, function: &PciFunction, nodes: &[NumaNode]) -> Option<Finding> {
    const KIND: &str = "numa_placement";
    if nodes.len() < 2 {
        return None;
    }
    let Some(number) = function.numa_node.or(disk.numa_node) else {
        return Some(Finding::note(KIND, &disk.disk, "the kernel does not know which NUMA node it is attached to"));
    };
    let node = nodes.iter().find(|node| node.number == number);
    let cpus = node.map(|node| node.cpus.to_string()).filter(|cpus| !cpus.is_empty());
    let reason = format!("attached to NUMA node {number}");
    let finding = Finding::note(KIND, &disk.disk, reason);
    Some(match cpus {
        Some(cpus) => finding.fix(format!("read it from that node: `numactl -N {number}` or `taskset -c {cpus}`")),
        None => finding,
    })
}

#[cfg(test)]
mod tests;
