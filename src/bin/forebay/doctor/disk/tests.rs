use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use forebay::facts::{self, DeviceNumber};

use super::super::finding::Verdict;
use super::*;

const FUNCTION: &str = "devices/pci0000:80/0000:80:01.0/0000:81:00.0";

/// A made-up /sys with one NVMe disk, `extra` files counted from its PCI function.
fn findings_with(extra: &[(&str, &str)]) -> Vec<Finding> {
    let sys = tempfile::tempdir().unwrap();
    let disk = sys.path().join(FUNCTION).join("nvme/nvme0/nvme0n1");
    let write = |path: &Path, text: &str| {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    };
    write(&disk.join("queue/rotational"), "0\n");
    for (name, text) in extra {
        write(&sys.path().join(FUNCTION).join(name), text);
    }
    for (node, cpus) in [(0, "0-3"), (1, "4-7")] {
        write(&sys.path().join(format!("devices/system/node/node{node}/cpulist")), cpus);
    }
    fs::create_dir_all(sys.path().join("dev/block")).unwrap();
    symlink(&disk, sys.path().join("dev/block/259:0")).unwrap();
    let device = BlockDevice::from_number(sys.path(), DeviceNumber { major: 259, minor: 0 }).unwrap();
    findings(&device, &facts::numa_nodes(sys.path()))
}

fn of_kind(findings: &[Finding], kind: &str) -> Finding {
    findings.iter().find(|finding| finding.kind == kind).unwrap_or_else(|| panic!("no {kind}: {findings:?}")).clone()
}

fn link(now: (&str, &str), best: (&str, &str), slot: (&str, &str)) -> Finding {
    let all = findings_with(&[
        ("current_link_speed", now.0),
        ("current_link_width", now.1),
        ("max_link_speed", best.0),
        ("max_link_width", best.1),
        ("../max_link_speed", slot.0),
        ("../max_link_width", slot.1),
    ]);
    of_kind(&all, "pcie_link")
}

#[test]
fn an_nvme_disk_is_a_yes() {
    let found = of_kind(&findings_with(&[]), "block_device");
    assert_eq!((found.verdict, found.subject.as_str()), (Verdict::Yes, "nvme0n1"));
    assert!(found.reason.unwrap().starts_with("NVMe"));
}

#[test]
fn a_spinning_disk_is_a_no_with_a_fix() {
    let found = of_kind(&findings_with(&[("nvme/nvme0/nvme0n1/queue/rotational", "1\n")]), "block_device");
    assert_eq!(found.verdict, Verdict::No);
    assert!(found.fix.unwrap().contains("NVMe"));
}

#[test]
fn a_disk_over_a_fabric_is_said_to_be() {
    let found = of_kind(&findings_with(&[("nvme/nvme0/transport", "tcp\n")]), "block_device");
    assert_eq!(found.verdict, Verdict::Note);
    assert!(found.reason.unwrap().contains("tcp"));
}

#[test]
fn links_at_their_best_below_it_and_in_a_narrow_slot() {
    let (gen4, gen3) = (("16.0 GT/s PCIe", "4"), ("8.0 GT/s PCIe", "4"));
    assert_eq!(link(gen4, gen4, gen4).verdict, Verdict::Yes);
    let degraded = link(gen3, gen4, gen4);
    assert_eq!(degraded.verdict, Verdict::No);
    assert!(degraded.reason.unwrap().contains("below its best") && degraded.fix.unwrap().contains("reseat"));
    let narrow = link(gen3, gen4, gen3);
    assert_eq!(narrow.verdict, Verdict::No);
    assert!(narrow.reason.unwrap().contains("slot") && narrow.fix.unwrap().contains("move"));
}

#[test]
fn no_link_and_no_counters_are_notes() {
    let all = findings_with(&[]);
    assert_eq!(of_kind(&all, "pcie_link").verdict, Verdict::Note);
    assert_eq!(of_kind(&all, "pcie_errors").verdict, Verdict::Note);
}

#[test]
fn errors_weigh_by_their_class() {
    let none = findings_with(&[("aer_dev_correctable", "RxErr 0\nTOTAL_ERR_COR 0\n")]);
    assert_eq!(of_kind(&none, "pcie_errors").verdict, Verdict::Yes);
    let repaired = of_kind(&findings_with(&[("aer_dev_correctable", "BadTLP 7\nTOTAL_ERR_COR 7\n")]), "pcie_errors");
    assert_eq!(repaired.verdict, Verdict::Note);
    assert!(repaired.reason.unwrap().contains("7 correctable (BadTLP 7)"));
    let lost = of_kind(&findings_with(&[("aer_dev_nonfatal", "CmpltTO 1\nTOTAL_ERR_NONFATAL 1\n")]), "pcie_errors");
    assert_eq!(lost.verdict, Verdict::No);
    assert!(lost.fix.is_some());
}

#[test]
fn the_queue_is_judged_only_by_what_the_kernel_shows() {
    let queue = "nvme/nvme0/nvme0n1/queue";
    let silent = findings_with(&[]);
    assert!(!silent.iter().any(|finding| finding.kind == "io_poll" || finding.kind == "scheduler"));
    let slow = findings_with(&[(&format!("{queue}/scheduler"), "none [bfq]\n"), (&format!("{queue}/io_poll"), "0\n")]);
    assert_eq!(of_kind(&slow, "scheduler").fix.unwrap(), "`echo none > /sys/block/nvme0n1/queue/scheduler`");
    assert_eq!(of_kind(&slow, "io_poll").verdict, Verdict::No);
}

#[test]
fn placement_names_the_node_and_its_cpus() {
    let unknown = of_kind(&findings_with(&[("numa_node", "-1\n")]), "numa_placement");
    assert_eq!((unknown.verdict, unknown.fix), (Verdict::Note, None));
    let known = of_kind(&findings_with(&[("numa_node", "1\n")]), "numa_placement");
    assert!(known.fix.unwrap().contains("taskset -c 4-7"));
}
