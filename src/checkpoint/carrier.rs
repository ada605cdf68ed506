//! The carrier of a load: its own, with memory just large enough, or one that was given and must have room.

use super::error::CheckpointError;
use super::options::{By, LoadOptions};
use super::plan::FilePlan;
use crate::dataset::{DataFile, Dataset, Safetensors};
use crate::device::{Device, DeviceKind};
use crate::error::BuildError;
use crate::route::{Carrier, CarrierBuilder};
use crate::storage::{File, Plan, PlanRoom, PlanSettings, ReaderBuilder, ReaderSettings};
use crate::tuning;

/// A carrier with room for all of it, and those files open of which there is something to read.
pub(super) fn carrier(
    checkpoint: &Safetensors,
    plans: &[FilePlan],
    device: &Device,
    options: &LoadOptions,
) -> Result<(Carrier, Vec<Option<File>>), CheckpointError> {
    let is_host = device.kind() == DeviceKind::Host;
    let first = checkpoint.files().first().filter(|_| options.tuned);
    let tuned = first.map(|file| tuning::saved(file.path(), device)).transpose()?.flatten();
    let carrier = match &options.by {
        By::Given(carrier) => carrier.clone(),
        By::Own(builder) if is_host => {
            /// Bytes that are read before they are put together: so many, but of little no more than there is.
            const CHUNK: std::ops::RangeInclusive<u64> = 64 << 10..=2 << 20;
            let builder =
                prepared(builder.clone(), options, tuned).map_reader(|reader| reader.rings_unless_set(rings()));
            // To find how much is needed, files are opened by one that has next to nothing.
            let small = builder.clone().device(device).budget(1 << 20).build()?;
            let files = open(&small, checkpoint, plans)?;
            let packed: u64 = plans.iter().map(|plan| plan.packed).sum();
            let chunk = packed.clamp(*CHUNK.start(), *CHUNK.end());
            let passage = if packed > 0 { 8 * chunk } else { 0 };
            let lent = sum_of(&needs(&small, plans, &files)?) + passage;
            if let Some(budget) = options.budget.filter(|&budget| lent + packed > budget) {
                return Err(CheckpointError::NoRoom { need: lent + packed, free: budget, budget });
            }
            let builder = if packed > 0 { builder.chunk(chunk) } else { builder };
            builder.map_reader(ReaderBuilder::filled_once).device(device).budget(lent).build()?
        }
        By::Own(builder) => {
            /// Pinned memory that bytes pass through on their way to a GPU.
            const PASSAGE: u64 = 64 << 20;
            let passage = options.budget.unwrap_or(PASSAGE);
            prepared(builder.clone(), options, tuned).device(device).budget(passage).device_budget(0).build()?
        }
    };
    let files = open(&carrier, checkpoint, plans)?;
    if is_host && matches!(&options.by, By::Given(_)) {
        check_room(&carrier, plans, &files)?;
    }
    Ok((carrier, files))
}

/// Where bytes stay where they land, a drive that is faster than a core is read by two.
fn rings() -> u32 {
    std::thread::available_parallelism().map_or(1, |processors| processors.get().min(2) as u32)
}

/// Sees that memory which others may hold parts of has room for what stays there, and for what passes through it. Else a
/// read would wait for memory that only this thread could free.
fn check_room(carrier: &Carrier, plans: &[FilePlan], files: &[Option<File>]) -> Result<(), CheckpointError> {
    /// What a chunk may be longer than it was asked to be.
    const MORE: u64 = 128 << 10;
    let mut needs = needs(carrier, plans, files)?;
    if plans.iter().any(|plan| plan.packed > 0) {
        needs.push((carrier.chunk() as u64 + MORE, GRAIN));
    }
    let arena = carrier.reader().arena();
    let (budget, free) = (arena.budget(), arena.budget() - arena.on_loan());
    let need = sum_of(&needs);
    if need > free {
        return Err(CheckpointError::NoRoom { need, free, budget });
    }
    let mut tried = Vec::with_capacity(needs.len());
    for (len, align) in needs {
        match arena.try_loan_aligned(len as usize, align as usize) {
            Ok(Some(slot)) => tried.push(slot),
            Ok(None) => return Err(CheckpointError::Scattered { need, free, budget }),
            Err(error) => return Err(BuildError::from(error).into()),
        }
    }
    Ok(())
}

/// Tuned where that is asked for; and a share is to be read without the others' bytes between its runs.
fn prepared(builder: CarrierBuilder, options: &LoadOptions, tuned: Option<ReaderSettings>) -> CarrierBuilder {
    let builder = builder.map_reader(|reader| match tuned {
        Some(settings) => reader.settings(&settings),
        None => reader,
    });
    match options.slice {
        Some(_) => builder.map_reader(|reader| reader.coalesce_gap(0)),
        None => builder,
    }
}

fn open(carrier: &Carrier, checkpoint: &Safetensors, plans: &[FilePlan]) -> Result<Vec<Option<File>>, CheckpointError> {
    let open = |(data, plan): (&DataFile, &FilePlan)| {
        if plan.bytes() == 0 {
            return Ok(None);
        }
        let file = carrier.open(data.path())?;
        data.check(&file)?;
        Ok(Some(file))
    };
    checkpoint.files().iter().zip(plans).map(open).collect()
}

/// What memory is lent in multiples of, and what a carrier has at least.
const GRAIN: u64 = 4096;

/// Bytes of host memory that the runs of each file take, with what alignment adds, as the carrier will lay them out; and
/// what they begin at a multiple of.
fn needs(carrier: &Carrier, plans: &[FilePlan], files: &[Option<File>]) -> Result<Vec<(u64, u64)>, CheckpointError> {
    // How much they take does not depend on the parts that they are read in, of which there may be very many.
    let settings = PlanSettings { chunk: 1 << 62, ..carrier.reader().settings() };
    let mut needs = Vec::with_capacity(plans.len());
    for (plan, file) in plans.iter().zip(files) {
        let Some(file) = file else { continue };
        let laid_out = Plan::new(&plan.extents(file), settings, PlanRoom::Any)?;
        let len = (laid_out.layout.len as u64).next_multiple_of(GRAIN);
        needs.push((len, (laid_out.memory_align as u64).max(GRAIN)));
    }
    Ok(needs)
}

fn sum_of(needs: &[(u64, u64)]) -> u64 {
    needs.iter().fold(0, |sum: u64, &(len, align)| sum.next_multiple_of(align) + len).max(GRAIN)
}
