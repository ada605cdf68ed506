//! The layouts that the stand-in uses are those of cudarc's bindings.

use crate::abi;
use cudarc::cufile::sys;
use std::mem::{align_of, offset_of, size_of};

macro_rules! same {
    ($ours:ty, $theirs:ty $(, $our_field:ident . $their_field:ident)*) => {
        assert_eq!((size_of::<$ours>(), align_of::<$ours>()), (size_of::<$theirs>(), align_of::<$theirs>()));
        $(assert_eq!(offset_of!($ours, $our_field), offset_of!($theirs, $their_field), stringify!($our_field));)*
    };
}

#[test]
fn structures_are_laid_out_as_in_the_bindings() {
    same!(abi::Status, sys::CUfileError_t, err.err, cu_err.cu_err);
    same!(abi::Descr, sys::CUfileDescr_t, kind.type_, handle.handle, fs_ops.fs_ops);
    same!(
        abi::DrvProps,
        sys::CUfileDrvProps_t,
        nvfs.nvfs,
        fflags.fflags,
        max_device_cache_size.max_device_cache_size,
        max_device_pinned_mem_size.max_device_pinned_mem_size,
        max_batch_io_size.max_batch_io_size,
        max_batch_io_timeout_msecs.max_batch_io_timeout_msecs
    );
    same!(
        abi::NvfsProps,
        sys::CUfileDrvProps__bindgen_ty_1,
        minor_version.minor_version,
        poll_thresh_size.poll_thresh_size,
        max_direct_io_size.max_direct_io_size,
        dstatusflags.dstatusflags,
        dcontrolflags.dcontrolflags
    );
    same!(abi::IoParams, sys::CUfileIOParams_t, mode.mode, base.u, fh.fh, opcode.opcode, cookie.cookie);
    same!(abi::IoEvents, sys::CUfileIOEvents_t, cookie.cookie, status.status, ret.ret);
    same!(abi::IoVec, sys::CUfileIOVec_t, base.base, len.len);
    same!(abi::Timespec, sys::timespec, seconds.tv_sec, nanoseconds.tv_nsec);
    let batch = offset_of!(sys::CUfileIOParams_t, u);
    type Entry = sys::CUfileIOParams__bindgen_ty_1__bindgen_ty_1;
    assert_eq!(offset_of!(abi::IoParams, file_offset), batch + offset_of!(Entry, file_offset));
    assert_eq!(offset_of!(abi::IoParams, base_offset), batch + offset_of!(Entry, devPtr_offset));
    assert_eq!(offset_of!(abi::IoParams, size), batch + offset_of!(Entry, size));
}

#[test]
fn statistics_are_laid_out_as_in_the_bindings() {
    same!(
        abi::StatsLevel1,
        sys::CUfileStatsLevel1_t,
        read_ops.read_ops,
        read_bytes.read_bytes,
        read_lat_sum_us.read_lat_sum_us,
        batch_submit_ops.batch_submit_ops,
        batch_posix_processed_ops.batch_posix_processed_ops,
        batch_total_submit_ops.batch_total_submit_ops,
        batch_read_bytes.batch_read_bytes,
        batch_completion_lat_sum_us.batch_completion_lat_sum_us,
        last_batch_write_bytes.last_batch_write_bytes,
        readv_ops.readv_ops,
        writev_lat_sum_us.writev_lat_sum_us
    );
    same!(
        abi::StatsLevel2,
        sys::CUfileStatsLevel2_t,
        read_size_kb_hist.read_size_kb_hist,
        write_size_kb_hist.write_size_kb_hist
    );
    same!(abi::StatsLevel3, sys::CUfileStatsLevel3_t, num_gpus.num_gpus, per_gpu_stats.per_gpu_stats);
    same!(
        abi::PerGpuStats,
        sys::CUfilePerGpuStats_t,
        uuid.uuid,
        read_bytes.read_bytes,
        n_total_reads.n_total_reads,
        n_p2p_reads.n_p2p_reads,
        n_nvfs_reads.n_nvfs_reads,
        n_posix_reads.n_posix_reads,
        n_unaligned_reads.n_unaligned_reads,
        n_reads_err.n_reads_err,
        writes_bytes.writes_bytes,
        n_posix_writes.n_posix_writes,
        n_mmap.n_mmap,
        reg_bytes.reg_bytes
    );
}

#[test]
fn codes_are_those_of_the_bindings() {
    use sys::CUfileOpError as E;
    let pairs = [
        (abi::code::DRIVER_NOT_INITIALIZED, E::CU_FILE_DRIVER_NOT_INITIALIZED),
        (abi::code::DRIVER_UNSUPPORTED_LIMIT, E::CU_FILE_DRIVER_UNSUPPORTED_LIMIT),
        (abi::code::PLATFORM_NOT_SUPPORTED, E::CU_FILE_PLATFORM_NOT_SUPPORTED),
        (abi::code::IO_NOT_SUPPORTED, E::CU_FILE_IO_NOT_SUPPORTED),
        (abi::code::CUDA_DRIVER_ERROR, E::CU_FILE_CUDA_DRIVER_ERROR),
        (abi::code::CUDA_MEMORY_TYPE_INVALID, E::CU_FILE_CUDA_MEMORY_TYPE_INVALID),
        (abi::code::CUDA_POINTER_RANGE_ERROR, E::CU_FILE_CUDA_POINTER_RANGE_ERROR),
        (abi::code::CUDA_CONTEXT_MISMATCH, E::CU_FILE_CUDA_CONTEXT_MISMATCH),
        (abi::code::INVALID_MAPPING_SIZE, E::CU_FILE_INVALID_MAPPING_SIZE),
        (abi::code::INVALID_FILE_TYPE, E::CU_FILE_INVALID_FILE_TYPE),
        (abi::code::INVALID_FILE_OPEN_FLAG, E::CU_FILE_INVALID_FILE_OPEN_FLAG),
        (abi::code::DIO_NOT_SET, E::CU_FILE_DIO_NOT_SET),
        (abi::code::INVALID_VALUE, E::CU_FILE_INVALID_VALUE),
        (abi::code::MEMORY_ALREADY_REGISTERED, E::CU_FILE_MEMORY_ALREADY_REGISTERED),
        (abi::code::MEMORY_NOT_REGISTERED, E::CU_FILE_MEMORY_NOT_REGISTERED),
        (abi::code::DRIVER_ALREADY_OPEN, E::CU_FILE_DRIVER_ALREADY_OPEN),
        (abi::code::HANDLE_NOT_REGISTERED, E::CU_FILE_HANDLE_NOT_REGISTERED),
        (abi::code::HANDLE_ALREADY_REGISTERED, E::CU_FILE_HANDLE_ALREADY_REGISTERED),
        (abi::code::INTERNAL_ERROR, E::CU_FILE_INTERNAL_ERROR),
        (abi::code::BATCH_FULL, E::CU_FILE_BATCH_FULL),
        (abi::code::ASYNC_NOT_SUPPORTED, E::CU_FILE_ASYNC_NOT_SUPPORTED),
        (abi::code::INTERNAL_BATCH_SETUP_ERROR, E::CU_FILE_INTERNAL_BATCH_SETUP_ERROR),
        (abi::code::INTERNAL_BATCH_GETSTATUS_ERROR, E::CU_FILE_INTERNAL_BATCH_GETSTATUS_ERROR),
    ];
    for (ours, theirs) in pairs {
        assert_eq!(ours, theirs as i32, "{theirs:?}");
    }
}
