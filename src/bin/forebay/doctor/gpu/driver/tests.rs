use crate::doctor::finding::Verdict;
use crate::doctor::gpu::fake_machine::{FakeMachine, of, says_no};

#[test]
fn a_loaded_driver_tells_version_and_flavour() {
    let all = FakeMachine::good().machine_findings();
    let driver = of(&all, "nvidia_driver", "570.86.15");
    assert_eq!((driver.verdict, driver.reason.as_deref()), (Verdict::Yes, Some("open kernel module")));
}

#[test]
fn without_a_driver_nothing_else_is_said() {
    let machine = FakeMachine::good();
    machine.without("proc/driver/nvidia").without("dev/nvidiactl");
    let all = machine.machine_findings();
    assert!(says_no(&all, "nvidia_driver", "not loaded"));
    assert!(!all.iter().any(|finding| ["p2pdma", "nvidia_fs", "cufile_json"].contains(&finding.kind)), "{all:#?}");
}

#[test]
fn nodes_that_a_container_was_not_given() {
    let machine = FakeMachine::good();
    machine.without("dev/nvidiactl").file(".dockerenv", "");
    let all = machine.machine_findings();
    let node = of(&all, "gpu_node", "/dev/nvidiactl");
    assert_eq!(node.verdict, Verdict::No);
    assert!(node.fix.as_deref().unwrap().contains("--gpus"));

    let machine = FakeMachine::good();
    machine.without("dev/nvidia-uvm");
    let node = of(&machine.machine_findings(), "gpu_node", "/dev/nvidia-uvm").clone();
    assert_eq!(node.verdict, Verdict::No);
    assert!(node.fix.unwrap().contains("nvidia-modprobe"));
}

#[test]
fn a_node_that_may_not_be_opened() {
    let machine = FakeMachine::good();
    machine.without("dev/nvidiactl").file("dev/nvidiactl/inside", "");
    assert!(says_no(&machine.machine_findings(), "gpu_node", "may not open"));
}

#[test]
fn peermem_is_told_where_it_is_loaded() {
    let machine = FakeMachine::good();
    assert!(!machine.machine_findings().iter().any(|finding| finding.kind == "nvidia_peermem"));
    machine.file("sys/module/nvidia_peermem/refcnt", "0\n");
    assert_eq!(of(&machine.machine_findings(), "nvidia_peermem", "kernel").verdict, Verdict::Note);
}
