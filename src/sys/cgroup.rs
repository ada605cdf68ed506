//! How much memory the control groups of this process allow.

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

/// The tightest memory limit among the groups of this process and the groups above them, v2 and v1; `None` where
/// nothing limits it. `proc` is normally `/proc` and `sys` `/sys`.
pub fn memory_limit(proc: &Path, sys: &Path) -> Option<MemoryLimit> {
    let groups = text::text(&proc.join("self/cgroup"))?;
    let mount = sys.join("fs/cgroup");
    let mut limits = Vec::new();
    for line in groups.lines() {
        let mut parts = line.splitn(3, ':').skip(1);
        let (Some(controllers), Some(group)) = (parts.next(), parts.next()) else {
            continue;
        };
        if controllers.is_empty() {
            limits.extend(tightest(&mount, group, "memory.max"));
            limits.extend(tightest(&mount.join("unified"), group, "memory.max"));
        } else if controllers.split(',').any(|name| name == "memory") {
            limits.extend(tightest(&mount.join("memory"), group, "memory.limit_in_bytes"));
        }
    }
    limits.into_iter().min_by_key(|limit| limit.bytes)
}

/// The tightest limit from `group` up to the mount. Inside a container the group may name folders of the host that are
/// not mounted here; those files are missing and the container's own limit stands at the mount.
fn tightest(mount: &Path, group: &str, name: &str) -> Option<MemoryLimit> {
    // A group outside this namespace is written with `..`, which must not lead out of the mount.
    let inside = Path::new(group).components().filter(|part| matches!(part, Component::Normal(_)));
    let folder = mount.join(inside.collect::<PathBuf>());
    let folders = folder.ancestors().take_while(|folder| folder.starts_with(mount));
    let limits = folders.filter_map(|folder| {
        let file = folder.join(name);
        let bytes = text::number(&file).filter(|bytes| *bytes < UNLIMITED)?;
        Some(MemoryLimit { bytes, file })
    });
    limits.min_by_key(|limit| limit.bytes)
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
