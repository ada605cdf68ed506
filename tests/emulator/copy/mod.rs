//! Copies: checked when they are called, watched while they are queued, carried out when the stream gets there.
mod calls;
mod fill;

use crate::call::{Answer, wrong};
use crate::link::{self, Direction};
use crate::memory::{self, DeviceRange, Hold, Watch};
use crate::stream::{self, submit};
use crate::{codes, context, script, violations};

/// One end of a copy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    Host(usize),
    Device(u64),
}

impl End {
    /// By the address, as unified addressing does.
    pub fn of(address: u64) -> End {
        if memory::is_device(address) { End::Device(address) } else { End::Host(address as usize) }
    }
}

/// What host memory a call takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Host {
    /// Only what is pinned: the call returns before the copy is made.
    Pinned,
    /// Any: the call returns after it.
    Any,
    /// Any for a source, which is read before the call returns.
    Read,
}

/// A copy that is queued. While it lives its memory is in use.
#[derive(Debug)]
pub struct Copy {
    to: Side,
    from: Side,
    len: usize,
    call: &'static str,
}

#[derive(Debug)]
enum Side {
    Host {
        ptr: usize,
        watch: Option<Watch>,
        _hold: Hold,
    },
    Device {
        ptr: u64,
        range: DeviceRange,
        _hold: Hold,
    },
    /// A source that was read when the copy was called.
    Taken(Vec<u8>),
}

impl Copy {
    /// Checks a copy of `len` bytes, which must not be 0, for the device whose context is current.
    pub fn new(call: &'static str, device: usize, to: End, from: End, len: usize, host: Host) -> Answer<Copy> {
        let (to, from) = (side(call, to, len, host, "destination")?, side(call, from, len, host, "source")?);
        match (&to, &from) {
            (Side::Device { range: to, .. }, Side::Device { range: from, .. }) => between(call, to, from)?,
            (Side::Device { range, .. }, _) | (_, Side::Device { range, .. }) if range.device != device => {
                let (at, whose) = (range.allocation, range.device);
                let what =
                    format!("{at:#x} is memory of device {whose}, but the context of device {device} is current");
                return wrong(codes::INVALID_CONTEXT, what);
            }
            _ => {}
        }
        Ok(Copy { to, from, len, call })
    }

    /// The link it takes.
    fn way(&self) -> Option<(usize, Direction)> {
        match (&self.to, &self.from) {
            (Side::Device { range, .. }, Side::Host { .. } | Side::Taken(_)) => {
                Some((range.device, Direction::HostToDevice))
            }
            (Side::Host { .. }, Side::Device { range, .. }) => Some((range.device, Direction::DeviceToHost)),
            _ => None,
        }
    }

    /// Moves the bytes. Nothing is touched that went away meanwhile.
    fn carry_out(mut self) {
        let (Some(to), Some(from)) = (self.to.open(self.call, self.len), self.from.open(self.call, self.len)) else {
            return;
        };
        let len = self.len;
        // SAFETY: both ends were just found mapped, or in the shadow of an allocation, for that many bytes, and the
        // program under test must keep them so while the copy is queued; `copy` allows them to overlap.
        let copy = || unsafe { std::ptr::copy(from as *const u8, to as *mut u8, len) };
        match self.to {
            Side::Host { ptr, .. } => memory::write_host(ptr, len, copy),
            Side::Device { .. } | Side::Taken(_) => copy(),
        }
    }
}

impl Side {
    /// The address of the bytes, if they are still there; their watch ends.
    fn open(&mut self, call: &str, len: usize) -> Option<usize> {
        match self {
            Side::Taken(bytes) => Some(bytes.as_ptr() as usize),
            Side::Host { ptr, watch, .. } => watch.take().is_none_or(|watch| watch.check()).then_some(*ptr),
            Side::Device { ptr, .. } => match memory::live_range(*ptr, len) {
                Ok(range) => Some(range.shadow as usize),
                Err(why) => {
                    violations::report(format!("{call}: when it was carried out, {why}"));
                    None
                }
            },
        }
    }
}

