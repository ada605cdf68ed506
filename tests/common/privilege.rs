//! Children under reduced privileges: another user, resource limits, denied system calls. A child is either the
//! `forebay` command or this very test binary, started again for one `#[ignore]`d test.
use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use nix::libc;
use nix::sys::resource::{Resource, getrlimit, setrlimit};

use super::seccomp::{self, Deny};
use super::watchdog::CHILD_PATIENCE;
use super::{Skip, is_root};

/// The user called nobody, who owns nothing and may do nothing special.
pub const NOBODY: u32 = 65_534;

/// What a child must do with less of. Limits are set soft and hard.
#[derive(Debug, Clone, Default)]
pub struct Reduced {
    user: Option<u32>,
    limits: Vec<(Resource, u64)>,
    denied: Vec<Deny>,
}

impl Reduced {
    pub fn new() -> Reduced {
        Reduced::default()
    }

    /// As that user when we are root; when we are not, as whoever we are. The kernel counts locked memory per user,
    /// so tests that run at the same time must not share one.
    pub fn user(mut self, uid: u32) -> Reduced {
        self.user = Some(uid);
        self
    }

    pub fn memlock(self, bytes: u64) -> Reduced {
        self.limit(Resource::RLIMIT_MEMLOCK, bytes)
    }

    pub fn open_files(self, n: u64) -> Reduced {
        self.limit(Resource::RLIMIT_NOFILE, n)
    }

    pub fn address_space(self, bytes: u64) -> Reduced {
        self.limit(Resource::RLIMIT_AS, bytes)
    }

    /// The kernel counts the threads of a user, so tests that run at the same time must not share one.
    pub fn processes(self, n: u64) -> Reduced {
        self.limit(Resource::RLIMIT_NPROC, n)
    }

    pub fn deny(mut self, denied: &[Deny]) -> Reduced {
        self.denied.extend(denied);
        self
    }

    fn limit(mut self, resource: Resource, value: u64) -> Reduced {
        self.limits.push((resource, value));
        self
    }

    /// Without root no hard limit can be raised, not even to a low value.
    pub fn possible(&self) -> Result<(), Skip> {
        for &(resource, value) in &self.limits {
            let (_, hard) = getrlimit(resource).map_err(|e| Skip::because(format!("getrlimit: {e}")))?;
            if hard < value && !is_root() {
                return Err(Skip::because(format!("{resource:?} of {value} is above the hard limit, {hard}")));
            }
        }
        Ok(())
    }

    /// A command that runs `program` this way.
    pub fn command(&self, program: &Path) -> Command {
        let mut command = Command::new(program);
        command.stdin(Stdio::null());
        if let Some(uid) = self.user.filter(|_| is_root()) {
            command.uid(uid).gid(NOBODY);
        }
        let limits = self.limits.clone();
        let filter = (!self.denied.is_empty()).then(|| seccomp::filter(&self.denied));
        let set_up = move || -> io::Result<()> {
            for &(resource, value) in &limits {
                setrlimit(resource, value, value)?;
            }
            filter.as_deref().map_or(Ok(()), seccomp::install)
        };
        // SAFETY: between fork and exec the closure makes only setrlimit and prctl calls, on data made beforehand.
        unsafe { command.pre_exec(set_up) };
        command
    }
}

/// A folder that every user can reach, unlike the build's own: copies of executables and data for `unprivileged`.
#[derive(Debug)]
pub struct Outside {
    dir: tempfile::TempDir,
}

