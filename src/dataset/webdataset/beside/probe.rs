use xxhash_rust::xxh3::Xxh3;

use super::Shard;
use crate::dataset::error::DatasetError;
use crate::dataset::source::{DataFile, Source};
use crate::dataset::tar::BLOCK;

/// Headers that are looked at besides the archive's first.
const HEADERS: usize = 8;

/// What tells one archive from another without reading it: its size, when it was written to, and some of its headers. A
/// copy that kept its times passes, on whatever disk it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Probe {
    pub(super) len: u64,
    pub(super) seconds: i64,
    pub(super) nanoseconds: u32,
    /// Where data begins whose header, the block before, is in the sum: that of the first and of the last member, and of
    /// some in between.
    pub(super) data: [u64; HEADERS],
    /// The XXH3 of the archive's first block and of those headers.
    pub(super) sum: u64,
}

impl Probe {
    pub(super) fn of(archive: &Source, shard: &Shard) -> Result<Self, DatasetError> {
        let mut data = [0; HEADERS];
        if let Some(last) = shard.offsets.len().checked_sub(1) {
            for (i, data) in data.iter_mut().enumerate() {
                *data = shard.offsets[(last as u128 * i as u128 / (HEADERS - 1) as u128) as usize];
            }
        }
        let (len, (seconds, nanoseconds)) = identity(&archive.file);
        Ok(Self { len, seconds, nanoseconds, data, sum: sum(archive, &data)? })
    }

    /// Sees that this is the archive. What is different where it is not.
    pub(super) fn check(&self, archive: &Source) -> Result<(), String> {
        let (len, modified) = identity(&archive.file);
        if len != self.len {
            return Err(format!("it had {} bytes and has {len}", self.len));
        }
        if modified != (self.seconds, self.nanoseconds) {
            return Err("it was written to since".into());
        }
        match sum(archive, &self.data) {
            Ok(sum) if sum == self.sum => Ok(()),
            Ok(_) => Err("it has other headers".into()),
            Err(error) => Err(error.fault.to_string()),
        }
    }
}

fn identity(file: &DataFile) -> (u64, (i64, u32)) {
    (file.len(), file.modified())
}

fn sum(archive: &Source, data: &[u64; HEADERS]) -> Result<u64, DatasetError> {
    let mut sum = Xxh3::new();
    let mut block = [0; BLOCK];
    let mut before = None;
    for header in [0].into_iter().chain(data.iter().map(|data| data.saturating_sub(BLOCK as u64))) {
        // Of few members some are named more than once.
        if before.replace(header) != Some(header) {
            let len = archive.read_up_to(header, &mut block)?;
            sum.update(&block[..len]);
        }
    }
    Ok(sum.digest())
}
