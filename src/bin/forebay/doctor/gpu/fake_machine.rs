//! A made-up machine with one GPU below a switch, for the tests of this folder.

use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use forebay::facts::{BlockDevice, DeviceNumber, Mount};
use tempfile::TempDir;

use crate::doctor::finding::{Finding, Verdict};

use super::{Gpus, Roots};

pub const SWITCH: &str = "sys/devices/pci0000:80/0000:80:01.0/0000:81:00.0";
pub const GPU: &str = "sys/devices/pci0000:80/0000:80:01.0/0000:81:00.0/0000:82:00.0/0000:83:00.0";
/// A disk's NVMe controller is below its PCI function.
pub const NEAR_DISK: &str =
    "sys/devices/pci0000:80/0000:80:01.0/0000:81:00.0/0000:82:01.0/0000:84:00.0/nvme/nvme0/nvme0n1";

pub struct FakeMachine {
    root: TempDir,
    variables: Vec<(String, String)>,
}

impl FakeMachine {
    /// A machine that shows nothing.
    pub fn empty() -> Self {
        Self { root: tempfile::tempdir().unwrap(), variables: Vec::new() }
    }

    /// A machine where everything is as it should be for nvidia-fs and for P2PDMA.
    pub fn good() -> Self {
        let machine = Self::empty();
        machine.files(&[
            (&format!("{GPU}/class"), "0x030200\n"),
            (&format!("{GPU}/vendor"), "0x10de\n"),
            (&format!("{GPU}/numa_node"), "1\n"),
            (&format!("{GPU}/resource"), "0x0 0xffffff 0x200\n0x2000000000 0x3fffffffff 0x14220c\n"),
            ("sys/module/nvme_core/parameters/multipath", "N\n"),
            ("sys/module/nvidia_fs/version", "2.28.4\n"),
            ("sys/module/nvidia_fs/parameters/rw_stats_enabled", "1\n"),
            ("sys/kernel/notes", ""),
            ("proc/sys/kernel/osrelease", "6.8.0\n"),
            ("proc/cmdline", "quiet nokaslr\n"),
            ("proc/cpuinfo", "flags : fpu\n"),
            ("proc/driver/nvidia/version", "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  570.86.15  R\n"),
            ("proc/driver/nvidia/params", "RegistryDwords: \"RMForceStaticBar1=1;RmForceDisableIomapWC=1;\"\n"),
            ("proc/driver/nvidia/gpus/0000:83:00.0/information", "Model: NVIDIA H200\nDevice Minor: 0\n"),
            ("proc/driver/nvidia-fs/stats", "GDS Version: 1.13\n"),
            ("proc/driver/nvidia-fs/bridges", ""),
            ("boot/config-6.8.0", "CONFIG_PCI_P2PDMA=y\nCONFIG_RANDOMIZE_BASE=y\n"),
            ("dev/nvidiactl", ""),
            ("dev/nvidia-uvm", ""),
            ("dev/nvidia0", ""),
            ("dev/nvidia-fs0", ""),
            ("run/udev/data/b259:0", ""),
            ("etc/cufile.json", "{ \"properties\": { \"allow_compat_mode\": false } }"),
        ]);
        machine.link("sys/bus/pci/devices/0000:83:00.0", GPU);
        machine.bind("nvidia");
        machine
    }

    pub fn bind(&self, driver: &str) {
        let _ = fs::remove_file(self.path(&format!("{GPU}/driver")));
        let folder = format!("sys/bus/pci/drivers/{driver}");
        fs::create_dir_all(self.path(&folder)).unwrap();
        self.link(&format!("{GPU}/driver"), &folder);
    }

    pub fn file(&self, name: &str, text: &str) -> &Self {
        let path = self.path(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
        self
    }

    pub fn files(&self, files: &[(&str, &str)]) -> &Self {
        for (name, text) in files {
            self.file(name, text);
        }
        self
    }

    pub fn link(&self, name: &str, target: &str) {
        let path = self.path(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        symlink(self.path(target), path).unwrap();
    }

    pub fn without(&self, name: &str) -> &Self {
        let path = self.path(name);
        if path.is_dir() {
            fs::remove_dir_all(path).unwrap()
        } else {
            fs::remove_file(path).unwrap()
        }
        self
    }

    pub fn variable(mut self, name: &str, value: &str) -> Self {
        self.variables.push((name.to_owned(), value.to_owned()));
        self
    }

    pub fn path(&self, name: &str) -> std::path::PathBuf {
        self.root.path().join(name)
    }

    pub fn machine_findings(&self) -> Vec<Finding> {
        self.with(|gpus| gpus.machine(256 << 20))
    }

    /// Findings on a path on the disk at `folder` with this file system.
    pub fn path_findings(&self, folder: &str, file_system: &str) -> Vec<Finding> {
        fs::create_dir_all(self.path(folder)).unwrap();
        self.link("sys/dev/block/259:0", folder);
        let table = format!("30 21 259:0 / /data rw - {file_system} /dev/nvme0n1 rw\n");
        self.file("proc/self/mountinfo", &table);
        let number = DeviceNumber { major: 259, minor: 0 };
        let mount = Mount::of_path(&self.path("proc"), Path::new("/data"), number);
        let device = BlockDevice::from_number(&self.path("sys"), number);
        self.with(|gpus| gpus.path(Path::new("/data"), mount.as_ref(), device.as_ref()))
    }

    fn with(&self, judge: impl Fn(&Gpus) -> Vec<Finding>) -> Vec<Finding> {
        let (sys, proc) = (self.path("sys"), self.path("proc"));
        let env = |name: &str| {
            let set = self.variables.iter().find(|(known, _)| known == name);
            set.map(|(_, value)| OsString::from(value))
        };
        let gpus = Gpus::read(Roots { sys: &sys, proc: &proc, root: self.root.path() }, env);
        let findings = judge(&gpus);
        for finding in &findings {
            assert!(finding.verdict != Verdict::No || finding.fix.is_some(), "a no without a fix: {finding:?}");
        }
        findings
    }
}

/// The findings of one kind and subject, as verdicts with reasons.
pub fn of<'a>(findings: &'a [Finding], kind: &str, subject: &str) -> &'a Finding {
    let found = findings.iter().find(|finding| finding.kind == kind && finding.subject == subject);
    found.unwrap_or_else(|| panic!("no {kind} of {subject} in {findings:#?}"))
}

/// Whether there is such a "no" and its reason holds these words.
pub fn says_no(findings: &[Finding], kind: &str, words: &str) -> bool {
    let noes = findings.iter().filter(|finding| finding.kind == kind && finding.verdict == Verdict::No);
    noes.into_iter().any(|finding| finding.reason.as_deref().is_some_and(|reason| reason.contains(words)))
}