impl Outside {
    pub fn new() -> Outside {
        let dir = tempfile::Builder::new().prefix("forebay-outside-").tempdir().unwrap();
        fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o755)).unwrap();
        Outside { dir }
    }

    pub fn path(&self) -> &Path {
        self.dir.path()
    }

    /// Copies an executable here. `cp` does it, not this process: a child that another thread starts meanwhile
    /// inherits what we have open for writing until it execs, and a file that is open for writing cannot be run (ETXTBSY).
    pub fn copy(&self, program: &Path) -> PathBuf {
        let copy = self.dir.path().join(program.file_name().unwrap());
        if !copy.exists() {
            let copied = Command::new("cp").arg("--").arg(program).arg(&copy).status().unwrap();
            assert!(copied.success(), "cp {program:?} {copy:?}: {copied}");
            fs::set_permissions(&copy, fs::Permissions::from_mode(0o755)).unwrap();
        }
        copy
    }

    /// This test binary, to be started again for the ignored test `name`, which must begin with `in_child`.
    pub fn rerun(&self, reduced: &Reduced, name: &str) -> Command {
        let copy = self.copy(&std::env::current_exe().unwrap());
        let mut command = reduced.command(&copy);
        command.args(["--exact", name, "--ignored", "--nocapture", "--test-threads", "1"]);
        command.env(CHILD, "1").env("FOREBAY_TEST_DIR", self.path()).current_dir(self.path());
        command
    }
}

pub(super) const CHILD: &str = "FOREBAY_TEST_CHILD";
const DONE: &str = "the child's work is done";

/// True in a child made by `Outside::rerun`. An ignored test that somebody runs by itself says so and returns.
pub fn in_child() -> bool {
    let child = std::env::var_os(CHILD).is_some();
    if !child {
        eprintln!("skipped: it is a part of another test, which starts it under the limits it needs");
    }
    child
}

/// The folder of the parent's `Outside`.
pub fn child_dir() -> PathBuf {
    std::env::var_os("FOREBAY_TEST_DIR").unwrap().into()
}

/// The last thing a child test says: without it the parent takes the child for one that never ran.
pub fn child_done() {
    println!("{DONE}");
}

/// Runs a child test to its end and panics with all it said unless it did its work and passed.
pub fn expect_child(what: &str, command: Command) {
    expect_child_within(what, command, CHILD_PATIENCE);
}

/// The same with another patience; gives what the child said on stderr.
pub fn expect_child_within(what: &str, command: Command, patience: Duration) -> String {
    let output = run_within(what, command, patience);
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && said.contains(DONE), "{what}: {}", told(&output));
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Runs a command to its end, or kills it and panics when that takes longer than our patience.
pub fn run(what: &str, command: Command) -> Output {
    run_within(what, command, CHILD_PATIENCE)
}

pub fn run_within(what: &str, mut command: Command, patience: Duration) -> Output {
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let child = command.spawn().unwrap_or_else(|e| panic!("{what}: {:?}: {e}", command.get_program()));
    let pid = child.id() as libc::pid_t;
    let (done, finished) = mpsc::channel();
    let waiter = thread::spawn(move || {
        let output = child.wait_with_output();
        let _ = done.send(());
        output
    });
    if finished.recv_timeout(patience).is_err() {
        // SAFETY: the waiter has not sent, so it has not yet reaped the child, or only just: the number is still its.
        unsafe { libc::kill(pid, libc::SIGKILL) };
        let output = waiter.join().unwrap().unwrap();
        panic!("{what}: still running after {patience:?}; {}", told(&output));
    }
    waiter.join().unwrap().unwrap()
}

/// How a child ended and what it said, for a failure's message.
pub fn told(output: &Output) -> String {
    let text = |bytes: &[u8]| match std::str::from_utf8(bytes) {
        Ok(text) => text.to_owned(),
        Err(_) => format!("{} bytes that are not text", bytes.len()),
    };
    format!("{}\n--- stdout\n{}\n--- stderr\n{}", output.status, text(&output.stdout), text(&output.stderr))
}

/// The `forebay` command, where it was built.
pub fn forebay() -> Result<&'static Path, Skip> {
    option_env!("CARGO_BIN_EXE_forebay")
        .map(Path::new)
        .ok_or_else(|| Skip::because("the forebay command is not built without the feature `cli`"))
}
