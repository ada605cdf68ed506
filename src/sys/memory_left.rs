//! How many bytes this process can still take: the machine's free memory, or less under a control group.

use std::path::Path;

use super::{cgroup, machine};

/// Bytes that can be allocated before the machine, or this process's control group, is out of memory; `None` where
/// the kernel says neither.
pub(crate) fn bytes() -> Option<u64> {
    let (proc, sys) = (Path::new("/proc"), Path::new("/sys"));
    [machine::memory_available(proc), cgroup::memory_left(proc, sys)].into_iter().flatten().min()
}
