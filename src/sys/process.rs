//! What the kernel lets this process do: capabilities and seccomp.

use std::path::Path;

use super::text;

/// Bit of CAP_IPC_LOCK in a capability set: memory may be locked without limit.
const CAP_IPC_LOCK: u32 = 14;

/// Whether this process holds CAP_IPC_LOCK where the kernel asks for it, in the first user namespace: memory may then be
/// locked beyond RLIMIT_MEMLOCK. `None` where /proc does not tell. Others lock memory of this user, too, so that whether
/// the kernel will lock some is found by locking it. `proc` is normally `/proc`.
pub fn may_lock_memory(proc: &Path) -> Option<bool> {
    if !is_first_user_namespace(proc)? {
        return Some(false);
    }
    let set = u64::from_str_radix(&status(proc, "CapEff:")?, 16).ok()?;
    Some(set >> CAP_IPC_LOCK & 1 == 1)
}

/// The first namespace alone maps every user to itself.
fn is_first_user_namespace(proc: &Path) -> Option<bool> {
    let map = text::text(&proc.join("self/uid_map"))?;
    Some(map.split_whitespace().eq(["0", "0", "4294967295"]))
}

/// Whether a seccomp filter stands between this process and the kernel; container runtimes use one to forbid io_uring.
/// `None` where /proc does not tell. `proc` is normally `/proc`.
pub fn is_filtered(proc: &Path) -> Option<bool> {
    status(proc, "Seccomp:")?.parse::<u32>().ok().map(|mode| mode != 0)
}

/// Why the kernel may have refused `calls`, and what to do, where it answered that they are not permitted or unknown.
pub(crate) fn forbidden(calls: &str) -> String {
    match is_filtered(Path::new("/proc")) {
        Some(true) => {
            format!("this process has a seccomp filter, as container runtimes set one: have it allow {calls}")
        }
        Some(false) => format!("have the security module (SELinux, AppArmor, BPF) or the sandbox allow {calls}"),
        None => format!("have the seccomp filter, the security module or the sandbox allow {calls}"),
    }
}

fn status(proc: &Path, field: &str) -> Option<String> {
    let text = text::text(&proc.join("self/status"))?;
    text.lines().find_map(|line| line.strip_prefix(field)).map(|value| value.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys::fake_tree::FakeTree;

    #[test]
    fn capability_and_filter() {
        let proc = FakeTree::new();
        proc.file("self/uid_map", "         0          0 4294967295\n");
        proc.file("self/status", "Name:\tforebay\nCapEff:\t0000000000004000\nSeccomp:\t2\n");
        assert_eq!((may_lock_memory(proc.root()), is_filtered(proc.root())), (Some(true), Some(true)));
        proc.file("self/status", "CapEff:\t000001ffffffbfff\nSeccomp:\t0\n");
        assert_eq!((may_lock_memory(proc.root()), is_filtered(proc.root())), (Some(false), Some(false)));
    }

    #[test]
    fn a_capability_in_another_user_namespace_is_none() {
        let proc = FakeTree::new();
        proc.file("self/status", "CapEff:\t000001ffffffffff\n");
        proc.file("self/uid_map", "         0          0          1\n");
        assert_eq!(may_lock_memory(proc.root()), Some(false));
    }

    #[test]
    fn missing_and_garbage_are_none() {
        let proc = FakeTree::new();
        assert_eq!((may_lock_memory(proc.root()), is_filtered(proc.root())), (None, None));
        proc.file("self/status", "CapEff:\tzz\nSeccomp:\t-1\n");
        assert_eq!((may_lock_memory(proc.root()), is_filtered(proc.root())), (None, None));
    }
}
