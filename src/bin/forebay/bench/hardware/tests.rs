use std::fs;
use std::os::unix::fs::symlink;

use tempfile::TempDir;

use super::*;
use crate::bench::pcie::{self, fastest};

const GPU: &str = "0000:83:00.0";

/// A made-up /sys with NVMe drives, of which the first is made of the others where there are several, and a GPU.
struct Machine(TempDir);

impl Machine {
    fn new(drives: usize) -> Self {
        let machine = Self(tempfile::tempdir().unwrap());
        let folder = Self::folder(GPU);
        machine.file(&format!("{folder}/class"), "0x030200\n");
        machine.file(&format!("{folder}/vendor"), "0x10de\n");
        machine.link(&format!("sys/bus/pci/devices/{GPU}"), &folder);
        for drive in 0..drives {
            fs::create_dir_all(machine.path(&Self::disk(drive))).unwrap();
        }
        let stack = "sys/devices/virtual/block/md0".to_owned();
        let top = if drives == 1 { Self::disk(0) } else { stack.clone() };
        for drive in (0..drives).filter(|_| drives > 1) {
            machine.link(&format!("{stack}/slaves/nvme{drive}n1"), &Self::disk(drive));
        }
        machine.link("sys/dev/block/259:0", &top);
        machine
    }

    fn address(drive: usize) -> String {
        format!("0000:8{drive}:00.0")
    }

    fn folder(address: &str) -> String {
        format!("sys/devices/pci0000:80/{address}")
    }

    fn disk(drive: usize) -> String {
        format!("{}/nvme/nvme{drive}/nvme{drive}n1", Self::folder(&Self::address(drive)))
    }

    fn path(&self, name: &str) -> std::path::PathBuf {
        self.0.path().join(name)
    }

    fn file(&self, name: &str, text: &str) {
        fs::create_dir_all(self.path(name).parent().unwrap()).unwrap();
        fs::write(self.path(name), text).unwrap();
    }

    fn link(&self, name: &str, target: &str) {
        fs::create_dir_all(self.path(name).parent().unwrap()).unwrap();
        symlink(self.path(target), self.path(name)).unwrap();
    }

    fn runs_at(&self, address: &str, now: (&str, &str), best: (&str, &str)) {
        let folder = Self::folder(address);
        self.file(&format!("{folder}/current_link_speed"), now.0);
        self.file(&format!("{folder}/current_link_width"), now.1);
        self.file(&format!("{folder}/max_link_speed"), best.0);
        self.file(&format!("{folder}/max_link_width"), best.1);
    }

    fn pcie(&self, gpu: Option<&str>) -> Vec<Pcie> {
        let disk = DeviceNumber { major: 259, minor: 0 };
        Hardware::read(&self.path("sys"), &self.path("proc"), Some(disk), gpu).pcie()
    }
}

const GEN5: (&str, &str) = ("32.0 GT/s PCIe\n", "16\n");
const GEN4: (&str, &str) = ("16.0 GT/s PCIe\n", "4\n");
const GEN3: (&str, &str) = ("8.0 GT/s PCIe\n", "4\n");

#[test]
fn links_of_drive_and_gpu_are_told_now_and_at_best_in_bytes_per_second() {
    let machine = Machine::new(1);
    machine.runs_at(&Machine::address(0), GEN3, GEN4);
    machine.runs_at(GPU, GEN5, GEN5);
    let told: Vec<_> = machine.pcie(Some(GPU)).iter().map(|pcie| serde_json::to_value(pcie).unwrap()).collect();
    let rates =
        |pcie: &serde_json::Value| ["", "best_"].map(|at| pcie[format!("{at}bytes_per_second")].as_f64().unwrap());
    // Lanes of 8 GT/s are 8 Gbit/s less two bits of 130: 0.985 GB/s each.
    let lane = 0.984_615_385e9;
    let is = |pcie, wanted: [f64; 2]| {
        rates(pcie).iter().zip(wanted).all(|(told, wanted)| (told / wanted - 1.0).abs() < 1e-6)
    };
    assert!(told[0]["address"] == "0000:80:00.0" && told[0]["what"] == "drive", "{told:?}");
    assert!(told[1]["address"] == GPU && told[1]["what"] == "gpu", "{told:?}");
    assert!(is(&told[0], [4.0 * lane, 8.0 * lane]) && is(&told[1], [64.0 * lane; 2]), "{told:?}");
    assert_eq!(told[0].as_object().unwrap().len(), 4);
    // What is read to the host passes no GPU.
    assert_eq!(machine.pcie(None).len(), 1);
}

