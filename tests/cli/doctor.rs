use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::process::Stdio;

use nix::sys::stat::Mode;
use serde_json::Value;
use tempfile::tempdir;

use crate::common::is_root;
use crate::common::privilege::{Outside, Reduced};
use crate::common::seccomp::Deny;
use crate::run::{Answer, forebay, pattern, run, write};

/// The findings of `forebay doctor --json`, each checked against the contract.
fn findings(stdout: &[u8]) -> Vec<Value> {
    let text = std::str::from_utf8(stdout).unwrap();
    text.lines().map(|line| checked(serde_json::from_str(line).unwrap())).collect()
}

fn checked(finding: Value) -> Value {
    let object = finding.as_object().unwrap();
    let mut keys: Vec<&str> = object.keys().map(String::as_str).collect();
    keys.sort_unstable();
    assert_eq!(keys, ["fix", "kind", "reason", "subject", "verdict"]);
    assert!(finding["kind"].is_string() && finding["subject"].is_string());
    for key in ["reason", "fix"] {
        assert!(finding[key].is_string() || finding[key].is_null(), "{finding}");
    }
    match finding["verdict"].as_str().unwrap() {
        "no" => assert!(finding["reason"].is_string() && finding["fix"].is_string(), "a no without help: {finding}"),
        verdict => assert!(["yes", "note"].contains(&verdict), "{finding}"),
    }
    finding
}

fn doctor(path: &Path) -> Vec<Value> {
    let answer = Answer::of(forebay().arg("doctor").arg(path).arg("--json"));
    assert_eq!((answer.code, answer.stderr.as_str()), (Some(0), ""));
    findings(&answer.stdout)
}

fn of_kind<'a>(findings: &'a [Value], kind: &str) -> &'a Value {
    findings.iter().find(|finding| finding["kind"] == kind).unwrap_or_else(|| panic!("no {kind} in {findings:#?}"))
}

fn text<'a>(finding: &'a Value, key: &str) -> &'a str {
    finding[key].as_str().unwrap()
}

#[test]
fn every_line_is_a_finding_of_five_keys() {
    let folder = tempdir().unwrap();
    let file = write(folder.path(), "data", &pattern(100_000));
    let all = doctor(&file);
    let kinds = [
        "kernel",
        "engine",
        "cachestat",
        "memlock",
        "open_files",
        "memory",
        "huge_pages",
        "transparent_huge_pages",
        "numa",
        "device",
        "route",
        "path",
        "filesystem",
        "direct_io",
        "page_cache",
        "block_device",
    ];
    for kind in kinds {
        of_kind(&all, kind);
    }
    for engine in ["uring", "pread"] {
        assert!(all.iter().any(|finding| finding["kind"] == "engine" && finding["subject"] == engine), "{engine}");
    }
    assert!(text(of_kind(&all, "path"), "reason").contains("regular file"));
}

#[test]
fn a_file_just_written_is_in_the_page_cache() {
    let folder = tempdir().unwrap();
    let file = write(folder.path(), "data", &pattern(100_000));
    assert!(text(of_kind(&doctor(&file), "page_cache"), "reason").contains("100%"));
}

#[test]
fn an_engine_is_a_yes_exactly_if_it_can_be_had() {
    let folder = tempdir().unwrap();
    let file = write(folder.path(), "data", b"payload");
    let all = doctor(&file);
    for engine in ["uring", "pread"] {
        let finding = all.iter().find(|finding| finding["kind"] == "engine" && finding["subject"] == engine).unwrap();
        let works = Answer::of(forebay().arg("cat").arg(&file).args(["--engine", engine])).code == Some(0);
        assert_eq!(text(finding, "verdict") == "yes", works, "{finding}");
    }
}

#[test]
fn direct_io_is_a_yes_exactly_if_a_direct_read_works() {
    for folder in [tempdir().unwrap(), tempfile::tempdir_in("/dev/shm").unwrap_or_else(|_| tempdir().unwrap())] {
        let file = write(folder.path(), "data", &pattern(10_000));
        let finding = of_kind(&doctor(&file), "direct_io").clone();
        let works = Answer::of(forebay().arg("cat").arg(&file).arg("--route=bounce")).code == Some(0);
        assert_eq!(text(&finding, "verdict") == "yes", works, "{finding}");
        assert!(!works || text(&finding, "reason").contains("align"), "{finding}");
    }
}

