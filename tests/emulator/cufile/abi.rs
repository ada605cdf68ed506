//! The C types of cuFile, laid out as cudarc's bindings for CUDA 13.4 have them. Enums cross as plain integers: a number
//! that no Rust enum lists would be undefined behaviour, and passing such numbers is one of the things to be tested.

use std::ffi::{c_char, c_int, c_long, c_uint, c_void};

pub type Handle = *mut c_void;
pub type BatchHandle = *mut c_void;
pub type Stream = *mut c_void;

/// `CUfileError_t`.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Status {
    pub err: c_int,
    pub cu_err: c_int,
}

pub const SUCCESS: Status = Status { err: 0, cu_err: 0 };

impl Status {
    /// `code` of cuFile. Where it says that the driver failed, the driver's code must not be 0.
    pub fn of(code: i32) -> Status {
        Status { err: code, cu_err: if code == code::CUDA_DRIVER_ERROR { CUDA_ERROR_UNKNOWN } else { 0 } }
    }

    pub fn cuda(cu_err: i32) -> Status {
        Status { err: code::CUDA_DRIVER_ERROR, cu_err }
    }
}

pub const CUDA_ERROR_NOT_INITIALIZED: c_int = 3;
pub const CUDA_ERROR_INVALID_CONTEXT: c_int = 201;
pub const CUDA_ERROR_UNKNOWN: c_int = 999;

/// `CUfileOpError`, the ones that are given out here.
pub mod code {
    pub const DRIVER_NOT_INITIALIZED: i32 = 5001;
    pub const DRIVER_UNSUPPORTED_LIMIT: i32 = 5003;
    pub const PLATFORM_NOT_SUPPORTED: i32 = 5007;
    pub const IO_NOT_SUPPORTED: i32 = 5008;
    pub const CUDA_DRIVER_ERROR: i32 = 5011;
    pub const CUDA_MEMORY_TYPE_INVALID: i32 = 5013;
    pub const CUDA_POINTER_RANGE_ERROR: i32 = 5014;
    pub const CUDA_CONTEXT_MISMATCH: i32 = 5015;
    pub const INVALID_MAPPING_SIZE: i32 = 5016;
    pub const INVALID_FILE_TYPE: i32 = 5018;
    pub const INVALID_FILE_OPEN_FLAG: i32 = 5019;
    pub const DIO_NOT_SET: i32 = 5020;
    pub const INVALID_VALUE: i32 = 5022;
    pub const MEMORY_ALREADY_REGISTERED: i32 = 5023;
    pub const MEMORY_NOT_REGISTERED: i32 = 5024;
    pub const DRIVER_ALREADY_OPEN: i32 = 5026;
    pub const HANDLE_NOT_REGISTERED: i32 = 5027;
    pub const HANDLE_ALREADY_REGISTERED: i32 = 5028;
    pub const INTERNAL_ERROR: i32 = 5030;
    pub const BATCH_FULL: i32 = 5037;
    pub const ASYNC_NOT_SUPPORTED: i32 = 5038;
    pub const INTERNAL_BATCH_SETUP_ERROR: i32 = 5039;
    pub const INTERNAL_BATCH_GETSTATUS_ERROR: i32 = 5041;
}

/// `CUfileStatus_t`: bits of an event's status.
pub mod status {
    pub const INVALID: u32 = 4;
    pub const CANCELED: u32 = 8;
    pub const COMPLETE: u32 = 16;
    pub const FAILED: u32 = 64;
}

pub const HANDLE_TYPE_FD: c_uint = 1;

/// `CUfileDescr_t`.
#[repr(C)]
pub struct Descr {
    pub kind: c_uint,
    pub handle: DescrHandle,
    pub fs_ops: *const c_void,
}

#[repr(C)]
pub union DescrHandle {
    pub fd: c_int,
    pub handle: *mut c_void,
}

/// `CUfileDrvProps_t`; sizes are in KiB.
#[repr(C)]
pub struct DrvProps {
    pub nvfs: NvfsProps,
    pub fflags: c_uint,
    pub max_device_cache_size: c_uint,
    pub per_buffer_cache_size: c_uint,
    pub max_device_pinned_mem_size: c_uint,
    pub max_batch_io_size: c_uint,
    pub max_batch_io_timeout_msecs: c_uint,
}

#[repr(C)]
pub struct NvfsProps {
    pub major_version: c_uint,
    pub minor_version: c_uint,
    pub poll_thresh_size: usize,
    pub max_direct_io_size: usize,
    pub dstatusflags: c_uint,
    pub dcontrolflags: c_uint,
}

/// Numbers of bits, not masks.
pub mod bit {
    pub const STATUS_NVME: u32 = 4;
    pub const STATUS_NVME_P2P: u32 = 11;
    pub const CONTROL_POLL: u32 = 0;
    pub const CONTROL_ALLOW_COMPAT: u32 = 1;
    pub const FEATURE_BATCH: u32 = 1;
    pub const FEATURE_STREAMS: u32 = 2;
    pub const FEATURE_PARALLEL: u32 = 3;
    pub const FEATURE_P2P: u32 = 4;
}

/// `CUfileIOParams_t`, whose union has one member only. Its pointers are kept as numbers: nothing is followed here.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IoParams {
    pub mode: c_uint,
    pub base: usize,
    pub file_offset: c_long,
    pub base_offset: c_long,
    pub size: usize,
    pub fh: usize,
    pub opcode: c_uint,
    pub cookie: usize,
}

