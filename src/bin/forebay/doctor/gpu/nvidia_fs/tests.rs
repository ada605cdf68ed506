use crate::doctor::finding::{Finding, Verdict};
use crate::doctor::gpu::fake_machine::{FakeMachine, of};

fn of_version(version: &str) -> Finding {
    let machine = FakeMachine::good();
    machine.file("sys/module/nvidia_fs/version", version);
    of(&machine.machine_findings(), "nvidia_fs", version).clone()
}

#[test]
fn releases_are_judged_by_their_known_faults() {
    assert_eq!(of_version("2.28.4").verdict, Verdict::Yes);
    let broken = of_version("2.25.6");
    assert_eq!(broken.verdict, Verdict::No);
    assert!(broken.fix.unwrap().contains("2.25.7"));
    let rdma = of_version("2.25.7");
    assert_eq!(rdma.verdict, Verdict::Note);
    assert!(rdma.reason.unwrap().contains("RDMA"));
}

#[test]
fn nodes_and_statistics_that_are_missing() {
    let machine = FakeMachine::good();
    machine.file("sys/module/nvidia_fs/parameters/rw_stats_enabled", "0\n");
    let silent = of(&machine.machine_findings(), "nvidia_fs", "2.28.4").clone();
    assert_eq!(silent.verdict, Verdict::Note);
    assert!(silent.fix.unwrap().contains("rw_stats_enabled"));
    machine.without("proc/driver/nvidia-fs/stats");
    assert!(of(&machine.machine_findings(), "nvidia_fs", "2.28.4").reason.as_deref().unwrap().contains("not shown"));
    machine.without("dev/nvidia-fs0");
    assert_eq!(of(&machine.machine_findings(), "nvidia_fs", "2.28.4").verdict, Verdict::No);
}

#[test]
fn a_module_that_is_not_loaded_weighs_less_where_p2pdma_works() {
    let machine = FakeMachine::good();
    machine.without("sys/module/nvidia_fs").without("proc/driver/nvidia-fs");
    assert_eq!(of(&machine.machine_findings(), "nvidia_fs", "kernel").verdict, Verdict::Note);
    machine.file("boot/config-6.8.0", "# CONFIG_PCI_P2PDMA is not set\n");
    assert_eq!(of(&machine.machine_findings(), "nvidia_fs", "kernel").verdict, Verdict::No);
}