#[test]
fn a_folder_is_judged_and_left_as_it_was() {
    let folder = tempdir().unwrap();
    let before = fs::metadata(folder.path()).unwrap().modified().unwrap();
    let empty = doctor(folder.path());
    assert_eq!(of_kind(&empty, "direct_io")["verdict"], "note");
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
    assert_eq!(fs::metadata(folder.path()).unwrap().modified().unwrap(), before);

    write(folder.path(), "data", &pattern(10_000));
    let full = doctor(folder.path());
    assert!(text(of_kind(&full, "direct_io"), "reason").contains("data"));
    assert_eq!(of_kind(&full, "direct_io")["subject"], folder.path().to_str().unwrap());
}

#[test]
fn the_current_folder_is_the_default() {
    let folder = tempdir().unwrap();
    let answer = Answer::of(forebay().arg("doctor").arg("--json").current_dir(folder.path()));
    assert_eq!(of_kind(&findings(&answer.stdout), "path")["subject"], ".");
}

#[test]
fn a_missing_path_is_an_error_and_hides_nothing_else() {
    let folder = tempdir().unwrap();
    let missing = folder.path().join("missing");
    let answer = Answer::of(forebay().arg("doctor").arg(&missing).arg(folder.path()).arg("--json"));
    assert_eq!(answer.code, Some(1));
    let errors: Vec<&str> = answer.stderr.lines().collect();
    assert!(errors.len() == 1 && errors[0].starts_with(&format!("error: {} at ", missing.display())), "{errors:?}");
    let all = findings(&answer.stdout);
    let paths: Vec<&str> =
        all.iter().filter(|finding| finding["kind"] == "path").map(|finding| text(finding, "verdict")).collect();
    assert_eq!(paths, ["no", "yes"]);
}

#[test]
fn a_fifo_is_a_no_and_nobody_waits_for_its_writer() {
    let folder = tempdir().unwrap();
    let fifo = folder.path().join("fifo");
    nix::unistd::mkfifo(&fifo, Mode::S_IRWXU).unwrap();
    let all = doctor(&fifo);
    let finding = of_kind(&all, "path");
    assert_eq!(finding["verdict"], "no");
    assert!(text(finding, "reason").contains("FIFO"));
    assert!(!all.iter().any(|finding| finding["kind"] == "direct_io"));
}

#[test]
fn names_are_bytes() {
    let folder = tempdir().unwrap();
    let file = write(folder.path(), OsStr::from_bytes(b"f\xff\n"), b"payload");
    assert!(text(of_kind(&doctor(&file), "path"), "subject").ends_with("f\u{fffd}\n"));
    let answer = Answer::of(forebay().arg("doctor").arg(&file));
    let table = String::from_utf8(answer.stdout).unwrap();
    assert!(table.lines().any(|line| line.ends_with("f\u{fffd}\\n")), "{table}");
}

#[test]
fn the_table_says_each_no_with_its_fix() {
    let table = String::from_utf8(run(["doctor", "/"]).stdout).unwrap();
    let rows = |word: &str| table.lines().filter(|line| line.trim_start().starts_with(word)).count();
    assert!(rows("no ") > 0 && rows("yes ") > 0, "{table}");
    assert!(rows("fix: ") >= rows("no "), "{table}");
    assert!(table.starts_with("This machine\n"), "{table}");
}

#[test]
fn a_reader_that_leaves_is_no_mistake() {
    let mut child = forebay().args(["doctor", "/"]).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert_eq!((output.status.code(), String::from_utf8_lossy(&output.stderr).as_ref()), (Some(0), ""));
}

/// What a limit says of locked memory, and what registering so much does, by a program of its own: this one.
#[test]
fn locked_memory_is_a_no_exactly_if_it_cannot_be_registered() {
    const USER: u32 = 65_521;
    if !is_root() {
        crate::common::skipped::skipped("only root can become another user");
        return;
    }
    let outside = Outside::new();
    let program = outside.copy(Path::new(env!("CARGO_BIN_EXE_forebay")));
    let judged = |what: &str, mut command: std::process::Command, budget: &str| {
        command.args(["doctor", "/", "--json", "--budget", budget]);
        let answer = Answer::of(&mut command);
        assert_eq!((answer.code, answer.stderr.as_str()), (Some(0), ""), "{what}");
        let all = findings(&answer.stdout);
        let ring =
            all.iter().find(|finding| finding["subject"] == "fixed_buffers").map(|found| found["verdict"].clone());
        (of_kind(&all, "memlock").clone(), ring)
    };
    let limited = Reduced::new().user(USER).memlock(1 << 20);
    let (large, ring) = judged("1 MiB", limited.command(&program), "64MiB");
    let Some(ring) = ring else {
        crate::common::skipped::skipped("no io_uring here");
        return;
    };
    assert_eq!((&large["verdict"], &ring), (&"no".into(), &"no".into()), "{large}");
    assert!(text(&large, "fix").contains("ulimit -l"), "{large}");
    let roomy = Reduced::new().user(USER).memlock(6 << 20);
    let (small, ring) = judged("6 MiB", roomy.command(&program), "2MiB");
    assert_eq!((&small["verdict"], ring), (&"yes".into(), Some("yes".into())), "{small}");
    let (forbidden, _) = judged("EPERM", Reduced::new().deny(&[Deny::Register(1)]).command(&program), "4MiB");
    assert!(forbidden["verdict"] == "no" && text(&forbidden, "fix").contains("io_uring_register"), "{forbidden}");
}

