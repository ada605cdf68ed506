//! The functions in place of cuFile's and the driver's.

use std::ffi::{c_int, c_uint, c_void};
use std::ptr;

use nix::libc::timespec;

use super::super::super::Context;
use super::super::super::context::Driver;
use super::world::{CONTEXT, CURRENT, Entry, Queued, with};
use crate::sys::cuda::{CudaCode, Event, Stream};
use crate::sys::cufile::{
    BatchCalls, BatchHandle, Calls, Descriptor, FileHandle, IoEvent, IoParams, Properties, Status, StreamCalls,
    io_status,
};

pub(super) const WELL: Status = Status { err: 0, cu_err: 0 };

fn bound(what: &str) {
    if CURRENT.get() != CONTEXT {
        with(|world| world.say(&format!("{what}: no context")));
    }
}

extern "C" fn driver_open() -> Status {
    bound("open");
    with(|world| {
        world.say("open");
        Status { err: world.open_answer, cu_err: 0 }
    })
}

unsafe extern "C" fn driver_properties(properties: *mut Properties) -> Status {
    let max_batch_io_size = with(|world| world.max_batch);
    // SAFETY: the caller gives room for one.
    unsafe { properties.write(Properties { max_batch_io_size, feature_flags: 6, ..Properties::default() }) };
    WELL
}

unsafe extern "C" fn handle_register(handle: *mut FileHandle, descriptor: *mut Descriptor) -> Status {
    // SAFETY: the caller gives both.
    unsafe {
        assert!((*descriptor).fd() > 2);
        handle.write(ptr::without_provenance_mut(0xf1));
    }
    WELL
}

extern "C" fn handle_deregister(_: FileHandle) {
    with(|world| world.say("deregister handle"));
}

extern "C" fn buffer_register(_: *const c_void, bytes: usize, flags: c_int) -> Status {
    bound("register");
    with(|world| world.say(&format!("register {bytes} {flags}")));
    WELL
}

extern "C" fn buffer_deregister(_: *const c_void) -> Status {
    bound("deregister");
    with(|world| world.say("deregister"));
    WELL
}

extern "C" fn read(_: FileHandle, base: *mut c_void, bytes: usize, file_offset: i64, buffer_offset: i64) -> isize {
    bound("read");
    with(|world| {
        world.say("read");
        world.read(base.expose_provenance(), bytes, file_offset, buffer_offset)
    })
}

unsafe extern "C" fn set_up(batch: *mut BatchHandle, _: c_uint) -> Status {
    bound("set up");
    let id = with(|world| {
        world.say("set up");
        world.next += 1;
        let id = world.next;
        world.batches.insert(id, Vec::new());
        id
    });
    // SAFETY: the caller gives room for one.
    unsafe { batch.write(ptr::without_provenance_mut(id)) };
    WELL
}

unsafe extern "C" fn submit(batch: BatchHandle, count: c_uint, params: *mut IoParams, _: c_uint) -> Status {
    bound("submit");
    // SAFETY: the caller gives so many.
    let params = unsafe { std::slice::from_raw_parts(params, count as usize) };
    with(|world| {
        world.say("submit");
        if !world.batches[&batch.addr()].is_empty() {
            world.say("a batch was filled before it was done");
        }
        for entry in params {
            let ret = world.read(entry.base.expose_provenance(), entry.size, entry.file_offset, entry.buffer_offset);
            world.batches.get_mut(&batch.addr()).unwrap().push(Entry { cookie: entry.cookie.addr(), ret });
        }
        world.in_flight += params.len();
        world.most_in_flight = world.most_in_flight.max(world.in_flight);
    });
    WELL
}

unsafe extern "C" fn status(
    batch: BatchHandle,
    least: c_uint,
    count: *mut c_uint,
    events: *mut IoEvent,
    wait: *mut timespec,
) -> Status {
    // SAFETY: the caller gives both, and room for so many events.
    let room = unsafe {
        assert!((*wait).tv_sec == 0 && (*wait).tv_nsec == 0 && least == 0, "it would block");
        *count as usize
    };
    with(|world| {
        if world.failing_polls > 0 {
            world.failing_polls -= 1;
            return Status { err: 5041, cu_err: 0 };
        }
        let mut told = std::mem::take(&mut world.false_events);
        if !world.hold {
            for Entry { cookie, ret } in std::mem::take(world.batches.get_mut(&batch.addr()).unwrap()) {
                world.in_flight -= 1;
                let (state, ret) = world.entries.pop_front().unwrap_or((io_status::COMPLETE, ret));
                told.push((cookie, state, ret));
            }
        }
        told.truncate(room);
        for (at, &(cookie, status, ret)) in told.iter().enumerate() {
            let event = IoEvent { cookie: ptr::without_provenance_mut(cookie), status, ret: ret.cast_unsigned() };
            // SAFETY: as above.
            unsafe { events.add(at).write(event) };
        }
        // SAFETY: as above.
        unsafe { count.write(told.len() as c_uint) };
        WELL
    })
}