fn side(call: &'static str, end: End, len: usize, host: Host, role: &str) -> Answer<Side> {
    match end {
        End::Device(ptr) => {
            let range = memory::device_range(ptr, len).or_else(|why| wrong(codes::INVALID_VALUE, why))?;
            Ok(Side::Device { ptr, range, _hold: memory::hold(ptr, len, call) })
        }
        End::Host(ptr) => {
            if memory::is_device(ptr as u64) {
                return wrong(codes::INVALID_VALUE, format!("the host {role} {ptr:#x} is device memory"));
            }
            let read_now = host == Host::Read && role == "source";
            if host != Host::Any && !read_now && !memory::is_registered_host(ptr, len) {
                let what = format!("the host {role}, {len} bytes at {ptr:#x}, is not registered");
                return wrong(codes::INVALID_VALUE, what);
            }
            if !memory::is_mapped(ptr, len) {
                return wrong(codes::INVALID_VALUE, format!("{len} bytes at {ptr:#x} are not mapped"));
            }
            if read_now {
                // SAFETY: the bytes were just found mapped, and the caller keeps them until the call returns.
                return Ok(Side::Taken(unsafe { std::slice::from_raw_parts(ptr as *const u8, len) }.to_vec()));
            }
            let watch = Some(Watch::new(ptr, len, format!("{call}: {role}")));
            Ok(Side::Host { ptr, watch, _hold: memory::hold(ptr as u64, len, call) })
        }
    }
}

/// From device to device: without access to each other only the calls for peers can.
fn between(call: &str, to: &DeviceRange, from: &DeviceRange) -> Answer {
    let (to, from) = (to.device, from.device);
    if call.starts_with("cuMemcpyPeer") || context::reaches(to, from) || context::reaches(from, to) {
        return Ok(());
    }
    wrong(codes::INVALID_VALUE, format!("devices {to} and {from} have no access to each other"))
}

/// Carries out copies that were queued together: one latency, then all their bytes, then each in no order to rely on.
fn carry_out_all(mut copies: Vec<Copy>) {
    let mut ways: Vec<((usize, Direction), u64)> = Vec::new();
    for copy in &copies {
        let Some(way) = copy.way() else { continue };
        match ways.iter_mut().find(|(known, _)| *known == way) {
            Some((_, bytes)) => *bytes += copy.len as u64,
            None => ways.push((way, copy.len as u64)),
        }
    }
    for ((device, direction), bytes) in ways {
        link::occupy(device, direction, bytes);
    }
    if script::SEED.get() as u64 % 2 == 1 {
        copies.reverse();
    }
    copies.into_iter().for_each(Copy::carry_out);
}

/// An asynchronous copy. `pageable` in the script lets it take host memory that is not pinned, as the real driver does,
/// at the price the real one asks: it waits.
pub fn asynchronous(call: &'static str, to: End, from: End, len: usize, handle: usize) -> Answer {
    let stream = stream::find(handle)?;
    if len == 0 {
        return Ok(());
    }
    let pageable = script::PAGEABLE.is_on();
    let host = if pageable { Host::Any } else { Host::Pinned };
    let pinned = |end| !matches!(end, End::Host(ptr) if !memory::is_registered_host(ptr, len));
    let waits = pageable && !(pinned(to) && pinned(from));
    let copy = Copy::new(call, stream.device, to, from, len, host)?;
    submit(&stream, call, Box::new(move || carry_out_all(vec![copy])))?;
    if waits {
        stream.wait_for(stream.pushed());
    }
    Ok(())
}

/// A copy that is done when the call returns, in the order of the default stream.
pub fn synchronous(call: &'static str, to: End, from: End, len: usize) -> Answer {
    let stream = stream::find(0)?;
    if len == 0 {
        return Ok(());
    }
    let copy = Copy::new(call, stream.device, to, from, len, Host::Any)?;
    submit(&stream, call, Box::new(move || carry_out_all(vec![copy])))?;
    stream.wait_for(stream.pushed());
    context::health(stream.device)
}

/// Copies queued as one.
pub fn together(
    call: &'static str,
    copies: &[(End, End, usize, Host)],
    handle: usize,
) -> Result<(), (Option<usize>, i32)> {
    let stream = stream::find(handle).map_err(|code| (None, code))?;
    let mut checked = Vec::with_capacity(copies.len());
    for (index, &(to, from, len, host)) in copies.iter().enumerate() {
        let copy = Copy::new(call, stream.device, to, from, len, host);
        checked.push(copy.map_err(|code| (Some(index), code))?);
    }
    submit(&stream, call, Box::new(move || carry_out_all(checked))).map_err(|code| (None, code))
}
