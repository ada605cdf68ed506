use std::fmt;
use std::ptr::NonNull;
use std::sync::Arc;

use super::context::CudaDevice;
use crate::device::error::DeviceError;
use crate::memory::Arena;

/// The arena as CUDA's pinned memory: the same bytes that a ring has registered, so that nothing is copied between the
/// two drivers. Unregistered on drop; whoever holds copies in flight holds this too.
pub(crate) struct PinnedArena {
    device: Arc<CudaDevice>,
    /// Address and length of each registration.
    segments: Vec<(NonNull<u8>, usize)>,
    /// Keeps the memory mapped.
    arena: Arena,
}

// SAFETY: the addresses are only given back to the driver, which takes them from any thread.
unsafe impl Send for PinnedArena {}
// SAFETY: as above; nothing is done through a shared reference.
unsafe impl Sync for PinnedArena {}

/// Where the driver refuses the whole arena, it is registered in segments of these sizes, the first that works: some
/// refuse very large ones.
const SEGMENTS: [usize; 3] = [1 << 30, 256 << 20, 16 << 20];

impl PinnedArena {
    pub(crate) fn new(device: &Arc<CudaDevice>, arena: &Arena) -> Result<Self, DeviceError> {
        let _current = device.enter()?;
        let (base, len) = arena.span();
        let mut pinned = Self { device: Arc::clone(device), segments: Vec::new(), arena: arena.clone() };
        let mut refused = match pinned.register(base, len, len) {
            Ok(()) => return Ok(pinned),
            Err(error) => error,
        };
        for size in SEGMENTS.into_iter().filter(|&size| size < len) {
            match pinned.register(base, len, size) {
                Ok(()) => {
                    tracing::info!(
                        "{device:?}: the arena was registered in {} segments: {refused}",
                        pinned.segments.len()
                    );
                    return Ok(pinned);
                }
                Err(error) => refused = error,
            }
        }
        Err(refused)
    }

    /// How many of the `len` bytes from `at` on lie in one registration: no copy may reach over the end of one.
    pub(super) fn within_one(&self, at: NonNull<u8>, len: usize) -> usize {
        let at = at.as_ptr() as usize;
        let holding = self.segments.iter().find_map(|&(start, size)| {
            let start = start.as_ptr() as usize;
            (start..start + size).contains(&at).then(|| start + size - at)
        });
        holding.map_or(len, |left| left.min(len))
    }

    /// Registers the arena in segments of `size`: all of it or, after an error, nothing.
    fn register(&mut self, base: NonNull<u8>, len: usize, size: usize) -> Result<(), DeviceError> {
        const PORTABLE: u32 = 1;
        for from in (0..len).step_by(size) {
            let size = size.min(len - from);
            // SAFETY: `from..from + size` lies inside the arena's one mapping.
            let at = unsafe { base.add(from) };
            // SAFETY: the memory stays mapped and in place for as long as `arena` holds it, which is until after the
            // registration is undone.
            let code = unsafe { (self.device.library().register_host)(at.as_ptr().cast(), size, PORTABLE) };
            if let Err(error) = self.device.check("cuMemHostRegister", code) {
                self.unregister();
                return Err(error);
            }
            self.segments.push((at, size));
        }
        Ok(())
    }

    fn unregister(&mut self) {
        for (at, _) in self.segments.drain(..) {
            // SAFETY: `register` registered exactly this address; every copy that reads it holds a handle on `self`, or
            // runs before `self` is used at all.
            let code = unsafe { (self.device.library().unregister_host)(at.as_ptr().cast()) };
            if !self.device.check_at_drop("cuMemHostUnregister", code) {
                // It stays mapped: what would be mapped there next could not be registered.
                std::mem::forget(self.arena.clone());
            }
        }
    }
}

impl Drop for PinnedArena {
    fn drop(&mut self) {
        if !self.device.is_ours() {
            return;
        }
        let device = Arc::clone(&self.device);
        if let Ok(_current) = device.enter() {
            self.unregister();
        }
    }
}

impl fmt::Debug for PinnedArena {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PinnedArena").field("segments", &self.segments.len()).finish_non_exhaustive()
    }
}
