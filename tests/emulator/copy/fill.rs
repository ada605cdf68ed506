//! cuMemset*.
use crate::call::{Answer, call, wrong};
use crate::memory::{self, Hold};
use crate::stream::{self, submit};
use crate::{codes, context, violations};

/// Fills `count` elements with a pattern, in the order of the stream.
fn fill(call: &'static str, ptr: u64, pattern: &[u8], count: usize, handle: usize) -> Answer {
    let stream = stream::find(handle)?;
    let len = count.checked_mul(pattern.len()).ok_or(codes::INVALID_VALUE)?;
    if len == 0 {
        return Ok(());
    }
    let range = memory::device_range(ptr, len).or_else(|why| wrong(codes::INVALID_VALUE, why))?;
    if range.device != stream.device {
        return wrong(codes::INVALID_CONTEXT, format!("{ptr:#x} is memory of device {}", range.device));
    }
    let (pattern, hold) = (pattern.to_vec(), memory::hold(ptr, len, call));
    submit(&stream, call, Box::new(move || carry_out(call, ptr, len, &pattern, hold)))
}

fn carry_out(call: &str, ptr: u64, len: usize, pattern: &[u8], _hold: Hold) {
    let to = match memory::live_range(ptr, len) {
        Ok(range) => range.shadow,
        Err(why) => return violations::report(format!("{call}: when it was carried out, {why}")),
    };
    if let [byte] = pattern {
        // SAFETY: the range is in the shadow of a live allocation, and the hold keeps it there.
        return unsafe { to.write_bytes(*byte, len) };
    }
    for at in (0..len).step_by(pattern.len()) {
        // SAFETY: as above; `len` is a multiple of the pattern.
        unsafe { to.add(at).copy_from_nonoverlapping(pattern.as_ptr(), pattern.len()) };
    }
}

#[unsafe(no_mangle)]
extern "C" fn cuMemsetD8Async(ptr: u64, value: u8, count: usize, stream: usize) -> i32 {
    call("cuMemsetD8Async", || fill("cuMemsetD8Async", ptr, &[value], count, stream))
}

#[unsafe(no_mangle)]
extern "C" fn cuMemsetD32Async(ptr: u64, value: u32, count: usize, stream: usize) -> i32 {
    call("cuMemsetD32Async", || fill("cuMemsetD32Async", ptr, &value.to_ne_bytes(), count, stream))
}

#[unsafe(no_mangle)]
extern "C" fn cuMemsetD8_v2(ptr: u64, value: u8, count: usize) -> i32 {
    call("cuMemsetD8_v2", || {
        fill("cuMemsetD8_v2", ptr, &[value], count, 0)?;
        let stream = stream::find(0)?;
        stream.wait_for(stream.pushed());
        context::health(stream.device)
    })
}
