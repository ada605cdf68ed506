//! System calls denied by a seccomp filter, as container runtimes and hardened hosts do it.
use std::io;

use nix::libc;
use nix::libc::{sock_filter, sock_fprog};

/// One denial and the errno it answers with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Deny {
    /// All three io_uring calls.
    Uring(i32),
    /// io_uring_register only: rings can be made, but nothing registered with them.
    Register(i32),
    /// openat with O_DIRECT.
    DirectOpen(i32),
    /// openat with O_TMPFILE, as on file systems that have no files without names.
    Nameless(i32),
    /// statx, as where the kernel or the sandbox is older than the call.
    Statx(i32),
    /// cachestat, as where the kernel is older than the call.
    Cachestat(i32),
    /// fallocate, as where the file system cannot.
    Fallocate(i32),
    /// fdatasync, as where the file system cannot be written to, or the drive fails.
    SyncData(i32),
    /// New threads, as at the limit of a control group or a user.
    Threads(i32),
    /// clone3 only, as by container runtimes older than the call.
    Clone3(i32),
    /// eventfd2.
    Eventfd(i32),
}

/// The filter for these denials. Everything else is allowed.
pub fn filter(denied: &[Deny]) -> Vec<sock_filter> {
    let mut program = Vec::new();
    for deny in denied {
        match *deny {
            Deny::Uring(errno) => {
                for call in [libc::SYS_io_uring_setup, libc::SYS_io_uring_enter, libc::SYS_io_uring_register] {
                    program.extend(refuse(call, errno));
                }
            }
            Deny::Register(errno) => program.extend(refuse(libc::SYS_io_uring_register, errno)),
            Deny::Statx(errno) => program.extend(refuse(libc::SYS_statx, errno)),
            Deny::Fallocate(errno) => program.extend(refuse(libc::SYS_fallocate, errno)),
            Deny::SyncData(errno) => program.extend(refuse(libc::SYS_fdatasync, errno)),
            Deny::Cachestat(errno) => program.extend(refuse(CACHESTAT, errno)),
            Deny::Threads(errno) => {
                for call in [libc::SYS_clone, libc::SYS_clone3] {
                    program.extend(refuse(call, errno));
                }
            }
            Deny::Clone3(errno) => program.extend(refuse(libc::SYS_clone3, errno)),
            Deny::Eventfd(errno) => program.extend(refuse(libc::SYS_eventfd2, errno)),
            Deny::DirectOpen(errno) => program.extend(refuse_open(libc::O_DIRECT, errno)),
            // O_TMPFILE is O_DIRECTORY and a bit of its own.
            Deny::Nameless(errno) => program.extend(refuse_open(libc::O_TMPFILE & !libc::O_DIRECTORY, errno)),
        }
    }
    program.push(instruction(libc::BPF_RET, libc::SECCOMP_RET_ALLOW));
    program
}

/// Puts the filter on the calling thread, for good. Allocates nothing: it runs between fork and exec.
pub fn install(program: &[sock_filter]) -> io::Result<()> {
    let program = sock_fprog { len: program.len() as u16, filter: program.as_ptr().cast_mut() };
    // SAFETY: the program outlives both calls, and the kernel copies it and does not write to it.
    let rc = unsafe {
        match libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) {
            0 => libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &program),
            rc => rc,
        }
    };
    if rc == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// The same number on every architecture.
const CACHESTAT: libc::c_long = 451;

/// Offsets in `struct seccomp_data`.
const CALL: u32 = 0;
const ARGUMENTS: u32 = 16;

fn refuse(call: libc::c_long, errno: i32) -> [sock_filter; 3] {
    [load(CALL), unless_equal(call as u32, 1), answer(errno)]
}

fn refuse_open(flag: i32, errno: i32) -> [sock_filter; 5] {
    [
        load(CALL),
        unless_equal(libc::SYS_openat as u32, 3),
        load(ARGUMENTS + 8 * 2),
        jump(libc::BPF_JSET, flag as u32, 1),
        answer(errno),
    ]
}

fn load(offset: u32) -> sock_filter {
    instruction(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, offset)
}

/// Skips that many instructions unless the loaded word equals `k`.
fn unless_equal(k: u32, skip: u8) -> sock_filter {
    jump(libc::BPF_JEQ, k, skip)
}

fn jump(test: u32, k: u32, skip: u8) -> sock_filter {
    sock_filter { jf: skip, ..instruction(libc::BPF_JMP | test | libc::BPF_K, k) }
}

fn answer(errno: i32) -> sock_filter {
    instruction(libc::BPF_RET, libc::SECCOMP_RET_ERRNO | errno as u32)
}

fn instruction(code: u32, k: u32) -> sock_filter {
    sock_filter { code: code as u16, jt: 0, jf: 0, k }
}
