//! Opening and closing the driver, its properties and its limits.

use super::abi::{DrvProps, NvfsProps, Status, bit, code};
use super::counters::{IN_FLIGHT_ASYNC, IN_FLIGHT_BATCH, OPENS};
use super::settings::{self, Path};
use super::{counters, gate, parameters, state, stats};
use crate::violations;
use std::ffi::{c_char, c_int, c_long, c_uint};
use std::sync::atomic::Ordering;

#[unsafe(no_mangle)]
pub extern "C" fn cuFileDriverOpen() -> Status {
    gate::answer(gate::enter("cuFileDriverOpen").and_then(|_| open()))
}

fn open() -> Result<(), Status> {
    if state::lock().open {
        return Err(Status::of(code::DRIVER_ALREADY_OPEN));
    }
    gate::current_device("cuFileDriverOpen")?;
    if let Some(code) = settings::code("cufile_open") {
        return Err(Status::of(code));
    }
    let mut state = state::lock();
    state.poll = parameters::flag(parameters::POLL_MODE);
    state.poll_threshold = parameters::size(parameters::POLL_THRESHOLD_KB);
    state.open = true;
    counters::add(&OPENS, 1);
    Ok(())
}

/// The name before the library counted its users; it closes just the same.
#[unsafe(no_mangle)]
pub extern "C" fn cuFileDriverClose() -> Status {
    gate::answer(gate::enter_open("cuFileDriverClose").and_then(|_| close()))
}

#[unsafe(no_mangle)]
pub extern "C" fn cuFileDriverClose_v2() -> Status {
    gate::answer(gate::enter_open("cuFileDriverClose_v2").and_then(|_| close()))
}

fn close() -> Result<(), Status> {
    let busy = IN_FLIGHT_BATCH.load(Ordering::SeqCst) + IN_FLIGHT_ASYNC.load(Ordering::SeqCst);
    if busy > 0 {
        violations::report(format!("cuFileDriverClose: {busy} operations are in flight"));
    }
    let closed = state::lock().take_all();
    let (handles, buffers) = (closed.handles.len(), closed.buffers.len());
    if handles + buffers > 0 {
        violations::note(format!("cuFileDriverClose: {handles} handles and {buffers} buffers were still registered"));
    }
    drop(closed);
    stats::reset();
    Ok(())
}

#[unsafe(no_mangle)]
pub extern "C" fn cuFileUseCount() -> c_long {
    match gate::enter("cuFileUseCount") {
        Ok(_) => c_long::from(state::lock().open),
        Err(status) => -c_long::from(status.err),
    }
}

/// # Safety
/// `version` is null or may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuFileGetVersion(version: *mut c_int) -> Status {
    gate::answer(gate::enter("cuFileGetVersion").and_then(|_| {
        let version = gate::not_null(version)?;
        // SAFETY: not null, and valid by this function's contract.
        unsafe { *version = settings::number("cufile_version", 1150) as c_int };
        Ok(())
    }))
}

/// # Safety
/// `props` is null or may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuFileDriverGetProperties(props: *mut DrvProps) -> Status {
    gate::answer(gate::enter_open("cuFileDriverGetProperties").and_then(|_| {
        let props = gate::not_null(props)?;
        // SAFETY: not null, and valid by this function's contract.
        unsafe { props.write(properties()) };
        Ok(())
    }))
}

fn properties() -> DrvProps {
    let (poll, threshold) = {
        let state = state::lock();
        (state.poll, state.poll_threshold)
    };
    let path = settings::path();
    let (major_version, minor_version) = settings::nvfs_version();
    let set = |bit: u32, when: bool| if when { 1 << bit } else { 0 };
    DrvProps {
        nvfs: NvfsProps {
            major_version,
            minor_version,
            poll_thresh_size: threshold as usize,
            max_direct_io_size: settings::max_direct_io_kb() as usize,
            dstatusflags: set(bit::STATUS_NVME, path != Path::Compat) | set(bit::STATUS_NVME_P2P, path == Path::P2p),
            dcontrolflags: set(bit::CONTROL_POLL, poll) | set(bit::CONTROL_ALLOW_COMPAT, settings::compat_allowed()),
        },
        fflags: set(bit::FEATURE_BATCH, !settings::is_set("cufile_no_batch"))
            | set(bit::FEATURE_STREAMS, !settings::is_set("cufile_no_async"))
            | set(bit::FEATURE_PARALLEL, true)
            | set(bit::FEATURE_P2P, path == Path::P2p),
        max_device_cache_size: parameters::size(parameters::MAX_CACHE_KB) as c_uint,
        per_buffer_cache_size: parameters::size(parameters::PER_BUFFER_CACHE_KB) as c_uint,
        max_device_pinned_mem_size: (settings::pinned_limit() / 1024).min(u64::from(u32::MAX)) as c_uint,
        max_batch_io_size: settings::batch_limit() as c_uint,
        max_batch_io_timeout_msecs: parameters::size(parameters::BATCH_TIMEOUT_MS) as c_uint,
    }
}

