//! By how much an arena grows: arithmetic alone.

use super::error::MemoryError;

/// A huge page: growth is by whole ones.
pub(super) const HUGE: usize = 2 << 20;

/// The most that is touched beyond what is needed now.
const MOST: usize = 128 << 20;

/// What is touched beyond what is needed now is at most this part of what the machine, or the control group, has left then. What is
/// left is the same number for every arena of the machine: sixteen that grow at the same moment, one for each of eight GPUs and as
/// many again, still fit it. And it is an estimate: `MemAvailable` counts page cache that the kernel may yet need, and a group
/// that comes near its limit first loses the page cache that the reads of others live on, then processes. From 2 GiB left on,
/// this bounds nothing that `MOST` does not. A fixed reserve would not do: below it, growth would be by single huge pages, and each
/// step is a registration with the ring and the driver.
const PART_AHEAD: u64 = 16;

/// Memory that was not given.
#[derive(Debug)]
pub(super) struct Refused {
    pub(super) error: MemoryError,
    /// Bytes from the arena's start on that can be used all the same.
    pub(super) reachable: usize,
}

impl From<MemoryError> for Refused {
    fn from(error: MemoryError) -> Self {
        Self { error, reachable: 0 }
    }
}

/// Up to where an arena of `len` bytes that is touched up to `from` must be touched for `end`, and up to where it is best touched:
/// twice as far, so that a large one grows in few steps.
pub(super) fn step(from: usize, end: usize, len: usize) -> (usize, usize) {
    let whole = |end: usize| end.checked_next_multiple_of(HUGE).map_or(len, |end| end.min(len));
    let least = whole(end);
    (least, whole(from.saturating_add(from.min(MOST))).max(least))
}

/// As much of that as what is left allows: all that is needed, and of the rest a [part](PART_AHEAD) of what is left then.
pub(super) fn affordable(from: usize, least: usize, wish: usize, left: Option<u64>) -> Result<usize, Refused> {
    let Some(left) = left else { return Ok(wish) };
    let more = (least - from) as u64;
    match left.checked_sub(more) {
        Some(left) => Ok(reachable(least, left / PART_AHEAD, wish)),
        None => {
            let error = MemoryError::NotLeft { more, held: from as u64, left };
            Err(Refused { error, reachable: reachable(from, left, least) })
        }
    }
}

/// Up to where an arena of `len` bytes that is touched up to `from` can be touched with what is left.
pub(super) fn reachable(from: usize, left: u64, len: usize) -> usize {
    let more = usize::try_from(left).unwrap_or(usize::MAX) / HUGE * HUGE;
    from.saturating_add(more).min(len)
}

#[cfg(all(test, not(forebay_loom)))]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_large_arena_is_touched_in_few_steps() {
        for (len, most) in [(64 << 20, 6), (1 << 30, 15), (64 << 30, 520)] {
            let (mut touched, mut steps) = (0, 0);
            while touched < len {
                // As if it were filled by slots of a page.
                (_, touched) = step(touched, touched + 1, len);
                steps += 1;
            }
            assert!(steps <= most, "{steps} steps to {len}");
        }
    }

    #[test]
    fn where_memory_is_short_growth_takes_no_more_steps_than_a_ring_has_places_for() {
        // Places beside those for steps of 64 MiB, see the ring's buffers.
        const PLACES: u64 = 64;
        for there in [100_u64 << 20, 300 << 20, 1 << 30, 3 << 30, 20 << 30] {
            let (mut touched, mut steps) = (0, 0);
            loop {
                let (least, wish) = step(touched, touched + 1, 1 << 40);
                let Ok(to) = affordable(touched, least, wish, Some(there - touched as u64)) else { break };
                touched = to;
                steps += 1;
            }
            assert_eq!(touched as u64, there, "all of it can be used");
            assert!(steps <= PLACES + there / (64 << 20), "{steps} steps to {there}");
        }
    }

    proptest! {
        #[test]
        fn a_step_reaches_what_is_asked_and_no_further_than_the_arena_or_twice_as_far(
            len in 1_usize..1 << 34, from in 0.0..1.0_f64, end in 0.0..1.0_f64, left in prop::option::of(0_u64..1 << 34),
        ) {
            let from = ((len as f64 * from) as usize / HUGE * HUGE).min(len);
            let end = from + 1 + ((len - from) as f64 * end) as usize;
            prop_assume!(end <= len);
            let (least, wish) = step(from, end, len);
            prop_assert!(end <= least && least <= wish && wish <= len);
            prop_assert!(least < end + HUGE && (least == len || least.is_multiple_of(HUGE)));
            prop_assert!(wish == least || wish <= (2 * from).next_multiple_of(HUGE) && wish - from <= MOST + HUGE);
            match affordable(from, least, wish, left) {
                Ok(to) => {
                    prop_assert!(least <= to && to <= wish && (to == wish || to == least || to.is_multiple_of(HUGE)));
                    // What is not needed leaves others fifteen sixteenths of what there is beside it.
                    let beside = left.map(|left| left - (least - from) as u64);
                    prop_assert!(beside.is_none_or(|beside| (to - least) as u64 <= beside / 16));
                    prop_assert!(to == wish || beside.is_some_and(|beside| (to - least + HUGE) as u64 > beside / 16));
                }
                Err(refused) => {
                    prop_assert!(left.is_some_and(|left| ((least - from) as u64) > left));
                    prop_assert!(refused.reachable >= from && refused.reachable < least);
                    prop_assert!((refused.reachable - from) as u64 <= left.unwrap_or(0));
                }
            }
        }
    }
}
