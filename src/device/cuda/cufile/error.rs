//! What can go wrong with cuFile: opening it, registering with it, and reading.

use std::fmt;
use std::io;

use crate::sync::ThreadError;
use crate::sys::cuda::{CudaCode, NoCudaLibrary};
use crate::sys::cufile::{CuFileCode, NoCuFileLibrary, Status};
use crate::units::Size;

/// cuFile, or something registered with it, that cannot be had.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CuFileError {
    /// There is no cuFile library.
    #[error("cuFile: {0}")]
    Library(#[from] NoCuFileLibrary),
    /// There is no CUDA driver library.
    #[error("cuFile: {0}")]
    Driver(#[from] NoCudaLibrary),
    /// The CUDA driver refused.
    #[error("cuFile: {0}; {fix}", fix = .0.fix())]
    Cuda(#[from] CudaCode),
    /// cuFile refused.
    #[error("cuFile: {0}")]
    Refused(#[from] Refusal),
    /// The library is too old to have a group of functions.
    #[error("cuFile: this libcufile has no {0}; install that of CUDA {since}, or read with the pool", since = .0.since())]
    Lacks(Group),
    /// The nvidia-fs driver that is loaded corrupts or hangs.
    #[error("cuFile: nvidia-fs 2.25.6 is known to be broken; install 2.25.7 or later")]
    BrokenNvidiaFs,
    /// This process was forked from the one that opened cuFile.
    #[error(
        "cuFile: neither CUDA nor cuFile survives fork; open the device in the process that uses it, or start that one with exec"
    )]
    Forked,
    /// A buffer could not be registered.
    #[error("cuFile: {} of device memory cannot be registered: {refusal}{}", Size(*bytes), limits(*pinned, *bar))]
    Register {
        /// Bytes that were to be registered.
        bytes: u64,
        /// The most that cuFile pins of one GPU, in bytes, where it says so.
        pinned: Option<u64>,
        /// Bytes of the GPU that the bus can reach, where cuFile says so.
        bar: Option<u64>,
        /// What cuFile answered.
        #[source]
        refusal: Refusal,
    },
    /// A range of memory that cannot be registered as it is.
    #[error("cuFile: the range of {len} bytes at {base:#x} cannot be registered: {why}")]
    Range {
        /// The address on the device.
        base: u64,
        /// Bytes.
        len: u64,
        /// Why not, and what to do.
        why: &'static str,
    },
    /// A file whose descriptor was opened with a flag that cuFile refuses.
    #[error("cuFile: the file was opened with {0}, which cuFile refuses; open it without")]
    OpenFlag(&'static str),
    /// A file whose descriptor cannot be read from.
    #[error("cuFile: the file is not open for reading; open it with O_RDONLY")]
    NotReadable,
    /// The kernel would not tell how a file is open.
    #[error("cuFile: the file's descriptor is not usable: {0}; open the file again")]
    Descriptor(#[source] io::Error),
    /// A transfer that breaks the rules of transfers.
    #[error("cuFile: a transfer's {0}")]
    Transfer(&'static str),
    /// A thread could not be started.
    #[error("cuFile: {0}")]
    Thread(#[source] ThreadError),
}

fn limits(pinned: Option<u64>, bar: Option<u64>) -> String {
    let mut said = String::new();
    if let Some(bytes) = pinned {
        said += &format!("; cuFile pins at most {} of a GPU (max_device_pinned_mem_size_kb)", Size(bytes));
    }
    if let Some(bytes) = bar {
        said += &format!("; the GPU shows {} to the bus (BAR1)", Size(bytes));
    }
    said
}

/// Functions that came with later versions of the library.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Group {
    /// Batches of reads.
    Batch,
    /// Reads in the order of a stream.
    Stream,
}

impl Group {
    fn since(self) -> &'static str {
        match self {
            Self::Batch => "11.6 or later",
            Self::Stream => "12.2 or later",
        }
    }
}

impl fmt::Display for Group {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Batch => "batch reads",
            Self::Stream => "stream reads",
        })
    }
}

/// A call of cuFile's that was refused.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Refusal {
    /// The function.
    pub call: &'static str,
    /// cuFile's code.
    pub code: CuFileCode,
    /// The CUDA driver's code (`CUresult`), where that one failed underneath.
    pub cuda: Option<i32>,
}

impl Refusal {
    /// The status of a call as a result.
    pub(super) fn check(call: &'static str, status: Status) -> Result<(), Self> {
        if status.err == 0 { Ok(()) } else { Err(Self::of(call, status)) }
    }

    pub(super) fn of(call: &'static str, status: Status) -> Self {
        Self { call, code: CuFileCode(status.err), cuda: Some(status.cu_err).filter(|&code| code != 0) }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} failed with {}", self.call, self.code)?;
        if let Some(cuda) = self.cuda {
            write!(f, ", CUDA's code {cuda}")?;
        }
        write!(f, "; {}", self.code.fix())
    }
}

impl std::error::Error for Refusal {}

