//! The emulator under a program that does everything wrong, on many threads at once: it may report what it likes, but it
//! neither panics nor hangs.
use std::ptr;
use std::thread;

use crate::common::Rng;
use crate::rig::*;

const SLOT: usize = 4096;

/// Handles and pointers that threads share: some alive, some dead, some never valid.
struct Things<'a> {
    rig: &'a Rig,
    host: usize,
}

impl Things<'_> {
    /// A call that may or may not make sense.
    fn call(&self, random: &mut Rng, mine: &mut Vec<[u64; 4]>) {
        let rig = self.rig;
        let [ptr, stream, event, _] = match mine.len() {
            0 => [0, 0, 0, 0],
            len => mine[random.below(len as u64) as usize],
        };
        let (stream, event) = (stream as usize, event as usize);
        let (at, len) = (self.host + random.below(16) as usize * SLOT, random.below(2 * SLOT as u64) as usize);
        match random.below(24) {
            0 | 1 => {
                let (mut ptr, mut stream, mut event) = (0, 0, 0);
                rig.cuMemAlloc_v2(&mut ptr, SLOT);
                rig.cuStreamCreate(&mut stream, random.below(3) as u32);
                rig.cuEventCreate(&mut event, random.below(9) as u32);
                mine.push([ptr, stream as u64, event as u64, 0]);
                if mine.len() > 8 {
                    mine.remove(0);
                }
            }
            2 => drop(rig.cuStreamDestroy_v2(stream)),
            3 => drop(rig.cuEventDestroy_v2(event)),
            4 => drop(rig.cuMemFree_v2(ptr)),
            5 => drop(rig.cuMemFreeAsync(ptr, stream)),
            6 => drop(rig.cuStreamSynchronize(stream)),
            7 => drop(rig.cuEventSynchronize(event)),
            8 => drop(rig.cuEventQuery(event)),
            9 => drop(rig.cuStreamWaitEvent(stream, event, 0)),
            10 => drop(rig.cuMemHostRegister_v2(at, len, 1)),
            11 => drop(rig.cuMemHostUnregister(at)),
            12 => drop(rig.cuMemsetD8Async(ptr, 7, len, stream)),
            13 => drop(rig.cuMemcpyDtoHAsync_v2(at, ptr, len, stream)),
            14 => drop(rig.cuMemcpyHtoD_v2(ptr, at, len)),
            15 => drop(rig.cuCtxSetCurrent(if random.below(4) == 0 { at } else { rig.context })),
            16 => drop(rig.cuCtxSynchronize()),
            17 => drop(rig.cuEventElapsedTime(ptr::null_mut(), event, event)),
            18 => drop(rig.cuMemAlloc_v2(ptr::null_mut(), len)),
            19 => drop(rig.cuMemcpyAsync(ptr, at as u64, len, random.below(4) as usize)),
            _ => {
                rig.cuMemcpyHtoDAsync_v2(ptr, at, len, stream);
                rig.cuEventRecord(event, stream);
            }
        };
    }
}

#[test]
fn nothing_makes_it_panic_or_hang() {
    loosely("jitter_us=30; seed=11", |rig| {
        let host = memmap2::MmapMut::map_anon(32 * SLOT).unwrap();
        let things = Things { rig, host: host.as_ptr() as usize };
        thread::scope(|scope| {
            for seed in 0..4 {
                let things = &things;
                scope.spawn(move || {
                    let (mut random, mut mine) = (Rng::new(seed), Vec::new());
                    things.rig.cuCtxSetCurrent(things.rig.context);
                    (0..2000).for_each(|_| things.call(&mut random, &mut mine));
                });
            }
        });
        assert_eq!(rig.cuCtxSetCurrent(rig.context), 0);
        assert_eq!(rig.cuDevicePrimaryCtxRelease_v2(0), 0);
        let violations = rig.violations();
        assert!(violations.len() > 100, "so much was wrong, and {} things were said", violations.len());
        let own: Vec<_> = violations.iter().filter(|one| one.contains("panicked") || one.contains("not end")).collect();
        assert!(own.is_empty(), "{own:#?}");
        assert_eq!(rig.in_flight(), 0);
    });
}
