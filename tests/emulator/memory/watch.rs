//! Host memory of queued copies, watched for changes between the call and the copy. A source that changes was given
//! back too early; a destination that changes is written by host and device at once. What the emulator itself writes
//! there, in the order of a stream, is no change.
use std::collections::BTreeMap;
use std::sync::Mutex;

use super::is_mapped;
use crate::sync::lock;
use crate::{script, violations};

/// Up to here all is looked at; of more, a word in each `STRIDE` bytes, or `SAMPLES` words of what is larger still. A
/// slot that is filled anew changes them all.
const WHOLE: usize = 16 << 10;
const STRIDE: usize = 256;
const SAMPLES: usize = 16 << 10;
const WORD: usize = 8;

#[derive(Debug, Clone)]
struct Watched {
    ptr: usize,
    len: usize,
    what: String,
    /// None while a stream writes there: what it leaves is what counts.
    print: Option<u64>,
}

#[derive(Debug)]
struct Watches {
    next: u64,
    all: BTreeMap<u64, Watched>,
    /// Where streams are writing now.
    writing: BTreeMap<u64, (usize, usize)>,
}

static WATCHES: Mutex<Watches> = Mutex::new(Watches { next: 0, all: BTreeMap::new(), writing: BTreeMap::new() });

/// A piece of host memory that must not change. Dropped, it is watched no longer.
#[derive(Debug)]
pub struct Watch {
    id: u64,
}

impl Watch {
    pub fn new(ptr: usize, len: usize, what: String) -> Watch {
        let id = {
            let mut watches = lock(&WATCHES);
            let id = watches.number();
            watches.all.insert(id, Watched { ptr, len, what, print: None });
            id
        };
        let print = fingerprint(ptr, len);
        let mut watches = lock(&WATCHES);
        // A writer that was at work meanwhile looks again when it ends, or has done so.
        let written = watches.writing.values().any(|&(start, end)| start < ptr + len && ptr < end);
        if let Some(watched) = watches.all.get_mut(&id).filter(|watched| !written && watched.print.is_none()) {
            watched.print = print;
        }
        Watch { id }
    }

    /// Reports it if the memory changed; false if it cannot be touched at all.
    pub fn check(&self) -> bool {
        let watched = lock(&WATCHES).all.get(&self.id).cloned();
        watched.is_none_or(|watched| {
            let now = watched.compare(self.id);
            if let Some(watched) = lock(&WATCHES).all.get_mut(&self.id) {
                watched.print = now;
            }
            now.is_some()
        })
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        lock(&WATCHES).all.remove(&self.id);
    }
}

impl Watches {
    fn number(&mut self) -> u64 {
        self.next += 1;
        self.next - 1
    }

    fn touching(&self, start: usize, end: usize) -> Vec<(u64, Watched)> {
        let chosen = self.all.iter().filter(|(_, watched)| watched.ptr < end && start < watched.ptr + watched.len);
        chosen.map(|(&id, watched)| (id, watched.clone())).collect()
    }
}

impl Watched {
    /// Reports a change; gives what is there now.
    fn compare(&self, id: u64) -> Option<u64> {
        let Watched { ptr, len, what, print } = self;
        let now = fingerprint(*ptr, *len);
        match (print, now) {
            (Some(before), Some(now)) if *before != now && self.is_still(id) => {
                violations::report(format!(
                    "{what}: the {len} bytes of host memory at {ptr:#x} changed before the copy"
                ));
            }
            (_, None) if self.is_still(id) => {
                violations::report(format!("{what}: the {len} bytes of host memory at {ptr:#x} are mapped no more"));
            }
            _ => {}
        }
        now
    }

    /// Whether it was watched all the while: its copy may have come, or a stream have written there, since it was looked
    /// up.
    fn is_still(&self, id: u64) -> bool {
        lock(&WATCHES).all.get(&id).is_some_and(|watched| watched.print == self.print)
    }
}

/// Lets a stream write to host memory that other copies may be waiting to read.
pub fn write_host(ptr: usize, len: usize, write: impl FnOnce()) {
    around(ptr, ptr + len, write);
}

/// Runs code of others in a stream's order: whatever it changes is meant.
pub fn run_foreign(run: impl FnOnce()) {
    around(0, usize::MAX, run);
}

/// Neither holds the lock while it looks at memory nor while it works: both may take long.
fn around(start: usize, end: usize, work: impl FnOnce()) {
    let (writer, before) = {
        let mut watches = lock(&WATCHES);
        let writer = watches.number();
        watches.writing.insert(writer, (start, end));
        (writer, watches.touching(start, end))
    };
    for (id, watched) in before {
        watched.compare(id);
        if let Some(watched) = lock(&WATCHES).all.get_mut(&id) {
            watched.print = None;
        }
    }
    work();
    let after = {
        let mut watches = lock(&WATCHES);
        watches.writing.remove(&writer);
        watches.touching(start, end)
    };
    for (id, watched) in after {
        let print = fingerprint(watched.ptr, watched.len);
        if let Some(watched) = lock(&WATCHES).all.get_mut(&id) {
            watched.print = print;
        }
    }
}

/// Plain words and plain operators: built without optimisation, as tests are, all else costs ten times as much.
fn fingerprint(ptr: usize, len: usize) -> Option<u64> {
    if !is_mapped(ptr, len) {
        return None;
    }
    let mut print = len as u64;
    let (first, words) = (ptr.next_multiple_of(WORD), ptr.saturating_add(len) & !(WORD - 1));
    if first < words {
        let whole = len <= WHOLE || script::setting("watch").is_some_and(|how| how == "whole");
        let stride = if whole { WORD } else { (len / SAMPLES).next_multiple_of(WORD).max(STRIDE) };
        let mut at = first;
        while at < words {
            // SAFETY: an aligned word of memory that is mapped. The program under test may be writing to it, which is
            // what is looked for: whatever is read then is a change.
            let word = unsafe { *(at as *const u64) };
            print = (print ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15);
            print ^= print >> 29;
            at += stride;
        }
    }
    // The ends, which are no whole words, and the last word, which a stride may have passed over.
    let edges = (ptr..first.min(ptr + len)).chain((ptr + len).saturating_sub(WORD).max(ptr)..ptr + len);
    for at in edges {
        // SAFETY: as above.
        let byte = unsafe { *(at as *const u8) };
        print = (print ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    }
    Some(print)
}
