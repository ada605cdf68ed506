//! Which mounted file system a path lies on.

use std::ffi::OsString;
use std::fs::File;
use std::io::Read;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

use super::block::DeviceNumber;

/// Longest mount table that is read; hosts with many containers have thousands of lines.
const LIMIT: u64 = 16 << 20;

/// A mounted file system.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Mount {
    /// Device number of the file system.
    pub number: Option<DeviceNumber>,
    /// Where it is mounted.
    pub point: PathBuf,
    /// Type of file system: `ext4`, `xfs`, `overlay`, `fuse.sshfs`.
    pub kind: String,
    /// What is mounted, in the words of the file system: `/dev/nvme0n1p1`, `tmpfs`, `server:/share`.
    pub source: OsString,
    /// Options of the file system, separated by commas.
    pub options: OsString,
}

impl Mount {
    /// The mount that holds `path`, which must be absolute with its links resolved; `number` is the `st_dev` of what
    /// lies there. `None` where /proc does not tell. `proc` is normally `/proc`.
    pub fn of_path(proc: &Path, path: &Path, number: DeviceNumber) -> Option<Self> {
        let mut table = Vec::new();
        File::open(proc.join("self/mountinfo")).ok()?.take(LIMIT).read_to_end(&mut table).ok()?;
        let mounts = table.split(|byte| *byte == b'\n').filter_map(Self::parse);
        let above = mounts.filter(|mount| path.starts_with(&mount.point));
        // A later mount can hide an earlier and deeper one, so the device number decides first. It cannot decide alone:
        // btrfs gives the files of a subvolume a number that the table does not show. Of equals the last wins.
        above.max_by_key(|mount| (mount.number == Some(number), mount.point.components().count()))
    }

    /// One line: `36 35 98:0 /root /point options optional… - kind source options`.
    fn parse(line: &[u8]) -> Option<Self> {
        let fields: Vec<&[u8]> = line.split(|byte| *byte == b' ').filter(|field| !field.is_empty()).collect();
        let dash = fields.iter().position(|field| *field == b"-")?;
        let field = |index: usize| fields.get(index).copied();
        Some(Self {
            number: device_number(field(2)?),
            point: PathBuf::from(unescaped(field(4)?)),
            kind: String::from_utf8_lossy(unescaped(field(dash + 1)?).as_encoded_bytes()).into_owned(),
            source: unescaped(field(dash + 2)?),
            options: unescaped(field(dash + 3).unwrap_or_default()),
        })
    }
}

fn device_number(field: &[u8]) -> Option<DeviceNumber> {
    let (major, minor) = std::str::from_utf8(field).ok()?.split_once(':')?;
    Some(DeviceNumber { major: major.parse().ok()?, minor: minor.parse().ok()? })
}

/// The kernel writes space, tab, newline and backslash as three octal digits: `\040`.
fn unescaped(field: &[u8]) -> OsString {
    let mut bytes = Vec::with_capacity(field.len());
    let mut rest = field;
    while let Some((first, tail)) = rest.split_first() {
        let octal = (*first == b'\\').then(|| tail.get(..3).and_then(octal)).flatten();
        bytes.push(octal.unwrap_or(*first));
        rest = if octal.is_some() { &tail[3..] } else { tail };
    }
    OsString::from_vec(bytes)
}

fn octal(digits: &[u8]) -> Option<u8> {
    u8::from_str_radix(std::str::from_utf8(digits).ok()?, 8).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys::fake_tree::FakeTree;

    const TABLE: &str = "\
21 1 254:0 / / rw,relatime shared:1 - ext4 /dev/vda rw
22 21 0:21 / /proc rw - proc proc rw
30 21 259:1 / /data rw - xfs /dev/nvme0n1p1 rw,noquota
31 30 0:40 /sub /data/my\\040photos rw - btrfs /dev/sda1 rw,subvol=/sub
32 21 0:50 / /deep/er rw - tmpfs tmpfs rw
33 21 259:9 / /deep rw - ext4 /dev/nvme1n1 rw
garbage
- - -
";

    fn found(path: &str, major: u64, minor: u64) -> Option<(String, String)> {
        let proc = FakeTree::new();
        proc.file("self/mountinfo", TABLE);
        let mount = Mount::of_path(proc.root(), Path::new(path), DeviceNumber { major, minor })?;
        Some((mount.kind, mount.source.into_string().unwrap()))
    }

    fn some(kind: &str, source: &str) -> Option<(String, String)> {
        Some((kind.to_owned(), source.to_owned()))
    }

    #[test]
    fn the_deepest_mount_holds_the_path() {
        assert_eq!(found("/etc/passwd", 254, 0), some("ext4", "/dev/vda"));
        assert_eq!(found("/data/shard", 259, 1), some("xfs", "/dev/nvme0n1p1"));
        assert_eq!(found("/database", 254, 0), some("ext4", "/dev/vda"));
    }

    #[test]
    fn a_number_that_the_table_does_not_show_falls_back_to_the_path() {
        assert_eq!(found("/data/my photos/a", 0, 77), some("btrfs", "/dev/sda1"));
    }

    #[test]
    fn a_hidden_mount_is_not_taken() {
        assert_eq!(found("/deep/er/file", 259, 9), some("ext4", "/dev/nvme1n1"));
    }

    #[test]
    fn a_missing_table_is_none() {
        let proc = FakeTree::new();
        assert_eq!(Mount::of_path(proc.root(), Path::new("/"), DeviceNumber { major: 1, minor: 1 }), None);
    }

    #[test]
    fn escapes() {
        for (written, meant) in
            [(r"a\040b", "a b"), (r"a\134", r"a\"), (r"\04", r"\04"), (r"\999", r"\999"), (r"\", r"\")]
        {
            assert_eq!(unescaped(written.as_bytes()), meant, "{written}");
        }
    }
}
