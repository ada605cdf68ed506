//! Reads on a stream.

use crate::abi::{SUCCESS, Status, code};
use crate::rig::{MIB, Memory, Page, Rig, Sample};
use std::ffi::{c_long, c_void};
use std::os::fd::AsRawFd;
use std::ptr::null_mut;

/// What a read on a stream points to until the stream has passed it.
struct Parameters {
    size: usize,
    file_offset: c_long,
    offset: c_long,
    moved: isize,
}

impl Parameters {
    fn boxed(size: usize) -> Box<Parameters> {
        Box::new(Parameters { size, file_offset: 0, offset: 0, moved: 0 })
    }
}

fn stream(rig: &Rig) -> *mut c_void {
    let mut stream = null_mut();
    // SAFETY: a place of our own.
    assert_eq!(unsafe { (rig.api.cuStreamCreate)(&mut stream, 1) }, 0);
    stream
}

fn synchronize(rig: &Rig, stream: *mut c_void) {
    // SAFETY: it takes a number.
    assert_eq!(unsafe { (rig.api.cuStreamSynchronize)(stream) }, 0);
}

fn read(rig: &Rig, handle: *mut c_void, memory: &Memory, with: *mut Parameters, stream: *mut c_void) -> Status {
    let base = memory.address as *mut c_void;
    // SAFETY: the pointers are valid now; when they cease to be is each test's own matter.
    unsafe {
        let with = &raw mut *with;
        let (size, file_offset, offset) =
            (&raw mut (*with).size, &raw mut (*with).file_offset, &raw mut (*with).offset);
        (rig.api.cuFileReadAsync)(handle, base, size, file_offset, offset, &raw mut (*with).moved, stream)
    }
}

/// The result, looked at where the stream wrote it.
fn moved(with: *const Parameters) -> isize {
    // SAFETY: the tests keep it until here.
    unsafe { (&raw const (*with).moved).read_volatile() }
}

#[test]
fn a_read_on_a_stream_is_there_when_the_stream_has_passed() {
    let Some(sample) = Sample::new(MIB) else { return };
    let rig = Rig::open("");
    let memory = rig.registered(MIB);
    let handle = rig.register(sample.fd()).unwrap();
    let stream = stream(&rig);
    for flags in [None, Some(15), Some(0)] {
        if let Some(flags) = flags {
            // SAFETY: it takes numbers.
            assert_eq!(unsafe { (rig.api.cuFileStreamRegister)(stream, flags) }, SUCCESS);
        }
        memory.fill(&vec![0; MIB]);
        let with = Box::into_raw(Parameters::boxed(MIB));
        assert_eq!(read(&rig, handle, &memory, with, stream), SUCCESS);
        synchronize(&rig, stream);
        assert_eq!(moved(with), MIB as isize);
        assert!(memory.bytes() == sample.bytes);
        // SAFETY: from `into_raw`, and the stream is done with it.
        drop(unsafe { Box::from_raw(with) });
        if flags.is_some() {
            // SAFETY: it takes a number.
            assert_eq!(unsafe { (rig.api.cuFileStreamDeregister)(stream) }, SUCCESS);
        }
    }
    assert_eq!((rig.count("reads"), rig.count("in_flight_async")), (3, 0));
    rig.assert_clean();
}

#[test]
fn without_a_stream_the_read_is_done_at_once() {
    let Some(sample) = Sample::new(4096) else { return };
    let rig = Rig::open("");
    let memory = rig.registered(4096);
    let handle = rig.register(sample.fd()).unwrap();
    let with = Box::into_raw(Parameters::boxed(4096));
    assert_eq!(read(&rig, handle, &memory, with, null_mut()), SUCCESS);
    assert_eq!((moved(with), memory.bytes()), (4096, sample.bytes.clone()));
    // SAFETY: from `into_raw`, and the read is done.
    drop(unsafe { Box::from_raw(with) });
}

#[test]
fn a_write_on_a_stream_comes_after_what_was_queued_before_it() {
    let Some(sample) = Sample::new(8192) else { return };
    let rig = Rig::open("");
    let file = std::fs::File::options().read(true).write(true).open(&sample.path).unwrap();
    let memory = rig.registered(8192);
    let handle = rig.register(file.as_raw_fd()).unwrap();
    let stream = stream(&rig);
    let (first, second) = (Box::into_raw(Parameters::boxed(4096)), Box::into_raw(Parameters::boxed(4096)));
    // SAFETY: ours, and not queued yet.
    unsafe { (*second).file_offset = 4096 };
    assert_eq!(read(&rig, handle, &memory, first, stream), SUCCESS);
    // SAFETY: as for `read`.
    let status = unsafe {
        let (size, at, offset) = (&raw mut (*second).size, &raw mut (*second).file_offset, &raw mut (*second).offset);
        let base = memory.address as *mut c_void;
        (rig.api.cuFileWriteAsync)(handle, base, size, at, offset, &raw mut (*second).moved, stream)
    };
    assert_eq!(status, SUCCESS);
    synchronize(&rig, stream);
    assert_eq!((moved(first), moved(second)), (4096, 4096));
    let now = std::fs::read(&sample.path).unwrap();
    assert!(now[4096..] == sample.bytes[..4096]);
    rig.assert_clean();
    // SAFETY: from `into_raw`, and the stream is done with them.
    [first, second].into_iter().for_each(|with| drop(unsafe { Box::from_raw(with) }));
}

