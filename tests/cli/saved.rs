//! `--save-state`: whatever ends `read` or `order`, the state is that of what was printed.
use std::collections::HashMap;
use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;
use tempfile::TempDir;

use crate::common::watchdog::CHILD_PATIENCE;
use crate::common::{Skip, folder};
use crate::or_skip;
use crate::run::{Answer, clean, forebay, pattern, write};

const FLAGS: &str = "data.rec --record-bytes 512 --batch-size 1 --shuffle full --json";
const SAMPLES: u64 = 20_000;

/// Far more lines than a pipe holds.
fn dataset() -> TempDir {
    let folder = folder();
    write(folder.path(), "data.rec", &pattern(SAMPLES as usize * 512));
    folder
}

fn command(folder: &Path, name: &str, flags: &str) -> Command {
    let mut command = forebay();
    let device = if name == "read" { "--device host" } else { "" };
    let words = format!("{FLAGS} {flags} {device}");
    command.current_dir(folder).arg(name).args(words.split_whitespace());
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// A run that saves to `state`, of whose lines a few were read, and no more are.
struct Run {
    child: Child,
    stdout: BufReader<ChildStdout>,
    text: Vec<u8>,
    state: PathBuf,
}

impl Run {
    fn start(folder: &Path, name: &str) -> Self {
        let mut child = command(folder, name, "--save-state state").spawn().unwrap();
        let mut stdout = BufReader::with_capacity(1, child.stdout.take().unwrap());
        let mut text = Vec::new();
        for _ in 0..3 {
            stdout.read_until(b'\n', &mut text).unwrap();
        }
        Self { child, stdout, text, state: folder.join("state") }
    }

    fn send(&self, signal: Signal) {
        kill(Pid::from_raw(self.child.id() as i32), signal).unwrap();
    }

    fn saved(&self) -> Option<u64> {
        let state: Value = serde_json::from_slice(&fs::read(&self.state).ok()?).unwrap();
        assert_eq!(state["epoch"], 0);
        state["position"].as_u64()
    }

    /// The whole lines that it has printed, and how it ended.
    fn ended(mut self) -> (Vec<Value>, ExitStatus, String) {
        let status = until(|| self.child.try_wait().unwrap());
        self.stdout.read_to_end(&mut self.text).unwrap();
        let mut stderr = String::new();
        self.child.stderr.take().unwrap().read_to_string(&mut stderr).unwrap();
        let whole = &self.text[..self.text.iter().rposition(|byte| *byte == b'\n').unwrap() + 1];
        let lines = whole.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
        (lines.map(|line| serde_json::from_slice(line).unwrap()).collect(), status, stderr)
    }
}

/// The time is only for a command that hangs.
fn until<T>(mut happens: impl FnMut() -> Option<T>) -> T {
    let start = Instant::now();
    loop {
        if let Some(it) = happens() {
            return it;
        }
        assert!(start.elapsed() < CHILD_PATIENCE, "it hangs");
        thread::sleep(Duration::from_millis(5));
    }
}

fn ids(lines: &[Value]) -> Vec<String> {
    let of = |line: &Value| line["ids"][0].as_str().map(str::to_owned);
    lines.iter().filter_map(of).collect()
}

fn whole(folder: &Path, flags: &str) -> Vec<String> {
    let answer = Answer::of(&mut command(folder, "order", flags));
    assert_eq!((answer.code, answer.stderr.as_str()), (Some(0), ""));
    let lines: Vec<Value> =
        answer.stdout.split(|byte| *byte == b'\n').filter_map(|line| serde_json::from_slice(line).ok()).collect();
    ids(&lines)
}

/// Of `printed` and what comes of resuming, nothing is missing, and what comes again was printed after the state.
fn check_resumed(folder: &Path, printed: &[String], position: usize) {
    let order = whole(folder, "");
    assert_eq!(order.len() as u64, SAMPLES);
    assert_eq!(printed, &order[..printed.len()]);
    assert!(position <= printed.len(), "the state is ahead: {position} of {}", printed.len());
    assert_eq!(whole(folder, "--resume state"), order[position..]);
}

#[test]
fn a_signal_ends_a_run_whose_output_nobody_reads_with_the_state_of_what_was_printed() {
    for name in ["read", "order"] {
        for signal in [Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP] {
            let folder = dataset();
            let run = Run::start(folder.path(), name);
            run.send(signal);
            let (lines, status, stderr) = run.ended();
            assert_eq!((status.code(), stderr.as_str()), (Some(128 + signal as i32), ""), "{name} {signal}");
            let state: Value = serde_json::from_slice(&fs::read(folder.path().join("state")).unwrap()).unwrap();
            check_resumed(folder.path(), &ids(&lines), state["position"].as_u64().unwrap() as usize);
        }
    }
}

#[test]
fn a_run_that_is_killed_loses_nothing_that_it_has_not_printed() {
    for name in ["read", "order"] {
        let folder = dataset();
        let run = Run::start(folder.path(), name);
        // It is saved while it goes on, long before its end.
        let position = until(|| run.saved().filter(|position| *position > 3));
        run.send(Signal::SIGKILL);
        let state = run.state.clone();
        let (lines, status, _) = run.ended();
        assert_eq!(status.signal(), Some(Signal::SIGKILL as i32));
        let last: Value = serde_json::from_slice(&fs::read(state).unwrap()).unwrap();
        let last = last["position"].as_u64().unwrap();
        assert!(last >= position && last < SAMPLES, "{name}: {position}, then {last}");
        check_resumed(folder.path(), &ids(&lines), last as usize);
        let left = fs::read_dir(folder.path()).unwrap().count();
        assert_eq!(left, 2, "the data and the state");
    }
}

#[test]
fn sigusr1_saves_and_the_run_goes_on() {
    for name in ["read", "order"] {
        let folder = dataset();
        let mut run = Run::start(folder.path(), name);
        until(|| run.saved());
        // Nothing more is printed, so that nothing but the signal has a reason to save.
        let mut before = None;
        until(|| {
            thread::sleep(Duration::from_millis(1500));
            let now = run.saved();
            (std::mem::replace(&mut before, now) == now).then_some(())
        });
        fs::remove_file(&run.state).unwrap();
        run.send(Signal::SIGUSR1);
        let position = until(|| run.saved());
        assert!((3..SAMPLES).contains(&position), "{name}: {position}");
        run.stdout.read_to_end(&mut run.text).unwrap();
        let (lines, status, stderr) = run.ended();
        assert_eq!((status.code(), stderr.as_str()), (Some(0), ""), "{name}");
        assert_eq!(ids(&lines), whole(folder.path(), ""), "{name}");
    }
}

#[test]
fn a_reader_that_goes_away_leaves_the_state_of_what_was_printed() {
    for name in ["read", "order"] {
        let folder = dataset();
        let program = env!("CARGO_BIN_EXE_forebay");
        let device = if name == "read" { "--device host" } else { "" };
        let line = format!("{program} {name} {FLAGS} {device} --save-state state | head -n 3");
        let output = Command::new("sh").arg("-c").arg(line).current_dir(folder.path()).output().unwrap();
        assert_eq!(String::from_utf8(output.stderr).unwrap(), "");
        let lines: Vec<Value> =
            output.stdout.split(|byte| *byte == b'\n').filter_map(|line| serde_json::from_slice(line).ok()).collect();
        assert_eq!(ids(&lines), whole(folder.path(), "--max-batches 3"));
        // A pipe that is full has taken what `head` has not read.
        let state: Value = serde_json::from_slice(&fs::read(folder.path().join("state")).unwrap()).unwrap();
        let position = state["position"].as_u64().unwrap();
        assert!((3..SAMPLES).contains(&position), "{name}: {position}");
        assert_eq!(whole(folder.path(), "--resume state"), whole(folder.path(), "")[position as usize..], "{name}");
    }
}

#[test]
fn what_nohup_ignores_stays_ignored() {
    let folder = dataset();
    let program = env!("CARGO_BIN_EXE_forebay");
    let line = format!("trap '' HUP; exec {program} read {FLAGS} --device host --save-state state");
    let mut child =
        Command::new("sh").arg("-c").arg(line).current_dir(folder.path()).stdout(Stdio::piped()).spawn().unwrap();
    let mut stdout = BufReader::with_capacity(1, child.stdout.take().unwrap());
    let mut text = Vec::new();
    stdout.read_until(b'\n', &mut text).unwrap();
    kill(Pid::from_raw(child.id() as i32), Signal::SIGHUP).unwrap();
    stdout.read_to_end(&mut text).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(0));
    assert_eq!(text.iter().filter(|byte| **byte == b'\n').count() as u64, SAMPLES + 1);
}

