//! The kernel's doors that no crate opens for us: statx with direct-I/O alignment, page-cache residency, file-system
//! kinds and resource limits; and what it shows in /sys and /proc, which `facts` makes public. Each file is one door;
//! nothing here decides anything.

mod acs;
pub(crate) mod block;
pub(crate) mod block_size;
pub(crate) mod cachestat;
pub(crate) mod cgroup;
pub(crate) mod cuda;
pub(crate) mod cufile;
pub(crate) mod direct_storage;
pub(crate) mod extents;
pub(crate) mod gpu;
pub(crate) mod iommu;
mod kernel_config;
pub(crate) mod limits;
pub(crate) mod machine;
pub(crate) mod memory_left;
pub(crate) mod mounts;
pub(crate) mod nvidia;
pub(crate) mod nvidia_fs;
pub(crate) mod p2pdma;
pub(crate) mod page;
pub(crate) mod pci;
pub(crate) mod platform;
pub(crate) mod probe;
pub(crate) mod process;
pub(crate) mod statfs;
pub(crate) mod statx;
pub(crate) mod text;
pub(crate) mod topology;
pub(crate) mod version;

#[cfg(test)]
pub(crate) mod fake_tree;
