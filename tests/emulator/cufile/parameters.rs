//! The parameters that take the place of `cufile.json`. They can be set only while the driver is closed.

use super::abi::{Status, code};
use super::{gate, state};
use std::collections::BTreeMap;
use std::ffi::{CStr, c_char, c_int};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// `CUFileSizeTConfigParameter_t`, those that are used here.
pub const MAX_DIRECT_IO_KB: u32 = 5;
pub const MAX_CACHE_KB: u32 = 6;
pub const PER_BUFFER_CACHE_KB: u32 = 7;
pub const MAX_PINNED_KB: u32 = 8;
pub const IO_BATCHSIZE: u32 = 9;
pub const POLL_THRESHOLD_KB: u32 = 10;
pub const BATCH_TIMEOUT_MS: u32 = 11;

/// `CUFileBoolConfigParameter_t`, likewise.
pub const POLL_MODE: u32 = 0;
pub const ALLOW_COMPAT: u32 = 1;
pub const FORCE_COMPAT: u32 = 2;

/// What each size is unless set, and the least and the most it may be; by number.
const SIZES: [(u64, u64, u64); 12] = [
    (0, 0, 3),
    (128, 0, 1 << 20),
    (4, 0, 128),
    (8192, 0, 1 << 20),
    (4, 0, 128),
    (16 << 10, 4, 1 << 20),
    (128 << 10, 1 << 10, 1 << 30),
    (1 << 10, 4, 1 << 20),
    (32 << 20, 1 << 10, u32::MAX as u64),
    (128, 1, 256),
    (4, 0, 1 << 20),
    (5, 1, 1 << 20),
];
const FLAGS: u32 = 14;
const STRINGS: u32 = 4;
/// Slabs of host memory that compatibility mode passes bytes through: KiB of each, and how many.
const SLABS: [(usize, usize); 3] = [(4, 128), (1024, 64), (16384, 64)];

struct Parameters {
    sizes: BTreeMap<u32, u64>,
    flags: BTreeMap<u32, bool>,
    strings: BTreeMap<u32, Vec<u8>>,
    /// Of the POSIX pool, then of the GPU bounce buffers.
    slabs: [Option<Vec<(usize, usize)>>; 2],
}

impl Parameters {
    const fn new() -> Parameters {
        Parameters { sizes: BTreeMap::new(), flags: BTreeMap::new(), strings: BTreeMap::new(), slabs: [None, None] }
    }
}

static PARAMETERS: Mutex<Parameters> = Mutex::new(Parameters::new());

fn lock() -> MutexGuard<'static, Parameters> {
    PARAMETERS.lock().unwrap_or_else(PoisonError::into_inner)
}

pub fn reset() {
    *lock() = Parameters::new();
}

pub fn size(parameter: u32) -> u64 {
    let otherwise = SIZES.get(parameter as usize).map_or(0, |(usual, ..)| *usual);
    lock().sizes.get(&parameter).copied().unwrap_or(otherwise)
}

pub fn store_size(parameter: u32, value: u64) {
    lock().sizes.insert(parameter, value);
}

pub fn flag(parameter: u32) -> bool {
    lock().flags.get(&parameter).copied().unwrap_or(matches!(parameter, ALLOW_COMPAT | 4))
}

#[unsafe(no_mangle)]
pub extern "C" fn cuFileSetParameterSizeT(parameter: u32, value: usize) -> Status {
    gate::answer(enter_closed("cuFileSetParameterSizeT").and_then(|()| {
        let (_, least, most) = SIZES.get(parameter as usize).ok_or(invalid())?;
        if !(*least..=*most).contains(&(value as u64)) {
            return Err(invalid());
        }
        store_size(parameter, value as u64);
        Ok(())
    }))
}

/// # Safety
/// `value` is null or may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuFileGetParameterSizeT(parameter: u32, value: *mut usize) -> Status {
    gate::answer(gate::enter("cuFileGetParameterSizeT").and_then(|_| {
        let value = gate::not_null(value)?;
        SIZES.get(parameter as usize).ok_or(invalid())?;
        // SAFETY: not null, and valid by this function's contract.
        unsafe { *value = size(parameter) as usize };
        Ok(())
    }))
}

/// # Safety
/// `least` and `most` are null or may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuFileGetParameterMinMaxValue(parameter: u32, least: *mut usize, most: *mut usize) -> Status {
    gate::answer(gate::enter("cuFileGetParameterMinMaxValue").and_then(|_| {
        let (least, most) = (gate::not_null(least)?, gate::not_null(most)?);
        let (_, lowest, highest) = SIZES.get(parameter as usize).ok_or(invalid())?;
        // SAFETY: not null, and valid by this function's contract.
        unsafe { (*least, *most) = (*lowest as usize, *highest as usize) };
        Ok(())
    }))
}

#[unsafe(no_mangle)]
pub extern "C" fn cuFileSetParameterBool(parameter: u32, value: bool) -> Status {
    gate::answer(enter_closed("cuFileSetParameterBool").and_then(|()| {
        if parameter >= FLAGS {
            return Err(invalid());
        }
        lock().flags.insert(parameter, value);
        Ok(())
    }))
}

