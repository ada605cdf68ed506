use std::fmt;

use crate::sys::cuda::{CudaCode, NoCudaLibrary};
use crate::units::Size;

/// A device that cannot be used, or refused what was asked of it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct DeviceError {
    /// The device, as `--device` names it: `cuda:0`.
    pub device: String,
    /// What is wrong.
    pub fault: DeviceFault,
}

impl DeviceError {
    /// Whether it is about a stream that is captured into a graph, and not about the device.
    pub(crate) fn is_of_capture(&self) -> bool {
        match &self.fault {
            DeviceFault::Capturing => true,
            DeviceFault::Call { code } => CudaCode::is_of_capture(code.code),
            _ => false,
        }
    }
}

impl fmt::Display for DeviceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.device, self.fault)
    }
}

/// The message has the fault in full.
impl std::error::Error for DeviceError {}

/// Why a device cannot do what was asked.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DeviceFault {
    /// The driver library cannot be loaded.
    #[error("{0}")]
    NoLibrary(NoCudaLibrary),
    /// The driver is there and sees no device.
    #[error(
        "the CUDA driver sees no device{}; check CUDA_VISIBLE_DEVICES, and that the GPU is passed into this container",
        said(.visible.as_deref())
    )]
    NoDevice {
        /// What CUDA_VISIBLE_DEVICES says, where it is set.
        visible: Option<String>,
    },
    /// There are fewer devices.
    #[error("there is no such device: CUDA sees {count}{}; count from 0", said(.visible.as_deref()))]
    NoSuchDevice {
        /// Devices that there are.
        count: usize,
        /// What CUDA_VISIBLE_DEVICES says, where it is set.
        visible: Option<String>,
    },
    /// The device has too little memory left.
    #[error(
        "{} asked for, {} of {} free; lower the device budget or free memory of the device",
        Size(*.asked),
        Size(*.free),
        Size(*.total)
    )]
    OutOfMemory {
        /// Bytes asked for.
        asked: u64,
        /// Bytes free.
        free: u64,
        /// Bytes that the device has.
        total: u64,
    },
    /// The process that opened the device is another one.
    #[error(
        "the device was opened before this process was forked, and CUDA does not survive that; open it in the process \
         that uses it"
    )]
    Forked,
    /// The stream is being captured into a CUDA graph, which may run at any time and as often as it is launched: its work on a
    /// batch cannot be followed.
    #[error(
        "the stream is being captured into a CUDA graph, whose work on this memory cannot be followed; copy what the graph \
         reads to memory of its own, and drop what was loaded before the capture begins or after it ends"
    )]
    Capturing,
    /// A call of the driver failed.
    #[error("{code}; {}", .code.fix())]
    Call {
        /// Which, and how.
        code: CudaCode,
    },
    /// There is no host memory, in the words of its error.
    #[error("{reason}")]
    NoHostMemory {
        /// What is wrong and what to do.
        reason: String,
    },
    /// A range that does not lie in a buffer of this device.
    #[error("the bytes {range:?} are not in a buffer of {len} bytes of this device; ask for a range inside it")]
    NotInBuffer {
        /// What was asked for.
        range: std::ops::Range<usize>,
        /// Bytes of the buffer.
        len: usize,
    },
    /// A stream that is not of this device, or not of the context in which it is used.
    #[error("the stream is of another device or context; give one that was made in this device's context")]
    OtherStream,
    /// A copy would leave its memory: a fault of this crate, and no byte was copied.
    #[error("a copy would leave the memory that it belongs to; please report this fault of forebay's")]
    Outside,
    /// The thread that carries bytes to the device could not be started.
    #[error("no thread for its copies: {reason}")]
    NoThread {
        /// What is wrong and what to do.
        reason: String,
    },
    /// The thread that carries bytes to the device is gone.
    #[error("the thread that copies to it has ended; build a new carrier")]
    Ended,
}

fn said(value: Option<&str>) -> String {
    value.map_or_else(String::new, |value| format!(" (CUDA_VISIBLE_DEVICES is {value:?})"))
}
