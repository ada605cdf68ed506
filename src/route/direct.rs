//! The route `direct`: cuFile from the drive into the device's arena.
//!
//! The arena is registered once, and read into by its base and an offset. A file is registered once for as long as its
//! descriptors are open. Whether cuFile is direct is found by reading with it and looking at its own counts.

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::fs::File as Descriptor;
use std::sync::{Arc, Mutex, Weak};

use super::hindrance::Hindrance;
use super::reason::NoRoute;
use crate::device::cufile::{Batch, Context, Counters, CuFile, CuFileError, Form, Handle, Job, Pool, Registration};
use crate::device::cufile::{Properties, Stream, Transfer, Version};
use crate::device::{CudaDevice, DeviceArena, DeviceBuffer};
use crate::storage::{Descriptors, File, Reader};
use crate::sync::lock;

/// How cuFile is asked to read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum DirectForm {
    /// Synchronous reads on threads of our own, which every cuFile has.
    #[default]
    Pool,
    /// Batches of reads: fewer calls for many small ones. Needs a cuFile of CUDA 11.6 or later.
    Batch,
    /// Reads in the order of a stream. Needs a cuFile of CUDA 12.2 or later.
    Stream,
}

pub(super) struct Direct {
    // Dropped first: it waits for its reads.
    form: Box<dyn Form>,
    handles: Arc<Handles>,
    /// What was found of files, by their numbers, and of disks.
    found: Mutex<Found>,
    memory: Arc<Registration>,
    cufile: Arc<CuFile>,
    context: Context,
}

#[derive(Default)]
struct Found {
    /// Whether cuFile serves the file through its compatibility mode.
    compat: HashMap<u64, bool>,
    /// Where it did so with a file that is open for direct reads, it does with all: the next ones need not be tried.
    compat_disks: HashSet<(u32, u32)>,
}

/// By the number of the pair of descriptors that the file is open with.
type Handles = Mutex<HashMap<u64, Arc<Handle>>>;

impl Direct {
    pub(super) fn new(
        device: &Arc<CudaDevice>,
        arena: &DeviceArena,
        form: DirectForm,
        threads: usize,
    ) -> Result<Self, NoRoute> {
        let cufile = CuFile::open(device.context()).map_err(NoRoute::of_cufile)?;
        let context = Context::new(device.context()).map_err(NoRoute::of_cufile)?;
        let memory = arena.memory();
        let keep = Arc::new(Arc::clone(memory));
        let memory = Registration::new(&cufile, &context, memory.address(), memory.len(), keep);
        let memory = memory.map_err(NoRoute::of_cufile)?;
        let form: Result<Box<dyn Form>, CuFileError> = match form {
            DirectForm::Pool => Pool::new(&cufile, &context, threads).map(|form| Box::new(form) as _),
            DirectForm::Batch => Batch::new(&cufile, &context).map(|form| Box::new(form) as _),
            DirectForm::Stream => Stream::new(&cufile, &context).map(|form| Box::new(form) as _),
        };
        let form = form.map_err(NoRoute::of_cufile)?;
        Ok(Self { form, handles: Arc::default(), found: Mutex::default(), memory, cufile, context })
    }

    /// Whether cuFile serves a file through its compatibility mode: found by reading its first bytes, once.
    ///
    /// # Errors
    /// Where cuFile refuses the file, or its first bytes.
    pub(super) fn is_compat(&self, file: &File, reader: &Reader, arena: &DeviceArena) -> Result<bool, NoRoute> {
        let disk = file.inner.identity.device();
        {
            let found = lock(&self.found);
            if let Some(&compat) = found.compat.get(&file.inner.id) {
                return Ok(compat);
            }
            if found.compat_disks.contains(&disk) {
                return Ok(true);
            }
        }
        let compat = self.try_first_bytes(file, reader, arena)?;
        let mut found = lock(&self.found);
        found.compat.insert(file.inner.id, compat);
        if compat && file.direct().is_ok() && !file.is_empty() {
            found.compat_disks.insert(disk);
        }
        Ok(compat)
    }

    /// What was found by [`is_compat`](Self::is_compat).
    pub(super) fn is_compat_known(&self, file: &File) -> bool {
        let found = lock(&self.found);
        found.compat_disks.contains(&file.inner.identity.device())
            || found.compat.get(&file.inner.id).copied().unwrap_or(false)
    }

