use std::collections::HashSet;
use std::fmt;
use std::future::{Future, poll_fn};
use std::ops::Range;
use std::path::Path;
use std::pin::Pin;
use std::sync::{Arc, Mutex, OnceLock};
use std::task::Poll;
use std::time::{Duration, Instant};

use tokio::task::coop::unconstrained;

use super::builder::CarrierBuilder;
use super::bytes::{RouteBytes, Tally};
use super::carry::Carry;
use super::carry_into::CarryInto;
use super::conductor::Conductor;
use super::decision::{Decision, Rejected, Route, Switches};
use super::direct::{Direct, Found};
use super::error::{CarryError, CarryFault};
use super::hindrance::Hindrance;
use super::landed::Landed;
use super::per_file::PerFile;
use super::placed::Placed;
use super::reason::NoRoute;
use crate::device::cufile::{Counters as CuFileCounters, Properties as CuFileProperties, Version as CuFileVersion};
use crate::device::{
    Copier, CudaDevice, Device, DeviceArena, DeviceBuffer, DeviceError, DeviceFault, HostCopier, Memory, PinnedArena,
};
use crate::memory::Slot;
use crate::storage::{Extent, File, Reader};
use crate::sync::lock;

/// Carries extents of files to one device, by the best route that each file has. Cloning gives another handle.
///
/// ```
/// # fn main() -> Result<(), forebay::Error> {
/// # let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("Cargo.toml");
/// use forebay::{Carrier, Device, Extent};
///
/// let carrier = Carrier::builder().device(&Device::auto()).budget(64 << 20).device_budget(64 << 20).build()?;
/// let file = carrier.open(path)?;
/// let landed = carrier.carry_blocking(&[Extent::new(&file, 0, 9)])?;
/// assert_eq!(landed.to_host(0)?, b"[package]");
/// println!("{:?}, {:?}", landed.carried(), carrier.decision(&file));
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Carrier {
    core: Arc<Core>,
}

pub(super) struct Core {
    pub(super) device: Device,
    pub(super) reader: Reader,
    pub(super) switches: Switches,
    pub(super) chunk: usize,
    /// Bytes that may be being read at once.
    pub(super) window: usize,
    pub(super) process: u32,
    pub(super) tally: Arc<Tally>,
    /// What was decided for each file, and whether it had reads past the page cache then.
    pub(super) decisions: Mutex<PerFile<(bool, Arc<Decision>)>>,
    /// From its first use on: on the host nothing is copied but to places that the caller gives.
    pub(super) conductor: OnceLock<Result<Conductor, DeviceError>>,
    /// Absent where bytes stay on the host.
    pub(super) gpu: Option<Gpu>,
}

/// What a CUDA device needs beside the reader.
pub(super) struct Gpu {
    /// cuFile, or why it cannot be used at all.
    pub(super) direct: Result<Direct, NoRoute>,
    pub(super) device: Arc<CudaDevice>,
    pub(super) arena: DeviceArena,
    pub(super) pinned: Arc<PinnedArena>,
    /// The stream of copies back to the host, from its first use on.
    pub(super) down: Mutex<Option<Box<dyn Copier>>>,
}

impl Carrier {
    /// A carrier to be set up; every setting has a default.
    pub fn builder() -> CarrierBuilder {
        CarrierBuilder::default()
    }

    pub(super) fn new(core: Core) -> Self {
        Self { core: Arc::new(core) }
    }

    /// The device that bytes are carried to.
    pub fn device(&self) -> &Device {
        &self.core.device
    }

    /// The reader of the routes `bounce` and `cached`. What it lands in is this carrier's pinned memory: whoever keeps
    /// pieces of it leaves less to the carrier.
    pub fn reader(&self) -> &Reader {
        &self.core.reader
    }

    /// Opens a regular file or a block device, and decides which route its bytes will take.
    ///
    /// # Errors
    /// [`CarryError`] names the path: where it cannot be opened, is no file, or a route was asked for that cannot be had
    /// for it.
    pub fn open(&self, path: impl AsRef<Path>) -> Result<File, CarryError> {
        let file = self.core.reader.open(path)?;
        let decision = self.core.decide(&file).map_err(|rejected| no_route(&file, 0, rejected))?;
        tracing::debug!("{}: route {}", file.path().display(), decision.chosen);
        Ok(file)
    }

