//! Facts on the whole machine: kernel, NUMA nodes, huge pages, free memory.

use std::fmt;
use std::fs;
use std::path::Path;

use super::text;

/// Kernel release as `uname -r` prints it. `proc` is normally `/proc`.
pub fn kernel_release(proc: &Path) -> Option<String> {
    text::word(&proc.join("sys/kernel/osrelease"))
}

/// The sysctl `kernel.io_uring_disabled`: 0 everybody may, 1 only members of a group or privileged processes, 2 nobody.
/// `None` on kernels older than 6.6, which have no such switch. `proc` is normally `/proc`.
pub fn io_uring_disabled(proc: &Path) -> Option<u64> {
    text::number(&proc.join("sys/kernel/io_uring_disabled"))
}

/// The group that `kernel.io_uring_disabled = 1` lets through; `None` where none is set. `proc` is normally `/proc`.
pub fn io_uring_group(proc: &Path) -> Option<u32> {
    text::text(&proc.join("sys/kernel/io_uring_group"))?.parse().ok()
}

/// Bytes of memory that can be had without swapping (`MemAvailable`). `proc` is normally `/proc`.
pub fn memory_available(proc: &Path) -> Option<u64> {
    meminfo(proc, "MemAvailable:")
}

/// Bytes of memory in the machine (`MemTotal`). `proc` is normally `/proc`.
pub fn memory_total(proc: &Path) -> Option<u64> {
    meminfo(proc, "MemTotal:")
}

fn meminfo(proc: &Path, field: &str) -> Option<u64> {
    let text = text::text(&proc.join("meminfo"))?;
    let mut words = text.lines().find_map(|line| line.strip_prefix(field))?.split_whitespace();
    let kib: u64 = words.next()?.parse().ok()?;
    (words.next() == Some("kB")).then(|| kib.checked_mul(1024)).flatten()
}

/// A pool of reserved huge pages of one size.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct HugePages {
    /// Size of a page in bytes.
    pub size: u64,
    /// Pages in the pool.
    pub reserved: Option<u64>,
    /// Pages that nobody uses.
    pub free: Option<u64>,
}

/// The pools of huge pages, smallest page first; empty where the kernel has none. `sys` is normally `/sys`.
pub fn huge_pages(sys: &Path) -> Vec<HugePages> {
    let folder = sys.join("kernel/mm/hugepages");
    let mut pools: Vec<HugePages> = names(&folder)
        .iter()
        .filter_map(|name| {
            let kib: u64 = name.strip_prefix("hugepages-")?.strip_suffix("kB")?.parse().ok()?;
            let pool = folder.join(name);
            Some(HugePages {
                size: kib.checked_mul(1024)?,
                reserved: text::number(&pool.join("nr_hugepages")),
                free: text::number(&pool.join("free_hugepages")),
            })
        })
        .collect();
    pools.sort_by_key(|pool| pool.size);
    pools
}

/// When the kernel gives transparent huge pages, and how hard it tries.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct TransparentHugePages {
    /// `always`, `madvise` or `never`.
    pub enabled: String,
    /// `always`, `defer`, `defer+madvise`, `madvise` or `never`.
    pub defrag: Option<String>,
}

/// The setting of transparent huge pages; `None` where the kernel has none. `sys` is normally `/sys`.
pub fn transparent_huge_pages(sys: &Path) -> Option<TransparentHugePages> {
    let folder = sys.join("kernel/mm/transparent_hugepage");
    let enabled = text::chosen(&folder.join("enabled"))?;
    Some(TransparentHugePages { enabled, defrag: text::chosen(&folder.join("defrag")) })
}

/// A set of CPU numbers as the kernel writes it: `0-3,8`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct CpuList {
    /// First and last CPU of each run, in the order written.
    ranges: Vec<(u32, u32)>,
}

impl CpuList {
    fn parse(text: &str) -> Option<Self> {
        let mut ranges = Vec::new();
        for part in text.split(',').map(str::trim).filter(|part| !part.is_empty()) {
            let (first, last) = part.split_once('-').unwrap_or((part, part));
            let range: (u32, u32) = (first.parse().ok()?, last.parse().ok()?);
            ranges.push(range);
            if range.0 > range.1 {
                return None;
            }
        }
        Some(Self { ranges })
    }

    /// The first CPU written; `None` for an empty set.
    pub fn first(&self) -> Option<u32> {
        self.ranges.first().map(|(first, _)| *first)
    }

    /// How many CPUs the set holds.
    pub fn count(&self) -> u64 {
        self.ranges.iter().map(|(first, last)| u64::from(last - first) + 1).sum()
    }

    /// Whether a CPU is in the set.
    pub fn contains(&self, cpu: u32) -> bool {
        self.ranges.iter().any(|(first, last)| (*first..=*last).contains(&cpu))
    }
}

impl fmt::Display for CpuList {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, (first, last)) in self.ranges.iter().enumerate() {
            let comma = if index == 0 { "" } else { "," };
            match first == last {
                true => write!(f, "{comma}{first}")?,
                false => write!(f, "{comma}{first}-{last}")?,
            }
        }
        Ok(())
    }
}

/// One NUMA node.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct NumaNode {
    /// Its number.
    pub number: u32,
    /// Its CPUs; empty for a node of memory alone, or where the kernel does not tell.
    pub cpus: CpuList,
}

