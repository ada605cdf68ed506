//! The size of a page of memory.

use std::sync::OnceLock;

use nix::libc;

/// Bytes in a page: 4096 on x86-64, up to 65536 elsewhere.
pub(crate) fn size() -> usize {
    static SIZE: OnceLock<usize> = OnceLock::new();
    *SIZE.get_or_init(|| {
        // SAFETY: `sysconf` only answers.
        let answer = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
        usize::try_from(answer).ok().filter(|size| size.is_power_of_two()).unwrap_or(4096)
    })
}