/// All capabilities in a user namespace of its own are none against the limits of the machine.
#[test]
fn a_capability_in_a_user_namespace_is_none() {
    if !is_root() {
        crate::common::skipped::skipped("a low hard limit needs root");
        return;
    }
    let outside = Outside::new();
    let program = outside.copy(Path::new(env!("CARGO_BIN_EXE_forebay")));
    let limited = Reduced::new().user(65_522).memlock(1 << 20);
    let inside = |program: &Path| {
        let mut command = limited.command(Path::new("unshare"));
        command.arg("-Ur").arg(program);
        command
    };
    if !inside(Path::new("true")).status().is_ok_and(|status| status.success()) {
        crate::common::skipped::skipped("no user namespaces here");
        return;
    }
    let answer = Answer::of(inside(&program).args(["doctor", "/", "--json", "--budget", "64MiB"]));
    assert_eq!(answer.code, Some(0), "{}", answer.stderr);
    let all = findings(&answer.stdout);
    let memlock = of_kind(&all, "memlock");
    if all.iter().any(|finding| finding["subject"] == "uring" && finding["verdict"] == "yes") {
        assert_eq!(memlock["verdict"], "no", "{memlock}");
    }
    assert!(!memlock.to_string().contains("CAP_IPC_LOCK"), "{memlock}");
}

/// Whether the machine shows an NVIDIA GPU or its driver, told apart from the program's own way of looking.
fn has_gpu() -> bool {
    let devices = fs::read_dir("/sys/bus/pci/devices").map(|list| list.flatten().collect()).unwrap_or_else(|_| vec![]);
    let holds = |folder: &Path, name: &str, start: &str| {
        fs::read_to_string(folder.join(name)).is_ok_and(|text| text.starts_with(start))
    };
    let is_card = |folder: &Path| holds(folder, "vendor", "0x10de") && holds(folder, "class", "0x03");
    devices.iter().any(|device| is_card(&device.path()))
        || ["/dev/nvidiactl", "/proc/driver/nvidia/version", "/sys/module/nvidia"]
            .iter()
            .any(|path| Path::new(path).exists())
}

const OF_GPUS: [&str; 8] =
    ["nvidia_driver", "nvidia_fs", "p2pdma", "iommu", "cufile_json", "gpu_distance", "direct_storage", "gpu_link"];

#[test]
fn gpus_are_judged_and_their_absence_is_one_line() {
    let folder = tempdir().unwrap();
    let all = doctor(&write(folder.path(), "data", b"payload"));
    let gpus = all.iter().filter(|finding| finding["kind"] == "gpu").count();
    if has_gpu() {
        assert!(gpus > 0);
        of_kind(&all, "nvidia_driver");
        return;
    }
    assert_eq!(gpus, 1);
    assert_eq!(of_kind(&all, "gpu")["verdict"], "note");
    let others: Vec<&Value> =
        all.iter().filter(|finding| OF_GPUS.iter().any(|kind| finding["kind"] == *kind)).collect();
    assert!(others.is_empty(), "{others:#?}");
}

#[test]
fn whatever_the_environment_names_as_cufiles_settings_is_judged() {
    let folder = tempdir().unwrap();
    let broken = write(folder.path(), "broken.json", b"{ // \xff\n");
    let fifo = folder.path().join("fifo");
    nix::unistd::mkfifo(&fifo, Mode::S_IRWXU).unwrap();
    for named in [broken.as_path(), &fifo, folder.path(), Path::new("/dev/zero"), Path::new("missing")] {
        let mut command = forebay();
        let answer =
            Answer::of(command.arg("doctor").arg(folder.path()).arg("--json").env("CUFILE_ENV_PATH_JSON", named));
        assert_eq!((answer.code, answer.stderr.as_str()), (Some(0), ""), "{}", named.display());
        let all = findings(&answer.stdout);
        let judged = all.iter().find(|finding| finding["kind"] == "cufile_json" && finding["subject"] == "file");
        let Some(file) = judged else {
            crate::common::skipped::skipped("no driver of NVIDIA's, so cuFile's settings are not looked at");
            return;
        };
        assert_eq!(file["verdict"], "no", "{file}");
    }
}