    /// The route that bytes of this file take to this carrier's device, and why not the others. `None` where none can
    /// be had: the file was opened with something else than this carrier, or has lost what the route needs since.
    pub fn decision(&self, file: &File) -> Option<Decision> {
        self.core.decide(file).ok().map(|decision| Decision::clone(&decision))
    }

    /// Carries a list of extents, of any files opened with this carrier, into one piece of the device's memory.
    ///
    /// The request is planned on this thread. The order of the list decides nothing but the order of the pieces in
    /// [`Landed`]. Extents may overlap, repeat, and be empty.
    ///
    /// **Memory.** What landed holds its part of the device budget until it is dropped; a request that finds too little
    /// free waits, in the order of asking: one that is neither polled nor dropped keeps its place, and those behind it
    /// waiting. On a CUDA device the pinned memory is only passed through, so a request may
    /// be larger than that; on the host what landed holds its part of the budget, as
    /// [`Reader::read`](crate::Reader::read) says.
    ///
    /// # Errors
    /// The future ends with [`CarryError`], which names path and offset. Nothing is delivered then.
    pub fn carry(&self, extents: &[Extent]) -> Carry {
        Carry::new(&self.core, extents)
    }

    /// [`carry`](Self::carry), awaited on this thread.
    ///
    /// # Errors
    /// As [`carry`](Self::carry).
    pub fn carry_blocking(&self, extents: &[Extent]) -> Result<Landed, CarryError> {
        self.carry(extents).wait()
    }

    /// Carries extents, of any files opened with this carrier, to places in a buffer of this carrier's device. The places
    /// must lie inside the buffer and must not overlap; what lies between them stays as it is.
    ///
    /// By the routes `bounce` and `cached`, extents near each other are read at once, and a chunk of them is copied by
    /// few calls, however small they are. The route `direct` takes those extents whose offset and place are multiples of
    /// 4096 bytes (or of the file's own block, where that is larger), up to their last whole block; what is left goes by
    /// the others. Where no others are allowed, the length must be such a multiple, too, or end with the file and with
    /// the buffer. It registers the buffer with cuFile, until the buffer is dropped. On the host each byte is copied once.
    ///
    /// ```
    /// # fn main() -> Result<(), forebay::Error> {
    /// # let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("Cargo.toml");
    /// use forebay::{Carrier, CarryFault, Device, Extent, Placed, ReadFault};
    ///
    /// let device = Device::auto();
    /// let carrier = Carrier::builder().device(&device).budget(16 << 20).device_budget(0).build()?;
    /// let file = carrier.open(path)?;
    /// let places = [Placed::new(Extent::new(&file, 10, 4), 0), Placed::new(Extent::new(&file, 0, 9), 4)];
    /// let (carried, buffer) = carrier.carry_into(device.allocate(13)?, &places).wait(); // or `.await`
    /// match carried {
    ///     Ok(carried) => assert_eq!(carried.total(), 13),
    ///     // The `File` stays the one that was opened: it must be opened again to read what is there now.
    ///     Err(error) if matches!(error.fault, CarryFault::Read(ReadFault::Changed(_))) => println!("{error}"),
    ///     Err(error) => return Err(error.into()),
    /// }
    /// assert_eq!(carrier.to_host(&buffer, 0..13)?, b"name[package]");
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// The future ends with [`CarryError`], which names path and offset, and with the buffer in any case: nothing is
    /// under way to it any more, and after an error its places hold any bytes.
    pub fn carry_into(&self, buffer: DeviceBuffer, placed: &[Placed]) -> CarryInto {
        CarryInto::new(&self.core, buffer, placed)
    }

    /// Copies a range of a buffer to the heap, and waits for that. For a look at the bytes, or a check.
    ///
    /// # Errors
    /// [`DeviceError`] where the device fails, the buffer is of another one, or the range is not inside it.
    pub fn to_host(&self, buffer: &DeviceBuffer, range: Range<usize>) -> Result<Vec<u8>, DeviceError> {
        let device = self.core.device.to_string();
        if buffer.device().to_string() != device || range.start > range.end || range.end > buffer.len() {
            return Err(DeviceError { device, fault: DeviceFault::NotInBuffer { range, len: buffer.len() } });
        }
        match buffer.host() {
            Some(bytes) => Ok(bytes[range].to_vec()),
            None => self.core.fetch(buffer.memory(), range),
        }
    }

    /// Bytes delivered so far, by route.
    pub fn carried(&self) -> RouteBytes {
        self.core.tally.now()
    }

