//! Which streams there are: those created, and the default ones of each device and thread.
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use std::thread::{self, ThreadId};
use std::time::{Duration, Instant};

use super::{Kind, NON_BLOCKING, Stream, worker};
use crate::call::{Answer, wrong};
use crate::sync::lock;
use crate::{codes, context, violations};

/// The handles of the default streams, beside 0: CU_STREAM_LEGACY and CU_STREAM_PER_THREAD.
const LEGACY: usize = 1;
const PER_THREAD: usize = 2;
/// Where handles of created streams begin; each is the next multiple of 16.
const FIRST: usize = 0x057e_a000_0000;

#[derive(Debug)]
struct Streams {
    next: usize,
    created: BTreeMap<usize, Arc<Stream>>,
    destroyed: BTreeSet<usize>,
    /// Those destroyed with work queued, while it lasts.
    ending: Vec<Arc<Stream>>,
    legacy: BTreeMap<usize, Arc<Stream>>,
    per_thread: Vec<(ThreadId, Arc<Stream>)>,
}

static STREAMS: Mutex<Streams> = Mutex::new(Streams {
    next: FIRST,
    created: BTreeMap::new(),
    destroyed: BTreeSet::new(),
    ending: Vec::new(),
    legacy: BTreeMap::new(),
    per_thread: Vec::new(),
});

/// The stream of a handle, for work: its context must be current.
pub fn find(handle: usize) -> Answer<Arc<Stream>> {
    let device = context::required()?;
    match handle {
        0 | LEGACY => legacy(device),
        PER_THREAD => per_thread(device),
        _ => {
            let stream = created(handle)?;
            context::required_on(stream.device, "the stream")?;
            Ok(stream)
        }
    }
}

/// A stream that was created and not destroyed.
fn created(handle: usize) -> Answer<Arc<Stream>> {
    let streams = lock(&STREAMS);
    match streams.created.get(&handle) {
        Some(stream) => Ok(Arc::clone(stream)),
        None if streams.destroyed.contains(&handle) => {
            wrong(codes::INVALID_HANDLE, format!("stream {handle:#x} was destroyed before"))
        }
        None => wrong(codes::INVALID_HANDLE, format!("{handle:#x} is not a stream")),
    }
}

pub fn exists(handle: usize) -> bool {
    handle <= PER_THREAD || lock(&STREAMS).created.contains_key(&handle)
}

pub fn create(device: usize, flags: u32, priority: i32) -> Answer<usize> {
    let mut streams = lock(&STREAMS);
    let stream = start(&mut streams, device, flags, priority)?;
    let id = stream.id;
    streams.created.insert(id, stream);
    Ok(id)
}

/// Takes a stream from the table. What is queued is still done.
pub fn destroy(handle: usize) -> Answer {
    if handle <= PER_THREAD {
        return wrong(codes::INVALID_HANDLE, "a default stream cannot be destroyed");
    }
    let stream = created(handle)?;
    {
        let mut streams = lock(&STREAMS);
        streams.created.remove(&handle);
        streams.destroyed.insert(handle);
        streams.ending.retain(|one| !one.is_idle());
        streams.ending.push(Arc::clone(&stream));
    }
    if !stream.is_idle() {
        violations::note(format!("cuStreamDestroy_v2: stream {handle:#x} still has work queued"));
    }
    close(&stream);
    Ok(())
}

fn close(stream: &Stream) {
    lock(&stream.state).closed = true;
    stream.changed.notify_all();
}

/// The default stream that all blocking streams of a device wait for, and that waits for them.
pub fn legacy(device: usize) -> Answer<Arc<Stream>> {
    let mut streams = lock(&STREAMS);
    if let Some(stream) = streams.legacy.get(&device) {
        return Ok(Arc::clone(stream));
    }
    let stream = start(&mut streams, device, 0, 0)?;
    streams.legacy.insert(device, Arc::clone(&stream));
    Ok(stream)
}

fn per_thread(device: usize) -> Answer<Arc<Stream>> {
    let (me, mut streams) = (thread::current().id(), lock(&STREAMS));
    if let Some((_, stream)) = streams.per_thread.iter().find(|(id, one)| *id == me && one.device == device) {
        return Ok(Arc::clone(stream));
    }
    let stream = start(&mut streams, device, 0, 0)?;
    streams.per_thread.push((me, Arc::clone(&stream)));
    Ok(stream)
}

fn start(streams: &mut Streams, device: usize, flags: u32, priority: i32) -> Answer<Arc<Stream>> {
    let id = streams.next;
    streams.next += 16;
    let (state, changed) = Default::default();
    let stream = Arc::new(Stream { id, device, flags, priority, state, changed });
    worker::start(Arc::clone(&stream))?;
    Ok(stream)
}

/// Before work goes to a blocking stream it waits for the legacy stream; before it goes to that one, for all of them.
pub fn order_with_legacy(stream: &Arc<Stream>) {
    if stream.flags & NON_BLOCKING != 0 {
        return;
    }
    let streams = lock(&STREAMS);
    let Some(legacy) = streams.legacy.get(&stream.device) else { return };
    let first = if legacy.id == stream.id {
        of_device(&streams, stream.device).filter(|one| one.is_blocking() && one.id != stream.id).collect()
    } else {
        vec![Arc::clone(legacy)]
    };
    drop(streams);
    for other in first {
        let number = other.pushed();
        if !other.is_idle() {
            stream.push("the default stream's order", Kind::Marker, Box::new(move || other.wait_for(number)));
        }
    }
}

fn of_device(streams: &Streams, device: usize) -> impl Iterator<Item = Arc<Stream>> {
    let default = streams.legacy.values().chain(streams.per_thread.iter().map(|(_, stream)| stream));
    streams.created.values().chain(&streams.ending).chain(default).filter(move |one| one.device == device).cloned()
}

/// Waits for all that is queued on a device.
pub fn synchronize_device(device: usize) {
    let all: Vec<Arc<Stream>> = of_device(&lock(&STREAMS), device).collect();
    for stream in all {
        stream.wait_for(stream.pushed());
    }
}

pub fn alive(which: impl Fn(usize) -> bool) -> Vec<String> {
    let streams = lock(&STREAMS);
    let chosen = streams.created.values().filter(|stream| which(stream.device));
    chosen.map(|stream| format!("stream {:#x} of device {}", stream.id, stream.device)).collect()
}

/// Ends the streams of a context when their work is done, for which it waits, but not for ever.
pub fn close_device(device: usize) -> Vec<String> {
    const PATIENCE: Duration = Duration::from_secs(10);
    let all: Vec<Arc<Stream>> = of_device(&lock(&STREAMS), device).collect();
    let end = Instant::now() + PATIENCE;
    while all.iter().any(|stream| !stream.is_idle()) {
        if Instant::now() > end {
            violations::report(format!("the context of device {device} was released with work that does not end"));
            break;
        }
        thread::sleep(Duration::from_micros(200));
    }
    let lost = alive(|which| which == device);
    all.iter().for_each(|stream| close(stream));
    let mut streams = lock(&STREAMS);
    let Streams { created, destroyed, legacy, per_thread, .. } = &mut *streams;
    created.retain(|&id, stream| {
        let stays = stream.device != device;
        if !stays {
            destroyed.insert(id);
        }
        stays
    });
    legacy.remove(&device);
    per_thread.retain(|(_, stream)| stream.device != device);
    lost
}
