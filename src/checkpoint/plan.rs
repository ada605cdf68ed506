//! What is read of which file, and where each tensor will lie.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::path::Path;

use super::error::CheckpointError;
use super::options::LoadOptions;
use super::slice::Share;
use crate::dataset::{Dataset, Safetensors, StoredTensor, TensorSpec, shown};
use crate::storage::{Extent, File};

/// What is read of one file.
#[derive(Debug, Default)]
pub(super) struct FilePlan {
    /// Offset and length in the file of each run of bytes that is kept as it is; by offset, none touches another.
    pub(super) runs: Vec<(u64, u64)>,
    /// Bytes that are packed into a buffer of their own.
    pub(super) packed: u64,
    pub(super) views: Vec<View>,
}

/// A tensor, and where its bytes will be.
#[derive(Debug)]
pub(super) struct View {
    pub(super) spec: TensorSpec,
    pub(super) len: u64,
    pub(super) place: Place,
}

#[derive(Debug)]
pub(super) enum Place {
    Run {
        run: usize,
        /// In the run, in bytes.
        at: u64,
    },
    /// Its runs one after the other, from `at` of the file's packed buffer.
    /// Boxed, since most tensors have none.
    Packed { at: u64, offset: u64, share: Box<Share> },
}

/// The plan of each file of the checkpoint, in their order; of some there may be nothing to read.
pub(super) fn of(
    path: &Path,
    checkpoint: &Safetensors,
    options: &LoadOptions,
) -> Result<Vec<FilePlan>, CheckpointError> {
    if let Some(slice) = &options.slice
        && slice.rank >= slice.world
    {
        return Err(CheckpointError::Rank { rank: slice.rank, world: slice.world });
    }
    if checkpoint.is_sharded() {
        check_once(checkpoint)?;
    }
    check_there(path, checkpoint, options.names.as_ref())?;
    let mut plans: Vec<FilePlan> = Vec::new();
    plans.resize_with(checkpoint.files().len(), FilePlan::default);
    for StoredTensor { spec, range } in checkpoint.tensors() {
        let named = options.names.as_ref().is_none_or(|names| names.contains(&*spec.name));
        if !named || options.wanted.as_ref().is_some_and(|wanted| !wanted(spec)) {
            continue;
        }
        let share = match &options.slice {
            Some(slice) => Share::new(spec, range.len, slice)?,
            None => Share::whole(spec, range.len),
        };
        plans[range.file as usize].add(range.offset, share);
    }
    if options.wanted.is_some() && plans.iter().all(|plan| plan.views.is_empty()) {
        tracing::warn!("{}: the filter wants none of {} tensors", shown(path), checkpoint.tensors().len());
    }
    Ok(plans)
}

/// Sees that no name is there twice.
fn check_once(checkpoint: &Safetensors) -> Result<(), CheckpointError> {
    let path_of = |file: u32| shown(checkpoint.files()[file as usize].path()).into_owned();
    let mut files = HashMap::with_capacity(checkpoint.tensors().len());
    for StoredTensor { spec, range } in checkpoint.tensors() {
        if let Some(other) = files.insert(&*spec.name, range.file) {
            let (path, other) = (path_of(range.file), path_of(other));
            return Err(CheckpointError::Twice { path, name: spec.name.to_string(), other });
        }
    }
    Ok(())
}

/// Sees that every name asked for is there.
fn check_there(path: &Path, checkpoint: &Safetensors, asked: Option<&BTreeSet<String>>) -> Result<(), CheckpointError> {
    let Some(asked) = asked else { return Ok(()) };
    let there: HashSet<&str> = checkpoint.tensors().iter().map(|tensor| &*tensor.spec.name).collect();
    match asked.iter().find(|name| !there.contains(name.as_str())) {
        Some(name) => Err(CheckpointError::NoTensor { path: shown(path).into_owned(), name: name.clone() }),
        None => Ok(()),
    }
}

impl FilePlan {
    /// Adds a share of the tensor at `offset` of the file; tensors come by offset.
    fn add(&mut self, offset: u64, share: Share) {
        let (spec, len) = (share.spec.clone(), share.bytes());
        let place = match share.count {
            1 => self.add_run(offset + share.start, len),
            _ => {
                /// As allocators of devices do.
                const ALIGN: u64 = 256;
                let at = self.packed.next_multiple_of(ALIGN);
                self.packed = at + len;
                Place::Packed { at, offset, share: Box::new(share) }
            }
        };
        self.views.push(View { spec, len, place });
    }

    fn add_run(&mut self, offset: u64, len: u64) -> Place {
        match self.runs.last_mut() {
            Some((start, run)) if *start + *run == offset => {
                let at = *run;
                *run += len;
                Place::Run { run: self.runs.len() - 1, at }
            }
            _ => {
                self.runs.push((offset, len));
                Place::Run { run: self.runs.len() - 1, at: 0 }
            }
        }
    }

    /// The runs, of the open file.
    pub(super) fn extents(&self, file: &File) -> Vec<Extent> {
        self.runs.iter().map(|&(offset, len)| Extent::new(file, offset, len)).collect()
    }

    /// Whether there is something to read as it is.
    pub(super) fn has_runs(&self) -> bool {
        self.runs.iter().any(|&(_, len)| len > 0)
    }

    pub(super) fn bytes(&self) -> u64 {
        self.views.iter().map(|view| view.len).sum()
    }
}