    /// What cuFile can do here, as it says itself.
    ///
    /// # Errors
    /// Why the route `direct` cannot be had for any file.
    pub fn cufile(&self) -> Result<&CuFileProperties, NoRoute> {
        self.core.cufile().map(Direct::properties)
    }

    /// The version of the cuFile library; `None` where there is none, or one that does not say.
    pub fn cufile_version(&self) -> Option<CuFileVersion> {
        self.core.cufile().ok().and_then(Direct::version)
    }

    /// What cuFile itself has counted in this process, by the way bytes went underneath: what
    /// [`RouteBytes::direct`] is checked against. `None` where the library keeps no counts (before CUDA 13.0).
    pub fn cufile_counters(&self) -> Option<CuFileCounters> {
        self.core.cufile().ok().and_then(Direct::counters)
    }

    /// Bytes of device memory that are held by what has landed or is about to; 0 on the host.
    pub fn device_bytes_held(&self) -> u64 {
        self.core.gpu.as_ref().map_or(0, |gpu| gpu.arena.on_loan())
    }
}

impl Core {
    /// What was decided for a file, or is now: anew where it has lost its reads past the page cache meanwhile.
    pub(super) fn decide(&self, file: &File) -> Result<Arc<Decision>, Rejected> {
        let has_direct = file.direct().is_ok();
        if let Some((had_direct, decision)) = lock(&self.decisions).of(file)
            && had_direct == has_direct
        {
            return Ok(decision);
        }
        let mut decision = self.switches.decide(|route| self.can(route, file))?;
        if decision.chosen == Route::Direct
            && let Some(direct) = self.direct()
        {
            decision.compat = direct.is_compat_known(file);
            if decision.compat {
                tracing::warn!(
                    "{}: cuFile serves it through its compatibility mode only, by way of host memory, as the route \
                     direct was asked for; let it be auto",
                    file.path().display()
                );
            }
        }
        let decision = Arc::new(decision);
        // What could not be told now may be next time.
        if decision.why_not(Route::Direct) != Some(&NoRoute::Unsure) {
            lock(&self.decisions).remember(file, (has_direct, Arc::clone(&decision)));
        }
        Ok(decision)
    }

    fn can(&self, route: Route, file: &File) -> Result<(), NoRoute> {
        match route {
            Route::Direct => self.can_direct(file),
            Route::Bounce => file.direct().map(|_| ()).map_err(NoRoute::NoDirectIo),
            Route::Cached => Ok(()),
        }
    }
}

