//! The primary contexts of the devices, which one is current on a thread, and who may reach whose memory.
use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::ffi::c_int;
use std::sync::Mutex;

use crate::call::{Answer, call, put, wrong};
use crate::sync::lock;
use crate::{codes, control, device, event, memory, script, stream};

/// Handles are numbers that look like addresses and are none: generation and ordinal under this tag.
const TAG: usize = 0x0c0d_e000_0000;

#[derive(Debug, Default)]
struct Contexts {
    primary: Vec<Primary>,
    /// (a context's device, the device whose memory it may reach).
    peers: BTreeSet<(usize, usize)>,
}

#[derive(Debug, Clone, Copy, Default)]
struct Primary {
    retained: u32,
    /// Which life of it this is: a handle of an earlier one is dead.
    generation: usize,
    /// What every call answers after an operation went wrong on the device, until the context's end.
    fault: Option<i32>,
}

static CONTEXTS: Mutex<Contexts> = Mutex::new(Contexts { primary: Vec::new(), peers: BTreeSet::new() });

thread_local! {
    static STACK: RefCell<Vec<usize>> = const { RefCell::new(Vec::new()) };
    /// How far captures of other threads reach into this one: global, until it says otherwise.
    static CAPTURE_MODE: Cell<u32> = const { Cell::new(0) };
}

/// The device whose context is current on this thread.
pub fn current() -> Option<usize> {
    device_of(top()).ok()
}

/// The device whose context is current, or the violation that none is.
pub fn required() -> Answer<usize> {
    match top() {
        0 => wrong(codes::INVALID_CONTEXT, "no context is current on this thread"),
        handle => device_of(handle).or_else(|code| wrong(code, "the context that is current here was released")),
    }
}

/// As `required`, and it must be that device's.
pub fn required_on(wanted: usize, whose: &str) -> Answer<usize> {
    let device = required()?;
    if device != wanted {
        let what = format!("{whose} belongs to device {wanted}, but the context of device {device} is current");
        return wrong(codes::INVALID_CONTEXT, what);
    }
    Ok(device)
}

/// An operation failed on the device: from now on all of its calls do.
pub fn fail(device: usize, code: i32) {
    if let Some(primary) = lock(&CONTEXTS).primary.get_mut(device) {
        primary.fault.get_or_insert(code);
    }
}

/// What an operation on the device left behind.
pub fn health(device: usize) -> Answer {
    lock(&CONTEXTS).primary.get(device).and_then(|primary| primary.fault).map_or(Ok(()), Err)
}

/// `peers=0>1,1>0` lists who may reach whom, `peers=none` nobody; else all may.
pub fn may_access(from: usize, to: usize) -> bool {
    let listed = |list: String| list.split(',').any(|pair| pair.trim() == format!("{from}>{to}"));
    from != to && script::setting("peers").is_none_or(listed)
}

/// Whether a context of `from` may use memory of `to` now.
pub fn reaches(from: usize, to: usize) -> bool {
    from == to || lock(&CONTEXTS).peers.contains(&(from, to))
}

pub fn handle_of(device: usize) -> usize {
    let generation = lock(&CONTEXTS).primary.get(device).map_or(0, |primary| primary.generation);
    TAG | generation << 8 | device << 4
}

/// The device of a context handle that is alive.
pub fn device_of(handle: usize) -> Answer<usize> {
    let device = handle >> 4 & 0xf;
    let contexts = lock(&CONTEXTS);
    match contexts.primary.get(device) {
        Some(primary) if handle == TAG | primary.generation << 8 | device << 4 && primary.retained > 0 => Ok(device),
        Some(_) if handle & TAG == TAG => Err(codes::CONTEXT_IS_DESTROYED),
        _ => Err(codes::INVALID_CONTEXT),
    }
}

fn top() -> usize {
    STACK.try_with(|stack| stack.borrow().last().copied()).ok().flatten().unwrap_or(0)
}

fn with_stack(work: impl FnOnce(&mut Vec<usize>)) {
    let _ = STACK.try_with(|stack| work(&mut stack.borrow_mut()));
}

/// Held while a context is retained or released: who retains one that is being closed gets the next, not that one.
static RETAINING: Mutex<()> = Mutex::new(());

#[unsafe(no_mangle)]
extern "C" fn cuDevicePrimaryCtxRetain(context: *mut usize, ordinal: c_int) -> i32 {
    call("cuDevicePrimaryCtxRetain", || {
        let (index, device) = device::find(ordinal)?;
        let _whole = lock(&RETAINING);
        memory::open_device(index, device.memory)?;
        {
            let mut contexts = lock(&CONTEXTS);
            contexts.primary.resize(device::all().len(), Primary::default());
            if let Some(primary) = contexts.primary.get_mut(index) {
                primary.generation += usize::from(primary.retained == 0);
                primary.retained += 1;
            }
        }
        put(context, handle_of(index))
    })
}

#[unsafe(no_mangle)]
extern "C" fn cuDevicePrimaryCtxRelease_v2(ordinal: c_int) -> i32 {
    call("cuDevicePrimaryCtxRelease_v2", || {
        let (index, _) = device::find(ordinal)?;
        let _whole = lock(&RETAINING);
        match lock(&CONTEXTS).primary.get_mut(index) {
            Some(primary) if primary.retained > 1 => {
                primary.retained -= 1;
                return Ok(());
            }
            Some(primary) if primary.retained == 1 => {}
            _ => return wrong(codes::INVALID_CONTEXT, format!("device {index}'s context is not retained")),
        }
        close(index);
        Ok(())
    })
}