extern "C" fn cancel(_: BatchHandle) -> Status {
    with(|world| world.say("cancel"));
    WELL
}

extern "C" fn destroy(batch: BatchHandle) {
    with(|world| {
        world.say("destroy");
        if !world.batches.remove(&batch.addr()).unwrap().is_empty() {
            world.say("a batch was destroyed before it was done");
        }
    });
}

extern "C" fn stream_register(_: Stream, flags: c_uint) -> Status {
    bound("register stream");
    with(|world| world.say(&format!("register stream {flags}")));
    WELL
}

extern "C" fn stream_deregister(_: Stream) -> Status {
    with(|world| world.say("deregister stream"));
    WELL
}

extern "C" fn stream_read(
    _: FileHandle,
    base: *mut c_void,
    bytes: *mut usize,
    file_offset: *mut i64,
    buffer_offset: *mut i64,
    read: *mut isize,
    _: Stream,
) -> Status {
    bound("order");
    with(|world| {
        let numbers = [
            base.expose_provenance(),
            bytes.expose_provenance(),
            file_offset.expose_provenance(),
            buffer_offset.expose_provenance(),
            read.expose_provenance(),
        ];
        world.stream.push_back(Queued::Read(numbers));
        let in_flight = world.stream.iter().filter(|queued| matches!(queued, Queued::Read(_))).count();
        world.most_in_flight = world.most_in_flight.max(in_flight);
    });
    WELL
}

unsafe extern "C" fn current(context: *mut *mut c_void) -> c_int {
    // SAFETY: the caller gives room for one.
    unsafe { context.write(CURRENT.get()) };
    0
}

extern "C" fn set_current(context: *mut c_void) -> c_int {
    CURRENT.set(context);
    0
}

unsafe extern "C" fn create(handle: *mut *mut c_void, _: c_uint) -> c_int {
    let id = with(|world| {
        world.next += 1;
        world.next
    });
    // SAFETY: the caller gives room for one.
    unsafe { handle.write(ptr::without_provenance_mut(id)) };
    0
}

extern "C" fn stream_destroy(_: Stream) -> c_int {
    with(|world| world.say("destroy stream"));
    0
}

extern "C" fn event_record(event: Event, _: Stream) -> c_int {
    with(|world| world.stream.push_back(Queued::Mark(event.addr())));
    0
}

/// The stream runs when it is asked how far it is: not before, so that what is freed too early is gone by then.
extern "C" fn event_query(event: Event) -> c_int {
    with(|world| {
        if let Some(answer) = world.event_answers.pop_front() {
            return answer;
        }
        if !world.stream.iter().any(|queued| matches!(queued, Queued::Mark(mark) if *mark == event.addr())) {
            return 0;
        }
        while let Some(queued) = world.stream.pop_front() {
            match queued {
                Queued::Mark(mark) if mark == event.addr() => break,
                Queued::Mark(_) => {}
                Queued::Read([base, bytes, file_offset, buffer_offset, read]) => {
                    // SAFETY: the caller must have kept them until now; that is what is tried here.
                    unsafe {
                        let bytes = ptr::with_exposed_provenance::<usize>(bytes).read_volatile();
                        let file_offset = ptr::with_exposed_provenance::<i64>(file_offset).read_volatile();
                        let buffer_offset = ptr::with_exposed_provenance::<i64>(buffer_offset).read_volatile();
                        let answer = world.read(base, bytes, file_offset, buffer_offset);
                        ptr::with_exposed_provenance_mut::<isize>(read).write_volatile(answer);
                    }
                }
            }
        }
        0
    })
}

extern "C" fn event_destroy(_: Event) -> c_int {
    0
}

pub(super) fn calls() -> Calls {
    Calls {
        driver_open,
        driver_properties,
        handle_register,
        handle_deregister,
        buffer_register,
        buffer_deregister,
        read,
        batch: Some(BatchCalls { set_up, submit, status, cancel, destroy }),
        stream: Some(StreamCalls { register: stream_register, deregister: stream_deregister, read: stream_read }),
        version: None,
        parameter_bool: None,
        stats: None,
        posix_slabs: None,
        bar_size: None,
    }
}

pub(super) fn context() -> Context {
    let driver = Driver {
        current,
        set_current,
        stream_create: create,
        stream_destroy,
        event_create: create,
        event_record,
        event_query,
        event_destroy,
        leave_captures: || {},
        error: |call, code| CudaCode { call, code, name: "A_FAKE_ERROR".into() },
    };
    Context::of(Box::leak(Box::new(driver)), CONTEXT)
}
