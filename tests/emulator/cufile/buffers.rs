//! Registered device memory: known by the address it was registered with, measured in bytes.

use super::abi::{Status, code};
use super::{counters, gate, settings, state, stats};
use crate::{memory, violations};
use std::ffi::{c_int, c_void};
use std::sync::Arc;

/// Registered memory. While this lives, freeing the memory is a violation.
#[derive(Debug)]
pub struct Buffer {
    pub len: usize,
    pub device: usize,
    pub uses: Arc<()>,
    _hold: memory::Hold,
}

#[unsafe(no_mangle)]
pub extern "C" fn cuFileBufRegister(base: *const c_void, length: usize, flags: c_int) -> Status {
    gate::answer(gate::enter_open("cuFileBufRegister").and_then(|_| {
        let result = register(base as u64, length, flags);
        stats::operation(|level1| &mut level1.buf_register_ops, result.is_ok());
        result
    }))
}

#[unsafe(no_mangle)]
pub extern "C" fn cuFileBufDeregister(base: *const c_void) -> Status {
    gate::answer(gate::enter_open("cuFileBufDeregister").and_then(|_| {
        gate::current_device("cuFileBufDeregister")?;
        let buffer = state::lock().buffers.remove(&(base as u64));
        stats::operation(|level1| &mut level1.buf_deregister_ops, buffer.is_some());
        let buffer = buffer.ok_or(Status::of(code::MEMORY_NOT_REGISTERED))?;
        stats::unregistered(buffer.device, buffer.len as u64);
        if Arc::strong_count(&buffer.uses) > 1 {
            violations::report(format!("cuFileBufDeregister: operations on {base:p} are in flight"));
        }
        Ok(())
    }))
}

fn register(base: u64, length: usize, flags: c_int) -> Result<(), Status> {
    let current = gate::current_device("cuFileBufRegister")?;
    if base == 0 || length == 0 || flags != 0 {
        return Err(Status::of(code::INVALID_VALUE));
    }
    let hold = memory::hold(base, length, "a registration with cuFile");
    let range = memory::device_range(base, length).map_err(|_| {
        // Its first byte tells memory that is too short from memory of another kind.
        let is_device = memory::device_range(base, 1).is_ok();
        Status::of(if is_device { code::CUDA_POINTER_RANGE_ERROR } else { code::CUDA_MEMORY_TYPE_INVALID })
    })?;
    if range.device != current {
        violations::report(format!(
            "cuFileBufRegister: {base:#x} is memory of device {}, and device {current} is current",
            range.device
        ));
        return Err(Status::of(code::CUDA_CONTEXT_MISMATCH));
    }
    let mut state = state::lock();
    let end = base.saturating_add(length as u64);
    if state.buffers.range(..end).any(|(start, buffer)| start.saturating_add(buffer.len as u64) > base) {
        return Err(Status::of(code::MEMORY_ALREADY_REGISTERED));
    }
    let on_device = state.buffers.values().filter(|buffer| buffer.device == range.device);
    let pinned: u64 = on_device.map(|buffer| buffer.len as u64).sum();
    if pinned.saturating_add(length as u64) > settings::pinned_limit() {
        return Err(Status::of(code::INVALID_MAPPING_SIZE));
    }
    state.buffers.insert(base, Buffer { len: length, device: range.device, uses: Arc::new(()), _hold: hold });
    drop(state);
    stats::registered(range.device, length as u64);
    counters::add(&counters::BUFFER_REGISTRATIONS, 1);
    Ok(())
}
