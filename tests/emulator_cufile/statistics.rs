//! The library's own account.

use crate::abi::{SUCCESS, StatsLevel1, StatsLevel2, StatsLevel3, Status, code};
use crate::rig::{MIB, Rig, Sample};

fn level3(rig: &Rig) -> Box<StatsLevel3> {
    let mut all = Box::new(StatsLevel3::default());
    // SAFETY: a place of our own.
    assert_eq!(unsafe { (rig.api.cuFileGetStatsL3)(&mut *all) }, SUCCESS);
    all
}

/// Sets the level and starts.
fn start(rig: &Rig, level: i32) {
    // SAFETY: they take numbers.
    unsafe {
        assert_eq!((rig.api.cuFileSetStatsLevel)(level), SUCCESS);
        assert_eq!((rig.api.cuFileStatsStart)(), SUCCESS);
    }
}

#[test]
fn every_gpu_tells_the_path_its_reads_took() {
    let Some(sample) = Sample::new(MIB) else { return };
    let rig = Rig::open("");
    start(&rig, 3);
    let memory = rig.registered(MIB);
    for (path, n) in [("p2p", 1), ("nvfs", 2), ("compat", 3)] {
        rig.script(&format!("cufile_path={path}"));
        let handle = rig.register(sample.fd()).unwrap();
        for _ in 0..n {
            assert_eq!(rig.read(handle, memory.address, MIB, 0, 0), MIB as isize);
        }
        rig.deregister(handle);
    }
    rig.script("cufile_path=p2p;fail=cuFileRead@2:5030");
    let handle = rig.register(sample.fd()).unwrap();
    assert_eq!(rig.read(handle, memory.address, 100, 0, 0), 100);
    let all = level3(&rig);
    let gpu = &all.per_gpu_stats[0];
    let mut uuid = [0; 16];
    // SAFETY: a place of our own.
    assert_eq!(unsafe { (rig.api.cuDeviceGetUuid)(&mut uuid, 0) }, 0);
    assert_eq!((all.num_gpus, gpu.uuid), (rig.devices(), uuid));
    assert_eq!((gpu.n_p2p_reads, gpu.n_nvfs_reads, gpu.n_posix_reads), (2, 2, 3));
    assert_eq!((gpu.n_total_reads, gpu.read_bytes, gpu.n_unaligned_reads), (7, 6 * MIB as u64 + 100, 1));
    assert_eq!((gpu.reg_bytes, gpu.n_mmap_ok), (MIB as u64, 1));
    let basic = &all.detailed.basic;
    assert_eq!((basic.read_ops.ok, basic.read_bytes), (7, 6 * MIB as u64 + 100));
    assert_eq!((basic.hdl_register_ops.ok, basic.hdl_deregister_ops.ok, basic.buf_register_ops.ok), (4, 3, 1));
    assert_eq!((all.detailed.read_size_kb_hist[11], all.detailed.read_size_kb_hist[0]), (6, 1));
}

#[test]
fn nothing_is_counted_unless_started() {
    let Some(sample) = Sample::new(4096) else { return };
    let rig = Rig::open("");
    let memory = rig.registered(4096);
    let handle = rig.register(sample.fd()).unwrap();
    let read = || assert_eq!(rig.read(handle, memory.address, 4096, 0, 0), 4096);
    let reads = || level3(&rig).detailed.basic.read_ops.ok;
    // SAFETY: they take numbers.
    unsafe {
        assert_eq!((rig.api.cuFileStatsStart)(), Status::of(code::INVALID_VALUE), "level 0");
        assert_eq!((rig.api.cuFileSetStatsLevel)(4), Status::of(code::INVALID_VALUE));
        assert_eq!((rig.api.cuFileSetStatsLevel)(3), SUCCESS);
    }
    read();
    assert_eq!(reads(), 0, "not started");
    start(&rig, 3);
    read();
    assert_eq!(reads(), 1);
    // SAFETY: they take nothing.
    unsafe {
        assert_eq!((rig.api.cuFileStatsStop)(), SUCCESS);
        read();
        assert_eq!(reads(), 1, "stopped, and still to be read");
        assert_eq!((rig.api.cuFileStatsReset)(), SUCCESS);
        assert_eq!(reads(), 0);
    }
}

#[test]
fn a_level_gives_only_what_it_keeps() {
    let rig = Rig::open("");
    start(&rig, 1);
    let (mut first, mut second, mut level) = (StatsLevel1::default(), StatsLevel2::default(), 0);
    // SAFETY: places of our own.
    unsafe {
        assert_eq!((rig.api.cuFileGetStatsL1)(&mut first), SUCCESS);
        assert_eq!((rig.api.cuFileGetStatsL2)(&mut second), Status::of(code::INVALID_VALUE));
        assert_eq!((rig.api.cuFileGetStatsL1)(std::ptr::null_mut()), Status::of(code::INVALID_VALUE));
        assert_eq!((rig.api.cuFileGetStatsLevel)(&mut level), SUCCESS);
    }
    assert_eq!(level, 1);
}

#[test]
fn a_library_without_statistics_says_so() {
    let rig = Rig::open("cufile_no_stats");
    let mut all = Box::new(StatsLevel3::default());
    let absent = Status::of(code::PLATFORM_NOT_SUPPORTED);
    // SAFETY: they take numbers and a place of our own.
    unsafe {
        assert_eq!((rig.api.cuFileSetStatsLevel)(3), absent);
        assert_eq!((rig.api.cuFileStatsStart)(), absent);
        assert_eq!((rig.api.cuFileGetStatsL3)(&mut *all), absent);
    }
}
