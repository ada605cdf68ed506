//! Runs the real binary.

use std::ffi::OsStr;
use std::fs;
use std::io;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use nix::sys::signal::{self, SigHandler, Signal};

pub fn forebay() -> Command {
    let mut command = clean(Command::new(env!("CARGO_BIN_EXE_forebay")));
    command.stdin(Stdio::null());
    // SAFETY: between fork and exec only `sigaction` is called, which is safe there.
    unsafe { command.pre_exec(defaults) };
    command
}

/// Signals as a terminal leaves them: what runs the tests, `nohup` or a shell's job behind `&`, may ignore some.
fn defaults() -> io::Result<()> {
    for signal in [Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP, Signal::SIGQUIT, Signal::SIGUSR1] {
        // SAFETY: no handler is set.
        unsafe { signal::signal(signal, SigHandler::SigDfl) }?;
    }
    Ok(())
}

/// Without what a launcher that runs the tests says of them.
pub fn clean(mut command: Command) -> Command {
    const LAUNCHERS: [&str; 11] = [
        "RANK",
        "WORLD_SIZE",
        "LOCAL_RANK",
        "TORCHELASTIC",
        "SLURM_",
        "OMPI_",
        "MV2_",
        "PMI",
        "FLUX_",
        "PALS_",
        "JSM_",
    ];
    for (name, _) in std::env::vars_os() {
        if name.to_str().is_some_and(|name| LAUNCHERS.iter().any(|launcher| name.starts_with(launcher))) {
            command.env_remove(name);
        }
    }
    command
}

pub struct Answer {
    pub code: Option<i32>,
    pub stdout: Vec<u8>,
    pub stderr: String,
}

impl Answer {
    pub fn of(command: &mut Command) -> Self {
        let Output { status, stdout, stderr } = command.output().unwrap();
        Self { code: status.code(), stdout, stderr: String::from_utf8(stderr).unwrap() }
    }

    /// Fails unless the command ended with `code`, said nothing on stdout and one `error: ` line on stderr, which is
    /// returned.
    pub fn error(&self, code: i32) -> &str {
        assert_eq!(self.code, Some(code), "{}", self.stderr);
        assert!(self.stdout.is_empty(), "{:?}", String::from_utf8_lossy(&self.stdout));
        let lines: Vec<&str> = self.stderr.lines().collect();
        assert!(lines.len() == 1 && lines[0].starts_with("error: "), "{}", self.stderr);
        lines[0]
    }
}

/// Three bytes as numpy saves them.
pub const NPY: &[u8] = b"\x93NUMPY\x01\x00\x3d\x00{'descr': '|u1', 'fortran_order': False, 'shape': (3,)}     \nabc";

pub fn run<S: AsRef<OsStr>>(args: impl IntoIterator<Item = S>) -> Answer {
    Answer::of(forebay().args(args))
}

/// Bytes in which every position can be told from its neighbours.
pub fn pattern(length: usize) -> Vec<u8> {
    (0..length as u64).map(|index| (index.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as u8).collect()
}

pub fn write(folder: &Path, name: impl AsRef<OsStr>, bytes: &[u8]) -> PathBuf {
    let path = folder.join(name.as_ref());
    fs::write(&path, bytes).unwrap();
    path
}

/// A member of a tar archive, in POSIX's ustar format.
pub fn member(name: &str, bytes: &[u8]) -> Vec<u8> {
    tar_member(name, b'0', "", bytes)
}

/// A symbolic link in a tar archive.
pub fn link(name: &str, target: &str) -> Vec<u8> {
    tar_member(name, b'2', target, b"")
}

fn tar_member(name: &str, kind: u8, target: &str, bytes: &[u8]) -> Vec<u8> {
    let mut header = [0; 512];
    header[..name.len()].copy_from_slice(name.as_bytes());
    header[124..135].copy_from_slice(format!("{:011o}", bytes.len()).as_bytes());
    header[156] = kind;
    header[157..157 + target.len()].copy_from_slice(target.as_bytes());
    header[257..265].copy_from_slice(b"ustar\x0000");
    header[148..156].fill(b' ');
    let sum: u32 = header.iter().map(|byte| u32::from(*byte)).sum();
    header[148..155].copy_from_slice(format!("{sum:06o}\0").as_bytes());
    let padding = vec![0; bytes.len().next_multiple_of(512) - bytes.len()];
    [&header[..], bytes, &padding].concat()
}
