use std::fmt;
use std::ptr::NonNull;
use std::sync::{Arc, Mutex, MutexGuard};

use super::context::CudaDevice;
use crate::device::error::DeviceError;
use crate::memory::Arena;
use crate::sync::lock;
use crate::units::Size;

/// The arena as CUDA's pinned memory: the same bytes that a ring has registered, so that nothing is copied between the
/// two drivers, and registered as the arena grows, by the thread that first copies from there or to there. What the driver
/// refuses to register then stays as it is: the driver copies it by way of memory of its own. Unregistered on drop; copies in
/// flight hold this too.
pub(crate) struct PinnedArena {
    device: Arc<CudaDevice>,
    segments: Mutex<Segments>,
    /// Keeps the memory mapped.
    arena: Arena,
}

/// An arena as far as the driver was asked to register it: a part from its start on, without gaps.
#[derive(Default)]
struct Segments {
    list: Vec<Segment>,
    len: usize,
    has_warned: bool,
}

struct Segment {
    at: NonNull<u8>,
    len: usize,
    /// Else the driver has refused to register it.
    is_pinned: bool,
}

/// Bytes that one copy can take: no copy may reach over the end of a registration, or into one.
#[derive(Clone, Copy, Debug)]
pub(super) struct Run {
    pub(super) len: usize,
    pub(super) is_pinned: bool,
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
    /// Registers what is touched of the arena by now: all of it, or it is an error.
    pub(crate) fn new(device: &Arc<CudaDevice>, arena: &Arena) -> Result<Self, DeviceError> {
        let pinned = Self { device: Arc::clone(device), segments: Mutex::default(), arena: arena.clone() };
        {
            let _current = device.enter()?;
            let mut segments = lock(&pinned.segments);
            let (base, len) = pinned.rest(&segments);
            pinned.grow(&mut segments, base, len)?;
        }
        Ok(pinned)
    }

    /// The registrations, with `len` bytes from `at` on among them unless the driver refuses that. They lie in a slot of the arena.
    pub(super) fn registered(&self, at: NonNull<u8>, len: usize) -> Result<Registered<'_>, DeviceError> {
        let (base, _) = self.arena.touched_span();
        let end = at.as_ptr() as usize + len - base.as_ptr() as usize;
        let mut segments = lock(&self.segments);
        if end > segments.len {
            let _current = self.device.enter()?;
            let (base, len) = self.rest(&segments);
            if let Err(refused) = self.grow(&mut segments, base, len) {
                segments.leave_unpinned(base, len, &refused);
            }
        }
        Ok(Registered(segments))
    }

    /// What was touched meanwhile: where it begins, and its length.
    fn rest(&self, segments: &Segments) -> (NonNull<u8>, usize) {
        let (base, touched) = self.arena.touched_span();
        // SAFETY: what the driver was asked to register lies inside the arena's one mapping.
        (unsafe { base.add(segments.len) }, touched - segments.len)
    }

    /// Registers that.
    fn grow(&self, segments: &mut Segments, base: NonNull<u8>, len: usize) -> Result<(), DeviceError> {
        if len == 0 {
            return Ok(());
        }
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
            segments.list.push(Segment { at, len: size, is_pinned: true });
        }
        segments.len += len;
        Ok(())
    }

    fn unregister(&self, segments: impl Iterator<Item = Segment>) {
        for Segment { at, .. } in segments.filter(|segment| segment.is_pinned) {
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

impl Segments {
    /// The driver is not asked again for these bytes, and copies take them as they are.
    fn leave_unpinned(&mut self, at: NonNull<u8>, len: usize, refused: &DeviceError) {
        self.list.push(Segment { at, len, is_pinned: false });
        self.len += len;
        if !std::mem::replace(&mut self.has_warned, true) {
            tracing::warn!(
                "{} of host memory stay unpinned, from which copies to the device are slower: {refused}",
                Size(len as u64)
            );
        }
    }
}

impl Registered<'_> {
    /// How many of the `len` bytes from `at` on one copy can take.
    pub(super) fn run(&self, at: NonNull<u8>, len: usize) -> Run {
        let at = at.as_ptr() as usize;
        let end = |segment: &Segment| segment.at.as_ptr() as usize + segment.len;
        let holding = self.0.list.partition_point(|segment| end(segment) <= at);
        match self.0.list.get(holding) {
            Some(segment) => Run { len: (end(segment) - at).min(len), is_pinned: segment.is_pinned },
            None => Run { len, is_pinned: false },
        }
    }
}

impl Drop for PinnedArena {
    fn drop(&mut self) {
        if !self.device.is_ours() {
            return;
        }
        let segments = std::mem::take(&mut lock(&self.segments).list);
        match self.device.enter() {
            Ok(_current) => self.unregister(segments.into_iter()),
            // It stays registered, and so it stays mapped: what would be mapped there next could not be registered.
            Err(error) if segments.iter().any(|segment| segment.is_pinned) => {
                tracing::warn!("pinned memory is kept for good, since it cannot be unregistered: {error}");
                std::mem::forget(self.arena.clone());
            }
            Err(_) => {}
        }
    }
}

impl fmt::Debug for PinnedArena {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PinnedArena").field("segments", &lock(&self.segments).list.len()).finish_non_exhaustive()
    }
}
