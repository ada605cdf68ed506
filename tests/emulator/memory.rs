//! Device memory, pinned host memory, and what is in use.

/// A piece of a live allocation.
#[derive(Debug, Clone, Copy)]
pub struct DeviceRange {
    /// Where its bytes are kept.
    pub shadow: *mut u8,
    pub len: usize,
    pub device: usize,
    /// The allocation's base pointer.
    pub allocation: u64,
    pub allocation_len: usize,
}
// SAFETY: a plain address; who reads or writes through it holds the range (`hold`).
unsafe impl Send for DeviceRange {}

/// The bytes behind a device pointer, or what is wrong with it.
pub fn device_range(_ptr: u64, _len: usize) -> Result<DeviceRange, String> {
    Err("no device memory".into())
}

/// Memory in use by an operation: to free it before this is dropped is a violation.
#[derive(Debug)]
pub struct Hold {}

pub fn hold(_ptr: u64, _len: usize, _what: &str) -> Hold {
    Hold {}
}

pub fn is_registered_host(_ptr: usize, _len: usize) -> bool {
    false
}
