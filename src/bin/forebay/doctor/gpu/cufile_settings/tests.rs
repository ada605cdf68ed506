use crate::doctor::finding::{Finding, Verdict};
use crate::doctor::gpu::fake_machine::{FakeMachine, of, says_no};

fn with(text: &str) -> Vec<Finding> {
    let machine = FakeMachine::good();
    machine.file("etc/cufile.json", text);
    machine.machine_findings()
}

fn with_property(property: &str) -> Vec<Finding> {
    with(&format!("{{ \"properties\": {{ {property} }} }}"))
}

fn noes(findings: &[Finding]) -> Vec<&Finding> {
    let of_config = findings.iter().filter(|finding| finding.kind == "cufile_json");
    of_config.filter(|finding| finding.verdict == Verdict::No).collect()
}

/// The words of NVIDIA's own file, with its comments.
const USUAL: &str = r#"{
    // logging
    "logging": { "level": "ERROR" }, # quiet
    "properties": {
        "max_direct_io_size_kb" : 16384,
        "max_device_pinned_mem_size_kb" : 33554432,
        "posix_pool_slab_size_kb" : [ 4, 1024, 16384 ],
        "posix_pool_slab_count": [128, 64, 64],
        "io_batchsize": 128,
        "use_pci_p2pdma": false,
        "allow_compat_mode": true
        // "rdma_dev_addr_list": [ ],
    },
    "denylist": { "drivers": [ ], "devices": [ ], "mounts": [ ], "filesystems": [ ] }
}"#;

#[test]
fn the_usual_file_forbids_nothing() {
    let all = with(USUAL);
    assert_eq!(noes(&all), Vec::<&Finding>::new());
    assert_eq!(of(&all, "cufile_json", "file").verdict, Verdict::Yes);
    assert_eq!(of(&all, "cufile_json", "allow_compat_mode").verdict, Verdict::Note);
}

#[test]
fn settings_that_forbid_or_weaken_direct_reads() {
    for (property, words) in [
        ("\"force_compat_mode\": true", "by the CPU"),
        ("\"max_direct_io_size_kb\": 64", "64: cuFile cuts"),
        ("\"max_direct_io_size_kb\": 2000", "2000: cuFile cuts"),
        ("\"max_device_pinned_mem_size_kb\": 1024", "1 MiB"),
        ("\"io_batchsize\": 0", "1 to 256"),
        ("\"io_batchsize\": 512", "1 to 256"),
        ("\"posix_pool_slab_size_kb\": [4], \"posix_pool_slab_count\": [128, 64]", "1 sizes and 2 counts"),
        ("\"posix_pool_slab_count\": \"many\"", "not lists of numbers"),
        ("\"rdma_dev_addr_list\": \"172.16.8.1\"", "not a list"),
        ("\"rdma_dev_addr_list\": [ \"172.16.8.1\", \"mlx5_0\" ]", "mlx5_0 is no IPv4 address"),
        ("\"rdma_dynamic_routing\": true", "does not say what to try"),
    ] {
        let all = with_property(property);
        assert!(says_no(&all, "cufile_json", words), "{property}: {all:#?}");
    }
    assert!(says_no(&with("{\"denylist\": {\"mounts\": [\"/data\"]}}"), "cufile_json", "/data"));
}

#[test]
fn values_of_the_wrong_kind_are_noes() {
    for (property, words) in [
        ("\"allow_compat_mode\": \"false\"", "neither true nor false"),
        ("\"force_compat_mode\": 1", "neither true nor false"),
        ("\"use_pci_p2pdma\": null", "neither true nor false"),
        ("\"io_batchsize\": -1", "no whole number"),
        ("\"max_direct_io_size_kb\": \"16384\"", "no whole number"),
        ("\"max_device_pinned_mem_size_kb\": 1.5", "no whole number"),
    ] {
        let all = with_property(property);
        assert!(says_no(&all, "cufile_json", words), "{property}: {all:#?}");
    }
}

