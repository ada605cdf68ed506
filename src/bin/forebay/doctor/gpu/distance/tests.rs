use std::fs;

use crate::doctor::finding::{Finding, Verdict};
use crate::doctor::gpu::fake_machine::{FakeMachine, NEAR_DISK, SWITCH, of, says_no};

const ADDRESS: &str = "0000:83:00.0";
const PORT: &str = "sys/devices/pci0000:80/0000:80:03.0/0000:90:00.0/nvme/nvme1/nvme1n1";
const ELSEWHERE: &str = "sys/devices/pci0000:00/0000:00:01.0/0000:01:00.0/nvme/nvme2/nvme2n1";

fn to(disk: &str) -> Finding {
    let machine = two_sockets();
    of(&machine.path_findings(disk, "ext4"), "gpu_distance", ADDRESS).clone()
}

/// The GPU is on node 1, the far disk on node 0.
fn two_sockets() -> FakeMachine {
    let machine = FakeMachine::good();
    for node in [0, 1] {
        machine.file(&format!("sys/devices/system/node/node{node}/cpulist"), &format!("{node}\n"));
        let package = format!("sys/devices/system/cpu/cpu{node}/topology/physical_package_id");
        machine.file(&package, &format!("{node}\n"));
    }
    machine.file("sys/devices/pci0000:00/0000:00:01.0/0000:01:00.0/numa_node", "0\n");
    machine
}

#[test]
fn near_is_a_yes_and_far_a_no() {
    let near = to(NEAR_DISK);
    assert_eq!(near.verdict, Verdict::Yes);
    assert!(near.reason.unwrap().starts_with("same PCIe switch"));
    assert_eq!(to(PORT).verdict, Verdict::Note);
    let far = to(ELSEWHERE);
    assert_eq!(far.verdict, Verdict::No);
    assert!(far.reason.unwrap().contains("other socket") && far.fix.unwrap().contains("bounce"));
}

#[test]
fn the_farthest_disk_of_a_stack_counts() {
    let machine = two_sockets();
    for (disk, name) in [(NEAR_DISK, "nvme0n1"), (ELSEWHERE, "nvme2n1")] {
        fs::create_dir_all(machine.path(disk)).unwrap();
        machine.link(&format!("sys/devices/virtual/block/md0/slaves/{name}"), disk);
    }
    let all = machine.path_findings("sys/devices/virtual/block/md0", "xfs");
    let distance = of(&all, "gpu_distance", ADDRESS);
    assert_eq!(distance.verdict, Verdict::No);
    let reason = distance.reason.as_deref().unwrap();
    assert!(reason.contains("same PCIe switch as nvme0n1; other socket than nvme2n1"), "{reason}");
}

#[test]
fn a_bridge_that_redirects_spoils_a_switch() {
    let machine = two_sockets();
    for port in ["0000:82:00.0", "0000:82:01.0"] {
        let mut config = vec![0; 4096];
        config[0x100..0x104].copy_from_slice(&(0x0d_u32 | 1 << 16).to_le_bytes());
        config[0x106] = 0b1100;
        let folder = machine.path(&format!("{SWITCH}/{port}"));
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join("config"), config).unwrap();
    }
    let all = machine.path_findings(NEAR_DISK, "ext4");
    assert!(says_no(&all, "gpu_distance", "0000:82:00.0, 0000:82:01.0"), "{all:#?}");
}

#[test]
fn no_gpu_or_no_nvme_is_nothing_to_measure() {
    assert_eq!(FakeMachine::empty().path_findings(NEAR_DISK, "ext4"), []);
    let all = FakeMachine::good().path_findings("sys/devices/virtual/block/vdb", "ext4");
    assert!(!all.iter().any(|finding| finding.kind == "gpu_distance"), "{all:#?}");
}
