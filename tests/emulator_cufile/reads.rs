//! `cuFileRead` and its kin.

use crate::abi::IoVec;
use crate::rig::{MIB, Rig, Sample, open};
use nix::libc;
use std::ffi::c_void;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;

#[test]
fn a_whole_file_arrives_by_the_path_underneath() {
    let Some(sample) = Sample::new(3 * MIB) else { return };
    for (path, counter) in [("p2p", "bytes_p2p"), ("nvfs", "bytes_nvfs"), ("compat", "bytes_posix")] {
        let rig = Rig::open(&format!("cufile_path={path}"));
        let memory = rig.registered(3 * MIB);
        let handle = rig.register(sample.fd()).unwrap();
        assert_eq!(rig.read(handle, memory.address, 3 * MIB, 0, 0), 3 * MIB as isize);
        assert!(memory.bytes() == sample.bytes);
        assert_eq!((rig.count("reads"), rig.count(counter)), (1, 3 << 20));
        assert_eq!((rig.count("unaligned"), rig.count("unregistered")), (0, 0));
        rig.assert_clean();
    }
}

#[test]
fn long_reads_are_split_inside() {
    let Some(sample) = Sample::new(MIB) else { return };
    let rig = Rig::open("cufile_max_direct_io_kb=64");
    let memory = rig.registered(MIB);
    let handle = rig.register(sample.fd()).unwrap();
    assert_eq!(rig.read(handle, memory.address, MIB, 0, 0), MIB as isize);
    assert!(memory.bytes() == sample.bytes);
    rig.assert_clean();
}

#[test]
fn the_end_of_the_file_gives_a_short_count_and_touches_nothing_behind() {
    let Some(sample) = Sample::new(10_000) else { return };
    let rig = Rig::open("");
    let memory = rig.registered(16384);
    memory.fill(&[0xee; 16384]);
    let handle = rig.register(sample.fd()).unwrap();
    assert_eq!(rig.read(handle, memory.address, 16384, 0, 0), 10_000);
    let bytes = memory.bytes();
    assert_eq!(bytes[..10_000], sample.bytes);
    assert!(bytes[10_000..].iter().all(|byte| *byte == 0xee));
    assert_eq!(rig.read(handle, memory.address, 4096, 12288, 0), 0);
    assert_eq!(rig.read(handle, memory.address, 4096, 1 << 40, 0), 0);
    rig.assert_clean();
}

#[test]
fn what_is_not_aligned_works_and_is_counted() {
    let Some(sample) = Sample::new(64 << 10) else { return };
    let rig = Rig::open("");
    let memory = rig.registered(MIB);
    let handle = rig.register(sample.fd()).unwrap();
    for (count, (file_offset, size, offset)) in
        [(5, 4096, 0), (4096, 100, 0), (0, 4096, 3), (4095, 4098, 4097)].into_iter().enumerate()
    {
        memory.fill(&[0; 16384]);
        assert_eq!(rig.read(handle, memory.address, size, file_offset, offset), size as isize);
        assert_eq!(rig.count("unaligned"), count as u64 + 1);
        let (from, to) = (file_offset as usize, offset as usize);
        assert_eq!(memory.bytes()[to..to + size], sample.bytes[from..from + size]);
    }
    assert_eq!(rig.count("unregistered"), 0);
    rig.assert_clean();
}

#[test]
fn a_base_that_was_not_registered_works_and_is_counted() {
    let Some(sample) = Sample::new(8192) else { return };
    let rig = Rig::open("");
    let handle = rig.register(sample.fd()).unwrap();
    let plain = rig.memory(MIB);
    assert_eq!(rig.read(handle, plain.address, 8192, 0, 0), 8192);
    assert_eq!((rig.count("unregistered"), rig.count("unaligned")), (1, 0));
    let registered = rig.registered(MIB);
    let interior = registered.address + 8192;
    assert_eq!(rig.read(handle, interior, 8192, 0, 0), 8192);
    assert_eq!(rig.count("unregistered"), 2, "a pointer into registered memory is not its base");
    assert_eq!(rig.read(handle, registered.address, 8192, 0, 8192), 8192);
    assert_eq!(rig.count("unregistered"), 2);
    assert_eq!(registered.bytes()[8192..16384], sample.bytes);
    rig.assert_clean();
}

#[test]
fn reading_past_what_was_registered_is_caught() {
    let Some(sample) = Sample::new(8192) else { return };
    let rig = Rig::open("");
    let memory = rig.memory(MIB);
    // As when elements were counted for bytes.
    rig.register_memory(memory.address, MIB / 4);
    let handle = rig.register(sample.fd()).unwrap();
    assert_eq!(rig.read(handle, memory.address, 8192, 0, MIB as i64 / 4 - 4096), -5014);
    rig.assert_caught("registered memory of 262144 bytes");
}

