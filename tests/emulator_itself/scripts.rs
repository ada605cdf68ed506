//! The script: counts, failures, stalls.
use std::time::{Duration, Instant};

use crate::rig::*;

#[test]
fn calls_are_counted_by_name() {
    under("", |rig| {
        rig.reset_calls();
        let ptrs: Vec<u64> = (0..5).map(|_| rig.device_memory(512)).collect();
        ptrs.iter().for_each(|&ptr| assert_eq!(rig.cuMemFree_v2(ptr), 0));
        assert_eq!((rig.calls("cuMemAlloc_v2"), rig.calls("cuMemFree_v2"), rig.calls("cuMemFreeAsync")), (5, 5, 0));
        rig.reset_calls();
        assert_eq!(rig.calls("cuMemAlloc_v2"), 0);
    });
}

#[test]
fn a_call_fails_when_it_is_told_to() {
    under("fail=cuEventCreate@2:304", |rig| {
        let mut event = 0;
        let codes: Vec<i32> = (0..4).map(|_| rig.cuEventCreate(&mut event, 0)).collect();
        assert_eq!(codes, [0, 304, 0, 0]);
        rig.script("fail=cuMemAlloc_v2@3+:2; fail=cuMemGetInfo_v2:999");
        let codes: Vec<i32> = (0..5).map(|_| rig.cuMemAlloc_v2(&mut 0, 512)).collect();
        assert_eq!(codes, [0, 0, 2, 2, 2]);
        assert_eq!([(); 3].map(|()| rig.cuMemGetInfo_v2(&mut 0, &mut 0)), [999; 3]);
        rig.script("clear");
        assert_eq!(rig.cuMemGetInfo_v2(&mut 0, &mut 0), 0);
        // Of those that failed nothing is left; of the others all.
        let leaks = rig.leaks();
        assert_eq!(leaks.len(), 3 + 2, "{leaks:#?}");
        for leak in leaks {
            let at = leak.split_whitespace().find(|word| word.starts_with("0x")).unwrap();
            let at = u64::from_str_radix(&at[2..], 16).unwrap();
            assert_eq!(
                if leak.starts_with("event") { rig.cuEventDestroy_v2(at as usize) } else { rig.cuMemFree_v2(at) },
                0
            );
        }
    });
}

#[test]
fn a_call_stalls_when_it_is_told_to() {
    under("stall=cuCtxSynchronize@2:300", |rig| {
        let times = [(); 3].map(|()| {
            let start = Instant::now();
            assert_eq!(rig.cuCtxSynchronize(), 0);
            start.elapsed()
        });
        let stalled = times.map(|time| time >= Duration::from_millis(300));
        assert_eq!(stalled, [false, true, false], "{times:?}");
    });
}

/// A failure of the device itself comes late, with some other call, and stays: the context is lost.
#[test]
fn an_operation_that_fails_loses_the_context() {
    under("jitter_us=0; fail=execute@2:700; stall=execute@2:200", |rig| {
        let (ptr, stream, event) = (rig.device_memory(4096), rig.stream(), rig.event());
        assert_eq!((rig.cuMemsetD8Async(ptr, 1, 4096, stream), rig.cuStreamSynchronize(stream)), (0, 0));
        assert_eq!(rig.cuMemsetD8Async(ptr, 2, 4096, stream), 0);
        assert_eq!(rig.cuEventRecord(event, stream), 0);
        assert_eq!(rig.cuEventSynchronize(event), 700);
        let later =
            [rig.cuMemAlloc_v2(&mut 0, 1), rig.cuStreamSynchronize(stream), rig.cuMemsetD8Async(ptr, 3, 1, stream)];
        assert_eq!(later, [700; 3]);
        assert_eq!(rig.read_device(ptr, 4096), [1; 4096]);
        assert_eq!((rig.cuStreamDestroy_v2(stream), rig.cuEventDestroy_v2(event)), (0, 0));
        assert_eq!(rig.cuMemFree_v2(ptr), 700);
    });
}

#[test]
fn a_script_that_is_not_understood_is_said() {
    let rig = crate::or_skip!(Rig::bare(""));
    let script = rig.function::<extern "C" fn(*const std::ffi::c_char) -> i32>("emulator_script");
    for wrong in [c"fail=cuInit", c"seed=many", c"stall=cuInit@x:1", c"jitter_us="] {
        assert_eq!(script(wrong.as_ptr()), -1, "{wrong:?}");
        rig.expect_violation("emulator_script: `");
    }
    assert_eq!(script(c" ; seed = 3 ;; somebody_elses=thing; memory=1.5GiB;".as_ptr()), 0);
}
