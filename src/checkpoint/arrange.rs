//! Where the runs of a file lie in a buffer on a device, and what its carrier is asked for to bring them there.

use super::plan::FilePlan;
use crate::route::{Carrier, Placed, Route};
use crate::storage::{Extent, File};

#[derive(Debug)]
pub(super) struct Arrangement {
    /// Where each run begins.
    pub(super) places: Vec<usize>,
    pub(super) placed: Vec<Placed>,
    /// Bytes of the buffer.
    pub(super) len: usize,
    /// Bytes that are read though nobody asked for them.
    pub(super) extra: u64,
}

/// What cuFile is to read: it reads whole blocks only.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ByCuFile {
    Nothing,
    /// All but the beginning and the end of a run.
    WholeBlocks,
    /// All, with the rest of the blocks that runs begin and end in.
    All,
}

impl Arrangement {
    /// Each run is as far from a multiple of a block as in the file, so that whole blocks may come straight from the drive.
    pub(super) fn of(plan: &FilePlan, file: &File, carrier: &Carrier) -> Self {
        let by_cufile = match carrier.is_direct_alone() {
            true => ByCuFile::All,
            false if carrier.decision(file).is_some_and(|decision| decision.chosen == Route::Direct) => {
                ByCuFile::WholeBlocks
            }
            false => ByCuFile::Nothing,
        };
        let block = u64::from(file.direct().map_or(4096, |align| align.offset.max(align.memory).max(4096)));
        let mut it = Self { places: Vec::with_capacity(plan.runs.len()), placed: Vec::new(), len: 0, extra: 0 };
        for &(offset, len) in &plan.runs {
            let (end, into) = (offset + len, offset % block);
            let whole = (it.len as u64).next_multiple_of(block);
            it.places.push((whole + into) as usize);
            let (from, to) = match by_cufile {
                ByCuFile::All if len > 0 => (offset - into, end.next_multiple_of(block).min(file.len())),
                _ => (offset, end),
            };
            // Where the first whole block begins.
            let first = offset.next_multiple_of(block);
            let split = by_cufile == ByCuFile::WholeBlocks && (from + 1..to).contains(&first);
            for (from, to) in if split { [(from, first), (first, to)] } else { [(from, to), (to, to)] } {
                if to > from {
                    let at = whole + from - (offset - into);
                    it.placed.push(Placed::new(Extent::new(file, from, to - from), at as usize));
                }
            }
            it.len = (whole + to - (offset - into)) as usize;
            it.extra += (to - from) - len;
        }
        it
    }
}
