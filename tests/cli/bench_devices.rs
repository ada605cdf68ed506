//! `bench` where there is a GPU, and nobody says where bytes are to end up.
use serde_json::Value;

use crate::bench::{file, report, short};
use crate::common::emulator::Emulator;
use crate::common::folder;
use crate::or_skip;
use crate::run::Answer;

/// The link is slower than any drive here: only what crosses it is held back by it.
#[test]
fn beside_a_gpu_the_host_is_measured_too_and_its_rows_know_no_link() {
    let emulator = or_skip!(Emulator::new());
    let folder = folder();
    let path = file(folder.path());
    let page = folder.path().join("page.html");
    let mut command = emulator.forebay("h2d_gbps=0.05;latency_us=5;jitter_us=0").unwrap();
    let flags = ["--route=bounce", "--seconds=3", "--chunk=1MiB", "--depth=2,4"];
    command.arg("bench").arg(&path).args(short(&flags)).arg("--json").arg("--html").arg(&page);
    let (rows, summary) = report(&Answer::of(&mut command));
    assert_eq!(summary["device"], "cuda:0, host");
    let of = |device: &str| rows.iter().filter(|row| row["device"] == device).collect::<Vec<&Value>>();
    let (gpu, host) = (of("cuda:0"), of("host"));
    assert!(gpu.len() == 2 && host.len() == 2, "{rows:?}");
    for row in &rows {
        let is_gpu = row["device"] == "cuda:0";
        assert_eq!(row["emulated"], is_gpu, "{row}");
        assert_eq!(row["bound"]["by"] == "link", is_gpu, "{row}");
        assert!(row["verified"] == true && row["runs"].as_array().unwrap().len() == 2, "{row}");
    }
    let page = std::fs::read_to_string(page).unwrap();
    assert!(page.contains("bounce host"), "which of the rows are the host's is on the page");
    emulator.report().assert_clean();
}

#[test]
fn who_names_a_device_has_no_other() {
    let emulator = or_skip!(Emulator::new());
    let folder = folder();
    let path = file(folder.path());
    for device in ["host", "cuda:0"] {
        let mut command = emulator.forebay("").unwrap();
        command.arg("bench").arg(&path).args(short(&["--route=bounce"])).args(["--json", "--device", device]);
        let (rows, summary) = report(&Answer::of(&mut command));
        assert_eq!(summary["device"], device);
        assert!(rows.iter().all(|row| row["device"] == device), "{rows:?}");
    }
    let mut command = emulator.forebay("").unwrap();
    command.arg("bench").arg(&path).args(short(&["--depth=2,4"])).args(["--json", "--tune"]);
    let (rows, _) = report(&Answer::of(&mut command));
    assert!(rows.iter().all(|row| row["device"] == "cuda:0"), "settings are for one device: {rows:?}");
}
