use std::ffi::c_int;
use std::fmt;

/// A code of cuFile's (`CUfileOpError`). It is no error number of the kernel's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct CuFileCode(
    /// The number, such as 5030.
    pub c_int,
);

/// Every code that a header of NVIDIA's names, up to CUDA 13.4.
const NAMES: [(c_int, &str); 47] = [
    (5001, "CU_FILE_DRIVER_NOT_INITIALIZED"),
    (5002, "CU_FILE_DRIVER_INVALID_PROPS"),
    (5003, "CU_FILE_DRIVER_UNSUPPORTED_LIMIT"),
    (5004, "CU_FILE_DRIVER_VERSION_MISMATCH"),
    (5005, "CU_FILE_DRIVER_VERSION_READ_ERROR"),
    (5006, "CU_FILE_DRIVER_CLOSING"),
    (5007, "CU_FILE_PLATFORM_NOT_SUPPORTED"),
    (5008, "CU_FILE_IO_NOT_SUPPORTED"),
    (5009, "CU_FILE_DEVICE_NOT_SUPPORTED"),
    (5010, "CU_FILE_NVFS_DRIVER_ERROR"),
    (5011, "CU_FILE_CUDA_DRIVER_ERROR"),
    (5012, "CU_FILE_CUDA_POINTER_INVALID"),
    (5013, "CU_FILE_CUDA_MEMORY_TYPE_INVALID"),
    (5014, "CU_FILE_CUDA_POINTER_RANGE_ERROR"),
    (5015, "CU_FILE_CUDA_CONTEXT_MISMATCH"),
    (5016, "CU_FILE_INVALID_MAPPING_SIZE"),
    (5017, "CU_FILE_INVALID_MAPPING_RANGE"),
    (5018, "CU_FILE_INVALID_FILE_TYPE"),
    (5019, "CU_FILE_INVALID_FILE_OPEN_FLAG"),
    (5020, "CU_FILE_DIO_NOT_SET"),
    (5022, "CU_FILE_INVALID_VALUE"),
    (5023, "CU_FILE_MEMORY_ALREADY_REGISTERED"),
    (5024, "CU_FILE_MEMORY_NOT_REGISTERED"),
    (5025, "CU_FILE_PERMISSION_DENIED"),
    (5026, "CU_FILE_DRIVER_ALREADY_OPEN"),
    (5027, "CU_FILE_HANDLE_NOT_REGISTERED"),
    (5028, "CU_FILE_HANDLE_ALREADY_REGISTERED"),
    (5029, "CU_FILE_DEVICE_NOT_FOUND"),
    (5030, "CU_FILE_INTERNAL_ERROR"),
    (5031, "CU_FILE_GETNEWFD_FAILED"),
    (5033, "CU_FILE_NVFS_SETUP_ERROR"),
    (5034, "CU_FILE_IO_DISABLED"),
    (5035, "CU_FILE_BATCH_SUBMIT_FAILED"),
    (5036, "CU_FILE_GPU_MEMORY_PINNING_FAILED"),
    (5037, "CU_FILE_BATCH_FULL"),
    (5038, "CU_FILE_ASYNC_NOT_SUPPORTED"),
    (5039, "CU_FILE_INTERNAL_BATCH_SETUP_ERROR"),
    (5040, "CU_FILE_INTERNAL_BATCH_SUBMIT_ERROR"),
    (5041, "CU_FILE_INTERNAL_BATCH_GETSTATUS_ERROR"),
    (5042, "CU_FILE_INTERNAL_BATCH_CANCEL_ERROR"),
    (5043, "CU_FILE_NOMEM_ERROR"),
    (5044, "CU_FILE_IO_ERROR"),
    (5045, "CU_FILE_INTERNAL_BUF_REGISTER_ERROR"),
    (5046, "CU_FILE_HASH_OPR_ERROR"),
    (5047, "CU_FILE_INVALID_CONTEXT_ERROR"),
    (5048, "CU_FILE_NVFS_INTERNAL_DRIVER_ERROR"),
    (5049, "CU_FILE_BATCH_NOCOMPAT_ERROR"),
];

impl CuFileCode {
    pub(crate) const INVALID_MAPPING_SIZE: Self = Self(5016);
    pub(crate) const MEMORY_NOT_REGISTERED: Self = Self(5024);
    pub(crate) const DRIVER_ALREADY_OPEN: Self = Self(5026);
    pub(crate) const GPU_MEMORY_PINNING_FAILED: Self = Self(5036);
    pub(crate) const INTERNAL_BUF_REGISTER_ERROR: Self = Self(5045);

