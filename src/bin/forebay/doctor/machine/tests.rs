use std::fs;

use tempfile::TempDir;

use super::super::finding::Verdict;
use super::*;

const BUDGET: u64 = 256 << 20;

/// Findings on a made-up machine with these files, `proc/…` and `sys/…`.
fn findings(files: &[(&str, &str)]) -> Vec<Finding> {
    let root = machine(files);
    let (sys, proc) = (root.path().join("sys"), root.path().join("proc"));
    Machine { sys: &sys, proc: &proc, budget: BUDGET, trial: &Trial::default() }.findings()
}

fn machine(files: &[(&str, &str)]) -> TempDir {
    let root = tempfile::tempdir().unwrap();
    for (name, text) in files {
        let path = root.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    root
}

fn of_kind(files: &[(&str, &str)], kind: &str) -> Finding {
    findings(files).into_iter().find(|finding| finding.kind == kind).unwrap()
}

#[test]
fn a_machine_that_shows_nothing_is_all_notes_but_for_limits() {
    for finding in findings(&[]) {
        let limit = finding.kind == "open_files";
        assert!(limit || finding.verdict == Verdict::Note, "{finding:?}");
    }
}

#[test]
fn memory_is_judged_by_what_is_available_and_by_the_control_group() {
    let rich = ("proc/meminfo", "MemAvailable: 1048576 kB\n");
    let poor = ("proc/meminfo", "MemAvailable: 1024 kB\n");
    let group = ("proc/self/cgroup", "0::/job\n");
    let limit = ("sys/fs/cgroup/job/memory.max", "1048576\n");
    assert_eq!(of_kind(&[rich], "memory").verdict, Verdict::Yes);
    assert_eq!(of_kind(&[poor], "memory").verdict, Verdict::No);
    let limited = of_kind(&[rich, group, limit], "memory");
    assert_eq!(limited.verdict, Verdict::No);
    assert!(limited.reason.unwrap().contains("1 MiB") && limited.fix.unwrap().contains("job/memory.max"));
}

#[test]
fn huge_pages_are_counted_against_the_budget() {
    let pool = |reserved: &'static str, free: &'static str| {
        let folder = "sys/kernel/mm/hugepages/hugepages-2048kB";
        let names = [format!("{folder}/nr_hugepages"), format!("{folder}/free_hugepages")];
        of_kind(&[(&names[0], reserved), (&names[1], free)], "huge_pages")
    };
    assert_eq!(pool("128\n", "128\n").verdict, Verdict::Yes);
    let none = pool("0\n", "0\n");
    assert_eq!((none.verdict, none.fix.as_deref()), (Verdict::No, Some("`sysctl vm.nr_hugepages=128`")));
    let few = pool("100\n", "28\n");
    assert_eq!((few.verdict, few.fix.as_deref()), (Verdict::No, Some("`sysctl vm.nr_hugepages=200`")));
}

#[test]
fn transparent_huge_pages_that_are_off_are_a_no() {
    let file = "sys/kernel/mm/transparent_hugepage/enabled";
    assert_eq!(of_kind(&[(file, "always madvise [never]\n")], "transparent_huge_pages").verdict, Verdict::No);
    // Allowed is not given: that is seen by trying.
    assert_eq!(of_kind(&[(file, "always [madvise] never\n")], "transparent_huge_pages").verdict, Verdict::Note);
}

#[test]
fn one_node_needs_no_placing_and_several_are_listed() {
    let nodes = [("sys/devices/system/node/node0/cpulist", "0-3\n"), ("sys/devices/system/node/node1/cpulist", "\n")];
    assert_eq!(of_kind(&nodes[..1], "numa").verdict, Verdict::Yes);
    let both: Vec<String> = findings(&nodes)
        .into_iter()
        .filter(|finding| finding.kind == "numa")
        .filter_map(|finding| finding.reason)
        .collect();
    assert_eq!(both, ["4 CPUs: 0-3", "memory without CPUs"]);
}

/// A capability, a limit and what the kernel did, which alone counts.
#[test]
fn locked_memory_is_judged_by_what_the_kernel_did() {
    let able = machine(&[("proc/self/status", "CapEff:\t000001ffffffffff\n")]);
    let judged = |registered| {
        let trial = Trial { registered, ..Trial::default() };
        let proc = able.path().join("proc");
        let machine = Machine { sys: &able.path().join("sys"), proc: &proc, budget: BUDGET, trial: &trial };
        machine.findings().into_iter().find(|finding| finding.kind == "memlock").unwrap()
    };
    assert_eq!(judged(Some(Ok(()))).verdict, Verdict::Yes);
    let limited = judged(Some(Err(Some(12))));
    assert_eq!(limited.verdict, Verdict::No);
    assert!(limited.fix.unwrap().contains("ulimit -l") && !limited.reason.unwrap().contains("CAP_"));
    let forbidden = judged(Some(Err(Some(1))));
    assert!(forbidden.verdict == Verdict::No && forbidden.fix.unwrap().contains("io_uring_register"));
    assert_eq!(judged(None).verdict, Verdict::Note);
}
