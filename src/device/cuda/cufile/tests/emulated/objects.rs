//! Opening, registering, refusing: what is done once, in which order, and in which context.

use std::os::fd::AsFd;
use std::sync::Arc;

use nix::libc;

use super::rig::{Rig, open};
use super::{is_child, pass};
use crate::device::cuda::CudaDevice;
use crate::device::cuda::cufile::{
    Batch, Context, CuFile, CuFileError, CuFileFault, Form, Handle, Job, Pool, Registration, Stream, Transfer,
};

#[test]
fn cufile_is_opened_once_whoever_was_first() {
    pass("objects::opens_once_in_child", "devices=2");
}

#[test]
fn files_are_registered_once_and_refused_by_their_flags() {
    pass("objects::handles_in_child", "");
}

#[test]
fn memory_is_registered_in_bytes_and_deregistered_before_it_is_freed() {
    pass("objects::memory_in_child", "cufile_pinned_max=4194304");
}

#[test]
fn every_device_reads_with_its_own_context() {
    pass("objects::devices_in_child", "devices=2");
}

#[test]
fn a_forked_child_gets_errors_and_makes_no_call() {
    pass("objects::forks_in_child", "");
}

#[test]
fn what_cufile_lacks_is_told() {
    pass("objects::lacks_in_child", "cufile_no_batch; cufile_no_async; cufile_no_stats");
    pass("objects::cannot_open_in_child", "cufile_open=5033");
}

#[test]
#[ignore = "run by a test above"]
fn opens_once_in_child() {
    if !is_child() {
        return;
    }
    let device = CudaDevice::new(0).unwrap();
    let current = device.enter().unwrap();
    // Somebody else of the process was first.
    // SAFETY: a context is current.
    assert_eq!(unsafe { (crate::sys::cufile::library().unwrap().driver_open)() }.err, 0);
    drop(current);
    let rig = Rig::new();
    let other = CudaDevice::new(1).unwrap();
    assert!(Arc::ptr_eq(&rig.cufile, &CuFile::open(other.context()).unwrap()));
    assert_eq!(rig.emulator.counter("opens"), 1);
    assert_eq!(rig.cufile.version().unwrap().to_string(), "1.15.0");
    let properties = rig.cufile.properties();
    assert_eq!((properties.max_direct_io, properties.max_batch_entry), (16 << 20, 1 << 20));
    assert!(properties.allow_compat && !properties.force_compat && properties.batch && properties.streams);
    assert!(properties.entries_at_once() <= 64, "{properties:?}");
    for setting in ["cuFileSetParameterBool", "cuFileSetParameterSizeT", "cuFileDriverClose_v2", "cuFileDriverClose"] {
        assert_eq!(rig.emulator.calls(setting), 0, "{setting}");
    }
    drop((device, other));
    rig.end();
}

#[test]
#[ignore = "run by a test above"]
fn handles_in_child() {
    if !is_child() {
        return;
    }
    let rig = Rig::new();
    let (_, handle) = rig.file("data", 10_000);
    assert!(handle.is_direct());
    let of = |flags| {
        let fd: Arc<dyn AsFd + Send + Sync> = Arc::new(open(&rig.path("data"), flags));
        Handle::new(&rig.cufile, fd)
    };
    for (flag, name) in [
        (libc::O_APPEND, "O_APPEND"),
        (libc::O_NONBLOCK, "O_NONBLOCK"),
        (libc::O_NOFOLLOW, "O_NOFOLLOW"),
        (libc::O_NOATIME, "O_NOATIME"),
    ] {
        let error = of(libc::O_DIRECT | flag).unwrap_err();
        assert!(matches!(error, CuFileError::OpenFlag(found) if found == name), "{error}");
    }
    assert!(matches!(of(libc::O_PATH), Err(CuFileError::NotReadable)));
    assert!(!of(0).unwrap().is_direct());
    let folder: Arc<dyn AsFd + Send + Sync> = Arc::new(open(&rig.path("."), libc::O_DIRECTORY));
    assert!(matches!(Handle::new(&rig.cufile, folder), Err(CuFileError::OpenFlag("O_DIRECTORY"))));
    let file: Arc<dyn AsFd + Send + Sync> = Arc::new(open(&rig.path("data"), libc::O_DIRECT));
    let first = Handle::new(&rig.cufile, Arc::clone(&file)).unwrap();
    let error = Handle::new(&rig.cufile, Arc::clone(&file)).unwrap_err();
    assert!(error.to_string().contains("CU_FILE_HANDLE_ALREADY_REGISTERED (5028)"), "{error}");
    // Ours is the last hand on the descriptor: the emulator looks whether it is open when it is deregistered.
    drop(file);
    drop((first, handle));
    rig.end();
}

