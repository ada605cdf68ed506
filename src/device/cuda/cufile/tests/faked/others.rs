use std::ffi::c_int;
use std::sync::Arc;

use nix::libc;

use super::super::super::Version;
use super::functions::{WELL, calls, context};
use super::world::{CONTEXT, CURRENT, Memory, Rig, cufile, turn, with};
use super::{Batch, CuFile, CuFileError, CuFileFault, Form, Group, Job, Pool, Registration, Stream};
use crate::sys::cufile::{Calls, Status};

#[test]
fn an_answer_beyond_what_was_asked_is_not_believed() {
    let _turn = turn();
    let rig = Rig::new();
    let form = Pool::new(&rig.cufile, &rig.context, 1).unwrap();
    with(|world| world.answers = [8193].into());
    let (job, waiter) = Job::new(rig.transfers(1));
    form.take(job);
    assert!(matches!(waiter.wait().unwrap_err().fault, CuFileFault::TooMany { asked: 8192, answered: 8193 }));
}

#[test]
fn the_pool_lets_no_more_begin_after_a_failure() {
    let _turn = turn();
    let rig = Rig::new();
    let form = Pool::new(&rig.cufile, &rig.context, 1).unwrap();
    with(|world| world.answers = [8192, -5030].into());
    let (job, waiter) = Job::new(rig.transfers(20));
    form.take(job);
    assert!(waiter.wait().unwrap_err().to_string().contains("CU_FILE_INTERNAL_ERROR (5030)"));
    with(|world| assert_eq!(world.count("read"), 2));
}

#[test]
fn memory_is_deregistered_before_its_owner_is_let_go_and_the_caller_s_context_stays() {
    let _turn = turn();
    CURRENT.set(libc::MAP_FAILED);
    let cufile = cufile(calls());
    let memory = Memory::new(1 << 16);
    let base = memory.base();
    let registered = Registration::new(&cufile, &context(), base, 1 << 16, Arc::new(memory)).unwrap();
    assert_eq!((registered.base(), registered.len()), (base, 1 << 16));
    drop(registered);
    assert_eq!(CURRENT.get(), libc::MAP_FAILED);
    CURRENT.set(std::ptr::null_mut());
    with(|world| assert_eq!(world.log, ["open", "register 65536 0", "deregister", "freed"]));
}

#[test]
fn a_library_that_lacks_newer_functions_reads_with_the_pool() {
    let _turn = turn();
    let cufile = cufile(Calls { batch: None, stream: None, ..calls() });
    assert_eq!((cufile.version(), cufile.count().now(), cufile.properties().max_batch), (None, None, 0));
    let batch = Batch::new(&cufile, &context()).unwrap_err();
    assert!(matches!(batch, CuFileError::Lacks(Group::Batch)), "{batch}");
    let stream = Stream::new(&cufile, &context()).unwrap_err();
    assert!(stream.to_string().contains("no stream reads; install that of CUDA 12.2 or later"), "{stream}");
    assert!(Pool::new(&cufile, &context(), 2).is_ok());
}

#[test]
fn a_driver_that_is_open_already_is_as_good_and_a_broken_one_is_not_opened() {
    let _turn = turn();
    with(|world| world.open_answer = 5026);
    cufile(calls());
    with(|world| world.open_answer = 5004);
    let refused = CuFile::with(Box::leak(Box::new(calls())), &context(), None).unwrap_err();
    assert!(refused.to_string().contains("CU_FILE_DRIVER_VERSION_MISMATCH (5004)"), "{refused}");
    with(|world| world.log.clear());
    let broken = CuFile::with(Box::leak(Box::new(calls())), &context(), Some(Version::new(2, 25, 6))).unwrap_err();
    assert!(matches!(broken, CuFileError::BrokenNvidiaFs), "{broken}");
    with(|world| assert_eq!(world.count("open"), 0));
}

#[test]
fn the_buffers_of_the_compatibility_mode_are_asked_for_by_their_number() {
    unsafe extern "C" fn slabs(sizes: *mut usize, counts: *mut usize, kinds: c_int) -> Status {
        if kinds != 2 {
            return Status { err: 5022, cu_err: 0 };
        }
        // SAFETY: the caller gives room for two of each.
        unsafe {
            sizes.cast::<[usize; 2]>().write([4, 16384]);
            counts.cast::<[usize; 2]>().write([128, 8]);
        }
        WELL
    }
    unsafe extern "C" fn switches(_: u32, value: *mut u8) -> Status {
        // SAFETY: the caller gives room for one.
        unsafe { value.write(1) };
        WELL
    }
    let _turn = turn();
    let cufile = cufile(Calls { posix_slabs: Some(slabs), parameter_bool: Some(switches), ..calls() });
    let properties = cufile.properties();
    assert_eq!(properties.slabs, [(4096, 128), (16 << 20, 8)]);
    assert!(properties.allow_compat && properties.force_compat);
    assert_eq!(properties.entries_at_once(), 8);
    assert_ne!(CURRENT.get(), CONTEXT);
}
