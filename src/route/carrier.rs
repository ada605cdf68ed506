use std::fmt;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use cudarc::driver::CudaStream;

use super::builder::CarrierBuilder;
use super::bytes::RouteBytes;
use super::carry::Carry;
use super::carry_into::CarryInto;
use super::carry_placed::CarryPlaced;
use super::core::{Core, no_route};
use super::decision::Decision;
use super::direct::Direct;
use super::error::CarryError;
use super::fill::{Fill, FillPlan, gather_now};
use super::landed::Landed;
use super::placed::Placed;
use super::reason::NoRoute;
use super::upload::{Landing, Room, Upload};
use crate::device::cufile::{Counters as CuFileCounters, Properties as CuFileProperties, Version as CuFileVersion};
use crate::device::{Device, DeviceBuffer, DeviceError, DeviceFault};
use crate::memory::Slot;
use crate::storage::{Extent, File, Pieces, Place, Reader};

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

    /// [`carry`](Self::carry), awaited on this thread. A thread that keeps what has landed and finds too little memory for
    /// more waits for itself: a warning says so after five seconds.
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

    /// How extents would be read to places of `len` bytes of host memory.
    pub(crate) fn plan_fill(&self, places: Vec<Place>, len: usize) -> Result<FillPlan, CarryError> {
        FillPlan::new(&self.core, places, len)
    }

    /// How extents would be read to host memory beside `len` bytes for what becomes of them.
    pub(crate) fn plan_beside(&self, extents: &[Extent], len: usize) -> Result<FillPlan, CarryError> {
        FillPlan::beside(&self.core, extents, len)
    }

    /// Extents to host memory, beside `held` bytes of it that the caller keeps, awaited on this thread.
    pub(crate) fn gather_now(&self, extents: &[Extent], held: usize) -> Result<(Pieces, RouteBytes), CarryError> {
        gather_now(&self.core, extents, held)
    }

    /// Does it, in a slot of the reader's arena that is as the plan says.
    pub(crate) fn fill(&self, plan: FillPlan, slot: Slot) -> Fill {
        Fill::new(&self.core, plan, slot)
    }

    /// Extents to places of `len` bytes of the device's budget: one piece, on a CUDA device only.
    pub(crate) fn carry_placed(&self, places: Vec<Place>, len: usize) -> CarryPlaced {
        CarryPlaced::new(&self.core, places, len)
    }

    /// Sees that work on a stream can be followed: that it is of this carrier's device.
    pub(crate) fn can_follow(&self, stream: &CudaStream) -> Result<(), DeviceError> {
        match &self.core.gpu {
            Some(gpu) => gpu.events.mark(stream).map(drop),
            None => Ok(()),
        }
    }

    /// Room for `len` bytes of the device's budget: one piece, on a CUDA device only. Errors name `path` and `offset`.
    pub(crate) fn room(&self, len: usize, path: PathBuf, offset: u64) -> Room {
        Room::new(&self.core, len, path, offset)
    }

    /// A slot of the reader's arena to the device, where there is room for it. Errors name `path` and `offset`.
    pub(crate) fn upload(&self, slot: Slot, landing: Landing, path: PathBuf, offset: u64) -> Upload {
        Upload::new(&self.core, slot, landing, path, offset)
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

    /// About how many bytes are read before they are copied at once.
    pub(crate) fn chunk(&self) -> usize {
        self.core.chunk
    }

    /// Whether cuFile must carry everything.
    pub(crate) fn is_direct_alone(&self) -> bool {
        self.core.is_direct_alone()
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

impl fmt::Debug for Carrier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Carrier")
            .field("device", &self.core.device)
            .field("reader", &self.core.reader)
            .finish_non_exhaustive()
    }
}