#[unsafe(no_mangle)]
pub extern "C" fn cuFileDriverSetPollMode(poll: bool, threshold_kb: usize) -> Status {
    gate::answer(gate::enter_open("cuFileDriverSetPollMode").and_then(|_| {
        check_limit(threshold_kb)?;
        let mut state = state::lock();
        state.poll = poll;
        state.poll_threshold = threshold_kb as u64;
        Ok(())
    }))
}

#[unsafe(no_mangle)]
pub extern "C" fn cuFileDriverSetMaxDirectIOSize(kb: usize) -> Status {
    set_limit("cuFileDriverSetMaxDirectIOSize", parameters::MAX_DIRECT_IO_KB, kb)
}

#[unsafe(no_mangle)]
pub extern "C" fn cuFileDriverSetMaxCacheSize(kb: usize) -> Status {
    set_limit("cuFileDriverSetMaxCacheSize", parameters::MAX_CACHE_KB, kb)
}

#[unsafe(no_mangle)]
pub extern "C" fn cuFileDriverSetMaxPinnedMemSize(kb: usize) -> Status {
    set_limit("cuFileDriverSetMaxPinnedMemSize", parameters::MAX_PINNED_KB, kb)
}

fn set_limit(name: &'static str, parameter: u32, kb: usize) -> Status {
    gate::answer(gate::enter_open(name).and_then(|_| {
        check_limit(kb)?;
        parameters::store_size(parameter, kb as u64);
        Ok(())
    }))
}

/// Limits are whole blocks of 4 KiB.
fn check_limit(kb: usize) -> Result<(), Status> {
    let valid = kb > 0 && kb.is_multiple_of(4);
    if valid { Ok(()) } else { Err(Status::of(code::DRIVER_UNSUPPORTED_LIMIT)) }
}

/// # Safety
/// `kb` is null or may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuFileGetBARSizeInKB(gpu: c_int, kb: *mut usize) -> Status {
    gate::answer(gate::enter_open("cuFileGetBARSizeInKB").and_then(|_| {
        let kb = gate::not_null(kb)?;
        if gpu < 0 {
            return Err(Status::of(code::INVALID_VALUE));
        }
        // SAFETY: not null, and valid by this function's contract.
        unsafe { *kb = settings::number("cufile_bar_kb", 128 << 20) as usize };
        Ok(())
    }))
}

const P2P_FLAG_P2PDMA: c_uint = 0;
const P2P_FLAG_NVFS: c_uint = 1;

/// # Safety
/// `flags` is null or may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuFileDriverGetP2PFlags(_target: c_uint, flags: *mut c_uint) -> Status {
    gate::answer(gate::enter_open("cuFileDriverGetP2PFlags").and_then(|_| {
        let flags = gate::not_null(flags)?;
        let mask = match settings::path() {
            Path::P2p => 1 << P2P_FLAG_P2PDMA,
            Path::Nvfs => 1 << P2P_FLAG_NVFS,
            Path::Compat => 0,
        };
        // SAFETY: not null, and valid by this function's contract.
        unsafe { *flags = mask };
        Ok(())
    }))
}

/// The script alone says which path there is, so this takes no choice.
#[unsafe(no_mangle)]
pub extern "C" fn cuFileDriverSetP2PFlags(_target: c_uint, _flags: c_uint) -> Status {
    gate::answer(
        gate::enter_open("cuFileDriverSetP2PFlags").and_then(|_| Err(Status::of(code::PLATFORM_NOT_SUPPORTED))),
    )
}

#[unsafe(no_mangle)]
pub extern "C" fn cuFileExportPCIeTopology(_file: *const c_char) -> Status {
    gate::answer(
        gate::enter_open("cuFileExportPCIeTopology").and_then(|_| Err(Status::of(code::PLATFORM_NOT_SUPPORTED))),
    )
}
