//! Device memory, pinned host memory, and what of both is in use.
mod allocations;
mod calls;
mod holds;
mod pinned;
mod space;
mod watch;

pub use allocations::{DeviceRange, device_range, is_device, live_range, open_device};
pub use holds::{Hold, hold};
pub use pinned::is_registered_host;
pub use space::is_mapped;
pub use watch::{Watch, run_foreign, write_host};

/// Gives back all that was made in a device's context, and says what that was.
pub fn close_device(device: usize) -> Vec<String> {
    let mut lost = allocations::close_device(device);
    lost.extend(pinned::close_device(device));
    lost
}

/// All that is allocated and registered now.
pub fn alive() -> Vec<String> {
    let mut alive = allocations::alive(|_| true);
    alive.extend(pinned::alive(|_| true));
    alive
}
