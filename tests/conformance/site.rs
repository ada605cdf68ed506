//! Where the suite's files lie, what std::fs says they hold, and whether direct I/O must work there.
use std::collections::HashMap;
use std::fmt;
use std::fs::{self, File};
use std::ops::AddAssign;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use nix::libc;

use crate::common::data;
use crate::common::fuse::Fuse;
use crate::common::mounts::Mounted;
use crate::common::reader::CHUNK;

pub enum Home {
    Plain(tempfile::TempDir),
    Mount(Mounted),
    Fuse(Fuse),
}

/// Sizes worth a file of their own: around nothing, sectors, pages, inline data.
pub const TINY: [u64; 13] = [0, 1, 7, 59, 100, 511, 512, 513, 4095, 4096, 4097, 8191, 8193];
pub const MANY: usize = 300;
/// Many chunks and a ragged tail.
pub const RAGGED: u64 = 5 * CHUNK + 3331;
/// Ends on a chunk and on every alignment.
pub const EVEN: u64 = 4 * CHUNK;
pub const OVER_2G: u64 = (1 << 31) + 77_777;
pub const OVER_4G: u64 = (1 << 32) + 12_345;

/// The suite's files on one file system.
pub struct Site {
    pub ragged: PathBuf,
    pub even: PathBuf,
    pub tiny: Vec<PathBuf>,
    pub many: Vec<PathBuf>,
    pub over_2g: PathBuf,
    pub over_4g: PathBuf,
    home: Home,
    /// Whole files as std::fs reads them; the big ones are asked piece by piece.
    oracle: HashMap<PathBuf, Vec<u8>>,
}

impl Site {
    pub fn new(name: &str, home: Home) -> Site {
        let mut seed = 0;
        let mut make = |file: &str, len: u64| {
            seed += 1;
            home.make(file, seed, len).unwrap_or_else(|e| panic!("{name}: {file}: {e}"))
        };
        let mut site = Site {
            ragged: make("ragged", RAGGED),
            even: make("even", EVEN),
            tiny: TINY.iter().map(|len| make(&format!("tiny-{len}"), *len)).collect(),
            many: (0..MANY).map(|i| make(&format!("many-{i:03}"), many_len(i))).collect(),
            over_2g: make("over-2g", OVER_2G),
            over_4g: make("over-4g", OVER_4G),
            oracle: HashMap::new(),
            home,
        };
        site.oracle = site.small().map(|path| (path.clone(), fs::read(path).unwrap())).collect();
        site.set_temperature(Temperature::Cold);
        site
    }

    pub fn want(&self, path: &Path, offset: u64, len: u64) -> Vec<u8> {
        match self.oracle.get(path) {
            Some(whole) => whole[offset as usize..][..len as usize].to_vec(),
            None => data::oracle(path, offset, len).unwrap(),
        }
    }

    pub fn len(&self, path: &Path) -> u64 {
        self.oracle.get(path).map_or_else(|| fs::metadata(path).unwrap().len(), |whole| whole.len() as u64)
    }

    pub fn set_temperature(&self, temperature: Temperature) {
        for path in self.small() {
            let warm = match temperature {
                Temperature::Cold => 0,
                Temperature::Half => self.len(path) / 2,
                Temperature::Warm => self.len(path),
            };
            // Nothing can be dropped on tmpfs, where the cache is the file.
            data::drop_cache(path).unwrap();
            if warm > 0 {
                data::warm_cache(path, 0..warm).unwrap();
            }
        }
    }

    /// Whether a direct read of this file must work, asked of the kernel and not of forebay.
    pub fn direct_io(&self, path: &Path) -> DirectIo {
        match (&self.home, dio_align(path)) {
            // Direct reads of FUSE files have returned wrong bytes; how they are avoided is the engine's affair.
            (Home::Fuse(_), _) => DirectIo::MayWork,
            (_, Some((0, 0))) => DirectIo::MustBeRefused,
            (_, Some(_)) => DirectIo::MustWork,
            // tmpfs: the kernel plays along, but the pages are the file, and direct I/O means nothing there.
            (_, None) if direct_read_works(path) => DirectIo::MayWork,
            (_, None) => DirectIo::MustBeRefused,
        }
    }

    fn small(&self) -> impl Iterator<Item = &PathBuf> {
        [&self.ragged, &self.even].into_iter().chain(&self.tiny).chain(&self.many)
    }
}

impl Home {
    pub fn make(&self, name: &str, seed: u64, len: u64) -> std::io::Result<PathBuf> {
        let dir = match self {
            Home::Fuse(fuse) => return Ok(fuse.add(name, seed, len)),
            Home::Plain(dir) => dir.path(),
            Home::Mount(mounted) => &mounted.dir,
        };
        let path = dir.join(name);
        if len < 1 << 30 {
            data::write_dense(&path, seed, len)?;
        } else {
            data::write_islands(&path, seed, len, &data::boundary_islands(len))?;
        }
        Ok(path)
    }
}

/// 1 to 9001 bytes, in no order.
fn many_len(i: usize) -> u64 {
    1 + (i as u64 * 7919) % 9001
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Temperature {
    Cold,
    Half,
    Warm,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DirectIo {
    MustWork,
    MayWork,
    MustBeRefused,
}

/// (memory, offset) alignment by STATX_DIOALIGN; none where the file system does not say.
fn dio_align(path: &Path) -> Option<(u32, u32)> {
    let file = File::open(path).unwrap();
    // SAFETY: all zeros is a valid statx, and the kernel fills in that one struct, which outlives the call.
    let (rc, stat) = unsafe {
        let mut stat: libc::statx = std::mem::zeroed();
        let rc = libc::statx(file.as_raw_fd(), c"".as_ptr(), libc::AT_EMPTY_PATH, libc::STATX_DIOALIGN, &mut stat);
        (rc, stat)
    };
    (rc == 0 && stat.stx_mask & libc::STATX_DIOALIGN != 0)
        .then_some((stat.stx_dio_mem_align, stat.stx_dio_offset_align))
}

fn direct_read_works(path: &Path) -> bool {
    let Ok(file) = File::options().read(true).custom_flags(libc::O_DIRECT).open(path) else {
        return false;
    };
    let mut buf = vec![0u8; 8192];
    let lead = buf.as_ptr().align_offset(4096);
    file.read_at(&mut buf[lead..lead + 4096], 0).is_ok()
}

/// What a test has covered.
#[derive(Debug, Default, Clone, Copy)]
pub struct Tally {
    pub extents: u64,
    pub bytes: u64,
    pub refused: u64,
}

impl AddAssign for Tally {
    fn add_assign(&mut self, more: Tally) {
        self.extents += more.extents;
        self.bytes += more.bytes;
        self.refused += more.refused;
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} extents, {} bytes right, {} requests cleanly refused", self.extents, self.bytes, self.refused)
    }
}
