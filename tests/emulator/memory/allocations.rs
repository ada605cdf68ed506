//! Device memory: what is allocated where, and what may be done with it.
use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Mutex;

use super::holds;
use super::space::Space;
use crate::call::{Answer, name, wrong};
use crate::sync::lock;
use crate::{codes, violations};

/// A piece of a live allocation.
#[derive(Debug, Clone, Copy)]
pub struct DeviceRange {
    /// Where its bytes are kept.
    pub shadow: *mut u8,
    pub len: usize,
    pub device: usize,
    /// The allocation's base pointer.
    pub allocation: u64,
    pub allocation_len: usize,
}
// SAFETY: a plain address; who reads or writes through it holds the range (`hold`).
unsafe impl Send for DeviceRange {}

#[derive(Debug, Clone)]
struct Allocation {
    len: usize,
    device: usize,
    /// An address of the shadow, as a number so that the table can be shared.
    shadow: usize,
    made_by: &'static str,
    /// It was given to cuMemFreeAsync, which has not come to pass.
    going: bool,
}

#[derive(Debug)]
struct Memory {
    spaces: BTreeMap<usize, (Space, usize)>,
    live: BTreeMap<u64, Allocation>,
    /// The last ones freed, to name what a stale pointer was.
    dead: VecDeque<(u64, usize)>,
}

static MEMORY: Mutex<Memory> =
    Mutex::new(Memory { spaces: BTreeMap::new(), live: BTreeMap::new(), dead: VecDeque::new() });
const DEAD: usize = 4096;

impl Memory {
    fn used(&self, device: usize) -> usize {
        self.live.values().filter(|one| one.device == device).map(|one| one.len).sum()
    }

    fn containing(&self, ptr: u64) -> Option<(u64, &Allocation)> {
        let (&base, one) = self.live.range(..=ptr).next_back()?;
        (ptr < base + one.len as u64).then_some((base, one))
    }

    fn range(&self, ptr: u64, len: usize, going_too: bool) -> Result<DeviceRange, String> {
        let Some((base, one)) = self.containing(ptr) else {
            return Err(match self.dead.iter().rev().find(|(base, len)| ptr >= *base && ptr < base + *len as u64) {
                Some((base, len)) => format!("{ptr:#x} is device memory that was freed ({len} bytes at {base:#x})"),
                None => format!("{ptr:#x} is not device memory"),
            });
        };
        if one.going && !going_too {
            return Err(format!("{ptr:#x} was given to cuMemFreeAsync before"));
        }
        let offset = (ptr - base) as usize;
        if len > one.len - offset {
            let allocated = one.len;
            return Err(format!(
                "{len} bytes at {ptr:#x} pass the end of the {allocated} bytes allocated at {base:#x}"
            ));
        }
        Ok(DeviceRange {
            shadow: (one.shadow + offset) as *mut u8,
            len,
            device: one.device,
            allocation: base,
            allocation_len: one.len,
        })
    }

    fn remove(&mut self, base: u64, in_use: bool) {
        if let Some(one) = self.live.remove(&base) {
            Space::vacate(one.shadow as *mut u8, one.len, in_use);
            self.dead.push_back((base, one.len));
            if self.dead.len() > DEAD {
                self.dead.pop_front();
            }
        }
    }
}

/// The bytes behind a device pointer, or what is wrong with it.
pub fn device_range(ptr: u64, len: usize) -> Result<DeviceRange, String> {
    lock(&MEMORY).range(ptr, len, false)
}

/// As `device_range` at the time an operation runs: what was given to cuMemFreeAsync after it is still there.
pub fn live_range(ptr: u64, len: usize) -> Result<DeviceRange, String> {
    lock(&MEMORY).range(ptr, len, true)
}

/// Whether an address is one of a device's, allocated or not.
pub fn is_device(ptr: u64) -> bool {
    lock(&MEMORY).spaces.values().any(|(space, _)| space.contains(ptr))
}

/// Sets up a device's memory, once.
pub fn open_device(device: usize, memory: usize) -> Answer {
    if let Entry::Vacant(vacant) = lock(&MEMORY).spaces.entry(device) {
        vacant.insert((Space::reserve(memory).ok_or(codes::OUT_OF_MEMORY)?, memory));
    }
    Ok(())
}

/// Free and total bytes.
pub fn info(device: usize) -> (usize, usize) {
    let all = lock(&MEMORY);
    let total = all.spaces.get(&device).map_or(0, |(_, total)| *total);
    (total.saturating_sub(all.used(device)), total)
}

pub fn allocate(device: usize, len: usize) -> Answer<u64> {
    if len == 0 {
        return Err(codes::INVALID_VALUE);
    }
    let mut all = lock(&MEMORY);
    let used = all.used(device);
    let Memory { spaces, live, .. } = &mut *all;
    let (space, total) = spaces.get_mut(&device).ok_or(codes::INVALID_CONTEXT)?;
    if len > total.saturating_sub(used) {
        return Err(codes::OUT_OF_MEMORY);
    }
    let taken = |start: u64, end: u64| {
        let (base, one) = live.range(..end).next_back()?;
        let stop = base + one.len as u64;
        (stop > start).then_some(stop)
    };
    let (base, shadow) = space.place(len, taken).ok_or(codes::OUT_OF_MEMORY)?;
    live.insert(base, Allocation { len, device, shadow: shadow as usize, made_by: name(), going: false });
    Ok(base)
}

/// The range that a free names: it must be an allocation's start, and its context must be current.
pub fn to_free(ptr: u64) -> Answer<DeviceRange> {
    match device_range(ptr, 0) {
        Ok(range) if range.allocation == ptr => Ok(DeviceRange { len: range.allocation_len, ..range }),
        Ok(range) => {
            let what = format!("{ptr:#x} is inside an allocation, which starts at {:#x}", range.allocation);
            wrong(codes::INVALID_VALUE, what)
        }
        Err(why) => wrong(codes::INVALID_VALUE, why),
    }
}

/// Frees an allocation; a violation if an operation still uses it.
pub fn free(range: &DeviceRange) {
    let (base, len) = (range.allocation, range.allocation_len);
    let user = holds::user_of(base, len);
    if let Some(user) = &user {
        violations::report(format!("{}: {len} bytes of device memory at {base:#x} are still used by {user}", name()));
    }
    lock(&MEMORY).remove(base, user.is_some());
}

/// Marks an allocation as one that a stream is going to free.
pub fn let_go(range: &DeviceRange) {
    if let Some(one) = lock(&MEMORY).live.get_mut(&range.allocation) {
        one.going = true;
    }
}

pub fn alive(which: impl Fn(usize) -> bool) -> Vec<String> {
    let all = lock(&MEMORY);
    let chosen = all.live.iter().filter(|(_, one)| which(one.device));
    chosen.map(|(base, one)| format!("{} bytes of device memory at {base:#x} from {}", one.len, one.made_by)).collect()
}

pub fn close_device(device: usize) -> Vec<String> {
    let lost = alive(|which| which == device);
    let mut all = lock(&MEMORY);
    let bases: Vec<u64> = all.live.iter().filter(|(_, one)| one.device == device).map(|(&base, _)| base).collect();
    for base in bases {
        all.remove(base, false);
    }
    lost
}
