use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use cudarc::driver::CudaStream;

use super::bytes::RouteBytes;
use super::core::Core;
use crate::device::{Device, DeviceError, DeviceSlot, Event, Memory};
use crate::storage::Pieces;

/// The bytes of each extent of one request, in the order asked, in the memory of the device.
///
/// They are all there: every copy into this memory has passed, so that any stream may read it. The memory goes back to
/// the carrier when this is dropped, after every stream it [was used on](Self::used_on) has come that far.
pub struct Landed {
    core: Arc<Core>,
    place: Place,
    carried: RouteBytes,
    /// Behind the work that uses it.
    uses: Vec<Event>,
}

enum Place {
    Host(Pieces),
    Device {
        /// Absent where no extent had a byte.
        slot: Option<Arc<DeviceSlot>>,
        pieces: Vec<Range<usize>>,
    },
}

impl Landed {
    pub(super) fn on_host(core: &Arc<Core>, pieces: Pieces) -> Self {
        let carried = pieces.carried().as_ref().map(RouteBytes::of_reads).unwrap_or_default();
        core.tally.add(carried);
        Self { core: Arc::clone(core), place: Place::Host(pieces), carried, uses: Vec::new() }
    }

    pub(super) fn on_device(
        core: &Arc<Core>,
        slot: Arc<DeviceSlot>,
        pieces: Vec<Range<usize>>,
        carried: RouteBytes,
    ) -> Self {
        Self { core: Arc::clone(core), place: Place::Device { slot: Some(slot), pieces }, carried, uses: Vec::new() }
    }

    pub(super) fn nothing(core: &Arc<Core>, pieces: Vec<Range<usize>>) -> Self {
        let place = Place::Device { slot: None, pieces };
        Self { core: Arc::clone(core), place, carried: RouteBytes::default(), uses: Vec::new() }
    }

    /// Where it landed.
    pub fn device(&self) -> &Device {
        &self.core.device
    }

    /// How many extents were asked for.
    pub fn len(&self) -> usize {
        match &self.place {
            Place::Host(pieces) => pieces.len(),
            Place::Device { pieces, .. } => pieces.len(),
        }
    }

    /// Whether no extent was asked for.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Bytes by the route that carried them; their sum is that of the extents.
    pub fn carried(&self) -> RouteBytes {
        self.carried
    }

    /// Bytes of one extent, or `None` past the last.
    pub fn piece_len(&self, index: usize) -> Option<usize> {
        match &self.place {
            Place::Host(pieces) => pieces.get(index).map(<[u8]>::len),
            Place::Device { pieces, .. } => pieces.get(index).map(ExactSizeIterator::len),
        }
    }

    /// The pieces themselves, where they landed in host memory, each as far from a multiple of 64 as in its file.
    pub fn host(&self) -> Option<&Pieces> {
        match &self.place {
            Place::Host(pieces) => Some(pieces),
            Place::Device { .. } => None,
        }
    }

    /// The address of one extent in the memory of the CUDA device, a `CUdeviceptr`; `None` past the last one, for one
    /// without bytes, and on the host. It is valid for as long as `self` is.
    ///
    /// It lies as far from a multiple of 64 as the extent does in its file: what is aligned there is here, too.
    pub fn device_address(&self, index: usize) -> Option<u64> {
        match &self.place {
            Place::Host(_) => None,
            Place::Device { slot, pieces } => {
                let range = pieces.get(index).filter(|range| !range.is_empty())?;
                Some(slot.as_ref()?.address() + range.start as u64)
            }
        }
    }

    /// Says that `stream` has been given work that reads or writes these bytes. After a drop their memory is lent again
    /// only when that stream has passed this point; without this call it may be at once. To be called after the work was
    /// ordered; nothing waits for it here.
    ///
    /// # Errors
    /// [`DeviceError`] where the device fails; then `self` must be kept until the stream was synchronised.
    pub fn used_on(&mut self, stream: &CudaStream) -> Result<(), DeviceError> {
        if let Some(gpu) = &self.core.gpu {
            self.uses.push(gpu.events.mark(stream)?);
        }
        Ok(())
    }

    /// Says that somebody may use these bytes for ever, since he cannot be followed: their memory is never lent again.
    pub(crate) fn keep_for_ever(&self) {
        if let Place::Device { slot: Some(slot), .. } = &self.place {
            slot.lose();
            std::mem::forget(Arc::clone(slot));
        }
    }

    /// Copies one extent to the heap, from wherever it landed, and waits for that. For a look at the bytes, or a check.
    ///
    /// # Errors
    /// [`DeviceError`] where the device fails.
    ///
    /// # Panics
    /// Where `index` is past the last extent, as indexing a slice does.
    pub fn to_host(&self, index: usize) -> Result<Vec<u8>, DeviceError> {
        match &self.place {
            Place::Host(pieces) => Ok(pieces[index].to_vec()),
            Place::Device { pieces, .. } => self.part_to_host(index, 0..pieces[index].len()),
        }
    }

    /// The same of a part of one, which is inside it.
    pub(crate) fn part_to_host(&self, index: usize, part: Range<usize>) -> Result<Vec<u8>, DeviceError> {
        match &self.place {
            Place::Host(pieces) => Ok(pieces[index][part].to_vec()),
            Place::Device { slot: Some(slot), pieces } if !part.is_empty() => {
                let memory: Arc<dyn Memory> = Arc::clone(slot) as _;
                let start = pieces[index].start;
                self.core.fetch(&memory, start + part.start..start + part.end)
            }
            Place::Device { .. } => Ok(Vec::new()),
        }
    }
}

impl Drop for Landed {
    fn drop(&mut self) {
        let Place::Device { slot, .. } = &mut self.place else { return };
        let Some(slot) = slot.take() else { return };
        // In a forked child the memory, its uses and the thread that waits for them are the parent's.
        if self.uses.is_empty() || !self.core.owner.is_here() {
            return;
        }
        match self.core.conductor() {
            Ok(conductor) => conductor.release_after(std::mem::take(&mut self.uses), slot),
            // Nobody can watch those streams: it is never lent again.
            Err(error) => {
                tracing::warn!("device memory in use is kept for good: {error}");
                slot.lose();
                std::mem::forget(slot);
            }
        }
    }
}

impl fmt::Debug for Landed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Landed")
            .field("device", &self.core.device)
            .field("len", &self.len())
            .field("carried", &self.carried)
            .finish_non_exhaustive()
    }
}
