use std::path::Path;
use std::sync::Arc;

use super::arrange::Arrangement;
use super::carrier::carrier;
use super::error::CheckpointError;
use super::options::{By, LoadOptions};
use super::plan::{self, FilePlan, Place, View};
use super::tensor::{Block, Checkpoint, Tensor};
use super::under_way::{Arriving, Loaded};
use crate::dataset::{DatasetError, Safetensors, checkpoint_files};
use crate::device::{Device, DeviceBuffer, DeviceKind};
use crate::route::{Carrier, Placed, RouteBytes};
use crate::storage::{Extent, File};

/// Loads a checkpoint to a device: a `.safetensors` file, a model's `*.index.json`, or a folder that holds either. Files that
/// by their names are of a set, as `model-00001-of-00003.safetensors` is, must all be there.
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
    let checkpoint = Safetensors::open(&checkpoint_files(path, options.allow_incomplete)?)?;
    if checkpoint.tensors().is_empty() {
        return Err(DatasetError::setting(path, "it holds no tensor", "give the checkpoint that has them").into());
    }
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
                arriving.carry(&plan.extents(file))?;
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
