//! What a carrier is made of: its reader, its device, what was decided for each file, and the thread that copies.

use std::collections::HashSet;
use std::future::{Future, poll_fn};
use std::ops::Range;
use std::pin::Pin;
use std::sync::{Arc, Mutex, OnceLock};
use std::task::Poll;
use std::time::{Duration, Instant};

use tokio::task::coop::unconstrained;

use super::bytes::Tally;
use super::conductor::Conductor;
use super::decision::{Decision, Rejected, Route, Switches};
use super::direct::{Direct, Found};
use super::error::{CarryError, CarryFault};
use super::hindrance::Hindrance;
use super::per_file::PerFile;
use super::reason::NoRoute;
use crate::device::{
    Copier, CudaDevice, Device, DeviceArena, DeviceError, DeviceFault, DeviceLoan, EventPool, HostCopier, Memory,
    PinnedArena,
};
use crate::memory::{MemoryError, Owner, Slot};
use crate::storage::{Extent, File, Reader};
use crate::sync::lock;

pub(super) struct Core {
    pub(super) device: Device,
    pub(super) reader: Reader,
    pub(super) switches: Switches,
    pub(super) chunk: usize,
    /// Bytes that may be being read at once.
    pub(super) window: usize,
    pub(super) owner: Owner,
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
    pub(super) events: Arc<EventPool>,
    pub(super) arena: DeviceArena,
    pub(super) pinned: Arc<PinnedArena>,
    /// The stream of copies back to the host, from its first use on.
    pub(super) down: Mutex<Option<Box<dyn Copier>>>,
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
        let no_memory = |error: MemoryError| DeviceError {
            device: self.device.to_string(),
            fault: DeviceFault::NoHostMemory { reason: error.to_string() },
        };
        let mut loan = arena.loan(len).map_err(no_memory)?;
        let slot = poll_fn(|context| match Pin::new(&mut loan).poll(context) {
            Poll::Ready(outcome) => Poll::Ready(outcome.map_err(no_memory)),
            Poll::Pending if loan.is_hopeless() => Poll::Ready(Err(self.ended())),
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

    /// Why device memory is waited for in vain, where it is.
    pub(super) fn why_in_vain(&self, loan: &DeviceLoan) -> Option<DeviceError> {
        if let Err(error) = self.check_process() {
            return Some(error);
        }
        loan.is_hopeless().then(|| self.ended())
    }

    pub(super) fn cufile(&self) -> Result<&Direct, NoRoute> {
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

pub(super) fn no_route(file: &File, offset: u64, Rejected { route, reason }: Rejected) -> CarryError {
    CarryError { path: file.path().to_owned(), offset, fault: CarryFault::NoRoute { route, reason } }
}

impl Drop for Core {
    fn drop(&mut self) {
        const PATIENCE: Duration = Duration::from_secs(1);
        let Some(Ok(conductor)) = self.conductor.take() else { return };
        // In a forked child the thread is the parent's.
        if !self.owner.is_here() {
            // Its channel has locks, which may be held here for ever.
            return std::mem::forget(conductor);
        }
        if !conductor.close(Some(Instant::now() + PATIENCE)) {
            tracing::warn!(
                "copies to {} are still under way after {PATIENCE:?}; they go on by themselves, and their memory stays \
                 until they are done",
                self.device
            );
        }
    }
}
