use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::arrange::Arrangement;
use super::error::CheckpointError;
use super::options::{By, LoadOptions};
use super::plan::{self, FilePlan, Place, View};
use super::tensor::{Block, Checkpoint, Tensor};
use super::under_way::{Arriving, Loaded};
use crate::dataset::{Dataset, DatasetError, DatasetFault, Safetensors};
use crate::device::{Device, DeviceBuffer, DeviceKind};
use crate::route::{Carrier, CarrierBuilder, Placed, RouteBytes};
use crate::storage::{Extent, File, Plan, ReaderBuilder};

/// Loads a checkpoint to a device: a `.safetensors` file, a model's `*.index.json`, or a folder that holds either.
///
/// What is wanted of each file is read in large pieces, tensors that lie beside each other at once, into one piece of the
/// device's memory; every tensor is a view of that. On the host the files are read straight to where they stay.
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use forebay::{Device, checkpoint};
///
/// # let folder = tempfile::tempdir()?;
/// # let path = folder.path().join("model.safetensors");
/// # let header = br#"{"weight":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}}"#;
/// # let file = [&(header.len() as u64).to_le_bytes()[..], header, &1f32.to_le_bytes(), &2f32.to_le_bytes()].concat();
/// # std::fs::write(&path, file)?;
/// let model = checkpoint::load(&path, &Device::auto(), &checkpoint::LoadOptions::new())?;
/// let weight = model.tensor("weight").ok_or("there is none")?;
/// assert_eq!(weight.shape().to_string(), "[2]");
/// assert_eq!(model.to_host(weight)?[..4], 1f32.to_le_bytes());
/// println!("{:?} by {:?}", weight.device_address(), model.carried());
/// # Ok(())
/// # }
/// ```
///
/// # Errors
/// [`CheckpointError`]: before anything is read where a file is not sound, a tensor that was asked for is not there or
/// cannot be divided, or the whole cannot fit into the device's memory; later where a file changes or a device fails.
pub fn load(path: impl AsRef<Path>, device: &Device, options: &LoadOptions) -> Result<Checkpoint, CheckpointError> {
    let path = path.as_ref();
    if let By::Given(carrier) = &options.by
        && carrier.device().to_string() != device.to_string()
    {
        let (carrier, device) = (carrier.device().to_string(), device.to_string());
        return Err(CheckpointError::OtherDevice { carrier, device });
    }
    let checkpoint = Safetensors::open(&files_of(path)?)?;
    let plans = plan::of(path, &checkpoint, options)?;
    let (carrier, files) = carrier(&checkpoint, &plans, device, options)?;
    // All of it before the first read, so that what cannot fit is known by then.
    let mut rooms = Vec::with_capacity(plans.len());
    for (plan, file) in plans.iter().zip(&files) {
        rooms.push(match file {
            Some(file) => Room::new(plan, file, &carrier)?,
            None => Room::default(),
        });
    }
    let total = plans.iter().map(FilePlan::bytes).sum();
    let mut arriving = Arriving::new(&carrier, total, options.progress.as_deref());
    let mut places = Vec::with_capacity(plans.len());
    for ((plan, file), room) in plans.iter().zip(&files).zip(rooms) {
        places.push(match (file, room.runs) {
            (Some(_), Some((buffer, runs))) => {
                arriving.carry_into(buffer, &runs.placed, runs.extra)?;
                runs.places
            }
            (Some(file), None) if plan.has_runs() => {
                arriving.carry(&runs(plan, file))?;
                Vec::new()
            }
            _ => Vec::new(),
        });
        if let (Some(file), Some(buffer)) = (file, room.packed) {
            arriving.pack(buffer, packed(plan, file))?;
        }
    }
    let (loaded, carried) = arriving.finish()?;
    Ok(assemble(carrier, plans, &places, loaded, carried))
}

/// Memory of the device for what is read of one file; on the host the carrier has it for the runs.
#[derive(Default)]
struct Room {
    runs: Option<(DeviceBuffer, Arrangement)>,
    packed: Option<DeviceBuffer>,
}

impl Room {
    fn new(plan: &FilePlan, file: &File, carrier: &Carrier) -> Result<Self, CheckpointError> {
        let device = carrier.device();
        let runs = match device.kind() {
            DeviceKind::Host => None,
            _ if !plan.has_runs() => None,
            _ => {
                let runs = Arrangement::of(plan, file, carrier);
                Some((device.allocate(runs.len)?, runs))
            }
        };
        let packed = match plan.packed {
            0 => None,
            len => Some(device.allocate(usize::try_from(len).unwrap_or(usize::MAX))?),
        };
        Ok(Self { runs, packed })
    }
}

