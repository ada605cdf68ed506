//! `cat` up to an emulated GPU and back: the same bytes by every route, and what was done to the device is right.

use std::path::Path;

use serde_json::Value;

use crate::common::emulator::{Emulator, NAMES, Report};
use crate::common::{Skip, folder};
use crate::or_skip;
use crate::run::{Answer, pattern, write};

const LEN: usize = (9 << 20) + 4097;

struct Machine {
    emulator: Emulator,
    script: &'static str,
}

impl Machine {
    fn new(script: &'static str) -> Result<Self, Skip> {
        Ok(Self { emulator: Emulator::new()?, script })
    }

    fn cat(&self, file: &Path, flags: &[&str]) -> Answer {
        let mut command = self.emulator.forebay(self.script).unwrap();
        Answer::of(command.arg("cat").arg(file).args(flags))
    }

    /// What the command did to the emulator, which must have nothing to say against it.
    fn report(&self) -> Report {
        let report = self.emulator.report();
        report.assert_clean();
        report
    }
}

/// Without what the emulator notes there itself.
fn said(answer: &Answer) -> Vec<&str> {
    answer.stderr.lines().filter(|line| !line.starts_with("emulator: note")).collect()
}

fn summary(answer: &Answer) -> Value {
    let lines = said(answer);
    assert_eq!((answer.code, lines.len()), (Some(0), 1), "{}", answer.stderr);
    serde_json::from_str::<Value>(lines[0]).unwrap()["summary"].take()
}

#[test]
fn the_same_bytes_by_every_route() {
    let machine = or_skip!(Machine::new("jitter_us=50"));
    let folder = folder();
    let bytes = pattern(LEN);
    let file = write(folder.path(), "data", &bytes);
    let ranges = [(0, LEN), (1, 4096), (4097, 5 << 20), (LEN - 1, 1), (LEN, 0), (12_288, 1 << 20)];
    for route in ["auto", "direct", "bounce", "cached"] {
        for device in [0, 1] {
            for (offset, length) in ranges {
                let flags = [
                    format!("--device=cuda:{device}"),
                    format!("--route={route}"),
                    format!("--offset={offset}"),
                    format!("--length={length}"),
                    "--budget=4MiB".into(),
                ];
                let flags: Vec<&str> = flags.iter().map(String::as_str).collect();
                let answer = machine.cat(&file, &flags);
                assert_eq!((answer.code, said(&answer)), (Some(0), vec![]), "{flags:?}");
                assert!(answer.stdout == bytes[offset..offset + length], "{flags:?}: other bytes");
                machine.report();
            }
        }
    }
}

#[test]
fn the_summary_tells_which_route_carried_what() {
    let machine = or_skip!(Machine::new(""));
    let folder = folder();
    let file = write(folder.path(), "data", &pattern(LEN));
    for (route, chosen) in [("direct", "direct"), ("bounce", "bounce"), ("cached", "cached")] {
        let answer = machine.cat(&file, &["--device=cuda:0", "--route", route, "--json"]);
        let summary = summary(&answer);
        assert_eq!(summary["device"], "cuda:0");
        assert_eq!(summary["routes"], serde_json::json!({ chosen: LEN }), "{summary}");
        assert_eq!(summary["decision"]["chosen"], chosen);
        let report = machine.report();
        let copies = ["cuMemcpyHtoDAsync_v2", "cuMemcpyBatchAsync", "cuMemcpyBatchAsync_v2"];
        let copied: u64 = copies.iter().map(|call| report.calls(call)).sum();
        assert_eq!(copied == 0, route == "direct", "{copied} copies by the route {route}");
    }
}

#[test]
fn cufile_in_its_compatibility_mode_is_called_that() {
    let machine = or_skip!(Machine::new("cufile_path=compat"));
    let folder = folder();
    let file = write(folder.path(), "data", &pattern(LEN));
    let mut answer = machine.cat(&file, &["--device=cuda:0", "--route=direct", "--json"]);
    let (warning, rest) = answer.stderr.split_once('\n').unwrap();
    assert!(warning.starts_with("warning: ") && warning.contains("compatibility mode"), "{warning}");
    answer.stderr = rest.to_owned();
    let forced = summary(&answer);
    assert_eq!(forced["decision"]["compat"], true);
    assert_eq!(forced["routes"], serde_json::json!({ "direct (compat)": LEN }), "{forced}");
    assert_eq!(forced["mode"], "buffered");
    let auto = summary(&machine.cat(&file, &["--device=cuda:0", "--json"]));
    assert_ne!(auto["decision"]["chosen"], "direct");
    let rejected = auto["decision"]["rejected"].as_array().unwrap();
    let direct = rejected.iter().find(|rejected| rejected["route"] == "direct").unwrap();
    assert!(direct["reason"].as_str().unwrap().contains("compatibility mode"), "{direct}");
    assert!(!direct["fix"].as_str().unwrap().is_empty());
    machine.report();
}

#[test]
fn a_route_that_cannot_be_had_is_one_error() {
    let emulator = or_skip!(Emulator::with(&NAMES[..2]));
    let machine = Machine { emulator, script: "" };
    let folder = folder();
    let file = write(folder.path(), "data", b"abc");
    let answer = machine.cat(&file, &["--device=cuda:0", "--route=direct"]);
    let error = answer.error(1);
    assert!(error.contains("libcufile.so.0") && error.contains("; "), "{error}");
    assert!(error.starts_with(&format!("error: {}", file.display())), "{error}");
    machine.report();
}

/// The device fails in the midst of it: an error, what was written is a part, and the exit code says so.
#[test]
fn a_device_that_fails_is_one_error() {
    let machine = or_skip!(Machine::new("fail=execute@5:719"));
    let folder = folder();
    let bytes = pattern(LEN);
    let file = write(folder.path(), "data", &bytes);
    let answer = machine.cat(&file, &["--device=cuda:0", "--route=bounce", "--budget=2MiB"]);
    let lines: Vec<&str> = said(&answer).into_iter().filter(|line| line.starts_with("error: ")).collect();
    assert_eq!((answer.code, lines.len()), (Some(1), 1), "{}", answer.stderr);
    assert!(lines[0].contains("CUDA_ERROR_LAUNCH_FAILED") && lines[0].contains("719"), "{}", lines[0]);
    assert!(bytes.starts_with(&answer.stdout) && answer.stdout.len() < LEN);
}
