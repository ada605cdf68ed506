//! Captures of streams into graphs, after the driver's rules: what is given to a stream meanwhile is not run, and a call that a
//! capture does not allow fails and invalidates it. Graphs are never launched here.
use std::collections::BTreeMap;
use std::ffi::c_int;
use std::sync::Mutex;
use std::thread::{self, ThreadId};

use super::table::find;
use crate::call::{Answer, call, put};
use crate::sync::lock;
use crate::{codes, context};

pub const GLOBAL: u32 = 0;
pub const RELAXED: u32 = 2;

struct Capture {
    mode: u32,
    thread: ThreadId,
    is_invalid: bool,
}

/// By the stream's handle.
static CAPTURES: Mutex<BTreeMap<usize, Capture>> = Mutex::new(BTreeMap::new());

/// Calls that could order work behind the back of a capture: all that wait, ask, allocate or free.
const UNSAFE: [&str; 10] = [
    "cuEventQuery",
    "cuEventSynchronize",
    "cuStreamQuery",
    "cuStreamSynchronize",
    "cuCtxSynchronize",
    "cuMemAlloc_v2",
    "cuMemFree_v2",
    "cuMemHostRegister_v2",
    "cuMemHostUnregister",
    "cuMemHostAlloc",
];

/// Refuses an unsafe call of a thread that captures bind, and invalidates these.
pub fn permit(name: &str) -> Answer {
    if !UNSAFE.contains(&name) {
        return Ok(());
    }
    let (mode, this) = (context::capture_mode(), thread::current().id());
    let mut captures = lock(&CAPTURES);
    let mut outcome = Ok(());
    for capture in captures.values_mut() {
        let is_own = capture.thread == this && capture.mode != RELAXED;
        let binds = mode != RELAXED && is_own || mode == GLOBAL && capture.mode == GLOBAL;
        if binds {
            capture.is_invalid = true;
            outcome = Err(codes::STREAM_CAPTURE_UNSUPPORTED);
        }
    }
    outcome
}

/// Whether what is given to the stream becomes a part of a graph.
pub fn takes(stream: usize) -> bool {
    lock(&CAPTURES).contains_key(&stream)
}

/// For what no stream may be asked while it is captured.
pub fn refuse_captured(stream: usize) -> Answer {
    match lock(&CAPTURES).get_mut(&stream) {
        None => Ok(()),
        Some(capture) => {
            capture.is_invalid = true;
            Err(codes::STREAM_CAPTURE_UNSUPPORTED)
        }
    }
}

/// An event of a captured stream was asked for.
pub fn ask_captured_event() -> Answer {
    lock(&CAPTURES).values_mut().for_each(|capture| capture.is_invalid = true);
    Err(codes::CAPTURED_EVENT)
}

#[unsafe(no_mangle)]
extern "C" fn cuStreamBeginCapture_v2(stream: usize, mode: u32) -> i32 {
    call("cuStreamBeginCapture_v2", || {
        let stream = find(stream)?;
        if mode > RELAXED {
            return Err(codes::INVALID_VALUE);
        }
        let capture = Capture { mode, thread: thread::current().id(), is_invalid: false };
        match lock(&CAPTURES).insert(stream.id, capture) {
            None => Ok(()),
            Some(_) => Err(codes::ILLEGAL_STATE),
        }
    })
}

#[unsafe(no_mangle)]
extern "C" fn cuStreamEndCapture(stream: usize, graph: *mut usize) -> i32 {
    call("cuStreamEndCapture", || {
        let stream = find(stream)?;
        let capture = lock(&CAPTURES).remove(&stream.id).ok_or(codes::ILLEGAL_STATE)?;
        put(graph, if capture.is_invalid { 0 } else { 0x9a40 })?;
        if capture.is_invalid { Err(codes::STREAM_CAPTURE_INVALIDATED) } else { Ok(()) }
    })
}

#[unsafe(no_mangle)]
extern "C" fn cuStreamIsCapturing(stream: usize, status: *mut c_int) -> i32 {
    call("cuStreamIsCapturing", || {
        let stream = find(stream)?;
        let captures = lock(&CAPTURES);
        put(status, captures.get(&stream.id).map_or(0, |capture| if capture.is_invalid { 2 } else { 1 }))
    })
}

#[unsafe(no_mangle)]
extern "C" fn cuGraphDestroy(_: usize) -> i32 {
    call("cuGraphDestroy", || Ok(()))
}