/// The NUMA nodes in the order of their numbers; empty where the kernel shows none. `sys` is normally `/sys`.
pub fn numa_nodes(sys: &Path) -> Vec<NumaNode> {
    let folder = sys.join("devices/system/node");
    let mut nodes: Vec<NumaNode> = names(&folder)
        .iter()
        .filter_map(|name| {
            let number: u32 = name.strip_prefix("node")?.parse().ok()?;
            let list = text::text(&folder.join(name).join("cpulist"));
            let cpus = list.and_then(|list| CpuList::parse(&list)).unwrap_or_default();
            Some(NumaNode { number, cpus })
        })
        .collect();
    nodes.sort_by_key(|node| node.number);
    nodes
}

fn names(folder: &Path) -> Vec<String> {
    let Ok(list) = fs::read_dir(folder) else {
        return Vec::new();
    };
    list.flatten().filter_map(|entry| entry.file_name().into_string().ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys::fake_tree::FakeTree;

    #[test]
    fn kernel_and_switches() {
        let proc = FakeTree::new();
        proc.files(
            "sys/kernel",
            &[("osrelease", "6.18.44\n"), ("io_uring_disabled", "1\n"), ("io_uring_group", "-1\n")],
        );
        assert_eq!(kernel_release(proc.root()).as_deref(), Some("6.18.44"));
        assert_eq!(io_uring_disabled(proc.root()), Some(1));
        assert_eq!(io_uring_group(proc.root()), None);
        proc.file("sys/kernel/io_uring_group", "1000\n");
        assert_eq!(io_uring_group(proc.root()), Some(1000));
    }

    #[test]
    fn memory_is_in_bytes() {
        let proc = FakeTree::new();
        proc.file("meminfo", "MemTotal:       16384 kB\nMemFree:  1 kB\nMemAvailable:   8192 kB\n");
        assert_eq!(memory_total(proc.root()), Some(16 << 20));
        assert_eq!(memory_available(proc.root()), Some(8 << 20));
    }

    #[test]
    fn garbage_in_meminfo_is_none() {
        let proc = FakeTree::new();
        for text in
            ["", "MemAvailable:", "MemAvailable: x kB", "MemAvailable: 5 MB", "MemAvailable: 18446744073709551615 kB"]
        {
            proc.file("meminfo", text);
            assert_eq!(memory_available(proc.root()), None, "{text:?}");
        }
    }

    #[test]
    fn huge_pages_of_every_size() {
        let sys = FakeTree::new();
        sys.files("kernel/mm/hugepages/hugepages-1048576kB", &[("nr_hugepages", "0\n"), ("free_hugepages", "0\n")]);
        sys.files("kernel/mm/hugepages/hugepages-2048kB", &[("nr_hugepages", "512\n"), ("free_hugepages", "500\n")]);
        sys.dir("kernel/mm/hugepages/hugepages-64kB");
        sys.dir("kernel/mm/hugepages/hugepages-manykB");
        let pools = huge_pages(sys.root());
        let sizes: Vec<_> = pools.iter().map(|pool| (pool.size, pool.reserved, pool.free)).collect();
        let expected = [(64 << 10, None, None), (2 << 20, Some(512), Some(500)), (1 << 30, Some(0), Some(0))];
        assert_eq!(sizes, expected);
    }

    #[test]
    fn transparent_huge_page_setting() {
        let sys = FakeTree::new();
        sys.files("kernel/mm/transparent_hugepage", &[("enabled", "always [madvise] never\n"), ("defrag", "x y\n")]);
        let setting = transparent_huge_pages(sys.root()).unwrap();
        assert_eq!((setting.enabled.as_str(), setting.defrag), ("madvise", None));
    }

    #[test]
    fn nodes_in_order_with_their_cpus() {
        let sys = FakeTree::new();
        for (node, cpus) in [("node10", "\n"), ("node1", "4-7,12\n"), ("node0", "0-3,8-11\n"), ("node2", "garbage")] {
            sys.file(&format!("devices/system/node/{node}/cpulist"), cpus);
        }
        sys.file("devices/system/node/online", "0-2\n");
        let nodes = numa_nodes(sys.root());
        let numbers: Vec<_> = nodes.iter().map(|node| (node.number, node.cpus.count())).collect();
        assert_eq!(numbers, [(0, 8), (1, 5), (2, 0), (10, 0)]);
        assert_eq!(nodes[1].cpus.to_string(), "4-7,12");
        assert!(nodes[1].cpus.contains(12) && !nodes[1].cpus.contains(8));
    }

    #[test]
    fn cpu_lists_that_are_too_long_or_backward() {
        assert_eq!(CpuList::parse("0-4294967295").unwrap().count(), 1 << 32);
        assert_eq!(CpuList::parse("7-4"), None);
        assert_eq!(CpuList::parse("-"), None);
    }

    #[test]
    fn an_empty_tree_has_no_facts() {
        let tree = FakeTree::new();
        assert_eq!(kernel_release(tree.root()), None);
        assert_eq!(io_uring_disabled(tree.root()), None);
        assert_eq!(memory_available(tree.root()), None);
        assert!(huge_pages(tree.root()).is_empty());
        assert_eq!(transparent_huge_pages(tree.root()), None);
        assert!(numa_nodes(tree.root()).is_empty());
    }
}
