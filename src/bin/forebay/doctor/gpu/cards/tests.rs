use crate::doctor::finding::Verdict;
use crate::doctor::gpu::fake_machine::{FakeMachine, GPU, SWITCH, of, says_no};

const ADDRESS: &str = "0000:83:00.0";

fn with_links(now: (&str, &str), best: (&str, &str), slot: (&str, &str)) -> FakeMachine {
    let machine = FakeMachine::good();
    let port = format!("{SWITCH}/0000:82:00.0");
    machine.files(&[
        (&format!("{GPU}/current_link_speed"), now.0),
        (&format!("{GPU}/current_link_width"), now.1),
        (&format!("{GPU}/max_link_speed"), best.0),
        (&format!("{GPU}/max_link_width"), best.1),
        (&format!("{port}/max_link_speed"), slot.0),
        (&format!("{port}/max_link_width"), slot.1),
    ]);
    machine
}

const GEN5: (&str, &str) = ("32.0 GT/s PCIe", "16");
const IDLE: (&str, &str) = ("2.5 GT/s PCIe", "16");
const NARROW: (&str, &str) = ("32.0 GT/s PCIe", "8");

#[test]
fn a_gpu_at_its_best_is_one_yes_with_its_facts() {
    let all = with_links(GEN5, GEN5, GEN5).machine_findings();
    let gpu = of(&all, "gpu", ADDRESS);
    assert_eq!(gpu.verdict, Verdict::Yes);
    let reason = gpu.reason.as_deref().unwrap();
    for fact in ["NVIDIA H200", "driver nvidia", "NUMA node 1", "32 GT/s x16", "128 GiB"] {
        assert!(reason.contains(fact), "{fact}: {reason}");
    }
    assert!(!all.iter().any(|finding| ["gpu_link", "gpu_bar1", "gpu_node"].contains(&finding.kind)), "{all:#?}");
}

#[test]
fn an_idle_link_is_a_note_and_a_narrow_one_a_no() {
    let idle = with_links(IDLE, GEN5, GEN5).machine_findings();
    let link = of(&idle, "gpu_link", ADDRESS);
    assert_eq!(link.verdict, Verdict::Note);
    assert!(link.reason.as_deref().unwrap().contains("idle"));
    assert!(says_no(&with_links(NARROW, GEN5, GEN5).machine_findings(), "gpu_link", "8 lanes wide where 16"));
    assert!(says_no(&with_links(NARROW, GEN5, NARROW).machine_findings(), "gpu_link", "the slot gives at most"));
}

#[test]
fn other_drivers_and_none_are_noes() {
    for (driver, words) in [("nouveau", "NVIDIA's own"), ("vfio-pci", "virtual machine"), ("odd", "CUDA needs")] {
        let machine = FakeMachine::good();
        machine.bind(driver);
        assert!(says_no(&machine.machine_findings(), "gpu", words), "{driver}");
    }
    let machine = FakeMachine::good();
    machine.without(&format!("{GPU}/driver"));
    assert!(says_no(&machine.machine_findings(), "gpu", "no driver"));
}

#[test]
fn a_small_window_and_a_missing_node_are_noes() {
    let machine = FakeMachine::good();
    machine.file(&format!("{GPU}/resource"), "0x0 0xffffff 0x200\n0x10000000 0x1fffffff 0x220c\n");
    machine.without("dev/nvidia0");
    let all = machine.machine_findings();
    assert!(says_no(&all, "gpu_bar1", "256 MiB"));
    assert!(says_no(&all, "gpu_node", "/dev/nvidia0"));
}

#[test]
fn no_gpu_is_one_line() {
    let all = FakeMachine::empty().machine_findings();
    assert_eq!(all.len(), 1, "{all:#?}");
    assert_eq!(of(&all, "gpu", "none").verdict, Verdict::Note);
    let windows = FakeMachine::empty();
    windows.file("proc/sys/kernel/osrelease", "5.15.0-microsoft-standard-WSL2\n");
    let all = windows.machine_findings();
    assert!(all.len() == 1 && of(&all, "gpu", "none seen").reason.as_deref().unwrap().contains("WSL"));
}

#[test]
fn a_driver_without_a_card_is_still_judged() {
    let machine = FakeMachine::good();
    machine.without("sys/bus");
    let all = machine.machine_findings();
    assert_eq!(of(&all, "gpu", "none seen").verdict, Verdict::Note);
    assert_eq!(of(&all, "nvidia_driver", "570.86.15").verdict, Verdict::Yes);
}