#[test]
fn few_host_buffers_and_much_logging_are_notes() {
    let slabs = with_property("\"posix_pool_slab_count\": [128, 8]");
    assert_eq!(of(&slabs, "cufile_json", "posix_pool_slab").verdict, Verdict::Note);
    let logging = with("{\"logging\": {\"level\": \"trace\"}}");
    assert_eq!(of(&logging, "cufile_json", "logging level").verdict, Verdict::Note);
}

#[test]
fn the_environment_outweighs_the_file() {
    let set = |name: &str, value: &str| FakeMachine::good().variable(name, value).machine_findings();
    assert!(says_no(&set("CUFILE_FORCE_COMPAT_MODE", "TRUE"), "cufile_json", "by the CPU"));
    // The file says false.
    let allowed = set("CUFILE_ALLOW_COMPAT_MODE", "1");
    assert_eq!(of(&allowed, "cufile_json", "allow_compat_mode").verdict, Verdict::Note);
    assert!(says_no(&set("CUFILE_USE_PCIP2PDMA", "yes"), "cufile_json", "CUFILE_USE_PCIP2PDMA is yes"));
    assert_eq!(of(&set("CUFILE_USE_PCIP2PDMA", "true"), "cufile_json", "use_pci_p2pdma").verdict, Verdict::Yes);
    assert_eq!(of(&set("CUFILE_LOGGING_LEVEL", "DEBUG"), "cufile_json", "logging level").verdict, Verdict::Note);
}

#[test]
fn p2pdma_is_judged_by_what_the_machine_can_do() {
    for on in ["\"properties\": {\"use_pci_p2pdma\": true}", "\"block\": {\"nvme\": {\"use_pci_p2pdma\": true}}"] {
        let machine = FakeMachine::good();
        machine.file("etc/cufile.json", &format!("{{{on}}}"));
        assert_eq!(of(&machine.machine_findings(), "cufile_json", "use_pci_p2pdma").verdict, Verdict::Yes);
        machine.file("proc/sys/kernel/osrelease", "5.15.0\n");
        assert!(says_no(&machine.machine_findings(), "cufile_json", "P2PDMA is not possible"));
    }
    let machine = FakeMachine::good();
    machine.without("sys/module/nvidia_fs").without("proc/driver/nvidia-fs");
    assert!(says_no(&machine.machine_findings(), "cufile_json", "no way to read directly"));
}

#[test]
fn files_that_are_missing_unreadable_or_malformed() {
    let machine = FakeMachine::good();
    machine.without("etc/cufile.json");
    let missing = of(&machine.machine_findings(), "cufile_json", "file").clone();
    assert_eq!(missing.verdict, Verdict::Note);
    assert!(missing.fix.is_some());
    let named = FakeMachine::good().variable("CUFILE_ENV_PATH_JSON", "$HOME/cufile.json").machine_findings();
    assert!(says_no(&named, "cufile_json", "$HOME/cufile.json, which is not there"));
    let folder = FakeMachine::good().variable("CUFILE_ENV_PATH_JSON", "/").machine_findings();
    assert!(says_no(&folder, "cufile_json", "cannot be read"));
    assert!(says_no(&with("{\n\"properties\": {"), "cufile_json", "line 2"));
}

#[test]
fn adapters_for_files_over_a_network() {
    let of_list = |list: &str| {
        let all = with_property(&format!("\"rdma_dev_addr_list\": {list}"));
        of(&all, "cufile_json", "rdma_dev_addr_list").clone()
    };
    let two = of_list("[ \"172.16.8.1\", \"172.16.9.1\" ]");
    assert_eq!(two.verdict, Verdict::Yes);
    assert!(two.reason.unwrap().contains("172.16.8.1, 172.16.9.1"));
    let none = of_list("[]");
    assert_eq!(none.verdict, Verdict::Note);
    assert!(none.fix.is_some());
    let routed = with_property("\"rdma_dynamic_routing\": true, \"rdma_dynamic_routing_order\": [ \"SYS_MEM\" ]");
    assert!(!says_no(&routed, "cufile_json", "what to try"));
}
