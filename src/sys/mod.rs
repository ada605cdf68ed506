//! The kernel's doors that no crate opens for us: statx with direct-I/O alignment, page-cache residency, file-system
//! kinds and resource limits. Each file is one door; nothing here decides anything.

pub(crate) mod block_size;
pub(crate) mod cachestat;
pub(crate) mod limits;
pub(crate) mod memory_left;
pub(crate) mod page;
pub(crate) mod probe;
pub(crate) mod statfs;
pub(crate) mod statx;
