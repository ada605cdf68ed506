//! cuFile's C structures, with numbers in place of its enums.

use std::ffi::{c_int, c_uint, c_void};

/// `CUfileHandle_t`.
pub(crate) type FileHandle = *mut c_void;
/// `CUfileBatchHandle_t`.
pub(crate) type BatchHandle = *mut c_void;

/// `CUfileError_t`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Status {
    /// `CUfileOpError`, 0 where all is well.
    pub(crate) err: c_int,
    /// `CUresult` of the CUDA driver, where it was that one which failed.
    pub(crate) cu_err: c_int,
}

/// `CUfileDescr_t` of a file descriptor.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct Descriptor {
    kind: c_uint,
    file: FileOrPointer,
    fs_ops: *const c_void,
}

#[repr(C)]
#[derive(Clone, Copy)]
union FileOrPointer {
    fd: c_int,
    pointer: *mut c_void,
}

impl Descriptor {
    pub(crate) fn of(fd: c_int) -> Self {
        const OPAQUE_FD: c_uint = 1;
        let mut file = FileOrPointer { pointer: std::ptr::null_mut() };
        file.fd = fd;
        Self { kind: OPAQUE_FD, file, fs_ops: std::ptr::null() }
    }

    #[cfg(test)]
    pub(crate) fn fd(&self) -> c_int {
        // SAFETY: `of` is the only maker, and has written the whole union.
        unsafe { self.file.fd }
    }
}

/// `CUfileDrvProps_t`. Libraries before CUDA 11.6 lack `max_batch_io_size`, and with it the batch calls.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Properties {
    pub(crate) nvfs_major: c_uint,
    pub(crate) nvfs_minor: c_uint,
    pub(crate) poll_threshold_kib: usize,
    pub(crate) max_direct_io_kib: usize,
    pub(crate) status_flags: c_uint,
    pub(crate) control_flags: c_uint,
    pub(crate) feature_flags: c_uint,
    pub(crate) max_device_cache_kib: c_uint,
    pub(crate) per_buffer_cache_kib: c_uint,
    pub(crate) max_device_pinned_kib: c_uint,
    pub(crate) max_batch_io_size: c_uint,
    pub(crate) max_batch_io_timeout_ms: c_uint,
}

/// Bits of the flags of [`Properties`].
pub(crate) mod feature {
    use std::ffi::c_uint;

    /// In the control flags: cuFile may serve reads through the page cache or by its own copies, unasked.
    pub(crate) const ALLOW_COMPAT: c_uint = 1 << 1;
    /// In the feature flags.
    pub(crate) const BATCH: c_uint = 1 << 1;
    /// In the feature flags.
    pub(crate) const STREAMS: c_uint = 1 << 2;
    /// In the status flags: file systems and fabrics that are read over RDMA (Lustre, WekaFS, NFS, GPFS, NVMe-oF,
    /// BeeGFS).
    pub(crate) const RDMA: c_uint = 1 | 1 << 1 | 1 << 2 | 1 << 3 | 1 << 5 | 1 << 9;
}

/// `CUFileBoolConfigParameter_t`.
pub(crate) mod parameter {
    use std::ffi::c_uint;

    pub(crate) const ALLOW_COMPAT_MODE: c_uint = 1;
    pub(crate) const FORCE_COMPAT_MODE: c_uint = 2;
}

/// `CUfileIOParams_t` of a read.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(crate) struct IoParams {
    pub(crate) mode: c_uint,
    pub(crate) base: *mut c_void,
    pub(crate) file_offset: i64,
    pub(crate) buffer_offset: i64,
    pub(crate) size: usize,
    pub(crate) handle: FileHandle,
    pub(crate) opcode: c_uint,
    pub(crate) cookie: *mut c_void,
}

impl IoParams {
    /// `CUFILE_BATCH`.
    pub(crate) const BATCH: c_uint = 1;
    /// `CUFILE_READ`.
    pub(crate) const READ: c_uint = 0;
}

/// `CUfileIOEvents_t`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(crate) struct IoEvent {
    pub(crate) cookie: *mut c_void,
    pub(crate) status: c_uint,
    /// Bytes, or a negative number as [`decode`](super::decode) takes it.
    pub(crate) ret: usize,
}

/// `CUfileStatus_t`.
pub(crate) mod io_status {
    use std::ffi::c_uint;

    pub(crate) const WAITING: c_uint = 1;
    pub(crate) const PENDING: c_uint = 2;
    pub(crate) const INVALID: c_uint = 4;
    pub(crate) const CANCELED: c_uint = 8;
    pub(crate) const COMPLETE: c_uint = 16;
    pub(crate) const TIMEOUT: c_uint = 32;
    pub(crate) const FAILED: c_uint = 64;
}

/// `CUfileOpCounter_t`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Counted {
    pub(crate) ok: u64,
    pub(crate) err: u64,
}