    fn try_first_bytes(&self, file: &File, reader: &Reader, arena: &DeviceArena) -> Result<bool, NoRoute> {
        let pair = reader.descriptors(file).map_err(|error| NoRoute::Unreadable(error.to_string()))?;
        let refused = |error: CuFileError| NoRoute::of_refused_file(error, Hindrance::of_file(&file.inner.lookup));
        let handle = self.handle(&pair).map_err(refused)?;
        let before = self.cufile.counters();
        let block = least_align(file);
        // With all memory on loan there is none to try it with; what cuFile says of itself must do.
        let Some(slot) = arena.try_loan(block as usize, block as usize).filter(|_| !file.is_empty()) else {
            return Ok(!handle.is_direct() || self.would_be_compat());
        };
        let (at, need) = (slot.start() as u64, file.len().min(u64::from(block)));
        let transfer = Transfer::new(&handle, &self.memory, 0, u64::from(block), need, at).map_err(refused)?;
        let (job, waiter) = Job::new(vec![transfer]);
        self.form.take(job.holding(Arc::new(slot)));
        waiter.wait().map_err(|fault| NoRoute::Unreadable(fault.fault.to_string()))?;
        Ok(!handle.is_direct() || self.was_compat(before.as_ref()))
    }

    /// Whether reads since `before` went through host memory, as far as cuFile tells. Others' reads of the same time are
    /// counted in: then direct ones may be taken for ones that were not, never the other way round.
    pub(super) fn was_compat(&self, before: Option<&Counters>) -> bool {
        let counted = before.zip(self.cufile.counters()).and_then(|(before, now)| now.since(before).all_direct());
        counted.map_or_else(|| self.would_be_compat(), |all_direct| !all_direct)
    }

    /// What cuFile's own settings make of reads, where it counts nothing.
    fn would_be_compat(&self) -> bool {
        let properties = self.cufile.properties();
        properties.force_compat || properties.allow_compat && properties.nvidia_fs.is_none()
    }

    pub(super) fn counters(&self) -> Option<Counters> {
        self.cufile.counters()
    }

    /// A buffer of the caller's, as memory that cuFile may read into.
    pub(super) fn register(&self, buffer: &DeviceBuffer) -> Result<Arc<Registration>, NoRoute> {
        buffer.registration(&self.cufile, &self.context).map_err(NoRoute::of_cufile)
    }

    pub(super) fn properties(&self) -> &Properties {
        self.cufile.properties()
    }

    pub(super) fn version(&self) -> Option<Version> {
        self.cufile.version()
    }

    pub(super) fn form(&self) -> &dyn Form {
        &*self.form
    }

    pub(super) fn memory(&self) -> &Arc<Registration> {
        &self.memory
    }

    /// The registration of an open file, made at its first read and undone when its descriptors are closed.
    pub(super) fn handle(&self, pair: &Arc<Descriptors>) -> Result<Arc<Handle>, CuFileError> {
        if let Some(handle) = lock(&self.handles).get(&pair.id) {
            return Ok(Arc::clone(handle));
        }
        // Of its own, so that whoever has the handle does not keep the pair from being closed.
        let descriptor = pair.direct().unwrap_or_else(|_| pair.buffered()).try_clone_to_owned();
        let descriptor = Descriptor::from(descriptor.map_err(CuFileError::Descriptor)?);
        let handle = Handle::new(&self.cufile, Arc::new(descriptor))?;
        let handles: Weak<Handles> = Arc::downgrade(&self.handles);
        lock(&self.handles).insert(pair.id, Arc::clone(&handle));
        pair.on_close(Box::new(move |id| {
            let closed = handles.upgrade().and_then(|handles| lock(&handles).remove(&id));
            drop(closed);
        }));
        Ok(handle)
    }
}

impl fmt::Debug for Direct {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Direct").field("form", &self.form).field("cufile", &self.cufile).finish_non_exhaustive()
    }
}

/// What direct reads of a file are multiples of: cuFile's block, or the file's own where that is larger.
pub(super) fn least_align(file: &File) -> u32 {
    const BLOCK: u32 = crate::device::cufile::PAGE as u32;
    file.direct().map_or(BLOCK, |align| align.offset.max(align.memory).max(BLOCK))
}