#[test]
fn parameters_are_read_when_the_stream_gets_there() {
    let Some(sample) = Sample::new(MIB) else { return };
    let rig = Rig::open("stall=async_entry@1:50");
    let memory = rig.registered(MIB);
    let handle = rig.register(sample.fd()).unwrap();
    let stream = stream(&rig);
    let with = Box::into_raw(Parameters::boxed(MIB));
    assert_eq!(read(&rig, handle, &memory, with, stream), SUCCESS);
    // SAFETY: ours; that the stream reads it at any moment is what is tried.
    unsafe { (&raw mut (*with).size).write_volatile(8192) };
    synchronize(&rig, stream);
    assert_eq!(moved(with), 8192);
    rig.assert_clean();
    // SAFETY: from `into_raw`, and the stream is done with it.
    drop(unsafe { Box::from_raw(with) });
}

#[test]
fn parameters_changed_on_a_stream_that_fixes_them_are_caught() {
    let Some(sample) = Sample::new(MIB) else { return };
    let rig = Rig::open("stall=async_entry@1:50");
    let memory = rig.registered(MIB);
    let handle = rig.register(sample.fd()).unwrap();
    let stream = stream(&rig);
    // SAFETY: it takes numbers.
    assert_eq!(unsafe { (rig.api.cuFileStreamRegister)(stream, 15) }, SUCCESS);
    let with = Box::into_raw(Parameters::boxed(MIB));
    assert_eq!(read(&rig, handle, &memory, with, stream), SUCCESS);
    // SAFETY: as above.
    unsafe { (&raw mut (*with).size).write_volatile(8192) };
    synchronize(&rig, stream);
    rig.assert_caught("changed before the stream got there");
    // SAFETY: from `into_raw`, and the stream is done with it.
    drop(unsafe { Box::from_raw(with) });
}

#[test]
fn parameters_freed_too_early_are_caught() {
    let Some(sample) = Sample::new(MIB) else { return };
    let rig = Rig::open("stall=async_entry:50");
    let memory = rig.registered(MIB);
    let handle = rig.register(sample.fd()).unwrap();
    let stream = stream(&rig);
    let page = Page::new();
    let with = page.place::<Parameters>();
    // SAFETY: a page of our own, aligned and large enough.
    unsafe { with.write(*Parameters::boxed(MIB)) };
    assert_eq!(read(&rig, handle, &memory, with, stream), SUCCESS);
    page.vanish();
    synchronize(&rig, stream);
    rig.assert_both_caught("size and offsets were freed", "the place for its result was freed");
}

#[test]
fn a_stream_registered_as_aligned_takes_nothing_else() {
    let Some(sample) = Sample::new(MIB) else { return };
    let rig = Rig::open("");
    let memory = rig.registered(MIB);
    let handle = rig.register(sample.fd()).unwrap();
    let stream = stream(&rig);
    // SAFETY: they take numbers.
    unsafe {
        assert_eq!((rig.api.cuFileStreamRegister)(stream, 16), Status::of(code::INVALID_VALUE));
        assert_eq!((rig.api.cuFileStreamRegister)(stream, 8), SUCCESS);
        assert_eq!((rig.api.cuFileStreamRegister)(stream, 8), Status::of(code::INVALID_VALUE));
    }
    let with = Box::into_raw(Parameters::boxed(100));
    assert_eq!(read(&rig, handle, &memory, with, stream), SUCCESS);
    synchronize(&rig, stream);
    assert_eq!(moved(with), -5022);
    rig.assert_caught("registered as always aligned");
    // SAFETY: from `into_raw`, and the stream is done with it; the other takes numbers.
    unsafe {
        drop(Box::from_raw(with));
        assert_eq!((rig.api.cuFileStreamDeregister)(stream), SUCCESS);
        assert_eq!((rig.api.cuFileStreamDeregister)(stream), Status::of(code::INVALID_VALUE));
    }
}

