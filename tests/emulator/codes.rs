//! CUresult codes, by the names of the driver's header.
use std::ffi::CStr;

pub const INVALID_VALUE: i32 = 1;
pub const OUT_OF_MEMORY: i32 = 2;
pub const NOT_INITIALIZED: i32 = 3;
pub const NO_DEVICE: i32 = 100;
pub const INVALID_DEVICE: i32 = 101;
pub const INVALID_CONTEXT: i32 = 201;
pub const PEER_ACCESS_UNSUPPORTED: i32 = 217;
pub const INVALID_HANDLE: i32 = 400;
pub const ILLEGAL_STATE: i32 = 401;
pub const NOT_READY: i32 = 600;
pub const PEER_ACCESS_ALREADY_ENABLED: i32 = 704;
pub const PEER_ACCESS_NOT_ENABLED: i32 = 705;
pub const CONTEXT_IS_DESTROYED: i32 = 709;
pub const HOST_MEMORY_ALREADY_REGISTERED: i32 = 712;
pub const HOST_MEMORY_NOT_REGISTERED: i32 = 713;
pub const NOT_PERMITTED: i32 = 800;
pub const NOT_SUPPORTED: i32 = 801;
pub const STREAM_CAPTURE_UNSUPPORTED: i32 = 900;
pub const STREAM_CAPTURE_INVALIDATED: i32 = 901;
pub const CAPTURED_EVENT: i32 = 907;
pub const UNKNOWN: i32 = 999;

/// The name and the description of a code that the driver knows.
pub fn told(code: i32) -> Option<(&'static CStr, &'static CStr)> {
    Some(match code {
        0 => (c"CUDA_SUCCESS", c"no error"),
        INVALID_VALUE => (c"CUDA_ERROR_INVALID_VALUE", c"invalid argument"),
        OUT_OF_MEMORY => (c"CUDA_ERROR_OUT_OF_MEMORY", c"out of memory"),
        NOT_INITIALIZED => (c"CUDA_ERROR_NOT_INITIALIZED", c"initialization error"),
        4 => (c"CUDA_ERROR_DEINITIALIZED", c"driver shutting down"),
        34 => (c"CUDA_ERROR_STUB_LIBRARY", c"CUDA driver is a stub library"),
        46 => (c"CUDA_ERROR_DEVICE_UNAVAILABLE", c"CUDA-capable device(s) is/are busy or unavailable"),
        NO_DEVICE => (c"CUDA_ERROR_NO_DEVICE", c"no CUDA-capable device is detected"),
        INVALID_DEVICE => (c"CUDA_ERROR_INVALID_DEVICE", c"invalid device ordinal"),
        200 => (c"CUDA_ERROR_INVALID_IMAGE", c"device kernel image is invalid"),
        INVALID_CONTEXT => (c"CUDA_ERROR_INVALID_CONTEXT", c"invalid device context"),
        214 => (c"CUDA_ERROR_ECC_UNCORRECTABLE", c"uncorrectable ECC error encountered"),
        PEER_ACCESS_UNSUPPORTED => {
            (c"CUDA_ERROR_PEER_ACCESS_UNSUPPORTED", c"peer access is not supported between these two devices")
        }
        304 => (c"CUDA_ERROR_OPERATING_SYSTEM", c"OS call failed or operation not supported on this OS"),
        INVALID_HANDLE => (c"CUDA_ERROR_INVALID_HANDLE", c"invalid resource handle"),
        500 => (c"CUDA_ERROR_NOT_FOUND", c"named symbol not found"),
        NOT_READY => (c"CUDA_ERROR_NOT_READY", c"device not ready"),
        700 => (c"CUDA_ERROR_ILLEGAL_ADDRESS", c"an illegal memory access was encountered"),
        702 => (c"CUDA_ERROR_LAUNCH_TIMEOUT", c"the launch timed out and was terminated"),
        PEER_ACCESS_ALREADY_ENABLED => (c"CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED", c"peer access is already enabled"),
        PEER_ACCESS_NOT_ENABLED => (c"CUDA_ERROR_PEER_ACCESS_NOT_ENABLED", c"peer access has not been enabled"),
        708 => (c"CUDA_ERROR_PRIMARY_CONTEXT_ACTIVE", c"cannot set while device is active in this process"),
        CONTEXT_IS_DESTROYED => (c"CUDA_ERROR_CONTEXT_IS_DESTROYED", c"context is destroyed"),
        HOST_MEMORY_ALREADY_REGISTERED => (
            c"CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED",
            c"part or all of the requested memory range is already mapped",
        ),
        HOST_MEMORY_NOT_REGISTERED => {
            (c"CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED", c"pointer does not correspond to a registered memory region")
        }
        719 => (c"CUDA_ERROR_LAUNCH_FAILED", c"unspecified launch failure"),
        NOT_PERMITTED => (c"CUDA_ERROR_NOT_PERMITTED", c"operation not permitted"),
        NOT_SUPPORTED => (c"CUDA_ERROR_NOT_SUPPORTED", c"operation not supported"),
        802 => (c"CUDA_ERROR_SYSTEM_NOT_READY", c"system not yet initialized"),
        803 => {
            (c"CUDA_ERROR_SYSTEM_DRIVER_MISMATCH", c"system has unsupported display driver / cuda driver combination")
        }
        STREAM_CAPTURE_UNSUPPORTED => {
            (c"CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED", c"operation not permitted when stream is capturing")
        }
        STREAM_CAPTURE_INVALIDATED => {
            (c"CUDA_ERROR_STREAM_CAPTURE_INVALIDATED", c"operation failed due to a previous error during capture")
        }
        CAPTURED_EVENT => {
            (c"CUDA_ERROR_CAPTURED_EVENT", c"operation not permitted on an event last recorded in a capturing stream")
        }
        ILLEGAL_STATE => (c"CUDA_ERROR_ILLEGAL_STATE", c"the operation cannot be performed in the present state"),
        UNKNOWN => (c"CUDA_ERROR_UNKNOWN", c"unknown error"),
        _ => return None,
    })
}
