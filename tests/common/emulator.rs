//! The emulated CUDA driver and cuFile, for tests that run as children: the loader reads its search path once, at the
//! start. A parent makes an `Emulator` and starts this test binary, or the `forebay` command, under it; the child speaks
//! to the emulator itself through `Control`.
use std::ffi::{CString, OsString, c_char, c_int, c_void};
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::SystemTime;

use libloading::Library;

use super::Skip;
use super::privilege::{CHILD, Reduced, forebay};

/// All the names under which it is found.
pub const NAMES: [&str; 3] = ["libcuda.so", "libcuda.so.1", "libcufile.so.0"];

/// A folder in which the loader finds the emulator under the names of the real libraries.
#[derive(Debug)]
pub struct Emulator {
    dir: tempfile::TempDir,
}

impl Emulator {
    /// With driver and cuFile.
    pub fn new() -> Result<Emulator, Skip> {
        Emulator::with(&NAMES)
    }

    /// With some of `NAMES`: a machine that lacks the others.
    pub fn with(names: &[&str]) -> Result<Emulator, Skip> {
        let library = library()?;
        let dir = tempfile::Builder::new().prefix("forebay-emulator-").tempdir().unwrap();
        for name in names {
            symlink(&library, dir.path().join(name)).unwrap();
        }
        Ok(Emulator { dir })
    }

    pub fn path(&self) -> &Path {
        self.dir.path()
    }

    /// This test binary, to be started again for the ignored test `name`, which must begin with `in_child`. To be run
    /// with `expect_child`.
    pub fn command(&self, name: &str, script: &str) -> Command {
        let mut command = Reduced::new().command(&std::env::current_exe().unwrap());
        command.args(["--exact", name, "--ignored", "--nocapture", "--test-threads", "1"]);
        command.env(CHILD, "1").env("FOREBAY_TEST_DIR", self.path());
        self.put_under(&mut command, script);
        command
    }

    /// The `forebay` command. What it did to the emulator is in `report` afterwards.
    pub fn forebay(&self, script: &str) -> Result<Command, Skip> {
        let mut command = Reduced::new().command(forebay()?);
        let _ = fs::remove_file(self.report_path());
        self.put_under(&mut command, &format!("{script}; report={}", self.report_path().display()));
        Ok(command)
    }

    /// Puts any command under the emulator.
    pub fn put_under(&self, command: &mut Command, script: &str) {
        let mut path = OsString::from(self.path());
        if let Some(before) = std::env::var_os("LD_LIBRARY_PATH") {
            path.push(":");
            path.push(before);
        }
        command.env("LD_LIBRARY_PATH", path).env("FOREBAY_EMULATOR", script).env_remove("CUDA_VISIBLE_DEVICES");
    }

    /// What the last `forebay` command left, when it came as far as cuInit and ended by itself.
    pub fn report(&self) -> Report {
        Report::read(&self.report_path())
    }

    fn report_path(&self) -> PathBuf {
        self.path().join("report.txt")
    }
}

/// The library, where cargo puts examples.
///
/// # Panics
/// If it is older than its source: `cargo test --test NAME` does not build it, and tests of yesterday's emulator, or none,
/// would look like tests of today's.
pub fn library() -> Result<PathBuf, Skip> {
    let exe = std::env::current_exe().unwrap();
    let built = exe.parent().and_then(Path::parent).map(|profile| profile.join("examples/libcuda.so"));
    let Some(built) = built.filter(|path| path.exists()) else {
        return Err(Skip::because("the emulator is not built; run plain `cargo test`"));
    };
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/emulator");
    let stale = newest(&source) > fs::metadata(&built).unwrap().modified().ok();
    assert!(
        !stale,
        "the emulator is older than its source; run plain `cargo test`, or `cargo build --example cuda` first"
    );
    Ok(built)
}

/// When the last change was made to a file in this folder; None where the sources are not at hand.
fn newest(dir: &Path) -> Option<SystemTime> {
    let entries = fs::read_dir(dir).ok()?.flatten();
    let changed = entries.filter_map(|entry| match entry.metadata().ok()? {
        kind if kind.is_dir() => newest(&entry.path()),
        file => file.modified().ok(),
    });
    changed.max()
}

/// What the emulator wrote down when a process ended.
#[derive(Debug, Default)]
pub struct Report {
    pub violations: Vec<String>,
    pub notes: Vec<String>,
    pub leaks: Vec<String>,
    calls: Vec<(String, u64)>,
}

impl Report {
    /// From the file that the script's `report=PATH` named.
    pub fn read(path: &Path) -> Report {
        let text = fs::read_to_string(path).unwrap_or_else(|e| panic!("{path:?}: {e}"));
        let mut report = Report::default();
        for (kind, rest) in text.lines().filter_map(|line| line.split_once(": ")) {
            match kind {
                "violation" => report.violations.push(rest.to_owned()),
                "note" => report.notes.push(rest.to_owned()),
                "leak" => report.leaks.push(rest.to_owned()),
                "calls" => {
                    let (name, count) = rest.split_once(' ').unwrap();
                    report.calls.push((name.to_owned(), count.parse().unwrap()));
                }
                _ => panic!("the emulator's report has a line of the kind {kind}"),
            }
        }
        report
    }