#[test]
fn errors_come_as_negative_results_of_a_call_that_succeeded() {
    let Some(sample) = Sample::new(MIB) else { return };
    let rig = Rig::open("fail=async_entry@1:5030;short=async_entry@2:4096");
    let memory = rig.registered(MIB);
    let handle = rig.register(sample.fd()).unwrap();
    let stream = stream(&rig);
    let reads: Vec<*mut Parameters> = (0..3).map(|_| Box::into_raw(Parameters::boxed(MIB))).collect();
    for with in &reads {
        assert_eq!(read(&rig, handle, &memory, *with, stream), SUCCESS);
    }
    synchronize(&rig, stream);
    let results: Vec<isize> = reads.iter().map(|with| moved(*with)).collect();
    assert_eq!(results, [-5030, 4096, MIB as isize]);
    rig.assert_clean();
    // SAFETY: from `into_raw`, and the stream is done with them.
    reads.into_iter().for_each(|with| drop(unsafe { Box::from_raw(with) }));
}

#[test]
fn the_134th_in_flight_fails() {
    let Some(sample) = Sample::new(4096) else { return };
    let rig = Rig::open("stall=async_entry@1:200");
    let memory = rig.registered(4096);
    let handle = rig.register(sample.fd()).unwrap();
    let stream = stream(&rig);
    let reads: Vec<*mut Parameters> = (0..134).map(|_| Box::into_raw(Parameters::boxed(4096))).collect();
    for with in &reads {
        assert_eq!(read(&rig, handle, &memory, *with, stream), SUCCESS);
    }
    synchronize(&rig, stream);
    let results: Vec<isize> = reads.iter().map(|with| moved(*with)).collect();
    assert!(results[..133].iter().all(|result| *result == 4096), "{results:?}");
    assert_eq!(results[133], -5);
    // SAFETY: from `into_raw`, and the stream is done with them.
    reads.into_iter().for_each(|with| drop(unsafe { Box::from_raw(with) }));
}

#[test]
fn giving_back_what_a_queued_read_uses_is_caught() {
    let Some(sample) = Sample::new(MIB) else { return };
    let rig = Rig::open("stall=async_entry@1:100");
    let memory = rig.memory(MIB);
    let handle = rig.register(sample.fd()).unwrap();
    let stream = stream(&rig);
    let with = Box::into_raw(Parameters::boxed(MIB));
    assert_eq!(read(&rig, handle, &memory, with, stream), SUCCESS);
    assert_eq!(rig.count("in_flight_async"), 1);
    memory.free();
    rig.assert_caught("still used by cuFileReadAsync");
    synchronize(&rig, stream);
    assert_eq!(moved(with), -5013);
    rig.assert_caught("freed");
    // SAFETY: from `into_raw`, and the stream is done with it.
    drop(unsafe { Box::from_raw(with) });
}

#[test]
fn memory_freed_in_the_order_of_the_stream_is_no_mistake() {
    let Some(sample) = Sample::new(MIB) else { return };
    let rig = Rig::open("stall=async_entry@1:20");
    let memory = rig.memory(MIB);
    let handle = rig.register(sample.fd()).unwrap();
    let stream = stream(&rig);
    let with = Box::into_raw(Parameters::boxed(MIB));
    assert_eq!(read(&rig, handle, &memory, with, stream), SUCCESS);
    // SAFETY: it takes numbers.
    assert_eq!(unsafe { (rig.api.cuMemFreeAsync)(memory.address, stream) }, 0);
    synchronize(&rig, stream);
    assert_eq!(moved(with), MIB as isize);
    rig.assert_clean();
    // SAFETY: from `into_raw`, and the stream is done with it.
    drop(unsafe { Box::from_raw(with) });
}

#[test]
fn what_cannot_be_queued_is_refused() {
    let Some(sample) = Sample::new(4096) else { return };
    let rig = Rig::open("");
    let memory = rig.registered(4096);
    let handle = rig.register(sample.fd()).unwrap();
    let stream = stream(&rig);
    let with = Box::into_raw(Parameters::boxed(4096));
    let none = rig.without_context(|| read(&rig, handle, &memory, with, stream));
    assert_eq!(none.err, code::CUDA_DRIVER_ERROR);
    rig.assert_caught("no context is current");
    // SAFETY: null is answered.
    let status = unsafe {
        (rig.api.cuFileReadAsync)(handle, null_mut(), null_mut(), null_mut(), null_mut(), null_mut(), stream)
    };
    assert_eq!(status, Status::of(code::INVALID_VALUE));
    rig.script("cufile_no_async");
    assert_eq!(read(&rig, handle, &memory, with, stream), Status::of(code::ASYNC_NOT_SUPPORTED));
    rig.assert_clean();
    // SAFETY: from `into_raw`, and nothing was queued.
    drop(unsafe { Box::from_raw(with) });
}