/// The files of a checkpoint that is a folder: those of its one index, or all.
fn files_of(path: &Path) -> Result<Vec<PathBuf>, DatasetError> {
    if !path.is_dir() {
        return Ok(vec![path.to_owned()]);
    }
    let failed = |error| DatasetError::new(path, None, DatasetFault::Io(error));
    let (mut indices, mut files) = (Vec::new(), Vec::new());
    for entry in std::fs::read_dir(path).map_err(failed)? {
        let file = entry.map_err(failed)?.path();
        let name = file.file_name().unwrap_or_default().as_encoded_bytes();
        match name {
            hidden if hidden.starts_with(b".") => {}
            index if index.ends_with(b".safetensors.index.json") => indices.push(file),
            data if data.ends_with(b".safetensors") => files.push(file),
            _ => {}
        }
    }
    files.sort();
    match (&indices[..], files.is_empty()) {
        ([_], _) => Ok(indices),
        ([], false) => Ok(files),
        ([], true) => {
            Err(DatasetError::setting(path, "the folder holds no *.safetensors", "give the folder of a model"))
        }
        _ => Err(DatasetError::setting(path, "the folder holds several indices", "give one of them by its name")),
    }
}

/// A carrier with room for all of it, and those files open of which there is something to read.
fn carrier(
    checkpoint: &Safetensors,
    plans: &[FilePlan],
    device: &Device,
    options: &LoadOptions,
) -> Result<(Carrier, Vec<Option<File>>), CheckpointError> {
    let is_host = device.kind() == DeviceKind::Host;
    let carrier = match &options.by {
        By::Given(carrier) => carrier.clone(),
        By::Own(builder) if is_host => {
            /// Bytes that are read before they are put together: so many, but of little no more than there is.
            const CHUNK: std::ops::RangeInclusive<u64> = 64 << 10..=2 << 20;
            let builder = divided(builder.clone(), options).map_reader(|reader| reader.rings_unless_set(rings()));
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
            divided(builder.clone(), options).device(device).budget(passage).device_budget(0).build()?
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
            _ => return Err(CheckpointError::Scattered { need, free, budget }),
        }
    }
    Ok(())
}

/// A share is to be read without the others' bytes between its runs.
fn divided(builder: CarrierBuilder, options: &LoadOptions) -> CarrierBuilder {
    match options.slice {
        Some(_) => builder.map_reader(|reader| reader.coalesce_gap(0)),
        None => builder,
    }
}

fn open(carrier: &Carrier, checkpoint: &Safetensors, plans: &[FilePlan]) -> Result<Vec<Option<File>>, CheckpointError> {
    let open = |(data, plan): (&crate::dataset::DataFile, &FilePlan)| {
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
    let mut needs = Vec::with_capacity(plans.len());
    for (plan, file) in plans.iter().zip(files) {
        let Some(file) = file else { continue };
        let laid_out = Plan::new(&runs(plan, file), carrier.reader().settings())?;
        let len = (laid_out.layout.len as u64).next_multiple_of(GRAIN);
        needs.push((len, (laid_out.memory_align as u64).max(GRAIN)));
    }
    Ok(needs)
}

fn sum_of(needs: &[(u64, u64)]) -> u64 {
    needs.iter().fold(0, |sum: u64, &(len, align)| sum.next_multiple_of(align) + len).max(GRAIN)
}

fn runs(plan: &FilePlan, file: &File) -> Vec<Extent> {
    plan.runs.iter().map(|&(offset, len)| Extent::new(file, offset, len)).collect()
}

/// Each run of the tensors that are packed, and its place.
fn packed<'a>(plan: &'a FilePlan, file: &'a File) -> impl Iterator<Item = Placed> + 'a {
    plan.views.iter().flat_map(move |view| {
        let (at, offset, share) = match &view.place {
            Place::Packed { at, offset, share } => (*at, *offset, Some(share)),
            Place::Run { .. } => (0, 0, None),
        };
        share.into_iter().flat_map(move |share| {
            share.starts().zip(0..).map(move |(start, i)| {
                Placed::new(Extent::new(file, offset + start, share.len), (at + i * share.len) as usize)
            })
        })
    })
}

fn assemble(
    carrier: Carrier,
    plans: Vec<FilePlan>,
    places: &[Vec<usize>],
    loaded: Vec<Loaded>,
    carried: RouteBytes,
) -> Checkpoint {
    let mut loaded = loaded.into_iter();
    let mut tensors = Vec::with_capacity(plans.iter().map(|plan| plan.views.len()).sum());
    let mut files = 0;
    for (plan, places) in plans.into_iter().zip(places) {
        let read = if plan.has_runs() { loaded.next() } else { None };
        let packed = if plan.packed > 0 { loaded.next() } else { None };
        files += usize::from(read.is_some() || packed.is_some());
        for View { spec, len, place } in plan.views {
            let (memory, at) = match (&place, &read, &packed) {
                _ if len == 0 => (Block::Nothing, 0),
                (Place::Run { run, at }, Some(Loaded::Landed(landed)), _) => {
                    (Block::Landed(Arc::clone(landed), *run), *at as usize)
                }
                (Place::Run { run, at }, Some(Loaded::Buffer(buffer)), _) => {
                    (Block::Buffer(Arc::clone(buffer)), places[*run] + *at as usize)
                }
                (Place::Packed { at, .. }, _, Some(Loaded::Buffer(buffer))) => {
                    (Block::Buffer(Arc::clone(buffer)), *at as usize)
                }
                _ => (Block::Nothing, 0),
            };
            tensors.push(Tensor { spec, memory, at, len: len as usize });
        }
    }
    tensors.sort_by(|a, b| a.spec.name.cmp(&b.spec.name));
    Checkpoint { carrier, tensors, carried, files }
}