impl Core {
    /// The numbers of those files that cuFile reads.
    ///
    /// # Errors
    /// Where no route can be had for one of them.
    pub(super) fn direct_files<'a>(
        &self,
        extents: impl IntoIterator<Item = &'a Extent>,
    ) -> Result<HashSet<u64>, CarryError> {
        let mut direct = HashSet::new();
        let mut last = None;
        for Extent { file, offset, .. } in extents {
            // Most often the same one many times.
            if last.replace(file.inner.id) == Some(file.inner.id) {
                continue;
            }
            let decision = self.decide(file).map_err(|rejected| no_route(file, *offset, rejected))?;
            if decision.chosen == Route::Direct {
                direct.insert(file.inner.id);
            }
        }
        Ok(direct)
    }

    /// Copies a range of device memory to the heap.
    pub(super) fn fetch(&self, memory: &Arc<dyn Memory>, range: Range<usize>) -> Result<Vec<u8>, DeviceError> {
        let Some(gpu) = &self.gpu else { return Ok(Vec::new()) };
        self.check_process()?;
        let mut bytes = Vec::with_capacity(range.len());
        for from in range.clone().step_by(self.chunk) {
            let len = self.chunk.min(range.end - from);
            let pinned = self.pinned_slot(len)?;
            let mut down = lock(&gpu.down);
            let copier = match &mut *down {
                Some(copier) => copier,
                none => none.insert(gpu.device.copier(Arc::clone(&gpu.pinned))?),
            };
            bytes.extend_from_slice(&copier.to_host(memory, from, pinned)?);
        }
        Ok(bytes)
    }

    /// cuFile, where it can be had.
    pub(super) fn direct(&self) -> Option<&Direct> {
        self.cufile().ok()
    }

    /// The thread that reads and copies.
    pub(super) fn conductor(&self) -> Result<&Conductor, DeviceError> {
        let started = self.conductor.get_or_init(|| {
            let copier = match &self.gpu {
                Some(gpu) => gpu.device.copier(Arc::clone(&gpu.pinned))?,
                None => Box::new(HostCopier::default()),
            };
            Conductor::start(self.reader.clone(), copier, self.window).map_err(|error| DeviceError {
                device: self.device.to_string(),
                fault: DeviceFault::NoThread { reason: error.to_string() },
            })
        });
        started.as_ref().map_err(Clone::clone)
    }

    /// What is said where something is waited for that will not come: how the device has failed, if that is known.
    pub(super) fn ended(&self) -> DeviceError {
        let started = self.conductor.get().and_then(|started| started.as_ref().ok());
        let failure = started.and_then(Conductor::failure).cloned();
        failure.unwrap_or_else(|| DeviceError { device: self.device.to_string(), fault: DeviceFault::Ended })
    }

    /// Pinned memory of at most a chunk, for a copy back to the host.
    pub(super) fn pinned_slot(&self, len: usize) -> Result<Slot, DeviceError> {
        let arena = self.reader.arena();
        let mut loan = arena.loan(len).map_err(|_| self.ended())?;
        let slot = poll_fn(|context| match Pin::new(&mut loan).poll(context) {
            Poll::Ready(slot) => Poll::Ready(Ok(slot)),
            Poll::Pending if arena.has_lost() => Poll::Ready(Err(self.ended())),
            Poll::Pending => Poll::Pending,
        });
        pollster::block_on(unconstrained(slot))
    }

    /// Refuses in a process that was forked from the one that opened the device.
    pub(super) fn check_process(&self) -> Result<(), DeviceError> {
        match &self.gpu {
            Some(gpu) if !gpu.device.is_ours() => Err(gpu.device.error(DeviceFault::Forked)),
            _ => Ok(()),
        }
    }

    fn cufile(&self) -> Result<&Direct, NoRoute> {
        let gpu = self.gpu.as_ref().ok_or(NoRoute::HostDevice)?;
        gpu.direct.as_ref().map_err(Clone::clone)
    }

    /// Whether cuFile must carry everything, whatever the page cache holds.
    pub(super) fn is_direct_alone(&self) -> bool {
        !self.switches.allows(Route::Bounce) && !self.switches.allows(Route::Cached)
    }

    /// Lets what cuFile does not take after all go by another route, where one is allowed.
    ///
    /// # Errors
    /// The same one, where none is, or the file itself is the matter.
    pub(super) fn may_go_another_way(&self, error: CarryError) -> Result<(), CarryError> {
        match &error.fault {
            CarryFault::NoRoute { .. } if !self.is_direct_alone() => {
                tracing::warn!("a request goes by another route than direct: {error}");
                Ok(())
            }
            _ => Err(error),
        }
    }

    fn can_direct(&self, file: &File) -> Result<(), NoRoute> {
        let direct = self.cufile()?;
        let forced = self.switches.forced() == Some(Route::Direct);
        if !forced {
            file.direct().map_err(NoRoute::NoDirectIo)?;
        }
        // Forced, it is carried through the compatibility mode, too, and counted as that.
        match direct.try_file(file, &self.reader)? {
            Found::Compat if !forced => Err(NoRoute::CompatOnly { seen: Hindrance::of_file(&file.inner.lookup) }),
            Found::Unsure if !forced => Err(NoRoute::Unsure),
            _ => Ok(()),
        }
    }
}

fn no_route(file: &File, offset: u64, Rejected { route, reason }: Rejected) -> CarryError {
    CarryError { path: file.path().to_owned(), offset, fault: CarryFault::NoRoute { route, reason } }
}

impl Drop for Core {
    fn drop(&mut self) {
        const PATIENCE: Duration = Duration::from_secs(1);
        let Some(Ok(conductor)) = self.conductor.take() else { return };
        // In a forked child the thread is the parent's.
        let ours = self.process == std::process::id();
        if ours && !conductor.close(Some(Instant::now() + PATIENCE)) {
            tracing::warn!(
                "copies to {} are still under way after {PATIENCE:?}; they go on by themselves, and their memory stays \
                 until they are done",
                self.device
            );
        }
    }
}

impl fmt::Debug for Carrier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Carrier")
            .field("device", &self.core.device)
            .field("reader", &self.core.reader)
            .finish_non_exhaustive()
    }
}
