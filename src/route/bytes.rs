use std::fmt;
use std::ops::AddAssign;
use std::sync::Mutex;

use crate::storage::Stats;
use crate::sync::lock;

/// Bytes that were delivered, by the route that carried them; the sum of the routes is the sum of the extents.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct RouteBytes {
    /// By cuFile, straight from the drive into device memory.
    pub direct: u64,
    /// By cuFile in its compatibility mode: through host memory, whatever was asked for.
    pub direct_compat: u64,
    /// Read past the page cache into host memory, which is pinned but for what `unpinned` says, and copied from there.
    pub bounce: u64,
    /// Read through the page cache into such memory, and copied from there.
    pub cached: u64,
    /// No route: bytes that were copied to the device from host memory that its driver refused to pin, in copies that took any
    /// from there, with what alignment adds to them. They are slower, and a warning says why.
    pub unpinned: u64,
}

impl RouteBytes {
    pub(super) fn of_reads(stats: &Stats) -> Self {
        Self { bounce: stats.bytes_direct, cached: stats.bytes_buffered, ..Self::default() }
    }

    /// The bytes of all routes.
    pub fn total(&self) -> u64 {
        self.direct + self.direct_compat + self.bounce + self.cached
    }

    /// The routes that carried any, by name, as reports show them: `direct`, `direct (compat)`, `bounce`, `cached`.
    pub fn by_name(&self) -> impl Iterator<Item = (&'static str, u64)> {
        let all = [
            ("direct", self.direct),
            ("direct (compat)", self.direct_compat),
            ("bounce", self.bounce),
            ("cached", self.cached),
        ];
        all.into_iter().filter(|(_, bytes)| *bytes > 0)
    }
}

/// As in `4096 direct, 17 cached`, or `8192 bounce; 4096 copied from unpinned memory`.
impl fmt::Display for RouteBytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let said: Vec<String> = self.by_name().map(|(name, bytes)| format!("{bytes} {name}")).collect();
        if said.is_empty() {
            f.write_str("nothing")?;
        } else {
            f.write_str(&said.join(", "))?;
        }
        match self.unpinned {
            0 => Ok(()),
            unpinned => write!(f, "; {unpinned} copied from unpinned memory"),
        }
    }
}

impl AddAssign for RouteBytes {
    fn add_assign(&mut self, other: Self) {
        self.direct += other.direct;
        self.direct_compat += other.direct_compat;
        self.bounce += other.bounce;
        self.cached += other.cached;
        self.unpinned += other.unpinned;
    }
}

/// What a carrier has delivered.
#[derive(Debug, Default)]
pub(super) struct Tally(Mutex<RouteBytes>);

impl Tally {
    pub(super) fn add(&self, bytes: RouteBytes) {
        *lock(&self.0) += bytes;
    }

    pub(super) fn now(&self) -> RouteBytes {
        *lock(&self.0)
    }
}
