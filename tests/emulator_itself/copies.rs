//! Copies: late, watched, and right.
use crate::rig::*;

#[test]
fn bytes_go_there_and_back() {
    under("jitter_us=50", |rig| {
        let (len, stream) = (300_000, rig.stream());
        let (mut from, back) = (rig.pinned(len), rig.pinned(len));
        from.iter_mut().enumerate().for_each(|(at, byte)| *byte = (at * 31 % 251) as u8);
        let (first, second) = (rig.device_memory(len), rig.device_memory(len));
        assert_eq!(rig.cuMemcpyHtoDAsync_v2(first, from.at(), len, stream), 0);
        assert_eq!(rig.cuMemcpyDtoDAsync_v2(second, first, len, stream), 0);
        assert_eq!(rig.cuMemsetD8Async(first, 9, len, stream), 0);
        assert_eq!(rig.cuMemcpyAsync(back.at() as u64, second, len, stream), 0);
        assert_eq!(rig.cuStreamSynchronize(stream), 0);
        assert!(from[..] == back[..]);
        assert!(rig.read_device(first, len).iter().all(|&byte| byte == 9));
        assert_eq!(rig.in_flight(), 0);
        assert_eq!((rig.cuMemFree_v2(first), rig.cuMemFree_v2(second), rig.cuStreamDestroy_v2(stream)), (0, 0, 0));
    });
}

/// One slot for two pieces. Whoever waits for the first copy is clean; whoever does not is caught, at any size.
#[test]
fn a_slot_recycled_before_its_copy_is_caught() {
    for len in [1, 7, 4096, 65_536, 3 << 20] {
        for waits in [true, false] {
            under("paused=1", move |rig| {
                let (ptr, mut slot, stream, event) =
                    (rig.device_memory(len), rig.pinned(len), rig.stream(), rig.event());
                slot.fill(1);
                assert_eq!(rig.cuMemcpyHtoDAsync_v2(ptr, slot.at(), len, stream), 0);
                assert_eq!(rig.cuEventRecord(event, stream), 0);
                if waits {
                    rig.script("paused=0");
                    assert_eq!(rig.cuEventSynchronize(event), 0);
                }
                slot.fill(2);
                rig.script("paused=0");
                assert_eq!(rig.cuStreamSynchronize(stream), 0);
                if !waits {
                    rig.expect_violation("cuMemcpyHtoDAsync_v2: source: the");
                }
                assert_eq!(rig.read_device(ptr, 1), [if waits { 1 } else { 2 }]);
                assert_eq!((rig.cuMemFree_v2(ptr), rig.cuStreamDestroy_v2(stream)), (0, 0));
                assert_eq!(rig.cuEventDestroy_v2(event), 0);
            });
        }
    }
}

#[test]
fn a_page_of_a_large_source_is_enough_to_be_caught() {
    under("paused=1", |rig| {
        let (len, stream) = (8 << 20, rig.stream());
        let (ptr, mut slot) = (rig.device_memory(len), rig.pinned(len));
        assert_eq!(rig.cuMemcpyHtoDAsync_v2(ptr, slot.at(), len, stream), 0);
        slot[5 << 20..(5 << 20) + 4096].fill(1);
        rig.script("paused=0");
        assert_eq!(rig.cuStreamSynchronize(stream), 0);
        rig.expect_violation("source: the 8388608 bytes of host memory");
        // One byte is caught when all is looked at.
        rig.script("paused=1; watch=whole");
        assert_eq!(rig.cuMemcpyHtoDAsync_v2(ptr, slot.at(), len, stream), 0);
        slot[3_000_001] ^= 1;
        rig.script("paused=0");
        assert_eq!(rig.cuStreamSynchronize(stream), 0);
        rig.expect_violation("source: the 8388608 bytes of host memory");
        assert_eq!((rig.cuMemFree_v2(ptr), rig.cuStreamDestroy_v2(stream)), (0, 0));
    });
}

#[test]
fn writing_to_a_destination_before_its_copy_is_caught() {
    under("paused=1", |rig| {
        let (ptr, mut to, stream) = (rig.device_memory(4096), rig.pinned(4096), rig.stream());
        assert_eq!(rig.cuMemcpyDtoHAsync_v2(to.at(), ptr, 4096, stream), 0);
        to[100] = 1;
        rig.script("paused=0");
        assert_eq!(rig.cuStreamSynchronize(stream), 0);
        rig.expect_violation("cuMemcpyDtoHAsync_v2: destination: the");
        assert_eq!((rig.cuMemFree_v2(ptr), rig.cuStreamDestroy_v2(stream)), (0, 0));
    });
}

