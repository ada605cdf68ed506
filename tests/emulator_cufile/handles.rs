//! Registered files.

use crate::abi::{Status, code};
use crate::rig::{O_DIRECT, Rig, Sample, is_tmpfs_or_overlay, open};
use nix::libc;
use std::fs::File;
use std::io::Write;
use std::os::fd::AsRawFd;
use std::ptr::null_mut;

#[test]
fn a_file_is_registered_once() {
    let Some(sample) = Sample::new(4096) else { return };
    let rig = Rig::open("");
    let handle = rig.register(sample.fd()).unwrap();
    assert_eq!(rig.register(sample.fd()).unwrap_err(), Status::of(code::HANDLE_ALREADY_REGISTERED));
    let again = open(&sample.path, O_DIRECT).unwrap();
    let other = rig.register(again.as_raw_fd()).unwrap();
    assert_eq!((rig.count("handles"), rig.count("handle_registrations")), (2, 2));
    rig.deregister(handle);
    rig.deregister(other);
    assert_eq!((rig.count("handles"), rig.count("handle_registrations")), (0, 2));
    rig.assert_clean();
}

#[test]
fn flags_that_cufile_cannot_serve_are_refused() {
    let Some(sample) = Sample::new(4096) else { return };
    let rig = Rig::open("");
    for flag in [libc::O_APPEND, libc::O_NONBLOCK, libc::O_NOFOLLOW, libc::O_NOATIME] {
        let file = open(&sample.path, O_DIRECT | flag).unwrap();
        let refused = rig.register(file.as_raw_fd()).unwrap_err();
        assert_eq!(refused, Status::of(code::INVALID_FILE_OPEN_FLAG), "{flag:#o}");
    }
    rig.assert_clean();
}

#[test]
fn what_is_no_file_is_refused() {
    let rig = Rig::open("");
    let (reader, writer) = std::io::pipe().unwrap();
    let folder = File::open("/").unwrap();
    for fd in [reader.as_raw_fd(), writer.as_raw_fd(), folder.as_raw_fd()] {
        assert_eq!(rig.register(fd).unwrap_err(), Status::of(code::INVALID_FILE_TYPE));
    }
    assert_eq!(rig.register(-1).unwrap_err(), Status::of(code::INVALID_VALUE));
    assert_eq!(rig.register(1 << 20).unwrap_err(), Status::of(code::INVALID_VALUE));
    // SAFETY: null is answered.
    let status = unsafe { (rig.api.cuFileHandleRegister)(null_mut(), null_mut()) };
    assert_eq!(status, Status::of(code::INVALID_VALUE));
}

#[test]
fn without_o_direct_or_a_direct_path_a_file_falls_to_compatibility_mode() {
    let Some(sample) = Sample::new(4096) else { return };
    let rig = Rig::open("");
    let memory = rig.registered(4096);
    let buffered = open(&sample.path, 0).unwrap();
    let handle = rig.register(buffered.as_raw_fd()).unwrap();
    assert_eq!(rig.read(handle, memory.address, 4096, 0, 0), 4096);
    assert_eq!((rig.count("bytes_posix"), rig.count("bytes_p2p")), (4096, 0));
    rig.script("cufile_path=compat");
    let handle = rig.register(sample.fd()).unwrap();
    assert_eq!(rig.read(handle, memory.address, 4096, 0, 0), 4096);
    assert_eq!((rig.count("bytes_posix"), rig.count("bytes_p2p")), (8192, 0));
    assert_eq!(memory.bytes(), sample.bytes);
    rig.assert_clean();
}

#[test]
fn where_compatibility_mode_is_forbidden_those_files_are_refused() {
    let Some(sample) = Sample::new(4096) else { return };
    let rig = Rig::open("cufile_no_compat");
    let buffered = open(&sample.path, 0).unwrap();
    assert_eq!(rig.register(buffered.as_raw_fd()).unwrap_err(), Status::of(code::DIO_NOT_SET));
    rig.register(sample.fd()).unwrap();
    let again = open(&sample.path, O_DIRECT).unwrap();
    rig.script("cufile_path=compat");
    assert_eq!(rig.register(again.as_raw_fd()).unwrap_err(), Status::of(code::IO_NOT_SUPPORTED));
    rig.script("cufile_path=nvfs;cufile_refuse_handle=5030");
    assert_eq!(rig.register(again.as_raw_fd()).unwrap_err(), Status::of(code::INTERNAL_ERROR));
    rig.script("cufile_refuse_handle=0");
    rig.register(again.as_raw_fd()).unwrap();
}

#[test]
fn memory_file_systems_are_not_read_directly() {
    // Not an unnamed file: those are opened with `O_TMPFILE`, which is refused.
    let Ok(named) = tempfile::NamedTempFile::new_in("/dev/shm") else {
        return crate::common::skipped::skipped("no /dev/shm to write in");
    };
    let (mut file, _path) = named.into_parts();
    if !is_tmpfs_or_overlay(&file) {
        return crate::common::skipped::skipped("/dev/shm is no tmpfs here");
    }
    file.write_all(&[7; 4096]).unwrap();
    let rig = Rig::open("cufile_no_compat");
    assert_eq!(rig.register(file.as_raw_fd()).unwrap_err(), Status::of(code::INTERNAL_ERROR));
    rig.script("cufile_no_compat=0");
    let memory = rig.registered(4096);
    let handle = rig.register(file.as_raw_fd()).unwrap();
    assert_eq!(rig.read(handle, memory.address, 4096, 0, 0), 4096);
    assert_eq!((rig.count("bytes_posix"), memory.bytes()), (4096, vec![7; 4096]));
}

#[test]
fn a_descriptor_closed_under_its_handle_is_caught() {
    let Some(sample) = Sample::new(4096) else { return };
    let rig = Rig::open("");
    let memory = rig.registered(4096);
    let file = open(&sample.path, O_DIRECT).unwrap();
    let fd = file.as_raw_fd();
    let handle = rig.register(fd).unwrap();
    drop(file);
    assert_eq!(rig.read(handle, memory.address, 4096, 0, 0), -1);
    assert_eq!(std::io::Error::last_os_error().raw_os_error(), Some(libc::EBADF));
    rig.assert_caught("closed");
    rig.deregister(handle);
    rig.assert_caught("closed");
}

#[test]
fn a_descriptor_that_is_another_file_now_is_caught() {
    let Some(sample) = Sample::new(4096) else { return };
    let Some(other) = Sample::new(4096) else { return };
    let rig = Rig::open("");
    let memory = rig.registered(4096);
    let file = open(&sample.path, O_DIRECT).unwrap();
    let handle = rig.register(file.as_raw_fd()).unwrap();
    // SAFETY: both descriptors are open and ours.
    assert!(unsafe { libc::dup2(other.fd(), file.as_raw_fd()) } >= 0);
    assert_eq!(rig.read(handle, memory.address, 4096, 0, 0), -1);
    rig.assert_caught("is another file now");
}

#[test]
fn a_handle_is_dead_after_deregistration() {
    let Some(sample) = Sample::new(4096) else { return };
    let rig = Rig::open("");
    let memory = rig.registered(4096);
    let handle = rig.register(sample.fd()).unwrap();
    rig.deregister(handle);
    assert_eq!(rig.read(handle, memory.address, 4096, 0, 0), -5027);
    rig.assert_caught("not registered");
    rig.deregister(handle);
    rig.assert_caught("not registered");
}