#[test]
fn a_machine_that_shows_no_links_has_none() {
    assert_eq!(Machine::new(1).pcie(Some(GPU)), []);
    let empty = tempfile::tempdir().unwrap();
    assert_eq!(Hardware::read(empty.path(), empty.path(), None, None).pcie(), []);
}

#[test]
fn links_of_several_drives_are_told_all_or_none() {
    let machine = Machine::new(2);
    machine.runs_at(&Machine::address(0), GEN4, GEN4);
    assert_eq!(machine.pcie(None), []);
    machine.runs_at(&Machine::address(1), GEN3, GEN4);
    let together = pcie::together(&machine.pcie(None), What::Drive, 1.0).unwrap();
    assert!((together.bytes_per_second - 11.815e9).abs() < 1e7, "{together:?}");
    assert_eq!(together.name, "the 2 PCIe links of the drives, 11.82 GB/s together");
}

#[test]
fn a_link_that_rests_is_told_as_it_ran_before() {
    let machine = Machine::new(1);
    machine.runs_at(&Machine::address(0), GEN4, GEN4);
    let busy = machine.pcie(None);
    machine.runs_at(&Machine::address(0), ("2.5 GT/s PCIe\n", "4\n"), GEN4);
    let resting = machine.pcie(None);
    assert_ne!(busy, resting);
    assert_eq!(fastest(busy.clone(), resting.clone()), busy);
    assert_eq!(fastest(resting.clone(), busy.clone()), busy);
    // Nobody saw it run, and more came than it carries at rest.
    let name = |rate| pcie::together(&resting, What::Drive, rate).unwrap().name;
    assert_eq!(name(0.9e9), "the drive's PCIe link, 2.5 GT/s x4 (1.0 GB/s)");
    assert_eq!(name(5e9), "the drive's PCIe link, 16 GT/s x4 (7.9 GB/s)");
}

fn drive(facts: &[(&str, &str)]) -> Hardware {
    let sys = tempfile::tempdir().unwrap();
    let queue = sys.path().join("devices/nvme0n1/queue");
    fs::create_dir_all(&queue).unwrap();
    facts.iter().for_each(|(name, fact)| fs::write(queue.join(name), fact).unwrap());
    fs::create_dir_all(sys.path().join("dev/block")).unwrap();
    symlink(sys.path().join("devices/nvme0n1"), sys.path().join("dev/block/259:0")).unwrap();
    let disk = BlockDevice::from_number(sys.path(), DeviceNumber { major: 259, minor: 0 });
    Hardware { disks: vec![disk.unwrap()], functions: Vec::new() }
}

#[test]
fn a_queue_is_polled_that_can_be_for_reads_that_it_takes_whole() {
    let polled = drive(&[("io_poll", "1\n"), ("max_sectors_kb", "512\n")]);
    assert_eq!(polled.can_poll_for(4096), Ok(()));
    assert_eq!(polled.can_poll_for(512 << 10), Ok(()));
    assert!(polled.can_poll_for(1 << 20).unwrap_err().contains("--chunk 512KiB"));
    for silent in [&[("io_poll", "0\n")][..], &[]] {
        assert!(drive(silent).can_poll_for(4096).unwrap_err().contains("nvme.poll_queues=N"));
    }
    let none = Hardware { disks: Vec::new(), functions: Vec::new() };
    assert!(none.can_poll().unwrap_err().contains("which drive"));
}
