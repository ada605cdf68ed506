//! nvidia-fs, NVIDIA's kernel module that carries reads of cuFile straight to GPU memory.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use super::block::entries;
use super::text;
use super::version::Version;

/// The kernel module nvidia-fs, loaded.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct NvidiaFs {
    /// Its version; without the third number where only procfs tells.
    pub version: Option<Version>,
    /// Whether its statistics, which prove that a read was direct, can be read.
    pub stats: bool,
    /// Whether it counts reads in its statistics, which is a switch of its own; `None` where it does not tell.
    pub counts_reads: Option<bool>,
    /// Whether its device nodes `/dev/nvidia-fs*` are there; cuFile falls back to reading by the CPU without them.
    pub nodes: bool,
    /// PCI bridges that redirect traffic between devices (ACS), by address; `None` where the module does not tell.
    pub redirecting_bridges: Option<Vec<String>>,
}

impl NvidiaFs {
    /// Reads what the module shows under `sys` (normally `/sys`) and `proc` (`/proc`), and its nodes under `root` (`/`).
    /// `None` where it is not loaded.
    pub fn read(sys: &Path, proc: &Path, root: &Path) -> Option<Self> {
        let (module, folder) = (sys.join("module/nvidia_fs"), proc.join("driver/nvidia-fs"));
        if !module.is_dir() && !folder.is_dir() {
            return None;
        }
        let exact = || Version::parse(&text::word(&module.join("version"))?);
        let short = || Version::parse(text::word(&folder.join("version"))?.strip_prefix("version:")?.trim());
        let bridges = text::text(&folder.join("bridges"));
        Some(Self {
            version: exact().or_else(short),
            stats: is_readable(&folder.join("stats")),
            counts_reads: text::number(&module.join("parameters/rw_stats_enabled")).map(|switch| switch != 0),
            nodes: has_nodes(&root.join("dev")),
            redirecting_bridges: bridges.map(|text| text.lines().map(|line| line.trim().to_owned()).collect()),
        })
    }

    /// True for the release 2.25.6, in which direct reads fail; 2.25.7 mends it.
    pub fn is_broken(&self) -> bool {
        let is = |numbers: &[u32]| self.version.as_ref().is_some_and(|version| version.is_at_least(numbers));
        is(&[2, 25, 6]) && !is(&[2, 25, 7])
    }

    /// True before 2.28.4, where RDMA transfers of more than 4 GiB can be wrong.
    pub fn corrupts_large_rdma(&self) -> bool {
        self.version.as_ref().is_some_and(|version| {
            // A version without its third number may be the mended one.
            !version.is_at_least(&[2, 28, 4]) && (version.precision() > 2 || !version.is_at_least(&[2, 28]))
        })
    }
}

fn is_readable(path: &Path) -> bool {
    File::open(path).is_ok_and(|mut file| file.read(&mut [0]).is_ok())
}

fn has_nodes(dev: &Path) -> bool {
    entries(dev)
        .iter()
        .any(|path| path.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(b"nvidia-fs")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys::fake_tree::FakeTree;

    fn module(files: &[(&str, &str)]) -> Option<NvidiaFs> {
        let tree = FakeTree::new();
        tree.files(".", files);
        NvidiaFs::read(&tree.path("sys"), &tree.path("proc"), tree.root())
    }

    fn of_version(version: &str) -> NvidiaFs {
        module(&[("sys/module/nvidia_fs/version", version)]).unwrap()
    }

    #[test]
    fn a_loaded_module() {
        let loaded = module(&[
            ("sys/module/nvidia_fs/version", "2.25.7\n"),
            ("proc/driver/nvidia-fs/stats", "GDS Version: 1.13\n"),
            ("sys/module/nvidia_fs/parameters/rw_stats_enabled", "1\n"),
            ("proc/driver/nvidia-fs/bridges", "0000:80:01.0\n"),
            ("dev/nvidia-fs0", ""),
        ]);
        let loaded = loaded.unwrap();
        assert_eq!(loaded.version.unwrap().to_string(), "2.25.7");
        assert!(loaded.stats && loaded.nodes && loaded.counts_reads == Some(true));
        assert_eq!(loaded.redirecting_bridges.unwrap(), ["0000:80:01.0"]);
    }

    #[test]
    fn not_loaded_is_none_and_a_silent_module_knows_nothing() {
        assert_eq!(module(&[]), None);
        let silent = module(&[("sys/module/nvidia_fs/refcnt", "0\n")]).unwrap();
        assert_eq!(
            (silent.version, silent.stats, silent.nodes, silent.redirecting_bridges),
            (None, false, false, None)
        );
    }

    #[test]
    fn procfs_tells_the_short_version() {
        let short = module(&[("proc/driver/nvidia-fs/version", "version: 2.25\n")]).unwrap();
        assert_eq!(short.version.as_ref().unwrap().to_string(), "2.25");
        assert!(!short.is_broken() && short.corrupts_large_rdma());
    }

    #[test]
    fn releases_with_known_faults() {
        let faults = |version: &str| (of_version(version).is_broken(), of_version(version).corrupts_large_rdma());
        assert_eq!(faults("2.25.6"), (true, true));
        assert_eq!(faults("2.25.7"), (false, true));
        assert_eq!(faults("2.28.3"), (false, true));
        assert_eq!(faults("2.28.4"), (false, false));
        assert_eq!(faults("2.28"), (false, false));
        assert_eq!(faults("2.30.0"), (false, false));
        assert_eq!(faults("garbage"), (false, false));
    }
}