#[test]
fn a_limit_of_file_sizes_is_an_error_that_names_the_file_and_the_limit() {
    let folder = dataset();
    let program = env!("CARGO_BIN_EXE_forebay");
    for (limit, arguments, path) in [
        (0, "order data.rec --record-bytes 512 --save-state state", "state"),
        (64, "pack data.rec --record-bytes 512 -o out.safetensors", "out.safetensors"),
        (64, "bench . --size 16MiB --seconds 1 --peers false --device host", "."),
        (64, "cat data.rec > copy", "stdout"),
        (64, "order data.rec --record-bytes 512 --batch-size 1 > copy", "stdout"),
    ] {
        let line = format!("ulimit -f {limit}; exec {program} {arguments}");
        let output = Command::new("sh").arg("-c").arg(line).current_dir(folder.path()).output().unwrap();
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(1), "{arguments}: {:?} {stderr}", output.status);
        let error = stderr.lines().last().unwrap();
        assert!(error.starts_with(&format!("error: {path}")) && error.contains("ulimit -f"), "{arguments}: {stderr}");
        let names = fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
        let left: Vec<String> = names.filter(|name| name != "data.rec" && name != "copy").collect();
        assert!(left.is_empty(), "{arguments}: {left:?}");
    }
}

/// The calls that have files on disk or replace them, by `strace`.
fn traced(folder: &Path, name: &str, stdout: Stdio, options: &[&str]) -> Result<(Answer, Vec<String>), Skip> {
    let works = Command::new("strace").args(["-f", "-o", "/dev/null", "true"]).output();
    match works {
        Ok(output) if output.status.success() => {}
        Ok(output) => return Err(Skip::because(format!("strace: {}", String::from_utf8_lossy(&output.stderr).trim()))),
        Err(error) => return Err(Skip::because(format!("strace: {error}"))),
    }
    let log = folder.join("trace");
    let run = command(folder, name, "--save-state state");
    let mut strace = clean(Command::new("strace"));
    strace
        .args(["-f", "--seccomp-bpf", "-y", "-e", "trace=fdatasync,fsync,rename,renameat,renameat2", "-o"])
        .arg(&log)
        .args(options);
    strace
        .arg("--")
        .arg(run.get_program())
        .args(run.get_args())
        .current_dir(folder)
        .stdout(stdout)
        .stderr(Stdio::piped());
    let output = strace.spawn().unwrap().wait_with_output().unwrap();
    let answer =
        Answer { code: output.status.code(), stdout: output.stdout, stderr: String::from_utf8(output.stderr).unwrap() };
    Ok((answer, whole_calls(&fs::read_to_string(&log).unwrap())))
}

