use crate::doctor::finding::Verdict;
use crate::doctor::gpu::fake_machine::{FakeMachine, GPU, of, says_no};

#[test]
fn udev_that_cannot_be_listed_is_a_no() {
    let machine = FakeMachine::good();
    assert!(!machine.machine_findings().iter().any(|finding| finding.kind == "udev"));
    machine.without("run/udev").file("run/.containerenv", "");
    let all = machine.machine_findings();
    assert!(says_no(&all, "udev", "5030"));
    assert!(of(&all, "udev", "/run/udev").fix.as_deref().unwrap().contains("-v /run/udev:/run/udev:ro"));
    assert_eq!(of(&all, "platform", "podman").verdict, Verdict::Note);
}

#[test]
fn windows_is_a_no() {
    let machine = FakeMachine::good();
    machine.file("proc/sys/kernel/osrelease", "6.8.0-microsoft-standard-WSL2\n");
    assert!(says_no(&machine.machine_findings(), "platform", "Windows"));
}

#[test]
fn the_iommu_off_passing_and_translating() {
    let machine = FakeMachine::good();
    assert_eq!(of(&machine.machine_findings(), "iommu", "machine").verdict, Verdict::Yes);
    machine.file("proc/cpuinfo", "flags : hypervisor\n");
    assert_eq!(of(&machine.machine_findings(), "iommu", "machine").verdict, Verdict::Note);

    machine.link(&format!("{GPU}/iommu_group"), "sys/kernel/iommu_groups/7");
    machine.file("sys/kernel/iommu_groups/7/type", "identity\n");
    machine.file("proc/cmdline", "iommu=pt\n");
    let through = of(&machine.machine_findings(), "iommu", "machine").clone();
    assert_eq!(through.verdict, Verdict::Note);
    assert!(through.reason.unwrap().contains("booted with iommu=pt"));
    machine.file("sys/kernel/iommu_groups/7/type", "DMA-FQ\n");
    let all = machine.machine_findings();
    assert!(says_no(&all, "iommu", "translates"));
    assert!(of(&all, "gpu", "0000:83:00.0").reason.as_deref().unwrap().contains("IOMMU group 7 (translating)"));
}

#[test]
fn bridges_that_redirect_are_named() {
    let machine = FakeMachine::good();
    assert!(!machine.machine_findings().iter().any(|finding| finding.kind == "acs"));
    machine.file("proc/driver/nvidia-fs/bridges", "0000:82:00.0\n0000:82:01.0\n");
    assert!(says_no(&machine.machine_findings(), "acs", "2 PCI bridges"));
}
