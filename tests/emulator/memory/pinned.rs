//! Pinned host memory: registered by the caller, or allocated here.
use std::collections::BTreeMap;
use std::sync::Mutex;

use nix::libc;

use super::{holds, is_mapped};
use crate::call::{Answer, name, wrong};
use crate::sync::lock;
use crate::{codes, script, violations};

const PAGE: usize = 4096;
/// What fresh memory of cuMemHostAlloc holds.
const FRESH: u8 = 0xc3;

#[derive(Debug, Clone)]
pub struct Pinned {
    pub len: usize,
    pub device: usize,
    pub flags: u32,
    made_by: &'static str,
    /// The mapping of memory allocated here.
    mapping: Option<(usize, usize)>,
}

static PINNED: Mutex<BTreeMap<usize, Pinned>> = Mutex::new(BTreeMap::new());

/// Whether all of it is pinned, be it by several registrations that touch (`no_spanning` forbids that).
pub fn is_registered_host(ptr: usize, len: usize) -> bool {
    let (end, spanning) = (ptr.saturating_add(len.max(1)), !script::NO_SPANNING.is_on());
    let pinned = lock(&PINNED);
    let mut at = ptr;
    while let Some((start, one)) = pinned.range(..=at).next_back() {
        let stop = start + one.len;
        if stop >= end {
            return true;
        }
        if stop <= at || !spanning {
            return false;
        }
        at = stop;
    }
    false
}

/// What is pinned there.
pub fn containing(ptr: usize) -> Option<(usize, Pinned)> {
    let pinned = lock(&PINNED);
    let (&start, one) = pinned.range(..=ptr).next_back()?;
    (ptr < start + one.len).then(|| (start, one.clone()))
}

pub fn register(device: usize, ptr: usize, len: usize, flags: u32) -> Answer {
    let most = script::number("register_max", f64::INFINITY);
    if ptr == 0 || len == 0 || flags > 0xf || len as f64 > most {
        return Err(codes::INVALID_VALUE);
    }
    let end = ptr.checked_add(len).ok_or(codes::INVALID_VALUE)?;
    if !is_mapped(ptr, len) {
        return wrong(codes::INVALID_VALUE, format!("not all of the {len} bytes at {ptr:#x} are mapped"));
    }
    let mut pinned = lock(&PINNED);
    // Pages are pinned, so two registrations cannot share one.
    let (first, last) = (ptr & !(PAGE - 1), end.next_multiple_of(PAGE));
    if let Some((start, one)) = pinned.range(..last).next_back().filter(|(start, one)| *start + one.len > first) {
        let what = format!("{len} bytes at {ptr:#x} overlap the {} bytes pinned at {start:#x}", one.len);
        return wrong(codes::HOST_MEMORY_ALREADY_REGISTERED, what);
    }
    pinned.insert(ptr, Pinned { len, device, flags, made_by: name(), mapping: None });
    Ok(())
}

pub fn unregister(ptr: usize) -> Answer {
    take(ptr, false, codes::HOST_MEMORY_NOT_REGISTERED).map(drop)
}

pub fn allocate(device: usize, len: usize, flags: u32) -> Answer<usize> {
    if len == 0 || flags > 7 {
        return Err(codes::INVALID_VALUE);
    }
    // Small pieces are not page-aligned on the real thing either.
    let inset = if len < 64 << 10 { 512 } else { 0 };
    let size = (len + inset).checked_next_multiple_of(PAGE).ok_or(codes::OUT_OF_MEMORY)?;
    let (access, kind) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
    // SAFETY: a new mapping, at an address that the kernel chooses.
    let start = unsafe { libc::mmap(std::ptr::null_mut(), size, access, kind, -1, 0) };
    if start == libc::MAP_FAILED {
        return Err(codes::OUT_OF_MEMORY);
    }
    // SAFETY: the mapping is of this size, writable, and not yet anybody's.
    unsafe { start.cast::<u8>().write_bytes(FRESH, size) };
    let ptr = start as usize + inset;
    let one = Pinned { len, device, flags, made_by: name(), mapping: Some((start as usize, size)) };
    lock(&PINNED).insert(ptr, one);
    Ok(ptr)
}

pub fn free(ptr: usize) -> Answer {
    let (one, in_use) = take(ptr, true, codes::INVALID_VALUE)?;
    // What an operation still uses stays mapped: the violation is reported, the process goes on.
    if let Some((start, size)) = one.mapping.filter(|_| !in_use) {
        // SAFETY: the mapping was made by `allocate`, and the caller says that nobody uses it any more.
        unsafe { libc::munmap(start as *mut libc::c_void, size) };
    }
    Ok(())
}

/// Removes what was registered, or allocated, at exactly this address; also says whether an operation still uses it.
fn take(ptr: usize, allocated: bool, code: i32) -> Answer<(Pinned, bool)> {
    let one = lock(&PINNED).get(&ptr).filter(|one| one.mapping.is_some() == allocated).cloned();
    let Some(one) = one else {
        return wrong(code, format!("{ptr:#x} is not the start of pinned memory that this call gives back"));
    };
    let user = holds::user_of(ptr as u64, one.len);
    if let Some(user) = &user {
        let len = one.len;
        violations::report(format!("{}: {len} bytes of host memory at {ptr:#x} are still used by {user}", name()));
    }
    lock(&PINNED).remove(&ptr);
    Ok((one, user.is_some()))
}

pub fn alive(which: impl Fn(usize) -> bool) -> Vec<String> {
    let pinned = lock(&PINNED);
    let chosen = pinned.iter().filter(|(_, one)| which(one.device));
    chosen.map(|(ptr, one)| format!("{} bytes of host memory at {ptr:#x} from {}", one.len, one.made_by)).collect()
}

/// Host memory that is still allocated stays mapped, as its owner may touch it.
pub fn close_device(device: usize) -> Vec<String> {
    let lost = alive(|which| which == device);
    lock(&PINNED).retain(|_, one| one.device != device);
    lost
}