/// Those that replace a file where they began, and those that have one on disk where they ended: `strace` breaks a call in two
/// where another thread makes one meanwhile. It logs calls without a name unasked.
fn whole_calls(log: &str) -> Vec<String> {
    let mut begun: HashMap<&str, &str> = HashMap::new();
    let mut calls = Vec::new();
    for line in log.lines() {
        let (thread, line) = line.split_once(' ').unwrap();
        let line = line.trim_start();
        if line.starts_with("rename") {
            calls.push(line.to_owned());
        } else if line.starts_with("fsync") || line.starts_with("fdatasync") {
            match line.strip_suffix(" <unfinished ...>") {
                Some(beginning) => {
                    begun.insert(thread, beginning);
                }
                None => calls.push(line.to_owned()),
            }
        } else if let Some((_, end)) = line.split_once("sync resumed>") {
            calls.push(format!("{}{end}", begun.remove(thread).unwrap()));
        }
    }
    calls
}

/// Else a power loss could leave a state that is ahead of the output.
#[test]
fn a_redirected_stdout_is_on_disk_before_each_state_that_counts_it() {
    for name in ["read", "order"] {
        let folder = dataset();
        let out = folder.path().join("out");
        let file = fs::File::create(&out).unwrap();
        let (answer, calls) = or_skip!(traced(folder.path(), name, file.into(), &[]));
        assert_eq!((answer.code, answer.stderr.as_str()), (Some(0), ""));
        let saves: Vec<usize> = (0..calls.len()).filter(|&i| calls[i].starts_with("rename")).collect();
        assert!(!saves.is_empty(), "{calls:?}");
        for save in saves {
            let synced = calls[..save].iter().rev().take_while(|call| !call.starts_with("rename"));
            let synced = synced.filter(|call| call.starts_with("fdatasync") && call.contains("/out>)"));
            assert_eq!(synced.count(), 1, "{calls:?}");
        }
        assert_eq!(whole(folder.path(), "").len() as u64, SAMPLES);

        // A pipe is none of the disk's.
        let (answer, calls) = or_skip!(traced(folder.path(), name, Stdio::piped(), &[]));
        assert_eq!(answer.code, Some(0), "{}", answer.stderr);
        assert!(calls.iter().all(|call| !call.starts_with("fdatasync")), "{calls:?}");
    }
}

#[test]
fn a_disk_that_does_not_take_the_output_leaves_the_state_as_it_was() {
    for name in ["read", "order"] {
        let folder = dataset();
        let file = fs::File::create(folder.path().join("out")).unwrap();
        let fails = ["-e", "inject=fdatasync:error=EIO"];
        let (answer, calls) = or_skip!(traced(folder.path(), name, file.into(), &fails));
        assert_eq!(answer.code, Some(1), "{}", answer.stderr);
        let last = answer.stderr.lines().last().unwrap();
        assert!(last.starts_with("error: stdout: the disk did not take what was printed"), "{}", answer.stderr);
        assert!(
            !folder.path().join("state").exists() && calls.iter().all(|call| !call.starts_with("rename")),
            "{calls:?}"
        );
    }
}
