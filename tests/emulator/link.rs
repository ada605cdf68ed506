//! The modelled link between host and devices.

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    HostToDevice,
    DeviceToHost,
}

/// Sleeps until the link of that device would have carried the bytes.
pub fn occupy(_device: usize, _direction: Direction, _bytes: u64) {}