/// What the stream itself wrote between call and copy is no change: a chain through one piece of host memory is clean.
#[test]
fn a_chain_through_host_memory_is_clean() {
    under("paused=1", |rig| {
        let len = 100_000;
        let (host, first, second) = (rig.pinned(len), rig.stream(), rig.stream());
        let (from, to, event) = (rig.device_memory(len), rig.device_memory(len), rig.event());
        for round in 0..20 {
            assert_eq!(rig.cuMemsetD8Async(from, round, len, first), 0);
            assert_eq!(rig.cuMemcpyDtoHAsync_v2(host.at(), from, len, first), 0);
            assert_eq!(rig.cuEventRecord(event, first), 0);
            assert_eq!(rig.cuStreamWaitEvent(second, event, 0), 0);
            assert_eq!(rig.cuMemcpyHtoDAsync_v2(to, host.at(), len, second), 0);
            assert_eq!(rig.cuEventRecord(event, second), 0);
            assert_eq!(rig.cuStreamWaitEvent(first, event, 0), 0);
            rig.script("paused=0");
        }
        assert_eq!(rig.cuStreamSynchronize(second), 0);
        assert!(rig.read_device(to, len).iter().all(|&byte| byte == 19));
        assert_eq!((rig.cuStreamDestroy_v2(first), rig.cuStreamDestroy_v2(second)), (0, 0));
        assert_eq!((rig.cuMemFree_v2(from), rig.cuMemFree_v2(to), rig.cuEventDestroy_v2(event)), (0, 0, 0));
    });
}

#[test]
fn memory_of_another_device_is_reached_by_peers_only() {
    under("jitter_us=0", |rig| {
        let (ours, stream, other) = (rig.device_memory(4096), rig.stream(), rig.retain(1));
        assert_eq!(rig.cuCtxSetCurrent(other), 0);
        let theirs = rig.device_memory(4096);
        assert_eq!(rig.cuMemcpyHtoD_v2(theirs, [5u8; 4096].as_ptr() as usize, 4096), 0);
        assert_eq!(rig.cuCtxSetCurrent(rig.context), 0);
        assert_eq!(rig.cuMemcpyDtoDAsync_v2(ours, theirs, 4096, stream), INVALID_VALUE);
        rig.expect_violation("devices 0 and 1 have no access to each other");
        assert_eq!(rig.cuMemcpyPeerAsync(ours, rig.context, theirs, other, 4096, stream), 0);
        assert_eq!(rig.cuStreamSynchronize(stream), 0);
        assert_eq!(rig.read_device(ours, 4096), [5; 4096]);
        assert_eq!(rig.cuCtxEnablePeerAccess(other, 0), 0);
        assert_eq!(rig.cuMemcpyDtoDAsync_v2(ours, theirs, 4096, stream), 0);
        assert_eq!((rig.cuStreamSynchronize(stream), rig.cuStreamDestroy_v2(stream)), (0, 0));
        assert_eq!((rig.cuMemFree_v2(ours), rig.cuCtxSetCurrent(other), rig.cuMemFree_v2(theirs)), (0, 0, 0));
        assert_eq!(rig.cuDevicePrimaryCtxRelease_v2(1), 0);
    });
}

#[test]
fn a_batch_is_one_operation() {
    under("", |rig| {
        let (stream, mut from) = (rig.stream(), rig.pinned(1 << 16));
        let to = rig.device_memory(1 << 16);
        from.iter_mut().enumerate().for_each(|(at, byte)| *byte = (at >> 8) as u8);
        let pieces = 0..256u64;
        // Backwards: piece n of the host goes to place 255 - n.
        let dst: Vec<u64> = pieces.clone().map(|n| to + (255 - n) * 256).collect();
        let src: Vec<u64> = pieces.map(|n| from.at() as u64 + n * 256).collect();
        let (lens, attributes, first) = (vec![256; 256], Attributes { source_order: 1, ..Default::default() }, 0);
        let mut fail = 0;
        rig.reset_calls();
        let both = [
            rig.cuMemcpyBatchAsync_v2(dst.as_ptr(), src.as_ptr(), lens.as_ptr(), 256, &attributes, &first, 1, stream),
            rig.cuMemcpyBatchAsync(
                dst.as_ptr(),
                src.as_ptr(),
                lens.as_ptr(),
                256,
                &attributes,
                &first,
                1,
                &mut fail,
                stream,
            ),
        ];
        assert_eq!((both, rig.cuStreamSynchronize(stream)), ([0, 0], 0));
        assert_eq!(rig.calls("execute"), 2);
        let landed = rig.read_device(to, 1 << 16);
        assert!(landed.iter().enumerate().all(|(at, &byte)| byte == 255 - (at >> 8) as u8));
        assert_eq!((rig.cuMemFree_v2(to), rig.cuStreamDestroy_v2(stream)), (0, 0));
    });
}

