//! What operations that have not ended use, of device and host memory alike: their addresses never coincide.
use std::collections::BTreeMap;
use std::sync::Mutex;

use crate::sync::lock;

#[derive(Debug)]
struct Holds {
    next: u64,
    held: BTreeMap<u64, (u64, u64, String)>,
}

static HOLDS: Mutex<Holds> = Mutex::new(Holds { next: 0, held: BTreeMap::new() });

/// Memory in use by an operation: to free it before this is dropped is a violation.
#[derive(Debug)]
pub struct Hold {
    id: u64,
}

pub fn hold(ptr: u64, len: usize, what: &str) -> Hold {
    let mut holds = lock(&HOLDS);
    let id = holds.next;
    holds.next += 1;
    holds.held.insert(id, (ptr, ptr.saturating_add(len as u64), what.to_owned()));
    Hold { id }
}

impl Drop for Hold {
    fn drop(&mut self) {
        lock(&HOLDS).held.remove(&self.id);
    }
}

/// What uses a part of this memory, if anything does.
pub fn user_of(ptr: u64, len: usize) -> Option<String> {
    let end = ptr.saturating_add(len as u64);
    let holds = lock(&HOLDS);
    holds.held.values().find(|(start, stop, _)| *start < end && ptr < *stop).map(|(_, _, what)| what.clone())
}