/// # Safety
/// `value` is null or may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuFileGetParameterBool(parameter: u32, value: *mut bool) -> Status {
    gate::answer(gate::enter("cuFileGetParameterBool").and_then(|_| {
        let value = gate::not_null(value)?;
        if parameter >= FLAGS {
            return Err(invalid());
        }
        // SAFETY: not null, and valid by this function's contract.
        unsafe { *value = flag(parameter) };
        Ok(())
    }))
}

/// # Safety
/// `text` is null or a C string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuFileSetParameterString(parameter: u32, text: *const c_char) -> Status {
    gate::answer(enter_closed("cuFileSetParameterString").and_then(|()| {
        if parameter >= STRINGS || text.is_null() {
            return Err(invalid());
        }
        // SAFETY: not null, and a C string by this function's contract.
        let text = unsafe { CStr::from_ptr(text) };
        lock().strings.insert(parameter, text.to_bytes_with_nul().to_vec());
        Ok(())
    }))
}

/// # Safety
/// `text` is null or has room for `len` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuFileGetParameterString(parameter: u32, text: *mut c_char, len: c_int) -> Status {
    gate::answer(gate::enter("cuFileGetParameterString").and_then(|_| {
        let text = gate::not_null(text)?;
        let value = lock().strings.get(&parameter).cloned().unwrap_or_else(|| vec![0]);
        if parameter >= STRINGS || usize::try_from(len).is_ok_and(|len| len < value.len()) || len <= 0 {
            return Err(invalid());
        }
        // SAFETY: not null, with room for `len` bytes by this function's contract, and the value is no longer.
        unsafe { std::ptr::copy_nonoverlapping(value.as_ptr().cast(), text, value.len()) };
        Ok(())
    }))
}

/// # Safety
/// Both arrays are null or hold `len` numbers.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuFileSetParameterPosixPoolSlabArray(
    sizes: *const usize,
    counts: *const usize,
    len: c_int,
) -> Status {
    // SAFETY: the same contract.
    gate::answer(unsafe { set_slabs("cuFileSetParameterPosixPoolSlabArray", 0, sizes, counts, len) })
}

/// # Safety
/// Both arrays are null or have room for `len` numbers.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuFileGetParameterPosixPoolSlabArray(
    sizes: *mut usize,
    counts: *mut usize,
    len: c_int,
) -> Status {
    // SAFETY: the same contract.
    gate::answer(unsafe { copy_slabs("cuFileGetParameterPosixPoolSlabArray", 0, sizes, counts, len) })
}

/// # Safety
/// Both arrays are null or hold `len` numbers.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuFileSetParameterGpuBounceBufferSlabArray(
    sizes: *const usize,
    counts: *const usize,
    len: c_int,
) -> Status {
    // SAFETY: the same contract.
    gate::answer(unsafe { set_slabs("cuFileSetParameterGpuBounceBufferSlabArray", 1, sizes, counts, len) })
}

/// # Safety
/// Both arrays are null or have room for `len` numbers.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuFileGetParameterGpuBounceBufferSlabArray(
    sizes: *mut usize,
    counts: *mut usize,
    len: c_int,
) -> Status {
    // SAFETY: the same contract.
    gate::answer(unsafe { copy_slabs("cuFileGetParameterGpuBounceBufferSlabArray", 1, sizes, counts, len) })
}

/// # Safety
/// Both arrays are null or hold `len` numbers.
unsafe fn set_slabs(
    name: &'static str,
    pool: usize,
    sizes: *const usize,
    counts: *const usize,
    len: c_int,
) -> Result<(), Status> {
    enter_closed(name)?;
    let (sizes, counts) = (gate::not_null(sizes.cast_mut())?, gate::not_null(counts.cast_mut())?);
    let len = usize::try_from(len).ok().filter(|len| *len > 0).ok_or(invalid())?;
    // SAFETY: not null, and of that length by this function's contract.
    let slabs = unsafe { (0..len).map(|at| (*sizes.add(at), *counts.add(at))).collect() };
    if let Some(place) = lock().slabs.get_mut(pool) {
        *place = Some(slabs);
    }
    Ok(())
}

/// # Safety
/// Both arrays are null or have room for `len` numbers.
unsafe fn copy_slabs(
    name: &'static str,
    pool: usize,
    sizes: *mut usize,
    counts: *mut usize,
    len: c_int,
) -> Result<(), Status> {
    gate::enter(name)?;
    let (sizes, counts) = (gate::not_null(sizes)?, gate::not_null(counts)?);
    let slabs = lock().slabs.get(pool).cloned().flatten().unwrap_or_else(|| SLABS.to_vec());
    if usize::try_from(len) != Ok(slabs.len()) {
        return Err(invalid());
    }
    for (at, (size, count)) in slabs.into_iter().enumerate() {
        // SAFETY: not null, and of that length by this function's contract.
        unsafe { (*sizes.add(at), *counts.add(at)) = (size, count) };
    }
    Ok(())
}

fn enter_closed(name: &'static str) -> Result<(), Status> {
    gate::enter(name)?;
    if state::lock().open { Err(Status::of(code::DRIVER_ALREADY_OPEN)) } else { Ok(()) }
}

fn invalid() -> Status {
    Status::of(code::INVALID_VALUE)
}
