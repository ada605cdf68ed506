//! `cuFileSetStatsLevel` and the calls that start, stop and read the statistics.

use super::abi::{StatsLevel1, StatsLevel2, StatsLevel3, Status, code};
use super::stats::{self, Stats};
use super::{gate, settings};
use std::ffi::c_int;

#[unsafe(no_mangle)]
pub extern "C" fn cuFileSetStatsLevel(level: c_int) -> Status {
    gate::answer(gate::enter("cuFileSetStatsLevel").and_then(|_| {
        refuse_if_absent()?;
        if !(0..=3).contains(&level) {
            return Err(Status::of(code::INVALID_VALUE));
        }
        stats::lock().level = level;
        Ok(())
    }))
}

/// # Safety
/// `level` is null or may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuFileGetStatsLevel(level: *mut c_int) -> Status {
    gate::answer(gate::enter("cuFileGetStatsLevel").and_then(|_| {
        refuse_if_absent()?;
        let level = gate::not_null(level)?;
        // SAFETY: not null, and valid by this function's contract.
        unsafe { *level = stats::lock().level };
        Ok(())
    }))
}

#[unsafe(no_mangle)]
pub extern "C" fn cuFileStatsStart() -> Status {
    gate::answer(gate::enter_open("cuFileStatsStart").and_then(|_| {
        refuse_if_absent()?;
        let mut stats = stats::lock();
        if stats.level == 0 {
            return Err(Status::of(code::INVALID_VALUE));
        }
        stats.running = true;
        Ok(())
    }))
}

#[unsafe(no_mangle)]
pub extern "C" fn cuFileStatsStop() -> Status {
    gate::answer(gate::enter_open("cuFileStatsStop").and_then(|_| {
        refuse_if_absent()?;
        stats::lock().running = false;
        Ok(())
    }))
}

#[unsafe(no_mangle)]
pub extern "C" fn cuFileStatsReset() -> Status {
    gate::answer(gate::enter_open("cuFileStatsReset").and_then(|_| {
        refuse_if_absent()?;
        stats::lock().clear();
        Ok(())
    }))
}

/// # Safety
/// `out` is null or may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuFileGetStatsL1(out: *mut StatsLevel1) -> Status {
    // SAFETY: the same contract.
    unsafe { fill("cuFileGetStatsL1", 1, out, |stats| stats.all.detailed.basic) }
}

/// # Safety
/// `out` is null or may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuFileGetStatsL2(out: *mut StatsLevel2) -> Status {
    // SAFETY: the same contract.
    unsafe { fill("cuFileGetStatsL2", 2, out, |stats| stats.all.detailed) }
}

/// # Safety
/// `out` is null or may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuFileGetStatsL3(out: *mut StatsLevel3) -> Status {
    // SAFETY: the same contract.
    unsafe { fill("cuFileGetStatsL3", 3, out, Stats::level3) }
}

/// # Safety
/// `out` is null or may be written.
unsafe fn fill<T>(name: &'static str, level: i32, out: *mut T, of: impl FnOnce(&Stats) -> T) -> Status {
    gate::answer(gate::enter_open(name).and_then(|_| {
        refuse_if_absent()?;
        let out = gate::not_null(out)?;
        let stats = stats::lock();
        if stats.level < level {
            return Err(Status::of(code::INVALID_VALUE));
        }
        // SAFETY: not null, and valid by this function's contract.
        unsafe { out.write(of(&stats)) };
        Ok(())
    }))
}

fn refuse_if_absent() -> Result<(), Status> {
    let absent = settings::is_set("cufile_no_stats");
    if absent { Err(Status::of(code::PLATFORM_NOT_SUPPORTED)) } else { Ok(()) }
}
