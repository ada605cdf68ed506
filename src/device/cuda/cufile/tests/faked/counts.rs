//! The statistics of libraries of two generations, which lay them out differently.

use std::ffi::{c_int, c_void};

use super::Counters;
use super::functions::{WELL, calls};
use super::world::{cufile, turn, with};
use crate::sys::cufile::{Calls, Level1, Level1Vectored, Level3, Roomy, StatsCalls, Status};

unsafe extern "C" fn level(level: *mut c_int) -> Status {
    let set = with(|world| world.log.iter().rev().find_map(|call| call.strip_prefix("level ")?.parse::<c_int>().ok()));
    // SAFETY: the caller gives room for one.
    unsafe { level.write(set.unwrap_or(1)) };
    WELL
}

extern "C" fn set_level(level: c_int) -> Status {
    with(|world| world.log.push(format!("level {level}")));
    WELL
}

extern "C" fn start() -> Status {
    with(|world| world.log.push("start".into()));
    WELL
}

unsafe extern "C" fn level_1<L: Copy>(stats: *mut c_void) -> Status {
    let zero = Roomy::<L>::filled(0);
    // SAFETY: the caller gives room for one.
    unsafe { stats.cast::<L>().write(zero.stats) };
    WELL
}

unsafe extern "C" fn level_3<L: Copy>(stats: *mut c_void) -> Status {
    let mut said = Roomy::<Level3<L>>::filled(0);
    said.stats.gpus = 2;
    for (gpu, ours) in said.stats.per_gpu.iter_mut().zip([100, 20, 7]) {
        (gpu.read_bytes, gpu.reads_p2p, gpu.reads_nvfs) = (ours * 4096, ours, ours + 1);
        (gpu.reads_posix, gpu.reads_unaligned, gpu.reads_failed) = (ours + 2, ours + 3, ours + 4);
    }
    // SAFETY: the caller gives room for one.
    unsafe { stats.cast::<Level3<L>>().write(said.stats) };
    WELL
}

fn library<L: Copy>() -> Calls {
    let stats = StatsCalls { level, set_level, start, level_1: level_1::<L>, level_3: level_3::<L> };
    Calls { stats: Some(stats), ..calls() }
}

#[test]
fn both_generations_are_read_right_and_the_level_is_raised_while_somebody_counts() {
    let _turn = turn();
    for calls in [library::<Level1>(), library::<Level1Vectored>()] {
        with(|world| world.log.clear());
        let cufile = cufile(calls);
        let counts = [cufile.count(), cufile.count()];
        for count in &counts {
            let counted = count.now().unwrap();
            let expected = Counters {
                bytes: 120 * 4096,
                reads_p2p: 120,
                reads_nvfs: 122,
                reads_posix: 124,
                reads_unaligned: 126,
                reads_failed: 128,
            };
            assert_eq!(counted, expected);
            assert_eq!(counted.all_direct(), Some(false));
        }
        let [first, second] = counts;
        with(|world| assert_eq!((world.count("level 3"), world.count("start")), (1, 1)));
        drop(first);
        assert!(second.now().is_some());
        with(|world| assert_eq!(world.count("level 1"), 0));
        // With the last one it is what the process had set.
        drop(second);
        with(|world| assert_eq!(world.count("level 1"), 1));
        drop(cufile.count());
        with(|world| assert_eq!((world.count("level 3"), world.count("level 1")), (2, 2)));
    }
}

#[test]
fn a_level_that_is_high_enough_is_left_alone() {
    let _turn = turn();
    with(|world| world.log.push("level 3".into()));
    let cufile = cufile(library::<Level1>());
    assert!(cufile.count().now().is_some());
    with(|world| assert_eq!(world.count("level 3"), 1));
}

#[test]
fn nonsense_and_nothing_are_none() {
    unsafe extern "C" fn nonsense(stats: *mut c_void) -> Status {
        // SAFETY: the caller gives room for one.
        unsafe { stats.cast::<u8>().write_bytes(0xff, size_of::<Level3<Level1>>()) };
        WELL
    }
    extern "C" fn refuse(_: *mut c_void) -> Status {
        Status { err: 5022, cu_err: 0 }
    }
    let _turn = turn();
    let stats = library::<Level1>().stats.unwrap();
    for stats in [
        None,
        Some(StatsCalls { level_3: nonsense, ..stats.clone() }),
        Some(StatsCalls { level_3: refuse, ..stats.clone() }),
        Some(StatsCalls { level_1: refuse, ..stats }),
    ] {
        assert_eq!(cufile(Calls { stats, ..calls() }).count().now(), None);
    }
    assert_eq!(Counters::default().all_direct(), None);
}
