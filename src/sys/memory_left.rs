//! How many bytes this process can still take: the machine's free memory, or less under a control group.

use std::fs;
use std::path::Path;

/// Bytes that can be allocated before the machine, or this process's control group, is out of memory; `None` where
/// the kernel says neither.
pub(crate) fn bytes() -> Option<u64> {
    let machine = available(&fs::read_to_string("/proc/meminfo").ok()?);
    let group =
        fs::read_to_string("/proc/self/cgroup").ok().and_then(|text| group_left(Path::new("/sys/fs/cgroup"), &text));
    match (machine, group) {
        (Some(machine), Some(group)) => Some(machine.min(group)),
        (machine, group) => machine.or(group),
    }
}

fn available(meminfo: &str) -> Option<u64> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
}

/// The tightest limit on the way from this process's group (version 2) up to the root. Page cache can be taken back
/// from a group, so only what is not file-backed counts as used.
fn group_left(root: &Path, cgroup: &str) -> Option<u64> {
    let name = cgroup.lines().find_map(|line| line.strip_prefix("0::/"))?;
    let number = |path: &Path| fs::read_to_string(path).ok()?.trim().parse::<u64>().ok();
    root.join(name)
        .ancestors()
        .take_while(|dir| dir.starts_with(root))
        .filter_map(|dir| {
            let limit = number(&dir.join("memory.max"))?;
            let used = number(&dir.join("memory.current"))?;
            let stat = fs::read_to_string(dir.join("memory.stat")).unwrap_or_default();
            let file = stat.lines().find_map(|line| line.strip_prefix("file ")?.parse().ok()).unwrap_or(0);
            Some(limit.saturating_sub(used.saturating_sub(file)))
        })
        .min()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tightest_group_on_the_way_up_counts_and_its_page_cache_does_not() {
        let root = tempfile::tempdir().unwrap();
        let inner = root.path().join("job/step");
        fs::create_dir_all(&inner).unwrap();
        fs::write(root.path().join("job/memory.max"), "1000\n").unwrap();
        fs::write(root.path().join("job/memory.current"), "600\n").unwrap();
        fs::write(root.path().join("job/memory.stat"), "anon 400\nfile 200\n").unwrap();
        fs::write(inner.join("memory.max"), "max\n").unwrap();
        assert_eq!(group_left(root.path(), "0::/job/step\n"), Some(600));
        assert_eq!(group_left(root.path(), "0::/elsewhere\n"), None);
    }

    #[test]
    fn garbage_is_not_a_number() {
        assert_eq!(available("MemAvailable: 12 kB\n"), Some(12 * 1024));
        assert_eq!(available("MemAvailable: many kB\n"), None);
        assert_eq!(available(""), None);
    }
}