#[test]
fn memory_that_cannot_take_the_bytes_is_caught() {
    let Some(sample) = Sample::new(8192) else { return };
    let rig = Rig::open("");
    let handle = rig.register(sample.fd()).unwrap();
    let memory = rig.memory(4096);
    assert_eq!(rig.read(handle, memory.address, 8192, 0, 0), -5014);
    rig.assert_caught("pass the end");
    let mut host = [0u8; 64];
    assert_eq!(rig.read(handle, host.as_mut_ptr() as u64, 64, 0, 0), -5013);
    rig.assert_caught("not device memory");
    memory.free();
    assert_eq!(rig.read(handle, memory.address, 4096, 0, 0), -5013);
    rig.assert_caught("freed");
    assert_eq!(rig.read(handle, memory.address, 4096, -1, 0), -5022);
    rig.assert_clean();
}

#[test]
fn reading_without_a_context_is_caught() {
    let Some(sample) = Sample::new(4096) else { return };
    let rig = Rig::open("");
    let memory = rig.registered(4096);
    let handle = rig.register(sample.fd()).unwrap();
    assert_eq!(rig.without_context(|| rig.read(handle, memory.address, 4096, 0, 0)), -5011);
    rig.assert_caught("no context is current");
}

#[test]
fn reading_under_another_devices_context_is_caught() {
    let Some(sample) = Sample::new(4096) else { return };
    let rig = Rig::open("");
    let memory = rig.registered(4096);
    let handle = rig.register(sample.fd()).unwrap();
    let Some(result) = rig.on_device_1(|| rig.read(handle, memory.address, 4096, 0, 0)) else { return };
    assert_eq!(result, -5015);
    rig.assert_caught("memory of device 0, and device 1 is current");
    let other = rig.memory(4096);
    let status = rig.on_device_1(|| rig.register_memory(other.address, 4096)).unwrap();
    assert_eq!(status.err, 5015);
    rig.assert_caught("memory of device 0, and device 1 is current");
}

#[test]
fn the_script_makes_reads_short_or_fail() {
    let Some(sample) = Sample::new(MIB) else { return };
    let rig = Rig::open("short=cuFileRead@2:4096;fail=cuFileRead@3:5030;fail=cuFileRead@4:5");
    let memory = rig.registered(MIB);
    let handle = rig.register(sample.fd()).unwrap();
    let read = || rig.read(handle, memory.address, MIB, 0, 0);
    assert_eq!(read(), MIB as isize);
    memory.fill(&vec![0xee; MIB]);
    assert_eq!(read(), 4096);
    assert_eq!(memory.bytes()[..4096], sample.bytes[..4096]);
    assert!(memory.bytes()[4096..].iter().all(|byte| *byte == 0xee));
    assert_eq!(read(), -5030);
    assert_eq!(read(), -1);
    assert_eq!(std::io::Error::last_os_error().raw_os_error(), Some(libc::EIO));
    assert_eq!(read(), MIB as isize);
    rig.assert_clean();
}

#[test]
fn holes_are_read_as_zeros() {
    let Some(sample) = Sample::new(4096) else { return };
    let file = std::fs::File::options().write(true).open(&sample.path).unwrap();
    file.set_len(MIB as u64).unwrap();
    let rig = Rig::open("");
    let memory = rig.registered(MIB);
    let handle = rig.register(sample.fd()).unwrap();
    assert_eq!(rig.read(handle, memory.address, MIB, 0, 0), MIB as isize);
    assert!(memory.bytes()[..4096] == sample.bytes && memory.bytes()[4096..].iter().all(|byte| *byte == 0));
}

#[test]
fn writes_and_vectors_move_what_they_name() {
    let Some(sample) = Sample::new(8192) else { return };
    let rig = Rig::open("");
    let writable = std::fs::File::options().read(true).write(true).open(&sample.path).unwrap();
    let memory = rig.registered(MIB);
    memory.fill(&[9; 8192]);
    let handle = rig.register(writable.as_raw_fd()).unwrap();
    let base = memory.address as *mut c_void;
    // SAFETY: they take numbers and an array of our own.
    unsafe {
        assert_eq!((rig.api.cuFileWrite)(handle, base, 100, 50, 0), 100);
        let pieces = [
            IoVec { base: memory.address as usize, len: 1000 },
            IoVec { base: memory.address as usize + 4096, len: 24 },
        ];
        assert_eq!((rig.api.cuFileReadv)(handle, pieces.as_ptr(), 2, 0, 0), 1024);
        assert_eq!((rig.api.cuFileWritev)(handle, pieces.as_ptr(), 2, 4096, 0), 1024);
        assert_eq!((rig.api.cuFileReadv)(handle, std::ptr::null(), 2, 0, 0), -5022);
    }
    let mut expected = sample.bytes.clone();
    expected[50..150].fill(9);
    let first = expected[..1024].to_vec();
    expected[4096..5120].copy_from_slice(&first);
    let mut now = vec![0; 8192];
    open(&sample.path, 0).unwrap().read_exact_at(&mut now, 0).unwrap();
    assert!(now == expected);
    let readonly = rig.register(sample.fd()).unwrap();
    // SAFETY: it takes numbers.
    assert_eq!(unsafe { (rig.api.cuFileWrite)(readonly, base, 100, 0, 0) }, -1);
    rig.assert_clean();
}
