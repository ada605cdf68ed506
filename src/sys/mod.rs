//! The kernel's doors that no crate opens for us: statx with direct-I/O alignment, page-cache residency, file-system
//! kinds and resource limits; and what it shows in /sys and /proc, which `facts` makes public. Each file is one door;
//! nothing here decides anything.

pub(crate) mod block;
pub(crate) mod block_size;
pub(crate) mod cachestat;
pub(crate) mod cgroup;
pub(crate) mod cuda;
pub(crate) mod cufile;
pub(crate) mod limits;
pub(crate) mod machine;
pub(crate) mod memory_left;
pub(crate) mod mounts;
pub(crate) mod page;
pub(crate) mod pci;
pub(crate) mod probe;
pub(crate) mod process;
pub(crate) mod statfs;
pub(crate) mod statx;
mod text;

#[cfg(test)]
pub(crate) mod fake_tree;
