use std::fmt;
use std::ptr::NonNull;
use std::sync::{Arc, Mutex, MutexGuard};

use super::context::CudaDevice;
use crate::device::error::DeviceError;
use crate::memory::Arena;
use crate::sync::lock;

/// The arena as CUDA's pinned memory: the same bytes that a ring has registered, so that nothing is copied between the
/// two drivers, and registered as the arena grows, by whoever first copies from there or to there. Unregistered on drop;
/// whoever holds copies in flight holds this too.
pub(crate) struct PinnedArena {
    device: Arc<CudaDevice>,
    segments: Mutex<Segments>,
    /// Keeps the memory mapped.
    arena: Arena,
}

/// What is registered of an arena: a part from its start on, without gaps.
#[derive(Default)]
struct Segments {
    /// Address and length of each registration.
    list: Vec<(NonNull<u8>, usize)>,
    len: usize,
}

/// The registrations of an arena, which stay as they are meanwhile.
pub(super) struct Registered<'a>(MutexGuard<'a, Segments>);

// SAFETY: the addresses are only given back to the driver, which takes them from any thread.
unsafe impl Send for PinnedArena {}
// SAFETY: as above; nothing is done through a shared reference.
unsafe impl Sync for PinnedArena {}

/// Where the driver refuses all that is to be registered, it is registered in segments of these sizes, the first that works:
/// some refuse very large ones.
const SEGMENTS: [usize; 3] = [1 << 30, 256 << 20, 16 << 20];

impl PinnedArena {
    /// Registers what is touched of the arena by now.
    pub(crate) fn new(device: &Arc<CudaDevice>, arena: &Arena) -> Result<Self, DeviceError> {
        let pinned = Self { device: Arc::clone(device), segments: Mutex::default(), arena: arena.clone() };
        pinned.grow(&mut lock(&pinned.segments))?;
        Ok(pinned)
    }

    /// The registrations, with `len` bytes from `at` on among them, which lie in a slot of the arena.
    pub(super) fn registered(&self, at: NonNull<u8>, len: usize) -> Result<Registered<'_>, DeviceError> {
        let (base, _) = self.arena.touched_span();
        let end = at.as_ptr() as usize + len - base.as_ptr() as usize;
        let mut segments = lock(&self.segments);
        if end > segments.len {
            self.grow(&mut segments)?;
        }
        Ok(Registered(segments))
    }

    /// Registers what was touched meanwhile.
    fn grow(&self, segments: &mut Segments) -> Result<(), DeviceError> {
        let _current = self.device.enter()?;
        let (base, touched) = self.arena.touched_span();
        let (from, len) = (segments.len, touched - segments.len);
        if len == 0 {
            return Ok(());
        }
        // SAFETY: `from` lies inside the arena's one mapping.
        let base = unsafe { base.add(from) };
        let mut refused = match self.register(segments, base, len, len) {
            Ok(()) => return Ok(()),
            Err(error) => error,
        };
        let before = segments.list.len();
        for size in SEGMENTS.into_iter().filter(|&size| size < len) {
            match self.register(segments, base, len, size) {
                Ok(()) => {
                    tracing::info!(
                        "{:?}: {len} bytes of the arena were registered in {} segments: {refused}",
                        self.device,
                        segments.list.len() - before
                    );
                    return Ok(());
                }
                Err(error) => refused = error,
            }
        }
        Err(refused)
    }

    /// Registers `len` bytes from `base` on in segments of `size`: all of it or, after an error, nothing.
    fn register(&self, segments: &mut Segments, base: NonNull<u8>, len: usize, size: usize) -> Result<(), DeviceError> {
        const PORTABLE: u32 = 1;
        let before = segments.list.len();
        for from in (0..len).step_by(size) {
            let size = size.min(len - from);
            // SAFETY: `from..from + size` lies inside the arena's one mapping.
            let at = unsafe { base.add(from) };
            // SAFETY: the memory stays mapped and in place for as long as `arena` holds it, which is until after the
            // registration is undone.
            let code = unsafe { (self.device.library().register_host)(at.as_ptr().cast(), size, PORTABLE) };
            if let Err(error) = self.device.check("cuMemHostRegister", code) {
                self.unregister(segments.list.drain(before..));
                return Err(error);
            }
            segments.list.push((at, size));
        }
        segments.len += len;
        Ok(())
    }

    fn unregister(&self, segments: impl Iterator<Item = (NonNull<u8>, usize)>) {
        for (at, _) in segments {
            // SAFETY: `register` registered exactly this address; every copy that reads it holds a handle on `self`, or
            // runs before `self` is used at all, or none was made from here yet.
            let code = unsafe { (self.device.library().unregister_host)(at.as_ptr().cast()) };
            if !self.device.check_at_drop("cuMemHostUnregister", code) {
                // It stays mapped: what would be mapped there next could not be registered.
                std::mem::forget(self.arena.clone());
            }
        }
    }
}

impl Registered<'_> {
    /// How many of the `len` bytes from `at` on lie in one registration: no copy may reach over the end of one.
    pub(super) fn within_one(&self, at: NonNull<u8>, len: usize) -> usize {
        let at = at.as_ptr() as usize;
        let end = |&(start, size): &(NonNull<u8>, usize)| start.as_ptr() as usize + size;
        let holding = self.0.list.partition_point(|segment| end(segment) <= at);
        self.0.list.get(holding).map_or(len, |segment| (end(segment) - at).min(len))
    }
}

impl Drop for PinnedArena {
    fn drop(&mut self) {
        if !self.device.is_ours() {
            return;
        }
        if let Ok(_current) = self.device.enter() {
            self.unregister(std::mem::take(&mut lock(&self.segments).list).into_iter());
        }
    }
}

impl fmt::Debug for PinnedArena {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PinnedArena").field("segments", &lock(&self.segments).list.len()).finish_non_exhaustive()
    }
}