    pub fn calls(&self, name: &str) -> u64 {
        self.calls.iter().find(|(known, _)| known == name).map_or(0, |(_, count)| *count)
    }

    /// No violations and no leaks.
    pub fn assert_clean(&self) {
        assert!(self.violations.is_empty() && self.leaks.is_empty(), "{self:#?}");
    }
}

/// The emulator's own functions, in the process that it is loaded in.
#[derive(Debug)]
pub struct Control {
    library: Library,
}

impl Control {
    /// In a child: the emulator that the loader finds as the CUDA driver.
    pub fn here() -> Control {
        Control::open(Path::new("libcuda.so.1"))
    }

    pub fn open(path: &Path) -> Control {
        // SAFETY: the emulator runs nothing when it is loaded.
        let library = unsafe { Library::new(path) };
        Control { library: library.unwrap_or_else(|e| panic!("{path:?}: {e}")) }
    }

    /// Takes in more of the script, from now on.
    pub fn script(&self, script: &str) {
        let text = CString::new(script).unwrap();
        let answer = self.function::<extern "C" fn(*const c_char) -> c_int>("emulator_script")(text.as_ptr());
        assert_eq!(answer, 0, "the emulator does not understand `{script}`");
    }

    /// How often a function of either library was called since the start or `reset_calls`.
    pub fn calls(&self, name: &str) -> u64 {
        let text = CString::new(name).unwrap();
        self.function::<extern "C" fn(*const c_char) -> u64>("emulator_calls")(text.as_ptr())
    }

    pub fn reset_calls(&self) {
        self.function::<extern "C" fn()>("emulator_reset_calls")();
    }

    pub fn violations(&self) -> Vec<String> {
        self.messages("emulator_violations")
    }

    /// What is no mistake, as a stream destroyed with work queued.
    pub fn notes(&self) -> Vec<String> {
        self.messages("emulator_notes")
    }

    pub fn reset_violations(&self) {
        self.function::<extern "C" fn()>("emulator_reset_violations")();
    }

    /// Allocations, registrations, streams and events that are alive, or were when their context was released.
    pub fn leaks(&self) -> Vec<String> {
        self.messages("emulator_leaks")
    }

    /// Operations queued or running on streams.
    pub fn in_flight(&self) -> u64 {
        self.function::<extern "C" fn() -> u64>("emulator_in_flight")()
    }

    /// Device memory as it is now, whatever the streams have still to do.
    pub fn read_device(&self, ptr: u64, len: usize) -> Vec<u8> {
        type Read = extern "C" fn(u64, *mut c_void, usize) -> c_int;
        let mut bytes = vec![0; len];
        let answer = self.function::<Read>("emulator_read_device")(ptr, bytes.as_mut_ptr().cast(), len);
        assert_eq!(answer, 0, "{len} bytes at {ptr:#x} are not allocated on a device");
        bytes
    }

    /// No violations so far, and nothing alive.
    pub fn assert_clean(&self) {
        self.assert_no_violations();
        let leaks = self.leaks();
        assert!(leaks.is_empty(), "leaked: {leaks:#?}");
    }

    pub fn assert_no_violations(&self) {
        let violations = self.violations();
        assert!(violations.is_empty(), "violations: {violations:#?}");
    }

    /// Takes the violations so far and asserts that one of them says `what`.
    pub fn expect_violation(&self, what: &str) {
        let violations = self.violations();
        assert!(violations.iter().any(|one| one.contains(what)), "no violation says `{what}`: {violations:#?}");
        self.reset_violations();
    }

    fn messages(&self, name: &str) -> Vec<String> {
        let mut text = vec![0u8; 1 << 20];
        let function = self.function::<extern "C" fn(*mut c_char, usize) -> u64>(name);
        let count = function(text.as_mut_ptr().cast(), text.len());
        let end = text.iter().position(|&byte| byte == 0).unwrap_or(0);
        let text = String::from_utf8_lossy(&text[..end]);
        let messages: Vec<String> = text.lines().map(str::to_owned).collect();
        assert!(count >= messages.len() as u64);
        messages
    }

    /// A function of the emulator, or of the libraries it stands in for. `T` is its type, spelt as a function that is
    /// safe to call: what is done with pointers is the test's affair, and often the point of it.
    pub fn function<T: Copy>(&self, name: &str) -> T {
        // SAFETY: the caller gives the function's own type; the emulator stays loaded to the end of the process.
        let symbol = unsafe { self.library.get::<T>(name) };
        *symbol.unwrap_or_else(|e| panic!("{name}: {e}"))
    }
}