pub const BATCH_MODE: c_uint = 1;
pub const OPCODE_READ: c_uint = 0;
pub const OPCODE_WRITE: c_uint = 1;

/// `CUfileIOEvents_t`. `ret` is signed in truth: bytes, or a negative code.
#[repr(C)]
pub struct IoEvents {
    pub cookie: usize,
    pub status: c_uint,
    pub ret: usize,
}

/// `CUfileIOVec_t`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct IoVec {
    pub base: usize,
    pub len: usize,
}

/// `struct timespec`.
#[repr(C)]
pub struct Timespec {
    pub seconds: c_long,
    pub nanoseconds: c_long,
}

/// `CUfileOpCounter_t`.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct OpCounter {
    pub ok: u64,
    pub err: u64,
}

/// `CUfilePerGpuStats_t`.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct PerGpuStats {
    pub uuid: [c_char; 16],
    pub read_bytes: u64,
    pub read_bw_bytes_per_sec: u64,
    pub read_utilization: u64,
    pub read_duration_us: u64,
    pub n_total_reads: u64,
    pub n_p2p_reads: u64,
    pub n_nvfs_reads: u64,
    pub n_posix_reads: u64,
    pub n_unaligned_reads: u64,
    pub n_dr_reads: u64,
    pub n_sparse_regions: u64,
    pub n_inline_regions: u64,
    pub n_reads_err: u64,
    pub writes_bytes: u64,
    pub write_bw_bytes_per_sec: u64,
    pub write_utilization: u64,
    pub write_duration_us: u64,
    pub n_total_writes: u64,
    pub n_p2p_writes: u64,
    pub n_nvfs_writes: u64,
    pub n_posix_writes: u64,
    pub n_unaligned_writes: u64,
    pub n_dr_writes: u64,
    pub n_writes_err: u64,
    pub n_mmap: u64,
    pub n_mmap_ok: u64,
    pub n_mmap_err: u64,
    pub n_mmap_free: u64,
    pub reg_bytes: u64,
}

/// `CUfileStatsLevel1_t`.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct StatsLevel1 {
    pub read_ops: OpCounter,
    pub write_ops: OpCounter,
    pub hdl_register_ops: OpCounter,
    pub hdl_deregister_ops: OpCounter,
    pub buf_register_ops: OpCounter,
    pub buf_deregister_ops: OpCounter,
    pub read_bytes: u64,
    pub write_bytes: u64,
    pub read_bw_bytes_per_sec: u64,
    pub write_bw_bytes_per_sec: u64,
    pub read_lat_avg_us: u64,
    pub write_lat_avg_us: u64,
    pub read_ops_per_sec: u64,
    pub write_ops_per_sec: u64,
    pub read_lat_sum_us: u64,
    pub write_lat_sum_us: u64,
    pub batch_submit_ops: OpCounter,
    pub batch_complete_ops: OpCounter,
    pub batch_setup_ops: OpCounter,
    pub batch_cancel_ops: OpCounter,
    pub batch_destroy_ops: OpCounter,
    pub batch_enqueued_ops: OpCounter,
    pub batch_posix_enqueued_ops: OpCounter,
    pub batch_processed_ops: OpCounter,
    pub batch_posix_processed_ops: OpCounter,
    pub batch_nvfs_submit_ops: OpCounter,
    pub batch_p2p_submit_ops: OpCounter,
    pub batch_aio_submit_ops: OpCounter,
    pub batch_iouring_submit_ops: OpCounter,
    pub batch_mixed_io_submit_ops: OpCounter,
    pub batch_total_submit_ops: OpCounter,
    pub batch_read_bytes: u64,
    pub batch_write_bytes: u64,
    pub batch_read_bw_bytes: u64,
    pub batch_write_bw_bytes: u64,
    pub batch_submit_lat_avg_us: u64,
    pub batch_completion_lat_avg_us: u64,
    pub batch_submit_ops_per_sec: u64,
    pub batch_complete_ops_per_sec: u64,
    pub batch_submit_lat_sum_us: u64,
    pub batch_completion_lat_sum_us: u64,
    pub last_batch_read_bytes: u64,
    pub last_batch_write_bytes: u64,
    pub readv_ops: OpCounter,
    pub writev_ops: OpCounter,
    pub readv_bytes: u64,
    pub writev_bytes: u64,
    pub readv_bw_bytes_per_sec: u64,
    pub writev_bw_bytes_per_sec: u64,
    pub readv_lat_avg_us: u64,
    pub writev_lat_avg_us: u64,
    pub readv_ops_per_sec: u64,
    pub writev_ops_per_sec: u64,
    pub readv_lat_sum_us: u64,
    pub writev_lat_sum_us: u64,
}

/// `CUfileStatsLevel2_t`.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct StatsLevel2 {
    pub basic: StatsLevel1,
    pub read_size_kb_hist: [u64; 32],
    pub write_size_kb_hist: [u64; 32],
}

/// `CUfileStatsLevel3_t`.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct StatsLevel3 {
    pub detailed: StatsLevel2,
    pub num_gpus: u32,
    pub per_gpu_stats: [PerGpuStats; MAX_GPUS],
}

pub const MAX_GPUS: usize = 16;
