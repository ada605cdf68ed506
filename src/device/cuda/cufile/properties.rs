use super::error::{CuFileError, Refusal};
use super::transfer::PAGE;
use super::version::Version;
use crate::sys::cufile::{self, Calls, feature, parameter};

/// What cuFile says it can do.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Properties {
    /// The most bytes that go to the driver in one piece; a multiple of 4096.
    pub max_direct_io: u64,
    /// The most bytes that an entry of a batch may have without going through the compatibility mode; a multiple of
    /// 4096.
    pub max_batch_entry: u64,
    /// The most entries of a batch. 0 where there are no batches.
    pub max_batch: u32,
    /// The most bytes that are pinned of one GPU, cuFile's own buffers included. `None` where it does not say.
    pub max_pinned: Option<u64>,
    /// cuFile may serve reads without GPUDirect, unasked: through the page cache, or by copies of its own.
    pub allow_compat: bool,
    /// cuFile serves every read so.
    pub force_compat: bool,
    /// The buffers of that mode, as (bytes, count). Empty where cuFile does not say.
    pub slabs: Vec<(u64, u64)>,
    /// The nvidia-fs driver that is loaded, if one is.
    pub nvidia_fs: Option<Version>,
    /// Batches of reads can be had.
    pub batch: bool,
    /// Reads in the order of a stream can be had.
    pub streams: bool,
}

impl Properties {
    /// cuFile must be open. Also gives the flags of the file systems that the driver serves.
    pub(super) fn ask(calls: &Calls, nvidia_fs: Option<Version>) -> Result<(Self, u32), CuFileError> {
        // Longer than the structure that we know, for a library that knows a longer one.
        let mut said = [cufile::Properties::default(); 4];
        // SAFETY: cuFile writes one structure, and there is room for four.
        Refusal::check("cuFileDriverGetProperties", unsafe { (calls.driver_properties)(said.as_mut_ptr()) })?;
        let said = said[0];
        let nvidia_fs = nvidia_fs.or_else(|| {
            let told = said.nvfs_major != 0 || said.nvfs_minor != 0;
            told.then(|| Version::new(said.nvfs_major, said.nvfs_minor, 0))
        });
        let allowed = said.control_flags & feature::ALLOW_COMPAT != 0;
        let properties = Self {
            max_direct_io: bytes(said.max_direct_io_kib as u64).unwrap_or(16 << 20),
            max_batch_entry: bytes(said.per_buffer_cache_kib.into()).unwrap_or(1 << 20),
            max_batch: if calls.batch.is_some() { said.max_batch_io_size } else { 0 },
            max_pinned: bytes(said.max_device_pinned_kib.into()),
            allow_compat: switch(calls, parameter::ALLOW_COMPAT_MODE).unwrap_or(allowed),
            force_compat: switch(calls, parameter::FORCE_COMPAT_MODE).unwrap_or(false),
            slabs: slabs(calls),
            nvidia_fs,
            batch: calls.batch.is_some() && said.feature_flags & feature::BATCH != 0,
            streams: calls.stream.is_some() && said.feature_flags & feature::STREAMS != 0,
        };
        Ok((properties, said.status_flags))
    }

    /// How many entries of batches may be under way at once. In the compatibility mode each takes a buffer of a pool,
    /// and more entries than buffers wait for each other for ever.
    pub(super) fn entries_at_once(&self) -> u32 {
        const SMALLEST_POOL: u64 = 64;
        let most = self.max_batch.min(256);
        if !self.allow_compat && !self.force_compat {
            return most;
        }
        let fewest = self.slabs.iter().map(|&(_, count)| count).min().unwrap_or(SMALLEST_POOL).min(SMALLEST_POOL);
        most.min(fewest.max(1) as u32)
    }
}

/// From KiB, down to a multiple of what reads are aligned to; `None` where that is nothing.
fn bytes(kib: u64) -> Option<u64> {
    let bytes = kib.checked_mul(1024)?;
    Some(bytes - bytes % PAGE).filter(|&bytes| bytes > 0)
}

fn switch(calls: &Calls, parameter: u32) -> Option<bool> {
    let mut value = 0_u8;
    // SAFETY: cuFile writes a C `bool`, which is one byte.
    let status = unsafe { calls.parameter_bool?(parameter, &mut value) };
    (status.err == 0).then_some(value != 0)
}

fn slabs(calls: &Calls) -> Vec<(u64, u64)> {
    /// cuFile wants to be told how many kinds of them it has: three, where nobody has set others.
    const KINDS: [usize; 6] = [3, 1, 2, 4, 5, 6];
    let Some(ask) = calls.posix_slabs else { return Vec::new() };
    let (mut sizes, mut counts) = ([0; 6], [0; 6]);
    // SAFETY: cuFile writes as many numbers to each as it is told that there is room for, which is 6 at most.
    let told =
        KINDS.iter().any(|&kinds| unsafe { ask(sizes.as_mut_ptr(), counts.as_mut_ptr(), kinds as i32) }.err == 0);
    let slabs = sizes.into_iter().zip(counts).filter(|&(kib, count)| told && kib > 0 && count > 0);
    slabs.map(|(kib, count)| (kib as u64 * 1024, count as u64)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn properties() -> Properties {
        Properties {
            max_direct_io: 16 << 20,
            max_batch_entry: 1 << 20,
            max_batch: 128,
            max_pinned: None,
            allow_compat: false,
            force_compat: false,
            slabs: Vec::new(),
            nvidia_fs: None,
            batch: true,
            streams: true,
        }
    }

    #[test]
    fn entries_never_outnumber_the_buffers_of_the_compatibility_mode() {
        assert_eq!(properties().entries_at_once(), 128);
        assert_eq!(Properties { max_batch: 100_000, ..properties() }.entries_at_once(), 256);
        let compat = Properties { allow_compat: true, ..properties() };
        assert_eq!(compat.entries_at_once(), 64);
        assert_eq!(Properties { force_compat: true, ..properties() }.entries_at_once(), 64);
        assert_eq!(Properties { max_batch: 8, ..compat.clone() }.entries_at_once(), 8);
        let slabs = vec![(4 << 10, 128), (1 << 20, 64), (16 << 20, 32)];
        assert_eq!(Properties { slabs, ..compat.clone() }.entries_at_once(), 32);
        assert_eq!(Properties { slabs: vec![(4096, 1000)], ..compat }.entries_at_once(), 64);
    }

    #[test]
    fn sizes_are_whole_pages() {
        assert_eq!(
            (bytes(16384), bytes(5), bytes(3), bytes(0), bytes(u64::MAX)),
            (Some(16 << 20), Some(4096), None, None, None)
        );
    }
}
