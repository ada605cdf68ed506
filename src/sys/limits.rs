//! Resource limits of this process: locked memory and open descriptors.

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

/// Raises the soft limit of open descriptors to the hard one where that is allowed, and returns the soft limit.
pub(crate) fn raise_open_files() -> u64 {
    let Ok((soft, hard)) = getrlimit(Resource::RLIMIT_NOFILE) else { return USUAL_OPEN_FILES };
    if soft < hard && setrlimit(Resource::RLIMIT_NOFILE, hard, hard).is_ok() { hard } else { soft }
}

/// The soft limit of open descriptors.
pub(crate) fn open_files() -> u64 {
    getrlimit(Resource::RLIMIT_NOFILE).map_or(USUAL_OPEN_FILES, |(soft, _)| soft)
}
