//! Events: a place in a stream that is passed, once, for each time it is recorded.
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Instant;

use crate::call::{Answer, call, put, wrong};
use crate::stream::{self, Kind};
use crate::sync::{lock, wait};
use crate::{codes, context, link};

const DISABLE_TIMING: u32 = 2;
/// Where handles begin; each is the next multiple of 16.
const FIRST: usize = 0x0e7e_4000_0000;

#[derive(Debug)]
struct Event {
    device: usize,
    flags: u32,
    latest: Option<Arc<Fire>>,
    /// It was recorded in a stream that was being captured.
    is_captured: bool,
}

/// One recording: it happens when the stream gets there.
#[derive(Debug, Default)]
pub struct Fire {
    at: Mutex<Option<Instant>>,
    passed: Condvar,
}

impl Fire {
    fn happen(&self) {
        *lock(&self.at) = Some(link::now());
        self.passed.notify_all();
    }

    fn at(&self) -> Option<Instant> {
        *lock(&self.at)
    }

    fn wait(&self) -> Instant {
        let mut at = lock(&self.at);
        loop {
            match *at {
                Some(time) => return time,
                None => at = wait(&self.passed, at),
            }
        }
    }

    /// On another stream's thread: what follows there could not begin before.
    pub fn wait_in_stream(&self) {
        link::not_before(self.wait());
    }
}

#[derive(Debug)]
struct Events {
    next: usize,
    alive: BTreeMap<usize, Event>,
    destroyed: BTreeSet<usize>,
}

static EVENTS: Mutex<Events> = Mutex::new(Events { next: FIRST, alive: BTreeMap::new(), destroyed: BTreeSet::new() });

/// Does something with an event that is alive, while a context is current.
fn with<T>(handle: usize, work: impl FnOnce(&mut Event) -> Answer<T>) -> Answer<T> {
    context::required()?;
    let mut events = lock(&EVENTS);
    if let Some(event) = events.alive.get_mut(&handle) {
        return work(event);
    }
    let what = if events.destroyed.contains(&handle) { "was destroyed before" } else { "is not an event" };
    wrong(codes::INVALID_HANDLE, format!("{handle:#x} {what}"))
}

/// Its last recording, if it was ever recorded.
pub fn latest(handle: usize) -> Answer<Option<Arc<Fire>>> {
    with(handle, |event| Ok(event.latest.clone()))
}

pub fn alive(which: impl Fn(usize) -> bool) -> Vec<String> {
    let events = lock(&EVENTS);
    let chosen = events.alive.iter().filter(|(_, event)| which(event.device));
    chosen.map(|(handle, event)| format!("event {handle:#x} of device {}", event.device)).collect()
}

pub fn close_device(device: usize) -> Vec<String> {
    let lost = alive(|which| which == device);
    let mut events = lock(&EVENTS);
    let Events { alive, destroyed, .. } = &mut *events;
    destroyed.extend(alive.iter().filter(|(_, event)| event.device == device).map(|(handle, _)| *handle));
    alive.retain(|_, event| event.device != device);
    lost
}

#[unsafe(no_mangle)]
extern "C" fn cuEventCreate(handle: *mut usize, flags: u32) -> i32 {
    call("cuEventCreate", || {
        let device = context::required()?;
        if handle.is_null() || flags > 7 {
            return Err(codes::INVALID_VALUE);
        }
        let mut events = lock(&EVENTS);
        let id = events.next;
        events.next += 16;
        events.alive.insert(id, Event { device, flags, latest: None, is_captured: false });
        put(handle, id)
    })
}

#[unsafe(no_mangle)]
extern "C" fn cuEventDestroy_v2(event: usize) -> i32 {
    call("cuEventDestroy_v2", || {
        with(event, |_| Ok(()))?;
        let mut events = lock(&EVENTS);
        events.alive.remove(&event);
        events.destroyed.insert(event);
        Ok(())
    })
}

fn record(event: usize, stream: usize) -> Answer {
    let stream = stream::find(stream)?;
    context::health(stream.device)?;
    stream::order_with_legacy(&stream);
    with(event, |event| {
        if event.device != stream.device {
            let what = format!("an event of device {} on a stream of device {}", event.device, stream.device);
            return wrong(codes::INVALID_HANDLE, what);
        }
        event.is_captured = stream::capture::takes(stream.id);
        if event.is_captured {
            return Ok(());
        }
        let fire = Arc::new(Fire::default());
        event.latest = Some(Arc::clone(&fire));
        stream.push("cuEventRecord", Kind::Marker, Box::new(move || fire.happen()));
        Ok(())
    })
}

#[unsafe(no_mangle)]
extern "C" fn cuEventRecord(event: usize, stream: usize) -> i32 {
    call("cuEventRecord", || record(event, stream))
}

#[unsafe(no_mangle)]
extern "C" fn cuEventRecordWithFlags(event: usize, stream: usize, flags: u32) -> i32 {
    call("cuEventRecordWithFlags", || if flags > 1 { Err(codes::INVALID_VALUE) } else { record(event, stream) })
}

/// Its device, and its last recording, which must not be a part of a graph.
fn asked(event: usize) -> Answer<(usize, Option<Arc<Fire>>)> {
    let (device, fire, is_captured) = with(event, |event| Ok((event.device, event.latest.clone(), event.is_captured)))?;
    if is_captured {
        stream::capture::ask_captured_event()?;
    }
    Ok((device, fire))
}

#[unsafe(no_mangle)]
extern "C" fn cuEventQuery(event: usize) -> i32 {
    call("cuEventQuery", || {
        let (device, fire) = asked(event)?;
        context::health(device)?;
        if fire.is_none_or(|fire| fire.at().is_some()) { Ok(()) } else { Err(codes::NOT_READY) }
    })
}

#[unsafe(no_mangle)]
extern "C" fn cuEventSynchronize(event: usize) -> i32 {
    call("cuEventSynchronize", || {
        let (device, fire) = asked(event)?;
        if let Some(fire) = fire {
            fire.wait();
        }
        context::health(device)
    })
}

fn elapsed(milliseconds: *mut f32, start: usize, end: usize) -> Answer {
    let time = |event| {
        with(event, |event| match &event.latest {
            Some(fire) if event.flags & DISABLE_TIMING == 0 => fire.at().ok_or(codes::NOT_READY),
            _ => Err(codes::INVALID_HANDLE),
        })
    };
    let (start, end) = (time(start)?, time(end)?);
    let seconds = match end.checked_duration_since(start) {
        Some(time) => time.as_secs_f32(),
        None => -start.duration_since(end).as_secs_f32(),
    };
    put(milliseconds, seconds * 1000.0)
}

#[unsafe(no_mangle)]
extern "C" fn cuEventElapsedTime(milliseconds: *mut f32, start: usize, end: usize) -> i32 {
    call("cuEventElapsedTime", || elapsed(milliseconds, start, end))
}

#[unsafe(no_mangle)]
extern "C" fn cuEventElapsedTime_v2(milliseconds: *mut f32, start: usize, end: usize) -> i32 {
    call("cuEventElapsedTime_v2", || elapsed(milliseconds, start, end))
}