#[test]
#[ignore = "run by a test above"]
fn memory_in_child() {
    if !is_child() {
        return;
    }
    let rig = Rig::new();
    // The limit is 4 MiB.
    let memory = rig.memory(3 << 20);
    let error = rig.try_memory(2 << 20).unwrap_err().to_string();
    for word in ["2 MiB of device memory", "CU_FILE_INVALID_MAPPING_SIZE (5016)", "at most 4 MiB", "BAR1"] {
        assert!(error.contains(word), "{word}: {error}");
    }
    assert!(rig.try_memory(1 << 20).is_ok());
    let again = Registration::new(&rig.cufile, &rig.context, memory.base(), 4096, Arc::new(()));
    assert!(again.unwrap_err().to_string().contains("CU_FILE_MEMORY_ALREADY_REGISTERED (5023)"));
    let empty = Registration::new(&rig.cufile, &rig.context, memory.base(), 0, Arc::new(()));
    assert!(matches!(empty, Err(CuFileError::Range { len: 0, .. })));
    let between = Registration::new(&rig.cufile, &rig.context, memory.base() + 512, 4096, Arc::new(()));
    assert!(matches!(between, Err(CuFileError::Range { .. })));
    let host = vec![0_u8; 1 << 16];
    let page = (host.as_ptr() as u64).next_multiple_of(4096);
    let host = Registration::new(&rig.cufile, &rig.context, page, 4096, Arc::new(host));
    assert!(host.unwrap_err().to_string().contains("CU_FILE_CUDA_MEMORY_TYPE_INVALID (5013)"));
    let (_, handle) = rig.file("data", 10_000);
    for (from, len, need, to) in [
        (1, 4096, 4096, 0),
        (0, 4095, 1, 0),
        (0, 4096, 1, 512),
        (0, 4096, 4097, 0),
        (0, 4096, 1, 3 << 20),
        (0, 4 << 20, 1, 0),
        (u64::MAX - 4095, 4096, 1, 0),
        (0, 4096, 1, u64::MAX - 4095),
    ] {
        let refused = Transfer::new(&handle, &memory, from, len, need, to);
        assert!(matches!(refused, Err(CuFileError::Transfer(_))), "{from} {len} {need} {to}");
    }
    // A leak where cuFile refuses: freeing registered memory can hang.
    drop(memory);
    let leaked = rig.memory(1 << 20);
    rig.emulator.script("fail=cuFileBufDeregister@1:5030");
    let frees = rig.emulator.calls("cuMemFree_v2");
    drop(leaked);
    assert_eq!(rig.emulator.calls("cuMemFree_v2"), frees);
    assert_eq!(rig.emulator.messages("emulator_violations"), [""; 0]);
}