/// `CUfileStatsLevel1_t` up to CUDA 13.3.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Level1 {
    pub(crate) reads: Counted,
    pub(crate) writes: Counted,
    /// Handles and buffers, registered and deregistered.
    pub(crate) registrations: [Counted; 4],
    pub(crate) read_bytes: u64,
    pub(crate) write_bytes: u64,
    pub(crate) rates_and_latencies: [u64; 8],
    pub(crate) batch_operations: [Counted; 15],
    pub(crate) batch_read_bytes: u64,
    pub(crate) batch_others: [u64; 11],
}

/// `CUfileStatsLevel1_t` from CUDA 13.4 on, which moves what lies behind it in level 3.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Level1Vectored {
    pub(crate) plain: Level1,
    pub(crate) vectored_operations: [Counted; 2],
    pub(crate) vectored_others: [u64; 10],
}

/// `CUfileStatsLevel3_t` around one of the above.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(crate) struct Level3<L> {
    pub(crate) basic: L,
    pub(crate) histograms: [u64; 64],
    pub(crate) gpus: u32,
    pub(crate) per_gpu: [GpuCounts; 16],
}

/// `CUfilePerGpuStats_t`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct GpuCounts {
    pub(crate) uuid: [u8; 16],
    pub(crate) read_bytes: u64,
    pub(crate) read_rates: [u64; 3],
    pub(crate) reads: u64,
    pub(crate) reads_p2p: u64,
    pub(crate) reads_nvfs: u64,
    pub(crate) reads_posix: u64,
    pub(crate) reads_unaligned: u64,
    pub(crate) reads_routed: u64,
    pub(crate) sparse_regions: u64,
    pub(crate) inline_regions: u64,
    pub(crate) reads_failed: u64,
    pub(crate) write_others: [u64; 11],
    pub(crate) mappings: [u64; 4],
    pub(crate) registered_bytes: u64,
}

/// Statistics with room behind them, for a library whose structure is longer than any that we know.
#[repr(C)]
pub(crate) struct Roomy<T> {
    pub(crate) stats: T,
    room: [u8; 8192],
}

impl<T: Copy> Roomy<T> {
    /// Every byte is `fill`. Only for structures of plain numbers, as all of the above are.
    pub(crate) fn filled(fill: u8) -> Box<Self> {
        let mut roomy = Box::<Self>::new_uninit();
        // SAFETY: `T` is one of this file's structures of integers and arrays of them, for which any bytes are a value.
        unsafe {
            roomy.as_mut_ptr().cast::<u8>().write_bytes(fill, size_of::<Self>());
            roomy.assume_init()
        }
    }

