//! Machines that show no NVIDIA GPU, and those that show one without its driver: only the second are worth a warning.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::common::is_root;
use crate::run::{Answer, NPY, forebay, pattern, write};

const PCI: &str = "/sys/bus/pci/devices";

/// As the kernel shows it, told apart from the program's own way of looking.
pub fn shows_gpu() -> bool {
    let lspci_like = fs::read_dir(PCI).into_iter().flatten().flatten().any(|device| {
        let is = |name: &str, start: &str| {
            fs::read_to_string(device.path().join(name)).is_ok_and(|text| text.starts_with(start))
        };
        is("vendor", "0x10de") && is("class", "0x03")
    });
    let nodes = fs::read_dir("/dev").into_iter().flatten().flatten();
    let mut names = nodes.map(|node| node.file_name().to_string_lossy().into_owned());
    lspci_like || names.any(|name| name.starts_with("nvidia") || name == "dxg")
}

/// Commands whose device is `auto`, on data of their own.
fn commands(folder: &Path) -> Vec<Vec<String>> {
    let array = write(folder, "a.npy", NPY).display().to_string();
    let mut tensors = 58_u64.to_le_bytes().to_vec();
    tensors.extend(br#"{"t":{"dtype":"U8","shape":[4],"data_offsets":[0,4]}}     "#);
    tensors.extend(b"data");
    let model = write(folder, "m.safetensors", &tensors).display().to_string();
    let shard = write(folder, "shard", &pattern(1 << 20)).display().to_string();
    let words = |line: &str| line.split(' ').map(str::to_owned).collect();
    vec![
        words(&format!("read {array} --batch-size 1 --json")),
        words(&format!("load {model} --json")),
        words(&format!("cat {array}")),
        words(&format!("inspect {array}")),
        words(&format!("order {array} --batch-size 1")),
        words(&format!("doctor {array}")),
        words(&format!("bench {shard} --profile sequential --chunk 64KiB --depth 1 --threads 1 --seconds 1 --runs 1")),
    ]
}

#[test]
fn a_machine_without_a_gpu_is_not_warned_of_a_missing_driver() {
    if shows_gpu() {
        crate::common::skipped::skipped("this machine has an NVIDIA GPU");
        return;
    }
    let folder = crate::common::folder();
    for command in commands(folder.path()) {
        let answer = Answer::of(forebay().args(&command));
        assert!(!answer.stderr.contains("CUDA"), "{command:?}: {}", answer.stderr);
        if command[0] == "read" || command[0] == "load" {
            assert_eq!(answer.code, Some(0), "{command:?}: {}", answer.stderr);
            assert!(!answer.stderr.contains("warning: "), "{command:?}: {}", answer.stderr);
        }
    }
}

#[test]
fn the_doctor_finds_no_fault_in_a_machine_without_a_gpu() {
    if shows_gpu() {
        crate::common::skipped::skipped("this machine has an NVIDIA GPU");
        return;
    }
    let answer = Answer::of(forebay().args(["doctor", "--json"]));
    let text = String::from_utf8(answer.stdout).unwrap();
    let device = text.lines().find(|line| line.contains(r#""kind":"device","subject":"cuda""#)).unwrap();
    assert!(device.contains(r#""verdict":"note""#), "{device}");
}

/// In a mount namespace of its own, where the PCI bus has a made-up GPU.
#[test]
fn a_machine_with_a_gpu_and_no_driver_is_warned_once() {
    if !is_root() || shows_gpu() {
        crate::common::skipped::skipped("a made-up PCI bus needs root and a machine without a GPU");
        return;
    }
    let folder = crate::common::folder();
    let bus = folder.path().join("bus");
    fs::create_dir_all(bus.join("0000:41:00.0")).unwrap();
    write(&bus.join("0000:41:00.0"), "vendor", b"0x10de\n");
    write(&bus.join("0000:41:00.0"), "class", b"0x030200\n");
    let script = format!("mount --bind '{}' {PCI} && exec \"$@\"", bus.display());
    let inside = |program: &str| {
        let mut command = Command::new("unshare");
        command.args(["--mount", "sh", "-c", &script, "sh", program]);
        command
    };
    let listed = inside("ls").arg(PCI).output();
    if !listed.is_ok_and(|output| output.stdout == b"0000:41:00.0\n") {
        crate::common::skipped::skipped(format!("no mount namespace, or nothing can be mounted over {PCI}"));
        return;
    }
    for command in commands(folder.path()).into_iter().take(2) {
        let answer = Answer::of(inside(env!("CARGO_BIN_EXE_forebay")).args(&command));
        let warnings: Vec<&str> = answer.stderr.lines().filter(|line| line.starts_with("warning: ")).collect();
        assert_eq!((answer.code, warnings.len()), (Some(0), 1), "{command:?}: {}", answer.stderr);
        assert!(warnings[0].contains("libcuda.so.1"), "{}", warnings[0]);
    }
}