    /// The header's name of the code, such as `CU_FILE_INTERNAL_ERROR`. `None` where no header that we know has it.
    pub fn name(self) -> Option<&'static str> {
        NAMES.iter().find(|(code, _)| *code == self.0).map(|&(_, name)| name)
    }

    /// What to do about it, in a few words.
    pub fn fix(self) -> &'static str {
        match self.0 {
            5001 | 5006 => "cuFile was closed under us: leave cuFileDriverClose to the end of the process",
            5002 | 5003 => "check the limits in cufile.json",
            5004 | 5005 => "install the nvidia-fs driver that belongs to this libcufile",
            5007 => "GPUDirect Storage does not run on this platform (WSL is one such): use the route bounce",
            5008 | 5018 => "this file system or kind of file has no direct path to the GPU: use the route bounce",
            5009 | 5029 => "this GPU has no GPUDirect Storage: use the route bounce",
            5010 | 5033 | 5048 => {
                "load the nvidia-fs driver (`modprobe nvidia_fs`) or turn on P2PDMA in cufile.json, and see cufile.log"
            }
            5011 | 5012 | 5015 | 5047 => "see `nvidia-smi` and the kernel log",
            5013 => {
                "register memory that came from cuMemAlloc: memory of pools and virtual ranges cannot be registered"
            }
            5014 | 5017 => "register the whole allocation from its base on, with its length in bytes",
            5016 | 5036 | 5045 => {
                "register less at once, or raise max_device_pinned_mem_size_kb in cufile.json if the GPU's BAR has room"
            }
            5019 => "open the file without O_APPEND, O_NONBLOCK, O_NOCTTY, O_DIRECTORY, O_NOFOLLOW and O_TMPFILE",
            5020 => "open the file with O_DIRECT",
            5023 => "the memory is registered already, perhaps by another library: let one of both register it",
            5025 => "give this user access to /dev/nvidia-fs* and the file",
            5028 => "the file is registered already: register a file once and share the handle",
            5030 => {
                "see cufile.log; in a container bind /run/udev read-only, and keep the file off overlay file systems"
            }
            5031 => "raise the limit of open files with `ulimit -n`",
            5034 => {
                "cufile.json forbids GPUDirect Storage on this file system: change it there, or use the route bounce"
            }
            5035 | 5037 | 5039..=5042 => "lower the queue depth, or read without batches",
            5038 => "this cuFile has no stream reads: read with the pool or in batches",
            5043 => "free host memory",
            5044 => "check the drive, the kernel log and the file system",
            5049 => {
                "batches need the direct path where cufile.json turns the compatibility mode off: read with the pool"
            }
            _ => "see cufile.log (the folder is in cufile.json)",
        }
    }
}

impl fmt::Display for CuFileCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name() {
            Some(name) => write!(f, "{name} ({})", self.0),
            None => write!(f, "the cuFile code {}", self.0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cudarc::cufile::sys::CUfileOpError;

    /// Makes the enum's member from a number that it has.
    fn member(code: c_int) -> CUfileOpError {
        // SAFETY: `CUfileOpError` is `repr(u32)`, and the caller asks only for numbers that its definition lists, which
        // the test below takes from the table whose names it then compares.
        unsafe { std::mem::transmute::<c_int, CUfileOpError>(code) }
    }

    #[test]
    fn names_are_the_header_s() {
        assert_eq!(NAMES.len() + 2, CUfileOpError::CU_FILE_IO_MAX_ERROR as usize - 5001, "all but 5021 and 5032");
        assert!(NAMES.is_sorted_by(|a, b| a.0 < b.0) && NAMES[0].0 == 5001 && NAMES[NAMES.len() - 1].0 == 5049);
        for (code, name) in NAMES {
            assert!(code != 5021 && code != 5032);
            assert_eq!(format!("{:?}", member(code)), name);
            assert_eq!(CuFileCode(code).to_string(), format!("{name} ({code})"));
        }
    }

    #[test]
    fn a_code_of_tomorrow_is_shown_by_its_number() {
        for code in [5021, 5032, 5050, 5999, 7] {
            assert_eq!(CuFileCode(code).to_string(), format!("the cuFile code {code}"));
            assert!(!CuFileCode(code).fix().is_empty());
        }
    }

    #[test]
    fn no_code_is_taken_for_an_error_number() {
        for (code, _) in NAMES {
            assert!(!CuFileCode(code).to_string().contains("Unknown error"));
        }
    }
}