/// Ends a context: its work is waited for, and whatever was made in it and not given back is lost.
fn close(device: usize) {
    let mut lost = stream::close_device(device);
    lost.extend(event::close_device(device));
    lost.extend(memory::close_device(device));
    control::leaked(lost.into_iter().map(|what| format!("{what}, when the context of device {device} was released")));
    let mut contexts = lock(&CONTEXTS);
    contexts.peers.retain(|&(from, to)| from != device && to != device);
    if let Some(primary) = contexts.primary.get_mut(device) {
        *primary = Primary { retained: 0, fault: None, generation: primary.generation };
    }
}

#[unsafe(no_mangle)]
extern "C" fn cuDevicePrimaryCtxGetState(ordinal: c_int, flags: *mut u32, active: *mut c_int) -> i32 {
    call("cuDevicePrimaryCtxGetState", || {
        let (index, _) = device::find(ordinal)?;
        let retained = lock(&CONTEXTS).primary.get(index).is_some_and(|primary| primary.retained > 0);
        put(flags, 0)?;
        put(active, c_int::from(retained))
    })
}

#[unsafe(no_mangle)]
extern "C" fn cuCtxGetCurrent(context: *mut usize) -> i32 {
    call("cuCtxGetCurrent", || put(context, top()))
}

#[unsafe(no_mangle)]
extern "C" fn cuCtxSetCurrent(context: usize) -> i32 {
    call("cuCtxSetCurrent", || {
        if context != 0 {
            usable(context)?;
        }
        with_stack(|stack| {
            stack.pop();
            if context != 0 {
                stack.push(context);
            }
        });
        Ok(())
    })
}

#[unsafe(no_mangle)]
extern "C" fn cuCtxPushCurrent_v2(context: usize) -> i32 {
    call("cuCtxPushCurrent_v2", || {
        usable(context)?;
        with_stack(|stack| stack.push(context));
        Ok(())
    })
}

#[unsafe(no_mangle)]
extern "C" fn cuCtxPopCurrent_v2(context: *mut usize) -> i32 {
    call("cuCtxPopCurrent_v2", || {
        let popped = top();
        if popped == 0 {
            return wrong(codes::INVALID_CONTEXT, "no context is current on this thread");
        }
        with_stack(|stack| {
            stack.pop();
        });
        if context.is_null() { Ok(()) } else { put(context, popped) }
    })
}

fn usable(context: usize) -> Answer<usize> {
    device_of(context).or_else(|code| wrong(code, format!("{context:#x} is not a context that is alive")))
}

#[unsafe(no_mangle)]
extern "C" fn cuCtxGetDevice(device: *mut c_int) -> i32 {
    call("cuCtxGetDevice", || put(device, current().ok_or(codes::INVALID_CONTEXT)? as c_int))
}

#[unsafe(no_mangle)]
extern "C" fn cuCtxGetDevice_v2(device: *mut c_int, context: usize) -> i32 {
    call("cuCtxGetDevice_v2", || put(device, if context == 0 { required()? } else { usable(context)? } as c_int))
}

#[unsafe(no_mangle)]
extern "C" fn cuCtxGetApiVersion(context: usize, version: *mut u32) -> i32 {
    call("cuCtxGetApiVersion", || {
        usable(context)?;
        put(version, 3020)
    })
}

#[unsafe(no_mangle)]
extern "C" fn cuCtxGetStreamPriorityRange(least: *mut c_int, greatest: *mut c_int) -> i32 {
    call("cuCtxGetStreamPriorityRange", || {
        required()?;
        put(least, 0)?;
        put(greatest, -5)
    })
}

pub fn capture_mode() -> u32 {
    CAPTURE_MODE.get()
}

#[unsafe(no_mangle)]
extern "C" fn cuThreadExchangeStreamCaptureMode(mode: *mut u32) -> i32 {
    call("cuThreadExchangeStreamCaptureMode", || {
        // SAFETY: the caller's pointer to one number, as the driver's contract has it, or null.
        let Some(&wanted) = (unsafe { mode.as_ref() }) else { return Err(codes::INVALID_VALUE) };
        if wanted > 2 {
            return wrong(codes::INVALID_VALUE, format!("there is no mode {wanted} of stream captures"));
        }
        put(mode, CAPTURE_MODE.replace(wanted))
    })
}

#[unsafe(no_mangle)]
extern "C" fn cuCtxSynchronize() -> i32 {
    call("cuCtxSynchronize", || {
        let device = required()?;
        stream::synchronize_device(device);
        health(device)
    })
}

#[unsafe(no_mangle)]
extern "C" fn cuCtxEnablePeerAccess(peer: usize, flags: u32) -> i32 {
    call("cuCtxEnablePeerAccess", || {
        let (from, to) = (required()?, usable(peer)?);
        if flags != 0 {
            return Err(codes::INVALID_VALUE);
        }
        if from == to {
            return Err(codes::INVALID_DEVICE);
        }
        if !may_access(from, to) {
            return Err(codes::PEER_ACCESS_UNSUPPORTED);
        }
        let new = lock(&CONTEXTS).peers.insert((from, to));
        if new { Ok(()) } else { Err(codes::PEER_ACCESS_ALREADY_ENABLED) }
    })
}

#[unsafe(no_mangle)]
extern "C" fn cuCtxDisablePeerAccess(peer: usize) -> i32 {
    call("cuCtxDisablePeerAccess", || {
        let (from, to) = (required()?, usable(peer)?);
        let was = lock(&CONTEXTS).peers.remove(&(from, to));
        if was { Ok(()) } else { Err(codes::PEER_ACCESS_NOT_ENABLED) }
    })
}