    /// How many bytes of the structure are not `fill` any more, up to the last such byte.
    pub(crate) fn written(&self, fill: u8) -> usize {
        let start = std::ptr::from_ref(self).cast::<u8>();
        // SAFETY: `filled` has initialised every byte of it, padding included, and it is borrowed.
        let bytes = unsafe { std::slice::from_raw_parts(start, size_of::<Self>()) };
        bytes.iter().rposition(|&byte| byte != fill).map_or(0, |last| last + 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cudarc::cufile::sys;
    use std::mem::offset_of;

    macro_rules! same {
        ($ours:ty, $theirs:ty; $($field:ident($($of:tt)+) = $($name:ident).+),* $(,)?) => {
            assert_eq!(size_of::<$ours>(), size_of::<$theirs>(), stringify!($ours));
            assert_eq!(align_of::<$ours>(), align_of::<$theirs>(), stringify!($ours));
            $(assert_eq!(offset_of!($ours, $($of)+), offset_of!($theirs, $($name).+), stringify!($field));)*
        };
    }

    #[test]
    fn structures_of_calls_are_laid_out_as_the_header_says() {
        same!(Status, sys::CUfileError; err(err) = err, cu_err(cu_err) = cu_err);
        same!(Descriptor, sys::CUfileDescr_t; kind(kind) = type_, file(file) = handle, fs_ops(fs_ops) = fs_ops);
        same!(IoParams, sys::CUfileIOParams; mode(mode) = mode, base(base) = u, handle(handle) = fh,
            opcode(opcode) = opcode, cookie(cookie) = cookie);
        let entry = offset_of!(sys::CUfileIOParams, u);
        type Entry = sys::CUfileIOParams__bindgen_ty_1__bindgen_ty_1;
        assert_eq!(offset_of!(IoParams, base), entry + offset_of!(Entry, devPtr_base));
        assert_eq!(offset_of!(IoParams, file_offset), entry + offset_of!(Entry, file_offset));
        assert_eq!(offset_of!(IoParams, buffer_offset), entry + offset_of!(Entry, devPtr_offset));
        assert_eq!(offset_of!(IoParams, size), entry + offset_of!(Entry, size));
        same!(IoEvent, sys::CUfileIOEvents; cookie(cookie) = cookie, status(status) = status, ret(ret) = ret);
        assert_eq!(IoParams::BATCH, sys::cufileBatchMode::CUFILE_BATCH as c_uint);
        assert_eq!(IoParams::READ, sys::CUfileOpcode::CUFILE_READ as c_uint);
        assert_eq!(Descriptor::of(7).fd(), 7);
    }

    #[test]
    fn properties_are_laid_out_as_the_header_says() {
        same!(Properties, sys::CUfileDrvProps; a(nvfs_major) = nvfs.major_version, b(nvfs_minor) = nvfs.minor_version,
            c(poll_threshold_kib) = nvfs.poll_thresh_size, d(max_direct_io_kib) = nvfs.max_direct_io_size,
            e(status_flags) = nvfs.dstatusflags, f(control_flags) = nvfs.dcontrolflags, g(feature_flags) = fflags,
            h(max_device_cache_kib) = max_device_cache_size, i(per_buffer_cache_kib) = per_buffer_cache_size,
            j(max_device_pinned_kib) = max_device_pinned_mem_size, k(max_batch_io_size) = max_batch_io_size,
            l(max_batch_io_timeout_ms) = max_batch_io_timeout_msecs);
        assert_eq!(feature::ALLOW_COMPAT, 1 << sys::CUfileDriverControlFlags::CU_FILE_ALLOW_COMPAT_MODE as c_uint);
        assert_eq!(feature::BATCH, 1 << sys::CUfileFeatureFlags::CU_FILE_BATCH_IO_SUPPORTED as c_uint);
        assert_eq!(feature::STREAMS, 1 << sys::CUfileFeatureFlags::CU_FILE_STREAMS_SUPPORTED as c_uint);
        use sys::CUfileDriverStatusFlags as Flag;
        let rdma = [
            Flag::CU_FILE_LUSTRE_SUPPORTED,
            Flag::CU_FILE_WEKAFS_SUPPORTED,
            Flag::CU_FILE_NFS_SUPPORTED,
            Flag::CU_FILE_GPFS_SUPPORTED,
            Flag::CU_FILE_NVMEOF_SUPPORTED,
            Flag::CU_FILE_BEEGFS_SUPPORTED,
        ];
        let mask: c_uint = rdma.into_iter().map(|flag| 1 << flag as c_uint).sum();
        assert_eq!(feature::RDMA, mask);
        use sys::CUFileBoolConfigParameter_t as Switch;
        assert_eq!(parameter::ALLOW_COMPAT_MODE, Switch::CUFILE_PARAM_PROPERTIES_ALLOW_COMPAT_MODE as c_uint);
        assert_eq!(parameter::FORCE_COMPAT_MODE, Switch::CUFILE_PARAM_FORCE_COMPAT_MODE as c_uint);
    }

    #[test]
    fn states_of_entries_are_the_header_s() {
        use sys::CUFILEStatus_enum as Their;
        for (ours, theirs) in [
            (io_status::WAITING, Their::CUFILE_WAITING),
            (io_status::PENDING, Their::CUFILE_PENDING),
            (io_status::INVALID, Their::CUFILE_INVALID),
            (io_status::CANCELED, Their::CUFILE_CANCELED),
            (io_status::COMPLETE, Their::CUFILE_COMPLETE),
            (io_status::TIMEOUT, Their::CUFILE_TIMEOUT),
            (io_status::FAILED, Their::CUFILE_FAILED),
        ] {
            assert_eq!(ours, theirs as c_uint);
        }
    }

    #[test]
    fn statistics_are_laid_out_as_the_header_says() {
        same!(Level1Vectored, sys::CUfileStatsLevel1; a(plain.reads) = read_ops, b(plain.read_bytes) = read_bytes,
            c(plain.batch_operations) = batch_submit_ops, d(plain.batch_read_bytes) = batch_read_bytes,
            e(plain.batch_others) = batch_write_bytes, f(vectored_operations) = readv_ops,
            g(vectored_others) = readv_bytes);
        assert_eq!(size_of::<Level1>(), offset_of!(sys::CUfileStatsLevel1, readv_ops));
        same!(Level3<Level1Vectored>, sys::CUfileStatsLevel3; a(histograms) = detailed.read_size_kb_hist,
            b(gpus) = num_gpus, c(per_gpu) = per_gpu_stats);
        same!(GpuCounts, sys::CUfilePerGpuStats; a(read_bytes) = read_bytes, b(reads) = n_total_reads,
            c(reads_p2p) = n_p2p_reads, d(reads_nvfs) = n_nvfs_reads, e(reads_posix) = n_posix_reads,
            f(reads_unaligned) = n_unaligned_reads, g(reads_failed) = n_reads_err, h(write_others) = writes_bytes,
            i(mappings) = n_mmap, j(registered_bytes) = reg_bytes);
    }

    #[test]
    fn what_a_library_writes_is_measured() {
        let mut roomy = Roomy::<Level1>::filled(0xa5);
        assert_eq!(roomy.written(0xa5), 0);
        roomy.stats.read_bytes = 0;
        assert_eq!(roomy.written(0xa5), offset_of!(Level1, read_bytes) + 8);
    }
}
