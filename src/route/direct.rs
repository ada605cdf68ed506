//! The route `direct`: cuFile from the drive into the device's arena.
//!
//! The arena is registered once, and read into by its base and an offset. A file is registered once for as long as its
//! descriptors are open. Whether cuFile is direct is found by reading with it and looking at its own counts.

use std::collections::HashMap;
use std::fmt;
use std::fs::File as Descriptor;
use std::sync::{Arc, Mutex, Weak};

use super::hindrance::Hindrance;
use super::per_file::PerFile;
use super::reason::NoRoute;
use crate::device::cufile::{
    Batch, Context, Count, Counters, CuFile, CuFileError, Form, Handle, Job, Pool, Registration,
};
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
    known: Mutex<Known>,
    memory: Arc<Registration>,
    /// Where files are tried, one at a time; no part of the budget, which may all be on loan.
    tries: Mutex<Arc<Registration>>,
    /// By its counts what cuFile did is told from what it said it would do.
    count: Count,
    cufile: Arc<CuFile>,
    context: Context,
}

/// How cuFile serves a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Found {
    Direct,
    /// Through its compatibility mode.
    Compat,
    /// Not to be told, as others read at the same time.
    Unsure,
}

/// What was found so far.
#[derive(Default)]
struct Known {
    files: PerFile<Found>,
    /// Files that can be read past the page cache, and that cuFile serves through its compatibility mode all the same,
    /// by the disk that they lie on.
    compat: HashMap<(u32, u32), u32>,
}

impl Known {
    fn of(&self, file: &File) -> Option<Found> {
        /// After so many files of a disk the next ones need not be tried. One or two may have been the matter themselves.
        const ENOUGH: u32 = 3;
        let of_disk = || self.compat.get(&file.inner.identity.device()).filter(|&&files| files >= ENOUGH);
        self.files.of(file).or_else(|| of_disk().map(|_| Found::Compat))
    }
}

/// Bytes of device memory to try files in: what a GPU gives at once.
const TRIES: usize = 2 << 20;

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
        let tries = device.allocate(TRIES).map_err(|error| NoRoute::CuFileFails(error.to_string()))?;
        let tries = Registration::new(&cufile, &context, tries.address(), tries.len(), Arc::new(tries));
        let tries = Mutex::new(tries.map_err(NoRoute::of_cufile)?);
        let form: Result<Box<dyn Form>, CuFileError> = match form {
            DirectForm::Pool => Pool::new(&cufile, &context, threads).map(|form| Box::new(form) as _),
            DirectForm::Batch => Batch::new(&cufile, &context).map(|form| Box::new(form) as _),
            DirectForm::Stream => Stream::new(&cufile, &context).map(|form| Box::new(form) as _),
        };
        let form = form.map_err(NoRoute::of_cufile)?;
        let count = cufile.count();
        Ok(Self { form, handles: Arc::default(), known: Mutex::default(), memory, tries, count, cufile, context })
    }

    /// How cuFile serves a file: found by reading its first bytes, once.
    ///
    /// # Errors
    /// Where cuFile refuses the file, or its first bytes.
    pub(super) fn try_file(&self, file: &File, reader: &Reader) -> Result<Found, NoRoute> {
        if let Some(found) = lock(&self.known).of(file) {
            return Ok(found);
        }
        let found = self.try_first_bytes(file, reader)?;
        let mut known = lock(&self.known);
        match found {
            Found::Unsure => return Ok(found),
            // Of less than a block nothing follows for other files.
            Found::Compat if file.direct().is_ok() && file.len() >= u64::from(least_align(file)) => {
                *known.compat.entry(file.inner.identity.device()).or_default() += 1;
            }
            _ => {}
        }
        known.files.remember(file, found);
        Ok(found)
    }

    /// What was found by [`try_file`](Self::try_file).
    pub(super) fn is_compat_known(&self, file: &File) -> bool {
        lock(&self.known).of(file) == Some(Found::Compat)
    }

    fn try_first_bytes(&self, file: &File, reader: &Reader) -> Result<Found, NoRoute> {
        /// Each takes as long as a read of a block.
        const MOST: usize = 8;
        let pair = reader.descriptors(file).map_err(|error| NoRoute::Unreadable(error.to_string()))?;
        let refused = |error: CuFileError| NoRoute::of_refused_file(error, Hindrance::of_file(&file.inner.lookup));
        let handle = self.handle(&pair, reader).map_err(refused)?;
        if !handle.is_direct() {
            return Ok(Found::Compat);
        }
        let (block, memory) = (u64::from(least_align(file)), lock(&self.tries));
        // Of a file without bytes, or with huge blocks, what cuFile says of itself must do.
        if file.is_empty() || block > memory.len() {
            return Ok(self.would_be());
        }
        for _ in 0..MOST {
            let before = self.count.now();
            let transfer = Transfer::new(&handle, &memory, 0, block, file.len().min(block), 0).map_err(refused)?;
            let (job, waiter) = Job::new(vec![transfer]);
            self.form.take(job);
            waiter.wait().map_err(|fault| NoRoute::Unreadable(fault.fault.to_string()))?;
            let Some(counted) = before.zip(self.count.now()).map(|(before, now)| now.since(&before)) else {
                return Ok(self.would_be());
            };
            match (counted.reads_p2p + counted.reads_nvfs > 0, counted.reads_posix > 0) {
                (true, false) => return Ok(Found::Direct),
                (false, true) => return Ok(Found::Compat),
                (false, false) => return Ok(self.would_be()),
                // One of them is this read, and the other somebody else's.
                (true, true) => {}
            }
        }
        Ok(Found::Unsure)
    }

    fn would_be(&self) -> Found {
        if self.would_be_compat() { Found::Compat } else { Found::Direct }
    }

    /// Whether reads since `before` went through host memory, as far as cuFile tells. Others' reads of the same time are
    /// counted in: then direct ones may be taken for ones that were not, never the other way round.
    pub(super) fn was_compat(&self, before: Option<&Counters>) -> bool {
        let counted = before.zip(self.count.now()).and_then(|(before, now)| now.since(before).all_direct());
        counted.map_or_else(|| self.would_be_compat(), |all_direct| !all_direct)
    }

    /// What cuFile's own settings make of reads, where it counts nothing.
    fn would_be_compat(&self) -> bool {
        let properties = self.cufile.properties();
        properties.force_compat || properties.allow_compat && properties.nvidia_fs.is_none()
    }

    pub(super) fn counters(&self) -> Option<Counters> {
        self.count.now()
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
    pub(super) fn handle(&self, pair: &Arc<Descriptors>, reader: &Reader) -> Result<Arc<Handle>, CuFileError> {
        if let Some(handle) = lock(&self.handles).get(&pair.id) {
            return Ok(Arc::clone(handle));
        }
        // Of its own, so that whoever has the handle does not keep the pair from being closed.
        let descriptor = reader.clone_descriptor(pair.direct().unwrap_or_else(|_| pair.buffered()));
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
