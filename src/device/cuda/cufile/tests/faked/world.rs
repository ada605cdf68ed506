//! What the functions are told to do, and what they have done. There is one world, so that these tests run one after
//! the other.

use std::cell::Cell;
use std::collections::{HashMap, VecDeque};
use std::ffi::{c_int, c_uint, c_void};
use std::fs::File;
use std::ptr;
use std::sync::{Arc, Mutex, MutexGuard};

use super::super::super::{Context, CuFile, Handle, Registration, Transfer};
use super::functions::{calls, context};
use crate::sync::lock;
use crate::sys::cufile::Calls;

/// What the functions do.
#[derive(Default)]
pub(super) struct World {
    pub(super) file: Vec<u8>,
    /// What the next reads return; what they read, where nothing is said.
    pub(super) answers: VecDeque<isize>,
    /// What the next entries of batches come back as.
    pub(super) entries: VecDeque<(c_uint, isize)>,
    /// Told beside the true events of the next poll.
    pub(super) false_events: Vec<(usize, c_uint, isize)>,
    /// No entry comes back.
    pub(super) hold: bool,
    /// So many polls fail.
    pub(super) failing_polls: u32,
    /// What the next questions for an event answer, before the truth.
    pub(super) event_answers: VecDeque<c_int>,
    pub(super) max_batch: c_uint,
    pub(super) open_answer: c_int,
    pub(super) log: Vec<String>,
    pub(super) most_in_flight: usize,
    pub(super) in_flight: usize,
    pub(super) batches: HashMap<usize, Vec<Entry>>,
    pub(super) stream: VecDeque<Queued>,
    pub(super) next: usize,
}

pub(super) struct Entry {
    pub(super) cookie: usize,
    pub(super) ret: isize,
}

pub(super) enum Queued {
    /// Where base, bytes, offset in the file, offset from the base and bytes read are.
    Read([usize; 5]),
    Mark(usize),
}

static WORLD: Mutex<Option<World>> = Mutex::new(None);
static TURN: Mutex<()> = Mutex::new(());
pub(super) const CONTEXT: *mut c_void = ptr::without_provenance_mut(0xc0);

thread_local! {
    pub(super) static CURRENT: Cell<*mut c_void> = const { Cell::new(ptr::null_mut()) };
}

/// This test's turn, with a new world.
pub(super) fn turn() -> MutexGuard<'static, ()> {
    let turn = lock(&TURN);
    let file = (0..1_u32 << 18).flat_map(u32::to_le_bytes).collect();
    *lock(&WORLD) = Some(World { file, max_batch: 16, ..World::default() });
    turn
}

pub(super) fn with<T>(work: impl FnOnce(&mut World) -> T) -> T {
    work(lock(&WORLD).as_mut().unwrap())
}

impl World {
    pub(super) fn count(&self, what: &str) -> usize {
        self.log.iter().filter(|line| *line == what).count()
    }

    pub(super) fn place(&self, what: &str) -> Option<usize> {
        self.log.iter().position(|line| line == what)
    }

    pub(super) fn say(&mut self, what: &str) {
        self.log.push(what.into());
    }

    pub(super) fn read(&mut self, base: usize, bytes: usize, file_offset: i64, buffer_offset: i64) -> isize {
        let there = self.file.len().saturating_sub(file_offset as usize).min(bytes);
        let answer = self.answers.pop_front().unwrap_or(there as isize);
        let copied = there.min(answer.max(0) as usize);
        let from = &self.file[file_offset as usize..][..copied];
        let to = ptr::with_exposed_provenance_mut::<u8>(base + buffer_offset as usize);
        // SAFETY: the registered memory of the test is there and long enough.
        unsafe { ptr::copy_nonoverlapping(from.as_ptr(), to, copied) };
        answer
    }
}

pub(super) fn cufile(calls: Calls) -> Arc<CuFile> {
    CuFile::with(Box::leak(Box::new(calls)), &context(), None).unwrap()
}

/// Memory that says when it is freed.
pub(super) struct Memory(pub(super) Vec<u8>);

impl Memory {
    const PAGE: usize = 4096;

    pub(super) fn new(len: usize) -> Self {
        Self(vec![0xee; len + Self::PAGE])
    }

    pub(super) fn base(&self) -> u64 {
        self.0.as_ptr().expose_provenance().next_multiple_of(Self::PAGE) as u64
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        with(|world| world.say("freed"));
    }
}

/// An opened fake, a file and memory that is registered.
pub(super) struct Rig {
    pub(super) cufile: Arc<CuFile>,
    pub(super) context: Context,
    pub(super) handle: Arc<Handle>,
    pub(super) memory: Arc<Registration>,
}

impl Rig {
    pub(super) fn new() -> Self {
        let cufile = cufile(calls());
        let context = context();
        let file = Arc::new(File::open(std::env::current_exe().unwrap()).unwrap());
        let handle = Handle::new(&cufile, file).unwrap();
        let memory = Memory::new(1 << 20);
        let base = memory.base();
        let memory = Registration::new(&cufile, &context, base, 1 << 20, Arc::new(memory)).unwrap();
        Self { cufile, context, handle, memory }
    }

    /// So many transfers of two pages each, one behind the other.
    pub(super) fn transfers(&self, count: u64) -> Vec<Transfer> {
        (0..count)
            .map(|at| Transfer::new(&self.handle, &self.memory, at * 8192, 8192, 8192, at * 8192).unwrap())
            .collect()
    }

    /// Whether the first so many bytes of memory are the file's.
    pub(super) fn has_read(&self, bytes: usize) -> bool {
        let memory = ptr::with_exposed_provenance::<u8>(self.memory.base() as usize);
        // SAFETY: the registration keeps it, and no read is under way.
        let memory = unsafe { std::slice::from_raw_parts(memory, bytes) };
        with(|world| world.file[..bytes] == *memory)
    }
}
