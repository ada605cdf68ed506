use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::error::CheckpointError;
use super::options::{By, LoadOptions};
use super::plan::{self, FilePlan, Place, View};
use super::tensor::{Block, Checkpoint, Tensor};
use super::under_way::{Arriving, Loaded};
use crate::dataset::{Dataset, DatasetError, DatasetFault, Safetensors};
use crate::device::{Device, DeviceKind};
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
    let total = plans.iter().map(FilePlan::bytes).sum();
    let mut arriving = Arriving::new(&carrier, total, options.progress.as_deref());
    for (plan, file) in plans.iter().zip(&files) {
        let Some(file) = file else { continue };
        if plan.has_runs() {
            match device.kind() {
                DeviceKind::Host => arriving.carry(runs(plan, file))?,
                _ => {
                    let (len, placed) = mirrored(plan, file);
                    arriving.carry_into(device.allocate(len)?, placed)?;
                }
            }
        }
        if plan.packed > 0 {
            let len = usize::try_from(plan.packed).unwrap_or(usize::MAX);
            arriving.pack(device.allocate(len)?, packed(plan, file))?;
        }
    }
    let (loaded, carried) = arriving.finish()?;
    Ok(assemble(carrier, plans, loaded, carried))
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
    let carrier = match &options.by {
        By::Given(carrier) => carrier.clone(),
        By::Own(builder) if device.kind() == DeviceKind::Host => {
            let builder = divided(builder.clone(), options).map_reader(|reader| reader.rings_unless_set(rings()));
            // To find how much is needed, files are opened by one that has next to nothing.
            let small = builder.clone().device(device).budget(1 << 20).build()?;
            let files = open(&small, checkpoint, plans)?;
            let need = need(&small, plans, &files)?;
            if let Some(budget) = options.budget.filter(|&budget| need > budget) {
                return Err(CheckpointError::NoRoom { need, free: budget, budget });
            }
            builder.map_reader(ReaderBuilder::filled_once).device(device).budget(need).build()?
        }
        By::Own(builder) => {
            /// Pinned memory that bytes pass through on their way to a GPU.
            const PASSAGE: u64 = 64 << 20;
            let passage = options.budget.unwrap_or(PASSAGE);
            divided(builder.clone(), options).device(device).budget(passage).device_budget(0).build()?
        }
    };
    let files = open(&carrier, checkpoint, plans)?;
    if let By::Given(carrier) = &options.by
        && device.kind() == DeviceKind::Host
    {
        let (need, budget) = (need(carrier, plans, &files)?, carrier.reader().arena().budget());
        let free = budget - carrier.reader().arena().on_loan();
        if need > free {
            return Err(CheckpointError::NoRoom { need, free, budget });
        }
    }
    Ok((carrier, files))
}

/// Where bytes stay where they land, a drive that is faster than a core is read by two.
fn rings() -> u32 {
    std::thread::available_parallelism().map_or(1, |processors| processors.get().min(2) as u32)
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

/// Bytes of host memory that the runs of all files take, with what alignment adds, as the carrier will lay them out.
fn need(carrier: &Carrier, plans: &[FilePlan], files: &[Option<File>]) -> Result<u64, CheckpointError> {
    /// What memory is lent in multiples of, and what a carrier has at least.
    const GRAIN: u64 = 4096;
    let mut need = GRAIN;
    for (plan, file) in plans.iter().zip(files) {
        let Some(file) = file else { continue };
        let laid_out = Plan::new(&runs(plan, file), carrier.reader().settings())?;
        let align = (laid_out.memory_align as u64).max(GRAIN);
        need = need.next_multiple_of(align) + (laid_out.layout.len as u64).next_multiple_of(GRAIN);
    }
    Ok(need)
}

fn runs(plan: &FilePlan, file: &File) -> Vec<Extent> {
    plan.runs.iter().map(|&(offset, len)| Extent::new(file, offset, len)).collect()
}

/// Places for the runs in a buffer, each as far from a multiple of a block as in the file, so that whole blocks may come
/// straight from the drive; and the buffer's length.
fn mirrored(plan: &FilePlan, file: &File) -> (usize, Vec<Placed>) {
    let mut end = 0;
    let mut placed = Vec::with_capacity(plan.runs.len());
    for (&(offset, len), at) in plan.runs.iter().zip(places(plan)) {
        placed.push(Placed::new(Extent::new(file, offset, len), at));
        end = at + len as usize;
    }
    (end, placed)
}

/// Where each run begins in the buffer of its file.
fn places(plan: &FilePlan) -> impl Iterator<Item = usize> {
    const BLOCK: u64 = 4096;
    plan.runs.iter().scan(0_u64, |end, &(offset, len)| {
        let at = end.next_multiple_of(BLOCK) + offset % BLOCK;
        *end = at + len;
        Some(at as usize)
    })
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

fn assemble(carrier: Carrier, plans: Vec<FilePlan>, loaded: Vec<Loaded>, carried: RouteBytes) -> Checkpoint {
    let mut loaded = loaded.into_iter();
    let mut tensors = Vec::with_capacity(plans.iter().map(|plan| plan.views.len()).sum());
    let mut files = 0;
    for plan in plans {
        let read = if plan.has_runs() { loaded.next() } else { None };
        let packed = if plan.packed > 0 { loaded.next() } else { None };
        files += usize::from(read.is_some() || packed.is_some());
        let places: Vec<usize> = places(&plan).collect();
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
