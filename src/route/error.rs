use std::fmt;
use std::path::PathBuf;

use super::decision::Route;
use super::reason::NoRoute;
use crate::device::DeviceError;
use crate::device::cufile::CuFileFault;
use crate::memory::MemoryError;
use crate::storage::{Extent, OpenError, OpenFault, ReadError, ReadFault};

/// Bytes that did not reach the device. Nothing of the request is delivered.
#[derive(Debug)]
#[non_exhaustive]
pub struct CarryError {
    /// The file's path, as it was opened.
    pub path: PathBuf,
    /// The offset in the file, in bytes.
    pub offset: u64,
    /// What is wrong.
    pub fault: CarryFault,
}

impl CarryError {
    /// The device's failure, at the first byte of what was asked for.
    pub(super) fn device(first: Option<&Extent>, error: DeviceError) -> Self {
        let (path, offset) = first.map_or_else(Default::default, |first| (first.file.path().to_owned(), first.offset));
        Self { path, offset, fault: CarryFault::Device(error) }
    }
}

impl fmt::Display for CarryError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} at {}: {}", self.path.display(), self.offset, self.fault)
    }
}

/// The message tells the fault in full, so the source is what lies behind the fault.
impl std::error::Error for CarryError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.fault.source()
    }
}

/// Why bytes did not reach the device.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CarryFault {
    /// The file could not be opened.
    #[error("{0}")]
    Open(#[source] OpenFault),
    /// They could not be read.
    #[error("{0}")]
    Read(#[source] ReadFault),
    /// cuFile could not read them.
    #[error("cuFile: {0}")]
    Direct(#[source] CuFileFault),
    /// The device refused, or failed.
    #[error("{0}")]
    Device(#[source] DeviceError),
    /// The request cannot fit the memory, of the host or of the device, that this carrier may use.
    #[error("{0}")]
    Memory(#[source] MemoryError),
    /// An extent was given a place that it cannot have.
    #[error(
        "its place, {len} bytes at {at} of a buffer of {buffer}, {what}; give each extent a place of its own inside the buffer"
    )]
    Place {
        /// Where it was to begin in the buffer.
        at: usize,
        /// Bytes of the extent.
        len: u64,
        /// Bytes of the buffer.
        buffer: usize,
        /// What is wrong with that.
        what: &'static str,
    },
    /// The buffer is not of this carrier's device.
    #[error("the buffer is of {buffer}, and bytes are carried to {device}; allocate it on that device")]
    OtherDevice {
        /// The buffer's device.
        buffer: String,
        /// The carrier's.
        device: String,
    },
    /// The route that was asked for cannot be had for this file.
    #[error("the route {route} was asked for, but {reason}; {fix}, or allow other routes", fix = .reason.fix())]
    NoRoute {
        /// The route.
        route: Route,
        /// Why not.
        reason: NoRoute,
    },
}

impl From<ReadError> for CarryError {
    fn from(ReadError { path, offset, fault }: ReadError) -> Self {
        let fault = match fault {
            ReadFault::Memory(error) => CarryFault::Memory(error),
            fault => CarryFault::Read(fault),
        };
        Self { path, offset, fault }
    }
}

impl From<OpenError> for CarryError {
    fn from(OpenError { path, fault }: OpenError) -> Self {
        Self { path, offset: 0, fault: CarryFault::Open(fault) }
    }
}
