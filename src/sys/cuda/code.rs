use std::ffi::c_int;
use std::fmt;

/// A call of the CUDA driver that failed: which, with what code, and the driver's name for it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct CudaCode {
    /// The driver's function.
    pub call: &'static str,
    /// Its `CUresult`.
    pub code: c_int,
    /// The driver's name of the code, such as `CUDA_ERROR_OUT_OF_MEMORY`.
    pub name: String,
}

impl CudaCode {
    pub(crate) const OUT_OF_MEMORY: c_int = 2;
    pub(crate) const NOT_INITIALIZED: c_int = 3;
    pub(crate) const STUB_LIBRARY: c_int = 34;
    pub(crate) const NO_DEVICE: c_int = 100;
    pub(crate) const NOT_READY: c_int = 600;
    pub(crate) const NOT_SUPPORTED: c_int = 801;
    pub(crate) const SYSTEM_DRIVER_MISMATCH: c_int = 803;

    /// Whether a code says that a stream is captured into a graph (`CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED` and those that
    /// follow), and nothing about the device.
    pub(crate) fn is_of_capture(code: c_int) -> bool {
        (900..=907).contains(&code)
    }

    /// What to do about it, in a few words.
    pub fn fix(&self) -> &'static str {
        match self.code {
            Self::OUT_OF_MEMORY => "lower the budget, or free memory of the device",
            Self::NOT_INITIALIZED => {
                "CUDA does not survive fork: open the device in the process that uses it, or start that one with exec"
            }
            Self::STUB_LIBRARY => "take the toolkit's `stubs` folder off LD_LIBRARY_PATH",
            Self::NO_DEVICE => "check CUDA_VISIBLE_DEVICES and that the GPU is passed into this container",
            Self::SYSTEM_DRIVER_MISMATCH => "reboot, or load the kernel module that belongs to the installed driver",
            code if Self::is_of_capture(code) => "do it before the stream is captured into a graph, or after",
            _ => "see `nvidia-smi` and the kernel log",
        }
    }
}

impl fmt::Display for CudaCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} failed with {} ({})", self.call, self.name, self.code)
    }
}

impl std::error::Error for CudaCode {}
