use super::*;
use crate::sys::fake_tree::FakeTree;

const QUEUE: [(&str, &str); 8] = [
    ("queue/logical_block_size", "512\n"),
    ("queue/physical_block_size", "4096\n"),
    ("queue/rotational", "0\n"),
    ("queue/zoned", "none\n"),
    ("queue/scheduler", "[none] mq-deadline\n"),
    ("queue/nr_requests", "1023\n"),
    ("queue/max_sectors_kb", "128\n"),
    ("queue/io_poll", "1\n"),
];

/// An NVMe disk `nvme{index}n1` with one partition, numbers 259:{2*index} and 259:{2*index+1}.
fn add_nvme(tree: &FakeTree, index: usize, node: &str) -> String {
    let function = format!("devices/pci0000:00/0000:00:0{}.0/0000:0{}:00.0", index + 1, index + 1);
    let controller = format!("{function}/nvme/nvme{index}");
    let disk = format!("{controller}/nvme{index}n1");
    tree.file(&format!("{function}/numa_node"), node);
    tree.files(&controller, &[("model", "Fast Disk 9000  \n"), ("transport", "pcie\n")]);
    tree.files(&disk, &QUEUE);
    tree.file(&format!("{disk}/size"), "2048\n");
    tree.link(&format!("{disk}/device"), &controller);
    tree.file(&format!("{disk}/nvme{index}n1p1/partition"), "1\n");
    tree.link(&format!("dev/block/259:{}", 2 * index), &disk);
    tree.link(&format!("dev/block/259:{}", 2 * index + 1), &format!("{disk}/nvme{index}n1p1"));
    disk
}

fn device(tree: &FakeTree, major: u64, minor: u64) -> Option<BlockDevice> {
    BlockDevice::from_number(tree.root(), DeviceNumber { major, minor })
}

#[test]
fn a_partition_leads_to_its_nvme_disk() {
    let tree = FakeTree::new();
    add_nvme(&tree, 0, "1\n");
    let found = device(&tree, 259, 1).unwrap();
    assert_eq!((found.name.as_str(), found.disk.as_str()), ("nvme0n1p1", "nvme0n1"));
    assert_eq!(found.kind, DiskKind::Nvme);
    assert_eq!(found.transport.as_deref(), Some("pcie"));
    assert_eq!(found.model.as_deref(), Some("Fast Disk 9000"));
    assert_eq!(found.size, Some(1 << 20));
    assert_eq!((found.logical_block, found.physical_block), (Some(512), Some(4096)));
    assert_eq!((found.rotational, found.zoned), (Some(false), Some(false)));
    assert_eq!(found.queue.scheduler.as_deref(), Some("none"));
    assert_eq!((found.queue.nr_requests, found.queue.max_sectors_kb), (Some(1023), Some(128)));
    assert_eq!(found.queue.io_poll, Some(true));
    assert_eq!(found.numa_node, Some(1));
    assert!(found.members.is_empty());

    let whole = device(&tree, 259, 0).unwrap();
    assert_eq!((whole.name.as_str(), whole.disk.as_str()), ("nvme0n1", "nvme0n1"));
}

#[test]
fn a_virtio_disk_has_no_model_and_no_known_node() {
    let tree = FakeTree::new();
    let disk = "devices/pci0000:00/0000:00:02.0/virtio1/block/vda";
    tree.files(disk, &QUEUE);
    tree.file("devices/pci0000:00/0000:00:02.0/numa_node", "-1\n");
    tree.link("dev/block/254:0", disk);
    let found = device(&tree, 254, 0).unwrap();
    assert_eq!(found.kind, DiskKind::Virtio);
    assert_eq!((found.model, found.transport, found.numa_node), (None, None, None));
}

#[test]
fn md_leads_to_both_of_its_disks() {
    let tree = FakeTree::new();
    let first = add_nvme(&tree, 0, "0\n");
    let second = add_nvme(&tree, 1, "1\n");
    let raid = "devices/virtual/block/md0";
    tree.files(raid, &QUEUE);
    tree.link(&format!("{raid}/slaves/nvme0n1p1"), &format!("{first}/nvme0n1p1"));
    tree.link(&format!("{raid}/slaves/nvme1n1"), &second);
    tree.link("dev/block/9:0", raid);
    let found = device(&tree, 9, 0).unwrap();
    assert_eq!(found.kind, DiskKind::Md);
    let leaves = found.leaves();
    let names: Vec<_> = leaves.iter().map(|leaf| (leaf.name.as_str(), leaf.disk.as_str())).collect();
    assert_eq!(names, [("nvme0n1p1", "nvme0n1"), ("nvme1n1", "nvme1n1")]);
    assert_eq!(leaves[0].numa_node, Some(0));
    assert_eq!(leaves[1].numa_node, Some(1));
}

