use super::*;
use crate::sys::block::DeviceNumber;
use crate::sys::fake_tree::FakeTree;

const PORT: &str = "devices/pci0000:00/0000:00:1c.4";
const FUNCTION: &str = "devices/pci0000:00/0000:00:1c.4/0000:81:00.0";

fn add_disk(tree: &FakeTree) {
    let disk = format!("{FUNCTION}/nvme/nvme0/nvme0n1");
    tree.dir(&disk);
    tree.link("dev/block/259:0", &disk);
}

fn add_links(tree: &FakeTree, folder: &str, now: (&str, &str), best: (&str, &str)) {
    tree.files(
        folder,
        &[
            ("current_link_speed", now.0),
            ("current_link_width", now.1),
            ("max_link_speed", best.0),
            ("max_link_width", best.1),
        ],
    );
}

fn functions(tree: &FakeTree) -> Vec<PciFunction> {
    let disk = BlockDevice::from_number(tree.root(), DeviceNumber { major: 259, minor: 0 }).unwrap();
    PciFunction::of_disk(&disk)
}

fn function(tree: &FakeTree) -> PciFunction {
    let mut all = functions(tree);
    assert_eq!(all.len(), 1);
    all.remove(0)
}

#[test]
fn a_full_link_is_not_below_its_best() {
    let tree = FakeTree::new();
    add_disk(&tree);
    add_links(&tree, FUNCTION, ("16.0 GT/s PCIe\n", "4\n"), ("16.0 GT/s PCIe\n", "4\n"));
    add_links(&tree, PORT, ("16.0 GT/s PCIe\n", "4\n"), ("32.0 GT/s PCIe\n", "16\n"));
    tree.file(&format!("{FUNCTION}/numa_node"), "1\n");
    let found = function(&tree);
    assert_eq!(found.address, "0000:81:00.0");
    assert_eq!(found.link, Some(Link { speed: 16.0, width: 4 }));
    assert_eq!(found.numa_node, Some(1));
    assert_eq!(found.runs_below_best(), Some(false));
    assert_eq!(found.slot_is_narrower(), Some(false));
    assert_eq!(found.errors, None);
}

#[test]
fn a_degraded_link_is_seen_in_speed_and_in_width() {
    for now in [("8.0 GT/s PCIe", "4"), ("16.0 GT/s PCIe", "2")] {
        let tree = FakeTree::new();
        add_disk(&tree);
        add_links(&tree, FUNCTION, now, ("16.0 GT/s PCIe", "4"));
        assert_eq!(function(&tree).runs_below_best(), Some(true), "{now:?}");
    }
}

#[test]
fn a_narrow_slot_is_told_from_a_degraded_link() {
    let tree = FakeTree::new();
    add_disk(&tree);
    add_links(&tree, FUNCTION, ("8.0 GT/s PCIe", "4"), ("16.0 GT/s PCIe", "4"));
    add_links(&tree, PORT, ("8.0 GT/s PCIe", "4"), ("8.0 GT/s PCIe", "8"));
    let found = function(&tree);
    assert_eq!(found.runs_below_best(), Some(false));
    assert_eq!(found.slot_is_narrower(), Some(true));
}

#[test]
fn a_link_that_is_unknown_or_garbage_is_missing() {
    let cases = [("Unknown", "4"), ("8.0 GT/s", "0"), ("8.0 GT/s", "255"), ("NaN", "4"), ("inf", "4"), ("-1", "4")];
    for now in cases {
        let tree = FakeTree::new();
        add_disk(&tree);
        add_links(&tree, FUNCTION, now, ("16.0 GT/s PCIe", "4"));
        let found = function(&tree);
        assert_eq!((found.link, found.runs_below_best()), (None, None), "{now:?}");
    }
}

#[test]
fn a_function_without_any_file_still_has_its_address() {
    let tree = FakeTree::new();
    add_disk(&tree);
    let found = function(&tree);
    assert_eq!(found.runs_below_best(), None);
    assert_eq!((found.link, found.best, found.slot, found.numa_node, found.errors), (None, None, None, None, None));
}

#[test]
fn a_virtual_disk_has_no_function() {
    let tree = FakeTree::new();
    tree.dir("devices/virtual/block/zram0");
    tree.link("dev/block/259:0", "devices/virtual/block/zram0");
    assert!(functions(&tree).is_empty());
}

#[test]
fn a_virtio_disk_has_the_function_of_its_device() {
    let tree = FakeTree::new();
    tree.dir("devices/pci0000:00/0000:00:02.0/virtio1/block/vda");
    tree.link("dev/block/259:0", "devices/pci0000:00/0000:00:02.0/virtio1/block/vda");
    assert_eq!(function(&tree).address, "0000:00:02.0");
}

#[test]
fn error_counters_give_totals_and_kinds() {
    let tree = FakeTree::new();
    add_disk(&tree);
    tree.file(&format!("{FUNCTION}/aer_dev_correctable"), "RxErr 0\nBadTLP 12\nTimeout 3\nTOTAL_ERR_COR 15\n");
    tree.file(&format!("{FUNCTION}/aer_dev_nonfatal"), "Undefined 0\nCmpltTO 2\n");
    tree.file(&format!("{FUNCTION}/aer_dev_fatal"), "\u{fffd}garbage\n\n x\n");
    let errors = function(&tree).errors.unwrap();
    let correctable = errors.correctable.unwrap();
    assert_eq!(correctable.total, 15);
    assert_eq!(correctable.seen, [("BadTLP".to_owned(), 12), ("Timeout".to_owned(), 3)]);
    assert_eq!(errors.nonfatal.unwrap().total, 2);
    assert_eq!(errors.fatal, None);
}

#[test]
fn counters_too_large_to_add_do_not_overflow() {
    let tree = FakeTree::new();
    add_disk(&tree);
    let largest = u64::MAX;
    tree.file(&format!("{FUNCTION}/aer_dev_fatal"), &format!("One {largest}\nTwo {largest}\n"));
    assert_eq!(function(&tree).errors.unwrap().fatal.unwrap().total, largest);
}

#[test]
fn addresses() {
    for good in ["0000:81:00.0", "10000:e1:00.7", "0000:0a:1F.2"] {
        assert_eq!(address(Path::new(good)).as_deref(), Some(good));
    }
    for bad in ["pci0000:00", "0000:81:00", "000:81:00.0", "0000:81:00.00", "0000:8g:00.0", "virtio1", "..", "é:é:é.é"]
    {
        assert_eq!(address(Path::new(bad)), None, "{bad}");
    }
}

#[test]
fn bandwidth_takes_the_encoding_off() {
    let gigabytes = |speed, width| Link { speed, width }.bytes_per_second() / 1e9;
    assert!((gigabytes(2.5, 1) - 0.25).abs() < 1e-9);
    assert!((gigabytes(5.0, 1) - 0.5).abs() < 1e-9);
    assert!((gigabytes(8.0, 16) - 15.754).abs() < 1e-3);
    assert!((gigabytes(16.0, 4) - 7.877).abs() < 1e-3);
    assert!((gigabytes(32.0, 16) - 63.015).abs() < 1e-3);
    assert!((gigabytes(64.0, 16) - 121.0).abs() < 1e-3);
    assert_eq!(Link { speed: 16.0, width: 4 }.to_string(), "16 GT/s x4 (7.9 GB/s)");
}
