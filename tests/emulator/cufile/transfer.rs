//! One read or write, through whichever call it came: what it names is resolved and held first, then the bytes move.

use super::abi::code;
use super::settings::{self, Path};
use super::slabs::Slab;
use super::stats::{self, Through, Transfer};
use super::{chance, counters, handles::OpenHandle, peek, state};
use crate::link::{self, Direction};
use crate::{memory, violations};
use nix::libc;
use std::sync::Arc;
use std::time::Instant;

/// The alignment of file offset, size and device address below which cuFile bounces inside.
const FAST: u64 = 4096;
/// What lies in the last block of a file behind its end. On most file systems zeros, which tests would not notice.
const BEHIND_THE_END: u8 = 0xe0;

/// What a caller asks for.
#[derive(Clone, Copy, Debug)]
pub struct Request {
    pub what: &'static str,
    pub through: Through,
    pub write: bool,
    pub handle: usize,
    pub base: u64,
    pub size: usize,
    pub file_offset: i64,
    pub base_offset: i64,
    /// The device that was current where the request was made.
    pub device: usize,
}

/// A request whose file and memory are known and held.
#[derive(Debug)]
pub struct Ready {
    request: Request,
    handle: OpenHandle,
    shadow: usize,
    device: usize,
    unaligned: bool,
    _buffer: Option<Arc<()>>,
    _hold: memory::Hold,
}

impl Request {
    /// Finds what the request names. The code says why not.
    pub fn prepare(self) -> Result<Ready, i32> {
        let what = self.what;
        let Some(handle) = state::lock().handles.get(&self.handle).cloned() else {
            violations::report(format!("{what}: handle {:#x} is not registered", self.handle));
            return Err(code::HANDLE_NOT_REGISTERED);
        };
        if self.file_offset < 0 || self.base_offset < 0 || self.base == 0 {
            return Err(code::INVALID_VALUE);
        }
        let buffer = self.registered_buffer()?;
        if buffer.is_none() {
            counters::add(&counters::UNREGISTERED, 1);
        }
        let address = self.base.saturating_add(self.base_offset as u64);
        let unaligned = !(address | self.size as u64 | self.file_offset as u64).is_multiple_of(FAST);
        if unaligned {
            counters::add(&counters::UNALIGNED, 1);
        }
        // Held before it is looked up: what is freed meanwhile stays where it is.
        let hold = memory::hold(address, self.size.max(1), what);
        let find = if self.through == Through::Stream { memory::live_range } else { memory::device_range };
        let range = find(address, self.size.max(1)).map_err(|why| {
            violations::report(format!("{what}: {} bytes at {address:#x}: {why}", self.size));
            let is_device = memory::device_range(self.base, 1).is_ok();
            if is_device { code::CUDA_POINTER_RANGE_ERROR } else { code::CUDA_MEMORY_TYPE_INVALID }
        })?;
        if range.device != self.device {
            let (memory, current) = (range.device, self.device);
            violations::report(format!("{what}: memory of device {memory}, and device {current} is current"));
            return Err(code::CUDA_CONTEXT_MISMATCH);
        }
        let shadow = range.shadow as usize;
        Ok(Ready { request: self, handle, shadow, device: range.device, unaligned, _buffer: buffer, _hold: hold })
    }

    /// The registration whose base was named. Any other pointer works too, through a bounce inside: even one into the
    /// middle of registered memory.
    fn registered_buffer(&self) -> Result<Option<Arc<()>>, i32> {
        let state = state::lock();
        let Some(buffer) = state.buffers.get(&self.base) else { return Ok(None) };
        let end = (self.base_offset as u64).saturating_add(self.size as u64);
        if end > buffer.len as u64 {
            violations::report(format!(
                "{}: bytes {}..{end} of registered memory of {} bytes",
                self.what, self.base_offset, buffer.len
            ));
            return Err(code::CUDA_POINTER_RANGE_ERROR);
        }
        Ok(Some(Arc::clone(&buffer.uses)))
    }
}

impl Ready {
    pub fn is_compat(&self) -> bool {
        self.handle.path == Path::Compat
    }

    /// Moves the bytes, `most` at most. They land late, but before this returns. The error is a code of cuFile, or an
    /// error number of the system.
    pub fn run(self, most: Option<u64>) -> Result<usize, i32> {
        let began = Instant::now();
        if !self.request.write {
            counters::add(&counters::READS, 1);
        }
        let result = self.handle.check_descriptor(self.request.what).and_then(|()| self.move_bytes(most));
        let bytes = result.ok().map(|bytes| bytes as u64);
        let counter = match self.handle.path {
            Path::P2p => &counters::BYTES_P2P,
            Path::Nvfs => &counters::BYTES_NVFS,
            Path::Compat => &counters::BYTES_POSIX,
        };
        counters::add(counter, bytes.unwrap_or(0));
        stats::transferred(Transfer {
            through: self.request.through,
            write: self.request.write,
            path: self.handle.path,
            device: self.device,
            unaligned: self.unaligned,
            bytes,
            took: began.elapsed(),
        });
        result
    }

    fn move_bytes(&self, most: Option<u64>) -> Result<usize, i32> {
        let size = self.request.size.min(most.map_or(usize::MAX, |most| most as usize));
        let piece = (settings::max_direct_io_kb() as usize).saturating_mul(1024).clamp(FAST as usize, Slab::MOST);
        chance::dawdle();
        let mut slab = Slab::new();
        let mut done = 0;
        while done < size {
            let wanted = piece.min(size - done);
            let moved = self.move_piece(&mut slab, done, wanted)?;
            done += moved;
            if moved < wanted {
                break;
            }
        }
        Ok(done)
    }

    fn move_piece(&self, slab: &mut Slab, done: usize, wanted: usize) -> Result<usize, i32> {
        let offset = (self.request.file_offset as u64).checked_add(done as u64).ok_or(libc::EINVAL)?;
        let shadow = self.shadow + done;
        if self.request.write {
            link::occupy(self.device, Direction::DeviceToHost, wanted as u64);
            let mut bytes = vec![0; wanted];
            self.reached(peek::read_bytes(shadow, &mut bytes))?;
            return slab.write(self.handle.fd, offset, &bytes);
        }
        let read = slab.read(self.handle.fd, offset, wanted)?;
        link::occupy(self.device, Direction::HostToDevice, read.len() as u64);
        self.reached(peek::write(shadow, read))?;
        let len = read.len();
        if len < wanted && !self.unaligned && self.handle.path != Path::Compat {
            // The drive knows blocks and no end of file: it writes the last one whole.
            let behind = vec![BEHIND_THE_END; (len.next_multiple_of(FAST as usize)).min(wanted) - len];
            self.reached(peek::write(shadow + len, &behind))?;
        }
        Ok(len)
    }

    /// Memory that is freed while it is held stays where it is, but not when its whole context goes.
    fn reached(&self, reached: bool) -> Result<(), i32> {
        if reached {
            return Ok(());
        }
        violations::report(format!("{}: the memory went with its context before it was done", self.request.what));
        Err(code::CUDA_MEMORY_TYPE_INVALID)
    }
}
