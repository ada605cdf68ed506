use crate::doctor::finding::Verdict;
use crate::doctor::gpu::fake_machine::{FakeMachine, of, says_no};

/// A machine without nvidia-fs, which depends on P2PDMA.
fn machine() -> FakeMachine {
    let machine = FakeMachine::good();
    machine.without("sys/module/nvidia_fs").without("proc/driver/nvidia-fs");
    machine
}

#[test]
fn all_that_it_needs_is_a_note_since_nothing_was_read() {
    let note = of(&machine().machine_findings(), "p2pdma", "kernel").clone();
    assert_eq!((note.verdict, note.fix), (Verdict::Note, None));
}

#[test]
fn a_random_address_of_the_kernel_is_mentioned() {
    let machine = machine();
    machine.file("proc/cmdline", "quiet\n");
    let note = of(&machine.machine_findings(), "p2pdma", "kernel").clone();
    assert_eq!(note.verdict, Verdict::Note);
    assert!(note.fix.unwrap().contains("nokaslr"));
}

#[test]
fn each_part_that_is_missing_is_a_no() {
    let proprietary = "NVRM version: NVIDIA UNIX x86_64 Kernel Module  580.95.05  Tue\n";
    let old = "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  550.54.14  R\n";
    for (file, text, words) in [
        ("proc/sys/kernel/osrelease", "5.15.0\n", "older than 6.2"),
        ("boot/config-6.8.0", "CONFIG_A=y\n", "CONFIG_PCI_P2PDMA"),
        ("proc/driver/nvidia/version", proprietary, "proprietary"),
        ("proc/driver/nvidia/version", old, "older than 570"),
        ("sys/module/nvme_core/parameters/multipath", "Y\n", "multipath"),
    ] {
        let machine = machine();
        machine.file(file, text);
        let all = machine.machine_findings();
        assert!(says_no(&all, "p2pdma", words), "{words}: {all:#?}");
    }
}

#[test]
#[cfg(target_arch = "x86_64")]
fn the_drivers_registry_is_judged_on_x86() {
    let machine = machine();
    machine.file("proc/driver/nvidia/params", "RegistryDwords: \"RMForceStaticBar1=1\"\n");
    let all = machine.machine_findings();
    assert!(says_no(&all, "p2pdma", "RmForceDisableIomapWC"), "{all:#?}");
    assert!(!says_no(&all, "p2pdma", "RMForceStaticBar1"));
}

#[test]
fn what_is_not_told_is_a_note() {
    let machine = machine();
    machine.without("boot");
    let untold = of(&machine.machine_findings(), "p2pdma", "kernel").clone();
    assert_eq!(untold.verdict, Verdict::Note);
    assert!(untold.reason.unwrap().contains("CONFIG_PCI_P2PDMA"));
}

#[test]
fn beside_nvidia_fs_it_is_one_note() {
    let machine = FakeMachine::good();
    machine.file("proc/sys/kernel/osrelease", "5.15.0\n");
    machine.file("sys/module/nvme_core/parameters/multipath", "Y\n");
    let all = machine.machine_findings();
    let notes: Vec<_> = all.iter().filter(|finding| finding.kind == "p2pdma").collect();
    let [note] = notes.as_slice() else { panic!("{notes:#?}") };
    assert_eq!(note.verdict, Verdict::Note);
    let reason = note.reason.as_deref().unwrap();
    assert!(reason.contains("6.2") && reason.contains("multipath"), "{reason}");
}