#[test]
#[ignore = "run by a test above"]
fn devices_in_child() {
    if !is_child() {
        return;
    }
    let rig = Rig::new();
    let (bytes, handle) = rig.file("data", 100_000);
    let second = Arc::new(CudaDevice::new(1).unwrap());
    let context = Context::new(second.context()).unwrap();
    let memory = second.allocate(1 << 20).unwrap();
    let base = memory.address();
    // The first device is current on this thread, and stays so.
    rig.device.bind().unwrap();
    let mut current = std::ptr::null_mut();
    let memory = Registration::new(&rig.cufile, &context, base, 1 << 20, Arc::new(memory)).unwrap();
    // SAFETY: the driver writes one pointer.
    assert_eq!(unsafe { (rig.device.library().context_current)(&mut current) }, 0);
    assert_eq!(current, rig.device.context().cu_ctx().cast());
    let job = || Job::new(vec![rig.transfer(&handle, &memory, 0, 100_000, 0)]);
    for (name, form) in rig.forms() {
        let (job, waiter) = job();
        form.take(job);
        assert!(matches!(waiter.wait().unwrap_err().fault, CuFileFault::OtherContext), "{name}");
    }
    let pool = Pool::new(&rig.cufile, &context, 2).unwrap();
    let batch = Batch::new(&rig.cufile, &context).unwrap();
    let stream = Stream::new(&rig.cufile, &context).unwrap();
    for form in [&pool as &dyn Form, &batch, &stream] {
        let (job, waiter) = job();
        form.take(job);
        assert!(waiter.wait().is_ok());
        assert!(rig.emulator.read_device(base, 100_000) == bytes, "wrong bytes");
    }
    drop((pool, batch, stream));
    drop((memory, handle, context, second));
    rig.end();
}

#[test]
#[ignore = "run by a test above"]
fn forks_in_child() {
    if !is_child() {
        return;
    }
    let rig = Rig::new();
    let (_, handle) = rig.file("data", 100_000);
    let memory = rig.memory(1 << 20);
    let forms = rig.forms();
    // SAFETY: the child below only tries what must be refused, and leaves without running anything of the parent's.
    let child = unsafe { libc::fork() };
    if child == 0 {
        let refused = || {
            let job = || Job::new(vec![rig.transfer(&handle, &memory, 0, 100_000, 0)]);
            let forked = |(name, form): &(&str, Box<dyn Form>)| {
                let (job, waiter) = job();
                form.take(job);
                form.close();
                let told = matches!(waiter.wait().unwrap_err().fault, CuFileFault::Forked);
                eprintln!("in the fork, {name}: {told}");
                told && form.ended_by(None)
            };
            let fd: Arc<dyn AsFd + Send + Sync> = Arc::new(open(&rig.path("data"), libc::O_DIRECT));
            forms.iter().all(forked)
                && matches!(CuFile::open(rig.device.context()), Err(CuFileError::Forked))
                && matches!(Handle::new(&rig.cufile, fd), Err(CuFileError::Forked))
                && matches!(
                    Registration::new(&rig.cufile, &rig.context, 4096, 4096, Arc::new(())),
                    Err(CuFileError::Forked)
                )
                && matches!(Pool::new(&rig.cufile, &rig.context, 1), Err(CuFileError::Forked))
                && rig.cufile.count().now().is_none()
        };
        let told = std::panic::catch_unwind(std::panic::AssertUnwindSafe(refused)).unwrap_or(false);
        let dropped = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| drop((forms, memory, handle)))).is_ok();
        // SAFETY: leaves at once.
        unsafe { libc::_exit(if told && dropped { 0 } else { 1 }) };
    }
    let mut status = 0;
    // SAFETY: waits for the child.
    assert_eq!(unsafe { libc::waitpid(child, &mut status, 0) }, child);
    assert_eq!(status, 0, "the fork's status");
    drop((forms, memory, handle));
    rig.end();
}

#[test]
#[ignore = "run by a test above"]
fn lacks_in_child() {
    if !is_child() {
        return;
    }
    let rig = Rig::new();
    assert!(!rig.cufile.properties().batch && !rig.cufile.properties().streams);
    let error = Batch::new(&rig.cufile, &rig.context).unwrap_err().to_string();
    assert!(error.contains("no batch reads"), "{error}");
    let error = Stream::new(&rig.cufile, &rig.context).unwrap_err().to_string();
    assert!(error.contains("no stream reads"), "{error}");
    assert_eq!(rig.cufile.count().now(), None);
    rig.end();
}

#[test]
#[ignore = "run by a test above"]
fn cannot_open_in_child() {
    if !is_child() {
        return;
    }
    let device = CudaDevice::new(0).unwrap();
    let error = CuFile::open(device.context()).unwrap_err().to_string();
    assert!(
        error.contains("cuFileDriverOpen failed with CU_FILE_NVFS_SETUP_ERROR (5033); load the nvidia-fs"),
        "{error}"
    );
}
