use std::fmt;
use std::path::Path;

/// A version of cuFile or of nvidia-fs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Version {
    /// The first number.
    pub major: u32,
    /// The second.
    pub minor: u32,
    /// The third; 0 where it is not told.
    pub patch: u32,
}

impl Version {
    pub(super) const fn new(major: u32, minor: u32, patch: u32) -> Self {
        Self { major, minor, patch }
    }

    /// From the number that `cuFileGetVersion` gives: 1000 major + 10 minor + patch.
    pub(super) fn of_library(number: i32) -> Option<Self> {
        let number = u32::try_from(number).ok().filter(|&number| number > 0)?;
        Some(Self::new(number / 1000, number % 1000 / 10, number % 10))
    }

    fn parse(text: &str) -> Option<Self> {
        let mut numbers = text.trim().split('.').map(|part| part.parse().ok());
        let (major, minor) = (numbers.next()??, numbers.next()??);
        Some(Self::new(major, minor, numbers.next().flatten().unwrap_or(0)))
    }

    /// Of the nvidia-fs driver that is loaded. `None` where none is, or it does not tell. `root` is normally `/`.
    pub(super) fn of_nvidia_fs(root: &Path) -> Option<Self> {
        let module = std::fs::read_to_string(root.join("sys/module/nvidia_fs/version"));
        if let Some(version) = module.ok().as_deref().and_then(Self::parse) {
            return Some(version);
        }
        // Its statistics begin with a line such as `NVFS statistics(ver: 4.0)` and one with `NVFS Driver(version: 2.25.7)`.
        let stats = std::fs::read_to_string(root.join("proc/driver/nvidia-fs/stats")).ok()?;
        let (_, behind) = stats.split_once("NVFS Driver(version:")?;
        Self::parse(behind.split(')').next()?)
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.major, self.minor, self.patch)
    }
}

/// What is known of a version of nvidia-fs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    Good,
    /// Reads over RDMA past 4 GiB may come back wrong.
    BadForRdma,
    Broken,
}

pub(super) fn judge(nvidia_fs: Version) -> Verdict {
    if nvidia_fs == Version::new(2, 25, 6) {
        Verdict::Broken
    } else if nvidia_fs < Version::new(2, 28, 4) {
        Verdict::BadForRdma
    } else {
        Verdict::Good
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys::fake_tree::FakeTree;

    #[test]
    fn the_library_s_number_is_taken_apart() {
        assert_eq!(Version::of_library(1200), Some(Version::new(1, 20, 0)));
        assert_eq!(Version::of_library(1081), Some(Version::new(1, 8, 1)));
        assert_eq!((Version::of_library(0), Version::of_library(-1)), (None, None));
    }

    #[test]
    fn nvidia_fs_tells_its_version_in_two_places() {
        let root = FakeTree::new();
        assert_eq!(Version::of_nvidia_fs(root.root()), None);
        root.file("proc/driver/nvidia-fs/stats", "GDS Version: 1.13\nNVFS Driver(version: 2.24.3)\nMellanox\n");
        assert_eq!(Version::of_nvidia_fs(root.root()), Some(Version::new(2, 24, 3)));
        root.file("sys/module/nvidia_fs/version", "2.25.6\n");
        assert_eq!(Version::of_nvidia_fs(root.root()), Some(Version::new(2, 25, 6)));
        root.file("sys/module/nvidia_fs/version", "garbage\n");
        assert_eq!(Version::of_nvidia_fs(root.root()), Some(Version::new(2, 24, 3)));
    }

    #[test]
    fn broken_drivers_are_known() {
        assert_eq!(judge(Version::new(2, 25, 6)), Verdict::Broken);
        for doubtful in [Version::new(2, 25, 7), Version::new(2, 28, 3), Version::new(2, 17, 0)] {
            assert_eq!(judge(doubtful), Verdict::BadForRdma);
        }
        for good in [Version::new(2, 28, 4), Version::new(3, 0, 0)] {
            assert_eq!(judge(good), Verdict::Good);
        }
    }
}
