//! Resource limits of this process: locked memory, open descriptors, address space and threads.

use std::path::{Path, PathBuf};

use nix::sys::resource::{RLIM_INFINITY, Resource, getrlimit, setrlimit};

/// What a process gets on most systems, taken where the kernel does not say.
const USUAL_OPEN_FILES: u64 = 1024;

/// The soft limit of memory that this process may lock, in bytes; `None` is unlimited or unknown.
pub(crate) fn locked_memory() -> Option<u64> {
    match getrlimit(Resource::RLIMIT_MEMLOCK) {
        Ok((soft, _)) if soft != RLIM_INFINITY => Some(soft),
        _ => None,
    }
}

/// The soft limit of address space, in bytes; `None` is unlimited or unknown.
pub(crate) fn address_space() -> Option<u64> {
    match getrlimit(Resource::RLIMIT_AS) {
        Ok((soft, _)) if soft != RLIM_INFINITY => Some(soft),
        _ => None,
    }
}

/// What bounds how many threads this process may start; `None` is unlimited or unknown.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ThreadLimits {
    /// Of all processes of this user together: RLIMIT_NPROC.
    pub(crate) user: Option<u64>,
    /// Of a control group: the number and the file that sets it.
    pub(crate) group: Option<(u64, PathBuf)>,
    pub(crate) address_space: Option<u64>,
    /// How many mappings a process may have, where this one is near it: each thread takes two.
    pub(crate) mappings: Option<u64>,
}

pub(crate) fn threads() -> ThreadLimits {
    let user = match getrlimit(Resource::RLIMIT_NPROC) {
        Ok((soft, _)) if soft != RLIM_INFINITY => Some(soft),
        _ => None,
    };
    let group = super::cgroup::thread_limit(Path::new("/proc"), Path::new("/sys"));
    ThreadLimits { user, group, address_space: address_space(), mappings: mappings() }
}

fn mappings() -> Option<u64> {
    const SPARE: u64 = 64;
    let limit = super::text::number(Path::new("/proc/sys/vm/max_map_count"))?;
    let maps = super::text::bounded(Path::new("/proc/self/maps"), 256 << 20)?;
    (maps.lines().count() as u64 + SPARE >= limit).then_some(limit)
}

/// Raises the soft limit of open descriptors to the hard one where that is allowed, and returns the soft limit.
pub(crate) fn raise_open_files() -> u64 {
    let Ok((soft, hard)) = getrlimit(Resource::RLIMIT_NOFILE) else { return USUAL_OPEN_FILES };
    if soft < hard && setrlimit(Resource::RLIMIT_NOFILE, hard, hard).is_ok() { hard } else { soft }
}

/// The soft limit of open descriptors.
pub(crate) fn open_files() -> u64 {
    getrlimit(Resource::RLIMIT_NOFILE).map_or(USUAL_OPEN_FILES, |(soft, _)| soft)
}

/// The most bytes that a file may grow to (RLIMIT_FSIZE).
pub(crate) fn file_size() -> u64 {
    getrlimit(Resource::RLIMIT_FSIZE).map_or(u64::MAX, |(soft, _)| soft)
}
