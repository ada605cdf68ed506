//! The synchronous calls.

use super::abi::{Handle, IoVec, code};
use super::stats::Through;
use super::transfer::Request;
use super::{gate, peek};
use std::ffi::{c_long, c_uint, c_void};

#[unsafe(no_mangle)]
pub extern "C" fn cuFileRead(
    fh: Handle,
    base: *mut c_void,
    size: usize,
    file_offset: c_long,
    base_offset: c_long,
) -> isize {
    one("cuFileRead", false, fh, base, size, file_offset, base_offset)
}

#[unsafe(no_mangle)]
pub extern "C" fn cuFileWrite(
    fh: Handle,
    base: *const c_void,
    size: usize,
    file_offset: c_long,
    base_offset: c_long,
) -> isize {
    one("cuFileWrite", true, fh, base.cast_mut(), size, file_offset, base_offset)
}

#[unsafe(no_mangle)]
pub extern "C" fn cuFileReadv(
    fh: Handle,
    iov: *const IoVec,
    count: usize,
    file_offset: c_long,
    flags: c_uint,
) -> isize {
    several("cuFileReadv", false, fh, iov, count, file_offset, flags)
}

#[unsafe(no_mangle)]
pub extern "C" fn cuFileWritev(
    fh: Handle,
    iov: *const IoVec,
    count: usize,
    file_offset: c_long,
    flags: c_uint,
) -> isize {
    several("cuFileWritev", true, fh, iov, count, file_offset, flags)
}

fn one(
    what: &'static str,
    write: bool,
    fh: Handle,
    base: *mut c_void,
    size: usize,
    file_offset: i64,
    base_offset: i64,
) -> isize {
    let result = enter(what).and_then(|(most, device)| {
        let (handle, base, through) = (fh as usize, base as u64, Through::Call);
        let request = Request { what, through, write, handle, base, size, file_offset, base_offset, device };
        request.prepare()?.run(most)
    });
    size_or_error(result)
}

/// One piece after the other, until one comes short.
fn several(
    what: &'static str,
    write: bool,
    fh: Handle,
    iov: *const IoVec,
    count: usize,
    file_offset: i64,
    flags: c_uint,
) -> isize {
    let result = enter(what).and_then(|(most, device)| {
        if iov.is_null() || count == 0 || flags != 0 {
            return Err(code::INVALID_VALUE);
        }
        let mut done = 0usize;
        for index in 0..count {
            let place = (iov as usize).wrapping_add(index.wrapping_mul(size_of::<IoVec>()));
            let piece: IoVec = peek::read(place).ok_or(code::INVALID_VALUE)?;
            let (handle, base, size, through) = (fh as usize, piece.base as u64, piece.len, Through::Vector);
            let file_offset = file_offset.saturating_add(done as i64);
            let request = Request { what, through, write, handle, base, size, file_offset, base_offset: 0, device };
            let left = most.map(|most| most.saturating_sub(done as u64));
            let moved = request.prepare()?.run(left)?;
            done += moved;
            if moved < size {
                break;
            }
        }
        Ok(done)
    });
    size_or_error(result)
}

fn enter(what: &'static str) -> Result<(Option<u64>, usize), i32> {
    let entered = gate::enter_open(what).and_then(|most| Ok((most, gate::current_device(what)?)));
    entered.map_err(|status| status.err)
}

fn size_or_error(result: Result<usize, i32>) -> isize {
    match result {
        Ok(bytes) => bytes as isize,
        Err(code) => gate::negative(code),
    }
}