/// A transfer that failed. Of its job, nothing counts as landed.
#[derive(Debug)]
#[non_exhaustive]
pub struct TransferFault {
    /// Which transfer of the job, counted from 0.
    pub index: usize,
    /// The offset in the file where it failed, in bytes.
    pub at: u64,
    /// What is wrong.
    pub fault: CuFileFault,
}

impl fmt::Display for TransferFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "cuFile at {}: {}", self.at, self.fault)
    }
}

/// The message tells the fault in full, so the source is what lies behind the fault.
impl std::error::Error for TransferFault {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.fault.source()
    }
}

/// Why a transfer failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CuFileFault {
    /// The file ends before what was asked for does.
    #[error("the file ends here, {missing} bytes before the range does; check that nothing shortened it")]
    Ends {
        /// Bytes that are missing.
        missing: u64,
    },
    /// cuFile answered with a code of its own.
    #[error("{0}")]
    Refused(#[source] Refusal),
    /// The kernel or the drive refused.
    #[error("{0}; check the drive, the kernel log and the file system")]
    Io(#[source] io::Error),
    /// A read failed, and cuFile did not keep the kernel's error number.
    #[error("the kernel refused the read, and cuFile does not say why; see cufile.log and the kernel log")]
    IoUnsaid,
    /// cuFile says that more has landed than was asked for.
    #[error("cuFile answered {answered} bytes to a read of {asked}; report this to NVIDIA, with cufile.log")]
    TooMany {
        /// Bytes asked for.
        asked: u64,
        /// Bytes answered.
        answered: u64,
    },
    /// cuFile kept asking to try again.
    #[error("cuFile asked to try again {tries} times; lower the queue depth")]
    Busy {
        /// Times tried.
        tries: u32,
    },
    /// An entry of a batch ended in another way than by being read.
    #[error("an entry of a batch came back {0}; see cufile.log")]
    Entry(EntryState),
    /// cuFile never said how the read ended. Its memory is never used again.
    #[error("cuFile no longer says how the read ended ({0}); see cufile.log, and start the process again")]
    Lost(String),
    /// The CUDA driver failed.
    #[error("{0}; {fix}", fix = .0.fix())]
    Cuda(#[source] CudaCode),
    /// The memory belongs to another CUDA context than the one that the reading threads have.
    #[error("the memory belongs to another device or context than the reads; use the one that it was registered with")]
    OtherContext,
    /// The reading threads were closed, or ended, before the transfer was done.
    #[error("cuFile's reads were closed before this one was done; open the device again")]
    Closed,
    /// This process was forked from the one that opened cuFile.
    #[error("cuFile does not survive fork; open the device in the process that uses it, or start that one with exec")]
    Forked,
}

/// How an entry of a batch ended, where it was not read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum EntryState {
    /// cuFile found its parameters wrong.
    Invalid,
    /// It was cancelled.
    Cancelled,
    /// It took longer than cuFile allows.
    TimedOut,
    /// It failed, and cuFile does not say how.
    Failed,
    /// A state that no header that we know has.
    Unknown(u32),
}

impl fmt::Display for EntryState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Invalid => f.write_str("invalid"),
            Self::Cancelled => f.write_str("cancelled"),
            Self::TimedOut => f.write_str("timed out (properties.io_batch_timeout_ms in cufile.json)"),
            Self::Failed => f.write_str("failed without a reason"),
            Self::Unknown(bits) => write!(f, "in the unknown state {bits:#x}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_tells_call_name_number_and_fix() {
        let refusal = Refusal::of("cuFileHandleRegister", Status { err: 5030, cu_err: 0 });
        let said = CuFileError::from(refusal).to_string();
        assert_eq!(
            said,
            "cuFile: cuFileHandleRegister failed with CU_FILE_INTERNAL_ERROR (5030); see cufile.log; in a container \
             bind /run/udev read-only, and keep the file off overlay file systems"
        );
    }

    #[test]
    fn cuda_s_own_code_is_kept() {
        let refusal = Refusal::of("cuFileBufRegister", Status { err: 5011, cu_err: 201 });
        assert_eq!(refusal.cuda, Some(201));
        assert!(refusal.to_string().contains("CU_FILE_CUDA_DRIVER_ERROR (5011), CUDA's code 201"));
    }

    #[test]
    fn a_registration_that_does_not_fit_tells_bytes_and_limits() {
        let refusal = Refusal::of("cuFileBufRegister", Status { err: 5016, cu_err: 0 });
        let error = CuFileError::Register { bytes: 40 << 30, pinned: Some(32 << 30), bar: Some(256 << 20), refusal };
        let said = error.to_string();
        for word in ["40 GiB", "CU_FILE_INVALID_MAPPING_SIZE (5016)", "at most 32 GiB", "256 MiB", "register less"] {
            assert!(said.contains(word), "{word}: {said}");
        }
    }

    #[test]
    fn a_fault_tells_where() {
        let fault = TransferFault { index: 3, at: 8192, fault: CuFileFault::Ends { missing: 100 } };
        assert!(fault.to_string().starts_with("cuFile at 8192: the file ends here, 100 bytes before"));
    }
}
