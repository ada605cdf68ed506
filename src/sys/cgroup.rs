//! How much memory, and how many threads, the control groups of this process allow.

use std::path::{Component, Path, PathBuf};

use super::text;

/// A limit of a control group.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct MemoryLimit {
    /// The limit in bytes.
    pub bytes: u64,
    /// The file that sets it.
    pub file: PathBuf,
}

/// v1 writes "no limit" as the largest number of pages; anything this large is none.
const UNLIMITED: u64 = 1 << 62;

/// The names that one version of control groups gives its files.
struct Version {
    limit: &'static str,
    used: &'static str,
    /// The line of memory.stat that counts page cache, and the one that counts what of it is of tmpfs, which stays.
    cache: &'static str,
    shmem: &'static str,
}

const V1: Version = Version {
    limit: "memory.limit_in_bytes",
    used: "memory.usage_in_bytes",
    cache: "total_cache ",
    shmem: "total_shmem ",
};
const V2: Version = Version { limit: "memory.max", used: "memory.current", cache: "file ", shmem: "shmem " };

/// The tightest memory limit among the groups of this process and the groups above them, v2 and v1; `None` where
/// nothing limits it. `proc` is normally `/proc` and `sys` `/sys`.
pub fn memory_limit(proc: &Path, sys: &Path) -> Option<MemoryLimit> {
    let limits = groups(proc, sys).into_iter().filter_map(|(folder, version)| limit(&folder, &version));
    limits.min_by_key(|limit| limit.bytes)
}

/// Bytes that the tightest group still lets this process have; `None` where nothing limits it. Page cache can be taken
/// back from a group, so it does not count as used.
pub(crate) fn memory_left(proc: &Path, sys: &Path) -> Option<u64> {
    let left = groups(proc, sys).into_iter().filter_map(|(folder, version)| {
        let limit = limit(&folder, &version)?.bytes;
        let used = text::number(&folder.join(version.used))?;
        let stat = text::text(&folder.join("memory.stat")).unwrap_or_default();
        let counted = |name| stat.lines().find_map(|line| line.strip_prefix(name)?.parse::<u64>().ok()).unwrap_or(0);
        let cache = counted(version.cache).saturating_sub(counted(version.shmem));
        Some(limit.saturating_sub(used.saturating_sub(cache)))
    });
    left.min()
}

/// The fewest threads that a group of this process, or one above it, may have, and the file that says so; `None` where
/// nothing limits them.
pub(crate) fn thread_limit(proc: &Path, sys: &Path) -> Option<(u64, PathBuf)> {
    let files = directories(proc, sys, "pids").into_iter().map(|(directory, _)| directory.join("pids.max"));
    files.filter_map(|file| Some((text::number(&file)?, file))).min_by_key(|(limit, _)| *limit)
}

/// The directories of all groups that limit this process's memory.
fn groups(proc: &Path, sys: &Path) -> Vec<(PathBuf, Version)> {
    let directories = directories(proc, sys, "memory").into_iter();
    directories.map(|(directory, is_v2)| (directory, if is_v2 { V2 } else { V1 })).collect()
}

/// The directories of all groups in which `controller` may limit this process, and whether each is of version 2.
fn directories(proc: &Path, sys: &Path, controller: &str) -> Vec<(PathBuf, bool)> {
    let Some(groups) = text::text(&proc.join("self/cgroup")) else { return Vec::new() };
    let mount = sys.join("fs/cgroup");
    let mut directories = Vec::new();
    for line in groups.lines() {
        let mut parts = line.splitn(3, ':').skip(1);
        let (Some(controllers), Some(group)) = (parts.next(), parts.next()) else {
            continue;
        };
        if controllers.is_empty() {
            directories.extend(upwards(&mount, group).map(|directory| (directory, true)));
            directories.extend(upwards(&mount.join("unified"), group).map(|directory| (directory, true)));
        } else if controllers.split(',').any(|name| name == controller) {
            directories.extend(upwards(&mount.join(controller), group).map(|directory| (directory, false)));
        }
    }
    directories
}

/// From `group` up to the mount. Inside a container the group may name folders of the host that are not mounted here;
/// those files are missing and the container's own limit stands at the mount.
fn upwards(mount: &Path, group: &str) -> impl Iterator<Item = PathBuf> {
    // A group outside this namespace is written with `..`, which must not lead out of the mount.
    let inside = Path::new(group).components().filter(|part| matches!(part, Component::Normal(_)));
    let folder = mount.join(inside.collect::<PathBuf>());
    let folders: Vec<PathBuf> =
        folder.ancestors().take_while(|folder| folder.starts_with(mount)).map(Path::to_owned).collect();
    folders.into_iter()
}

