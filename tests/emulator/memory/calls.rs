//! cuMem*: allocating, freeing, registering, and asking what a pointer is.
use std::ffi::{c_int, c_void};

use super::{allocations, pinned};
use crate::call::{Answer, call, put, wrong};
use crate::stream::{self, submit};
use crate::{codes, context};

#[unsafe(no_mangle)]
extern "C" fn cuMemAlloc_v2(ptr: *mut u64, len: usize) -> i32 {
    call("cuMemAlloc_v2", || {
        let device = context::required()?;
        context::health(device)?;
        put(ptr, allocations::allocate(device, len)?)
    })
}

#[unsafe(no_mangle)]
extern "C" fn cuMemAllocAsync(ptr: *mut u64, len: usize, stream: usize) -> i32 {
    call("cuMemAllocAsync", || {
        let stream = stream::find(stream)?;
        context::health(stream.device)?;
        put(ptr, allocations::allocate(stream.device, len)?)
    })
}

#[unsafe(no_mangle)]
extern "C" fn cuMemFree_v2(ptr: u64) -> i32 {
    call("cuMemFree_v2", || {
        let current = context::required()?;
        if ptr == 0 {
            return Ok(());
        }
        let range = allocations::to_free(ptr)?;
        context::required_on(range.device, "the memory")?;
        allocations::free(&range);
        context::health(current)
    })
}

#[unsafe(no_mangle)]
extern "C" fn cuMemFreeAsync(ptr: u64, stream: usize) -> i32 {
    call("cuMemFreeAsync", || {
        let stream = stream::find(stream)?;
        let range = allocations::to_free(ptr)?;
        context::required_on(range.device, "the memory")?;
        allocations::let_go(&range);
        submit(&stream, "cuMemFreeAsync", Box::new(move || allocations::free(&range)))
    })
}

#[unsafe(no_mangle)]
extern "C" fn cuMemGetInfo_v2(free: *mut usize, total: *mut usize) -> i32 {
    call("cuMemGetInfo_v2", || {
        let (left, all) = allocations::info(context::required()?);
        put(free, left)?;
        put(total, all)
    })
}

#[unsafe(no_mangle)]
extern "C" fn cuMemGetAddressRange_v2(base: *mut u64, len: *mut usize, ptr: u64) -> i32 {
    call("cuMemGetAddressRange_v2", || {
        context::required()?;
        let range = allocations::device_range(ptr, 0).map_err(|_| codes::INVALID_VALUE)?;
        if !base.is_null() {
            put(base, range.allocation)?;
        }
        if len.is_null() { Ok(()) } else { put(len, range.allocation_len) }
    })
}

#[unsafe(no_mangle)]
extern "C" fn cuMemHostAlloc(ptr: *mut usize, len: usize, flags: u32) -> i32 {
    call("cuMemHostAlloc", || put(ptr, pinned::allocate(context::required()?, len, flags)?))
}

#[unsafe(no_mangle)]
extern "C" fn cuMemAllocHost_v2(ptr: *mut usize, len: usize) -> i32 {
    call("cuMemAllocHost_v2", || put(ptr, pinned::allocate(context::required()?, len, 0)?))
}

#[unsafe(no_mangle)]
extern "C" fn cuMemFreeHost(ptr: usize) -> i32 {
    call("cuMemFreeHost", || {
        context::required()?;
        pinned::free(ptr)
    })
}

#[unsafe(no_mangle)]
extern "C" fn cuMemHostRegister_v2(ptr: usize, len: usize, flags: u32) -> i32 {
    call("cuMemHostRegister_v2", || pinned::register(context::required()?, ptr, len, flags))
}

#[unsafe(no_mangle)]
extern "C" fn cuMemHostUnregister(ptr: usize) -> i32 {
    call("cuMemHostUnregister", || {
        context::required()?;
        pinned::unregister(ptr)
    })
}

/// With unified addressing the device's address of host memory is the host's.
#[unsafe(no_mangle)]
extern "C" fn cuMemHostGetDevicePointer_v2(device_ptr: *mut u64, ptr: usize, _flags: u32) -> i32 {
    call("cuMemHostGetDevicePointer_v2", || {
        context::required()?;
        if !pinned::is_registered_host(ptr, 1) {
            return wrong(codes::INVALID_VALUE, format!("{ptr:#x} is not registered"));
        }
        put(device_ptr, ptr as u64)
    })
}

#[unsafe(no_mangle)]
extern "C" fn cuMemHostGetFlags(flags: *mut u32, ptr: usize) -> i32 {
    call("cuMemHostGetFlags", || {
        context::required()?;
        put(flags, pinned::containing(ptr).ok_or(codes::INVALID_VALUE)?.1.flags)
    })
}

#[unsafe(no_mangle)]
extern "C" fn cuPointerGetAttribute(data: *mut c_void, attribute: c_int, ptr: u64) -> i32 {
    call("cuPointerGetAttribute", || {
        context::required()?;
        put_attribute(data, attribute, ptr)
    })
}

/// An attribute that a pointer does not have is left as 0, as the driver documents.
#[unsafe(no_mangle)]
extern "C" fn cuPointerGetAttributes(count: u32, attributes: *const c_int, data: *const *mut c_void, ptr: u64) -> i32 {
    call("cuPointerGetAttributes", || {
        context::required()?;
        if attributes.is_null() || data.is_null() {
            return Err(codes::INVALID_VALUE);
        }
        for index in 0..count as usize {
            // SAFETY: the caller gives two arrays of `count` elements, and they are not null.
            let (attribute, to) = unsafe { (*attributes.add(index), *data.add(index)) };
            match put_attribute(to, attribute, ptr) {
                Err(codes::INVALID_VALUE) if matches!(attribute, 1 | 3 | 4 | 11) => put(to.cast::<u64>(), 0)?,
                Err(codes::INVALID_VALUE) => put(to.cast::<u32>(), 0)?,
                other => other?,
            }
        }
        Ok(())
    })
}

/// By the numbers of CUpointer_attribute; each has its own width.
fn put_attribute(to: *mut c_void, attribute: c_int, ptr: u64) -> Answer {
    const HOST: u32 = 1;
    const DEVICE: u32 = 2;
    let range = allocations::device_range(ptr, 0).ok();
    let host = pinned::containing(ptr as usize);
    let (kind, device, start, len) = match (&range, &host) {
        (Some(range), _) => (DEVICE, range.device, range.allocation, range.allocation_len),
        (_, Some((start, one))) => (HOST, one.device, *start as u64, one.len),
        _ => return Err(codes::INVALID_VALUE),
    };
    match attribute {
        1 => put(to.cast::<usize>(), context::handle_of(device)),
        2 => put(to.cast::<u32>(), kind),
        3 => put(to.cast::<u64>(), ptr),
        4 if kind == HOST => put(to.cast::<u64>(), ptr),
        6 | 8 => put(to.cast::<u8>(), 0),
        7 => put(to.cast::<u64>(), start),
        9 => put(to.cast::<c_int>(), device as c_int),
        11 => put(to.cast::<u64>(), start),
        12 => put(to.cast::<usize>(), len),
        13 => put(to.cast::<u8>(), 1),
        15 => put(to.cast::<u8>(), u8::from(kind == DEVICE)),
        _ => Err(codes::INVALID_VALUE),
    }
}
