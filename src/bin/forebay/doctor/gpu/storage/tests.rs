use std::fs;

use crate::doctor::finding::{Finding, Verdict};
use crate::doctor::gpu::fake_machine::{FakeMachine, NEAR_DISK, of, says_no};

fn verdict(findings: &[Finding]) -> Verdict {
    of(findings, "direct_storage", "/data").verdict
}

#[test]
fn ext4_and_xfs_on_nvme_are_a_yes() {
    for kind in ["ext4", "xfs"] {
        assert_eq!(verdict(&FakeMachine::good().path_findings(NEAR_DISK, kind)), Verdict::Yes, "{kind}");
    }
}

#[test]
fn file_systems_and_disks_that_stand_in_the_way() {
    for (kind, words) in
        [("overlay", "overlay"), ("tmpfs", "memory"), ("btrfs", "btrfs"), ("nfs4", "RDMA"), ("fuse.sshfs", "sshfs")]
    {
        let all = FakeMachine::good().path_findings(NEAR_DISK, kind);
        assert!(says_no(&all, "direct_storage", words), "{kind}: {all:#?}");
    }
    let machine = FakeMachine::good();
    machine.file("proc/fs/ext4/nvme0n1/options", "rw\ndata=journal\n");
    assert!(says_no(&machine.path_findings(NEAR_DISK, "ext4"), "direct_storage", "data=journal"));
    let virtio = FakeMachine::good().path_findings("sys/devices/virtual/block/vdb", "ext4");
    assert!(says_no(&virtio, "direct_storage", "not NVMe"));
}

#[test]
fn raid_is_left_to_nvidia_fs_where_that_works() {
    let machine = FakeMachine::good();
    machine.file("sys/devices/virtual/block/md0/md/level", "raid0\n");
    fs::create_dir_all(machine.path(NEAR_DISK)).unwrap();
    machine.link("sys/devices/virtual/block/md0/slaves/nvme0n1", NEAR_DISK);
    assert_eq!(verdict(&machine.path_findings("sys/devices/virtual/block/md0", "ext4")), Verdict::Note);

    let machine = FakeMachine::good();
    machine.without("sys/module/nvidia_fs").without("proc/driver/nvidia-fs");
    machine.file("sys/devices/virtual/block/md0/md/level", "raid0\n");
    let all = machine.path_findings("sys/devices/virtual/block/md0", "ext4");
    assert!(says_no(&all, "direct_storage", "raid0"), "{all:#?}");
}