#[test]
fn a_stack_that_contains_itself_ends() {
    let tree = FakeTree::new();
    tree.link("devices/virtual/block/dm-0/slaves/dm-0", "devices/virtual/block/dm-0");
    tree.link("dev/block/252:0", "devices/virtual/block/dm-0");
    let found = device(&tree, 252, 0).unwrap();
    assert_eq!(found.kind, DiskKind::DeviceMapper);
    assert_eq!(found.leaves().len(), 1);
}

#[test]
fn a_loop_device_names_its_file() {
    let tree = FakeTree::new();
    tree.bytes("devices/virtual/block/loop3/loop/backing_file", b"/data/im\xffage \n");
    tree.link("dev/block/7:3", "devices/virtual/block/loop3");
    let found = device(&tree, 7, 3).unwrap();
    let name = std::ffi::OsString::from_vec(b"/data/im\xffage ".to_vec());
    assert_eq!(found.backing_file, Some(PathBuf::from(name)));
}

#[test]
fn multipath_nvme_finds_every_controller() {
    let tree = FakeTree::new();
    let subsystem = "devices/virtual/nvme-subsystem/nvme-subsys0";
    for index in 0..2 {
        let controller = format!("devices/pci0000:00/0000:00:0{index}.0/nvme/nvme{index}");
        tree.file(&format!("{controller}/transport"), "pcie\n");
        tree.link(&format!("{subsystem}/nvme{index}"), &controller);
    }
    tree.file(&format!("{subsystem}/model"), "Two Ports\n");
    let disk = format!("{subsystem}/nvme0n1");
    tree.files(&disk, &QUEUE);
    tree.link(&format!("{disk}/device"), subsystem);
    tree.link("dev/block/259:0", &disk);
    let found = device(&tree, 259, 0).unwrap();
    assert_eq!(found.transport.as_deref(), Some("pcie"));
    assert_eq!(found.model.as_deref(), Some("Two Ports"));
    assert_eq!(controllers(&found.sysfs).len(), 2);
}

#[test]
fn a_missing_tree_and_a_missing_device_are_none() {
    let tree = FakeTree::new();
    assert_eq!(device(&tree, 259, 0), None);
    tree.link("dev/block/259:0", "devices/gone");
    assert_eq!(device(&tree, 259, 0), None);
}

#[test]
fn a_device_with_no_facts_still_has_its_name() {
    let tree = FakeTree::new();
    tree.dir("devices/virtual/block/nbd0");
    tree.link("dev/block/43:0", "devices/virtual/block/nbd0");
    let found = device(&tree, 43, 0).unwrap();
    assert_eq!((found.disk.as_str(), found.kind), ("nbd0", DiskKind::Other));
    assert_eq!((found.size, found.rotational, found.logical_block), (None, None, None));
    assert_eq!(found.queue, Queue::default());
}

#[test]
fn garbage_in_every_file_is_a_missing_fact() {
    let tree = FakeTree::new();
    let disk = "devices/virtual/block/sda";
    for (name, _) in QUEUE {
        tree.bytes(&format!("{disk}/{name}"), b"\xff\xfe many words \0");
    }
    tree.file(&format!("{disk}/size"), "18446744073709551615\n");
    tree.file(&format!("{disk}/numa_node"), "4294967296\n");
    tree.file(&format!("{disk}/slaves"), "not a folder");
    tree.link("dev/block/8:0", disk);
    let found = device(&tree, 8, 0).unwrap();
    assert_eq!((found.size, found.logical_block, found.rotational), (None, None, None));
    assert_eq!(found.queue, Queue::default());
    assert_eq!((found.numa_node, found.members.len()), (None, 0));
}

#[test]
fn numbers_split_as_stat_packs_them() {
    let number = DeviceNumber::from_raw(nix::sys::stat::makedev(259, 300));
    assert_eq!(number, DeviceNumber { major: 259, minor: 300 });
    assert_eq!(number.to_string(), "259:300");
    assert!(!number.is_anonymous());
    assert!(DeviceNumber::from_raw(nix::sys::stat::makedev(0, 45)).is_anonymous());
}
