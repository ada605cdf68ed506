//! Copying what the processor is not about to look at.

/// Bytes from which a copy goes past the caches: less than this is soon overwritten there anyhow, and begins sooner.
const WORTH_STREAMING: usize = 64 << 10;

/// Copies `from` to `to`, which is as long. Long copies are written past the caches: a row of a batch lies in memory until the
/// consumer or the device takes it, and fetching what is about to be overwritten is a third of a copy's traffic.
///
/// # Panics
/// Where the lengths differ.
pub(crate) fn copy(to: &mut [u8], from: &[u8]) {
    assert_eq!(to.len(), from.len(), "the lengths differ");
    match to.len() >= WORTH_STREAMING {
        true => stream(to, from),
        false => to.copy_from_slice(from),
    }
}

#[cfg(all(target_arch = "x86_64", not(miri)))]
fn stream(to: &mut [u8], from: &[u8]) {
    use std::arch::x86_64::{__m128i, _mm_loadu_si128, _mm_sfence, _mm_stream_si128};
    /// Bytes of a line of the caches, which are best written at once.
    const LINE: usize = 64;
    const STEP: usize = size_of::<__m128i>();

    let head = to.as_ptr().align_offset(LINE).min(to.len());
    to[..head].copy_from_slice(&from[..head]);
    let (to, from) = (&mut to[head..], &from[head..]);
    let lines = to.len() / LINE * LINE;
    for (to, from) in to[..lines].chunks_exact_mut(LINE).zip(from[..lines].chunks_exact(LINE)) {
        for at in (0..LINE).step_by(STEP) {
            // SAFETY: both chunks have LINE bytes, of which `at` is the start of STEP, and `to` is aligned to LINE after
            // `head`. SSE2, which both instructions belong to, is part of x86-64.
            unsafe {
                let value = _mm_loadu_si128(from.as_ptr().add(at).cast());
                _mm_stream_si128(to.as_mut_ptr().add(at).cast(), value);
            }
        }
    }
    // SAFETY: as above. Streamed stores are weakly ordered: without the fence, another thread could see a later store that
    // announces these bytes before the bytes.
    unsafe { _mm_sfence() };
    to[lines..].copy_from_slice(&from[lines..]);
}

#[cfg(not(all(target_arch = "x86_64", not(miri))))]
fn stream(to: &mut [u8], from: &[u8]) {
    to.copy_from_slice(from);
}

#[cfg(all(test, not(forebay_loom)))]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn it_copies_every_byte_and_no_other_wherever_it_begins(
            to_at in 0_usize..130, from_at in 0_usize..130, len in prop_oneof![0_usize..300, 65_000_usize..70_000],
        ) {
            let from: Vec<u8> = (0..from_at + len).map(|i| (i ^ i >> 8) as u8).collect();
            let mut to = vec![0xA5; to_at + len + 130];
            copy(&mut to[to_at..to_at + len], &from[from_at..]);
            prop_assert!(to[to_at..to_at + len] == from[from_at..]);
            let others = to[..to_at].iter().chain(&to[to_at + len..]);
            prop_assert!(others.copied().all(|byte| byte == 0xA5));
        }
    }
}
