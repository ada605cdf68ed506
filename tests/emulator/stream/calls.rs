//! cuStream*.
use std::ffi::{c_int, c_void};

use super::table::{self, find};
use super::{Kind, capture, submit};
use crate::call::{Answer, HOST_FUNCTION, call, put};
use crate::{codes, context, event};

/// What `create` was given that a stream cannot have.
fn create(handle: *mut usize, flags: u32, priority: c_int) -> Answer {
    let device = context::required()?;
    context::health(device)?;
    if handle.is_null() || flags > 1 {
        return Err(codes::INVALID_VALUE);
    }
    put(handle, table::create(device, flags, priority)?)
}

#[unsafe(no_mangle)]
extern "C" fn cuStreamCreate(handle: *mut usize, flags: u32) -> i32 {
    call("cuStreamCreate", || create(handle, flags, 0))
}

#[unsafe(no_mangle)]
extern "C" fn cuStreamCreateWithPriority(handle: *mut usize, flags: u32, priority: c_int) -> i32 {
    call("cuStreamCreateWithPriority", || create(handle, flags, priority.clamp(-5, 0)))
}

#[unsafe(no_mangle)]
extern "C" fn cuStreamDestroy_v2(stream: usize) -> i32 {
    call("cuStreamDestroy_v2", || {
        context::required()?;
        table::destroy(stream)
    })
}

#[unsafe(no_mangle)]
extern "C" fn cuStreamSynchronize(stream: usize) -> i32 {
    call("cuStreamSynchronize", || {
        let stream = find(stream)?;
        capture::refuse_captured(stream.id)?;
        stream.wait_for(stream.pushed());
        context::health(stream.device)
    })
}

#[unsafe(no_mangle)]
extern "C" fn cuStreamQuery(stream: usize) -> i32 {
    call("cuStreamQuery", || {
        let stream = find(stream)?;
        context::health(stream.device)?;
        capture::refuse_captured(stream.id)?;
        if stream.is_idle() { Ok(()) } else { Err(codes::NOT_READY) }
    })
}

#[unsafe(no_mangle)]
extern "C" fn cuStreamWaitEvent(stream: usize, event: usize, flags: u32) -> i32 {
    call("cuStreamWaitEvent", || {
        let stream = find(stream)?;
        if flags > 1 {
            return Err(codes::INVALID_VALUE);
        }
        // An event that was never recorded holds nothing up.
        if let Some(fire) = event::latest(event)? {
            stream.push("cuStreamWaitEvent", Kind::Marker, Box::new(move || fire.wait_in_stream()));
        }
        Ok(())
    })
}

#[unsafe(no_mangle)]
extern "C" fn cuLaunchHostFunc(stream: usize, function: Option<HostFunction>, data: *mut c_void) -> i32 {
    call("cuLaunchHostFunc", || {
        let stream = find(stream)?;
        let function = function.ok_or(codes::INVALID_VALUE)?;
        let data = data as usize;
        let run = move || function(data as *mut c_void);
        submit(&stream, HOST_FUNCTION, Box::new(move || crate::memory::run_foreign(run)))
    })
}

type HostFunction = extern "C" fn(*mut c_void);

#[unsafe(no_mangle)]
extern "C" fn cuStreamGetCtx(stream: usize, context: *mut usize) -> i32 {
    call("cuStreamGetCtx", || put(context, context::handle_of(find(stream)?.device)))
}

#[unsafe(no_mangle)]
extern "C" fn cuStreamGetFlags(stream: usize, flags: *mut u32) -> i32 {
    call("cuStreamGetFlags", || put(flags, find(stream)?.flags))
}

#[unsafe(no_mangle)]
extern "C" fn cuStreamGetPriority(stream: usize, priority: *mut c_int) -> i32 {
    call("cuStreamGetPriority", || put(priority, find(stream)?.priority))
}

#[unsafe(no_mangle)]
extern "C" fn cuStreamGetId(stream: usize, id: *mut u64) -> i32 {
    call("cuStreamGetId", || put(id, find(stream)?.id as u64))
}
