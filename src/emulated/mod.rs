//! The emulated CUDA driver and cuFile, for the unit tests of this crate: each starts this binary again under the emulator,
//! which the dynamic linker must find when a process starts. And the mistakes that such tests plant.

mod control;
pub(crate) mod mutant;

use std::ffi::OsString;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

pub(crate) use control::Emulator;

/// The parent's sign to its child, without which the child's tests do nothing.
const CHILD: &str = "FOREBAY_TEST_CHILD";

/// Runs the ignored test `name`, with its path from the crate's root, under the emulator. `None` where there is none.
pub(crate) fn run(name: &str, script: &str, mistake: Option<&str>) -> Option<Output> {
    let Some(library) = library() else {
        crate::skipped::skipped("the emulator is not built; run plain `cargo test`");
        return None;
    };
    let dir = tempfile::tempdir().unwrap();
    for link in ["libcuda.so", "libcuda.so.1", "libcufile.so.0"] {
        symlink(&library, dir.path().join(link)).unwrap();
    }
    let mut path = OsString::from(dir.path());
    if let Some(before) = std::env::var_os("LD_LIBRARY_PATH") {
        path.push(":");
        path.push(before);
    }
    // A child that hangs is a failure, not a pause.
    let mut command = Command::new("timeout");
    command.args(["-k", "5", "120"]).arg(std::env::current_exe().unwrap());
    command.args(["--exact", name, "--ignored", "--nocapture", "--test-threads", "1"]);
    command.env("LD_LIBRARY_PATH", path).env("FOREBAY_EMULATOR", script).env(CHILD, "1");
    command.env_remove("CUDA_VISIBLE_DEVICES").env_remove("CUFILE_ENV_PATH_JSON").env_remove(mutant::VARIABLE);
    command.env("RUST_BACKTRACE", "0");
    if let Some(mistake) = mistake {
        command.env(mutant::VARIABLE, mistake);
    }
    Some(command.output().unwrap())
}

/// Runs it, and wants it to pass.
pub(crate) fn pass(name: &str, script: &str) {
    let Some(output) = run(name, script, None) else { return };
    assert!(passed(&output), "{name} under `{script}`: {}\n{}", output.status, said(&output));
}

/// A planted mistake must be caught, which the child says in one of these words; without it, the child must pass.
pub(crate) fn is_caught(name: &str, script: &str, mistake: &str, words: &[&str]) {
    pass(name, script);
    let Some(output) = run(name, script, Some(mistake)) else { return };
    let said = said(&output);
    let caught = !output.status.success() && words.iter().any(|word| said.contains(word));
    assert!(caught, "`{mistake}` was not caught: {}\n{said}", output.status);
}

/// Whether the child ran its one test, and that passed: a name that fits none would pass, too.
fn passed(output: &Output) -> bool {
    output.status.success() && String::from_utf8_lossy(&output.stdout).contains("1 passed")
}

fn said(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

pub(crate) fn is_child() -> bool {
    std::env::var_os(CHILD).is_some()
}

/// Beside the binary: /tmp may be a file system without a direct path.
pub(crate) fn folder() -> tempfile::TempDir {
    let exe = std::env::current_exe().unwrap();
    tempfile::tempdir_in(exe.parent().unwrap()).unwrap()
}

/// Where cargo puts examples. One that is older than its source is not taken for it.
fn library() -> Option<PathBuf> {
    let exe = std::env::current_exe().unwrap();
    let built = exe.parent()?.parent()?.join("examples/libcuda.so");
    let made = built.metadata().ok()?.modified().ok()?;
    let newest = newest(&Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/emulator"));
    newest.is_none_or(|newest| newest <= made).then_some(built)
}

fn newest(dir: &Path) -> Option<std::time::SystemTime> {
    let changed = |entry: std::fs::DirEntry| match entry.metadata().ok()? {
        kind if kind.is_dir() => newest(&entry.path()),
        file => file.modified().ok(),
    };
    std::fs::read_dir(dir).ok()?.flatten().filter_map(changed).max()
}