fn limit(folder: &Path, version: &Version) -> Option<MemoryLimit> {
    let file = folder.join(version.limit);
    let bytes = text::number(&file).filter(|bytes| *bytes < UNLIMITED)?;
    Some(MemoryLimit { bytes, file })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys::fake_tree::FakeTree;

    fn limit(groups: &str, files: &[(&str, &str)]) -> Option<(u64, String)> {
        let proc = FakeTree::new();
        proc.file("self/cgroup", groups);
        let sys = FakeTree::new();
        sys.files("fs/cgroup", files);
        let found = memory_limit(proc.root(), sys.root())?;
        let file = found.file.strip_prefix(sys.path("fs/cgroup")).unwrap().display().to_string();
        Some((found.bytes, file))
    }

    #[test]
    fn v2_takes_the_tightest_group_on_the_way_up() {
        let files = [("a/b/memory.max", "max\n"), ("a/memory.max", "1000\n"), ("memory.max", "5000\n")];
        assert_eq!(limit("0::/a/b\n", &files), Some((1000, "a/memory.max".to_owned())));
    }

    #[test]
    fn threads_are_limited_by_the_tightest_group_of_either_version() {
        let limit = |groups: &str, files: &[(&str, &str)]| {
            let (proc, sys) = (FakeTree::new(), FakeTree::new());
            proc.file("self/cgroup", groups);
            sys.files("fs/cgroup", files);
            thread_limit(proc.root(), sys.root()).map(|(limit, _)| limit)
        };
        assert_eq!(limit("0::/a/b\n", &[("a/b/pids.max", "max\n"), ("a/pids.max", "100\n")]), Some(100));
        assert_eq!(limit("4:pids:/a\n0::/\n", &[("pids/a/pids.max", "7\n"), ("memory/a/pids.max", "1\n")]), Some(7));
        assert_eq!(limit("0::/a\n", &[("a/pids.max", "max\n")]), None);
    }

    #[test]
    fn what_is_left_counts_page_cache_as_free() {
        let left = |groups: &str, files: &[(&str, &str)]| {
            let (proc, sys) = (FakeTree::new(), FakeTree::new());
            proc.file("self/cgroup", groups);
            sys.files("fs/cgroup", files);
            memory_left(proc.root(), sys.root())
        };
        let v2 = [
            ("job/step/memory.max", "max\n"),
            ("job/memory.max", "1000\n"),
            ("job/memory.current", "600\n"),
            ("job/memory.stat", "anon 400\nfile 200\n"),
        ];
        assert_eq!(left("0::/job/step\n", &v2), Some(600));
        assert_eq!(left("0::/elsewhere\n", &v2), None);
        let v1 = [
            ("memory/job/memory.limit_in_bytes", "1000\n"),
            ("memory/job/memory.usage_in_bytes", "900\n"),
            ("memory/job/memory.stat", "cache 1\ntotal_cache 600\ntotal_shmem 100\n"),
        ];
        assert_eq!(left("3:memory:/job\n", &v1), Some(600));
    }

    #[test]
    fn v1_reads_its_own_mount_and_knows_unlimited() {
        let files = [("memory/x/memory.limit_in_bytes", "9223372036854771712\n")];
        assert_eq!(limit("4:cpu,memory:/x\n0::/\n", &files), None);
        let files = [("memory/x/memory.limit_in_bytes", "4096\n")];
        let expected = Some((4096, "memory/x/memory.limit_in_bytes".to_owned()));
        assert_eq!(limit("4:cpu,memory:/x\n0::/\n", &files), expected);
    }

    #[test]
    fn a_container_finds_its_limit_at_the_mount() {
        let files = [("memory.max", "2048\n")];
        assert_eq!(limit("0::/../../host/group\n", &files), Some((2048, "memory.max".to_owned())));
    }

    #[test]
    fn no_limit_no_groups_and_garbage_are_none() {
        assert_eq!(limit("0::/a\n", &[("a/memory.max", "max\n")]), None);
        assert_eq!(limit("0::/a\n", &[("a/memory.max", "lots\n")]), None);
        assert_eq!(limit("", &[]), None);
        assert_eq!(limit("garbage\n:\n::\n\u{fffd}", &[("memory/memory.limit_in_bytes", "1\n")]), None);
        let empty = FakeTree::new();
        assert_eq!(memory_limit(empty.root(), empty.root()), None);
    }
}
