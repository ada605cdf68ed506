//! Reads and writes on a stream. Size and offsets are read when the stream gets there, from where the caller put them.

use super::abi::{Handle, Status, Stream, code};
use super::counters::{IN_FLIGHT_ASYNC, InFlight};
use super::stats::Through;
use super::transfer::Request;
use super::{gate, peek, settings, state};
use crate::script::{self, Verdict};
use crate::{memory, stream, violations};
use std::ffi::{c_long, c_uint, c_void};

/// With one more in flight the operation fails with this; seen on a real machine, explained nowhere.
const MOST_IN_FLIGHT: u64 = 133;
const TOO_MANY: isize = -5;

/// Flags of `cuFileStreamRegister`.
const KNOWN_AT_SUBMISSION: u32 = 7;
const ALIGNED: u32 = 8;

/// Everything that a queued operation needs. The pointers are the caller's.
struct Operation {
    what: &'static str,
    write: bool,
    handle: usize,
    base: u64,
    pointers: Pointers,
    moved: usize,
    device: usize,
    most: Option<u64>,
    flags: u32,
    /// What the pointers led to at submission.
    promised: Option<Values>,
    too_many: bool,
    _in_flight: InFlight,
    _hold: Option<memory::Hold>,
}

#[derive(Clone, Copy)]
struct Pointers {
    size: usize,
    file_offset: usize,
    base_offset: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Values {
    size: usize,
    file_offset: i64,
    base_offset: i64,
}

#[unsafe(no_mangle)]
pub extern "C" fn cuFileReadAsync(
    fh: Handle,
    base: *mut c_void,
    size: *mut usize,
    file_offset: *mut c_long,
    base_offset: *mut c_long,
    moved: *mut isize,
    stream: Stream,
) -> Status {
    let pointers = Pointers { size: size as _, file_offset: file_offset as _, base_offset: base_offset as _ };
    gate::answer(submit("cuFileReadAsync", false, fh, base, pointers, moved, stream))
}

#[unsafe(no_mangle)]
pub extern "C" fn cuFileWriteAsync(
    fh: Handle,
    base: *mut c_void,
    size: *mut usize,
    file_offset: *mut c_long,
    base_offset: *mut c_long,
    moved: *mut isize,
    stream: Stream,
) -> Status {
    let pointers = Pointers { size: size as _, file_offset: file_offset as _, base_offset: base_offset as _ };
    gate::answer(submit("cuFileWriteAsync", true, fh, base, pointers, moved, stream))
}

fn submit(
    what: &'static str,
    write: bool,
    fh: Handle,
    base: *mut c_void,
    pointers: Pointers,
    moved: *mut isize,
    stream: Stream,
) -> Result<(), Status> {
    let most = enter(what)?;
    let device = gate::current_device(what)?;
    let promised = pointers.read();
    let Some(values) = promised.filter(|_| !moved.is_null() && !base.is_null()) else {
        return Err(Status::of(code::INVALID_VALUE));
    };
    let flags = state::lock().streams.get(&(stream as usize)).copied().unwrap_or(0);
    let (in_flight, now) = InFlight::begin(&IN_FLIGHT_ASYNC);
    let address = (base as u64).saturating_add_signed(values.base_offset);
    let held = memory::device_range(address, values.size.max(1)).is_ok();
    let operation = Operation {
        what,
        write,
        handle: fh as usize,
        base: base as u64,
        pointers,
        moved: moved as usize,
        device,
        most,
        flags,
        promised: (flags & KNOWN_AT_SUBMISSION == KNOWN_AT_SUBMISSION).then_some(values),
        too_many: now > MOST_IN_FLIGHT,
        _in_flight: in_flight,
        _hold: held.then(|| memory::hold(address, values.size.max(1), what)),
    };
    if stream.is_null() {
        operation.execute();
        return Ok(());
    }
    stream::enqueue(stream, what, Box::new(move || operation.execute())).map_err(Status::cuda)
}

impl Pointers {
    fn read(&self) -> Option<Values> {
        Some(Values {
            size: peek::read(self.size)?,
            file_offset: peek::read(self.file_offset)?,
            base_offset: peek::read(self.base_offset)?,
        })
    }
}

impl Operation {
    fn execute(self) {
        let result = self.run();
        if !peek::write(self.moved, &result.to_ne_bytes()) {
            violations::report(format!("{}: the place for its result was freed before it was done", self.what));
        }
    }

    /// Bytes, or a negative code.
    fn run(&self) -> isize {
        let most = match script::begin("async_entry") {
            Verdict::Go => self.most,
            Verdict::Short(most) => Some(most),
            Verdict::Fail(code) => return -(code as isize),
        };
        if self.too_many {
            return TOO_MANY;
        }
        let Some(values) = self.pointers.read() else {
            violations::report(format!("{}: size and offsets were freed before the stream got there", self.what));
            return -(code::INVALID_VALUE as isize);
        };
        if self.promised.is_some_and(|promised| promised != values) {
            violations::report(format!(
                "{}: size and offsets were changed before the stream got there, on a stream registered as fixing them",
                self.what
            ));
        }
        let together = values.size as u64 | values.file_offset as u64 | values.base_offset as u64;
        if self.flags & ALIGNED != 0 && !together.is_multiple_of(4096) {
            violations::report(format!("{}: not aligned, on a stream registered as always aligned", self.what));
            return -(code::INVALID_VALUE as isize);
        }
        let request = Request {
            what: self.what,
            through: Through::Stream,
            write: self.write,
            handle: self.handle,
            base: self.base,
            size: values.size,
            file_offset: values.file_offset,
            base_offset: values.base_offset,
            device: self.device,
        };
        match request.prepare().and_then(|ready| ready.run(most)) {
            Ok(bytes) => bytes as isize,
            Err(code) if code >= 5000 => -(code as isize),
            Err(_) => -1,
        }
    }
}

#[unsafe(no_mangle)]
pub extern "C" fn cuFileStreamRegister(stream: Stream, flags: c_uint) -> Status {
    gate::answer(enter("cuFileStreamRegister").and_then(|_| {
        gate::current_device("cuFileStreamRegister")?;
        if flags > 15 || !(stream.is_null() || stream::exists(stream)) {
            return Err(Status::of(code::INVALID_VALUE));
        }
        let before = state::lock().streams.insert(stream as usize, flags);
        if before.is_some() { Err(Status::of(code::INVALID_VALUE)) } else { Ok(()) }
    }))
}

#[unsafe(no_mangle)]
pub extern "C" fn cuFileStreamDeregister(stream: Stream) -> Status {
    gate::answer(enter("cuFileStreamDeregister").and_then(|_| {
        if state::lock().streams.remove(&(stream as usize)).is_none() {
            return Err(Status::of(code::INVALID_VALUE));
        }
        if !stream.is_null() && !stream::exists(stream) {
            violations::report("cuFileStreamDeregister: the stream was destroyed before".into());
        }
        Ok(())
    }))
}

fn enter(name: &'static str) -> Result<Option<u64>, Status> {
    let most = gate::enter_open(name)?;
    let absent = settings::is_set("cufile_no_async");
    if absent { Err(Status::of(code::ASYNC_NOT_SUPPORTED)) } else { Ok(most) }
}
