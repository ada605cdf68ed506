//! The modelled link: its rate is what the script says, over many copies and however they are queued.
use std::time::Instant;

use crate::rig::*;

const MIB: usize = 1 << 20;

/// Never faster than the model, and as fast as it in one of many tries: a machine that does other things makes some of them
/// slower, and none faster.
fn expect(what: &str, seconds: f64, work: impl Fn()) {
    const TRIES: usize = 40;
    let mut tries = Vec::new();
    while tries.len() < TRIES && !tries.last().is_some_and(|took| *took < 1.1 * seconds) {
        let start = Instant::now();
        work();
        tries.push(start.elapsed().as_secs_f64());
        assert!(tries.iter().all(|took| *took > 0.9 * seconds), "{what} took {tries:?} s instead of {seconds} s");
    }
    assert!(tries.len() < TRIES, "{what} took {tries:?} s instead of {seconds} s");
}

#[test]
fn many_copies_take_the_time_their_bytes_take() {
    under("jitter_us=0; h2d_gbps=0.4; latency_us=10", |rig| {
        let (ptr, from, stream) = (rig.device_memory(MIB), rig.pinned(MIB), rig.stream());
        expect("1600 copies of 128 KiB", (200 * MIB) as f64 / 0.4e9 + 1600.0 * 10e-6, || {
            for n in 0..1600 {
                let offset = (n % 8) * (MIB / 8);
                assert_eq!(rig.cuMemcpyHtoDAsync_v2(ptr + offset as u64, from.at() + offset, MIB / 8, stream), 0);
            }
            assert_eq!(rig.cuStreamSynchronize(stream), 0);
        });
        assert_eq!((rig.cuMemFree_v2(ptr), rig.cuStreamDestroy_v2(stream)), (0, 0));
    });
}

#[test]
fn copies_in_one_direction_share_the_link() {
    under("jitter_us=0; h2d_gbps=0.4", |rig| {
        let (ptr, from) = (rig.device_memory(4 * MIB), rig.pinned(4 * MIB));
        let streams = [rig.stream(), rig.stream()];
        expect("200 MiB on two streams", (200 * MIB) as f64 / 0.4e9, || {
            for n in 0..50 {
                assert_eq!(rig.cuMemcpyHtoDAsync_v2(ptr, from.at(), 4 * MIB, streams[n % 2]), 0);
            }
            assert_eq!(streams.map(|stream| rig.cuStreamSynchronize(stream)), [0, 0]);
        });
        assert_eq!(streams.map(|stream| rig.cuStreamDestroy_v2(stream)), [0, 0]);
        assert_eq!(rig.cuMemFree_v2(ptr), 0);
    });
}

#[test]
fn the_two_directions_do_not_share_it() {
    under("jitter_us=0; h2d_gbps=0.1; d2h_gbps=0.1", |rig| {
        let (ptr, from, to) = (rig.device_memory(8 * MIB), rig.pinned(4 * MIB), rig.pinned(52 * MIB));
        let streams = [rig.stream(), rig.stream()];
        expect("52 MiB each way", (52 * MIB) as f64 / 0.1e9, || {
            for n in 0..13 {
                assert_eq!(rig.cuMemcpyHtoDAsync_v2(ptr, from.at(), 4 * MIB, streams[0]), 0);
                let to = to.at() + n * 4 * MIB;
                assert_eq!(rig.cuMemcpyDtoHAsync_v2(to, ptr + 4 * MIB as u64, 4 * MIB, streams[1]), 0);
            }
            assert_eq!(streams.map(|stream| rig.cuStreamSynchronize(stream)), [0, 0]);
        });
        assert_eq!(streams.map(|stream| rig.cuStreamDestroy_v2(stream)), [0, 0]);
        assert_eq!(rig.cuMemFree_v2(ptr), 0);
    });
}
