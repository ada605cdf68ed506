//! Holds what one process reads from a drive to a rate, by a control group of the kernel's: storage whose speed is
//! known, and that leaves the processors to what is measured. The kernel grants bytes for 100 ms at a time: what it has
//! granted last arrives at once, and its copies are still to come when the last byte is read.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process;

use nix::sys::stat::{major, minor};

/// The group; dropping it removes it.
#[derive(Debug)]
pub struct Throttle {
    group: PathBuf,
}

impl Throttle {
    /// For reads from the drive that `file` lies on, in GB/s.
    pub fn new(file: &Path, rate: f64) -> Result<Self, String> {
        let told = |path: &Path, error: &dyn std::fmt::Display| format!("{}: {error}", path.display());
        let drive = fs::metadata(file).map_err(|e| told(file, &e))?.dev();
        // The drive may have a partition between it and the file system, of which the group knows nothing.
        let group = PathBuf::from(format!("/sys/fs/cgroup/blkio/forebay-{}", process::id()));
        fs::create_dir(&group).map_err(|e| told(&group, &e))?;
        let throttle = Self { group };
        let limit = throttle.group.join("blkio.throttle.read_bps_device");
        let line = format!("{}:{} {}", major(drive), minor(drive), (rate * 1e9) as u64);
        fs::write(&limit, line).map_err(|e| told(&limit, &e))?;
        Ok(throttle)
    }

    /// Where a process must be to be held.
    pub fn group(&self) -> &Path {
        &self.group
    }
}

impl Drop for Throttle {
    fn drop(&mut self) {
        if let Err(error) = fs::remove_dir(&self.group) {
            eprintln!("warning: {} is left behind: {error}", self.group.display());
        }
    }
}