/// Each copy of a batch has the attributes of its range; what says so is read before the call returns.
#[test]
fn a_batch_may_read_its_sources_during_the_call() {
    under("paused=1", |rig| {
        let (stream, mut slot, to) = (rig.stream(), rig.pinned(4096), rig.device_memory(4096));
        slot.fill(1);
        let mut ephemeral = [1u8; 2048];
        let (dst, src) = ([to, to + 2048], [slot.at() as u64, ephemeral.as_mut_ptr() as u64]);
        let orders = [1, 2].map(|source_order| Attributes { source_order, ..Default::default() });
        let (dst, src, lens) = (dst.as_ptr(), src.as_ptr(), [2048usize, 2048]);
        let firsts = [0usize, 1];
        let queue = || {
            let (orders, firsts) = (orders.as_ptr(), firsts.as_ptr());
            rig.cuMemcpyBatchAsync_v2(dst, src, lens.as_ptr(), 2, orders, firsts, 2, stream)
        };
        assert_eq!(queue(), 0);
        ephemeral.fill(2);
        rig.script("paused=0");
        assert_eq!(rig.cuStreamSynchronize(stream), 0);
        assert_eq!(rig.read_device(to, 4096), [1; 4096]);
        rig.assert_no_violations();
        rig.script("paused=1");
        assert_eq!(queue(), 0);
        slot.fill(2);
        rig.script("paused=0");
        assert_eq!(rig.cuStreamSynchronize(stream), 0);
        rig.expect_violation("cuMemcpyBatchAsync_v2: source: the 2048 bytes");
        assert_eq!((rig.cuMemFree_v2(to), rig.cuStreamDestroy_v2(stream)), (0, 0));
    });
}

#[test]
fn a_wrong_batch_is_refused() {
    under("", |rig| {
        let (stream, from, to) = (rig.stream(), rig.pinned(4096), rig.device_memory(4096));
        let (dst, mut src, lens) = ([to, to + 2048], [from.at() as u64, from.at() as u64 + 2048], [2048usize, 2048]);
        let attributes = [Attributes { source_order: 1, ..Default::default() }; 2];
        let mut fail = 0;
        let mut batch = |src: &[u64], firsts: &[usize], count: usize, stream| {
            let (dst, src, lens) = (dst.as_ptr(), src.as_ptr(), lens.as_ptr());
            let code = rig.cuMemcpyBatchAsync(
                dst,
                src,
                lens,
                count,
                attributes.as_ptr(),
                firsts.as_ptr(),
                firsts.len(),
                &mut fail,
                stream,
            );
            (code, fail)
        };
        assert_eq!(batch(&src, &[0, 1], 2, stream), (0, 0));
        for (firsts, count, why) in [
            (&[][..], 2, "numAttrs"),
            (&[0, 1][..], 1, "numAttrs"),
            (&[1][..], 2, "attrsIdxs"),
            (&[0, 0][..], 2, "attrsIdxs"),
            (&[0][..], 0, "empty"),
        ] {
            assert_eq!(batch(&src, firsts, count, stream), (INVALID_VALUE, usize::MAX), "{why}");
            rig.expect_violation(why);
        }
        assert_eq!(batch(&src, &[0], 2, 0), (INVALID_VALUE, usize::MAX));
        rig.expect_violation("the default stream");
        src[1] = 4096;
        assert_eq!(batch(&src, &[0], 2, stream), (INVALID_VALUE, 1));
        rig.expect_violation("is not registered");
        rig.script("no_batch");
        assert_eq!(batch(&src, &[0], 2, stream).0, NOT_SUPPORTED);
        assert_eq!(rig.cuStreamSynchronize(stream), 0);
        assert_eq!((rig.cuMemFree_v2(to), rig.cuStreamDestroy_v2(stream)), (0, 0));
    });
}
