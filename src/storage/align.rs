//! Arithmetic of aligned ranges.

use std::ops::Range;

/// What a direct read of a file must be a multiple of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Alignment {
    /// The address in memory, in bytes; a power of two, and no less than `offset` where that is less than a page.
    pub memory: u32,
    /// The offset in the file and the length, in bytes; a power of two.
    pub offset: u32,
}

impl Alignment {
    /// The widest a page, a sector or a file-system block is likely to ask for, where the kernel does not say.
    pub(crate) const USUAL: Self = Self { memory: 4096, offset: 4096 };

    /// Takes what the kernel says, if it is two powers of two. Memory is aligned to the file's blocks as well, up to a page,
    /// as `open(2)` has always asked for: zram (Linux 6.18) says that 512 bytes are enough, and then reads other bytes of the
    /// file than it was asked for.
    pub(crate) fn new(memory: u32, offset: u32) -> Option<Self> {
        let are_powers = memory.is_power_of_two() && offset.is_power_of_two();
        are_powers.then_some(Self { memory: memory.max(offset.min(4096)), offset })
    }
}

/// The smallest range of whole multiples of `align` that holds `range`; `align` is a power of two and `range` ends
/// at most at `i64::MAX`, as file ranges do.
pub(crate) fn widen(range: &Range<u64>, align: u64) -> Range<u64> {
    down(range.start, align)..up(range.end, align)
}

pub(crate) fn down(offset: u64, align: u64) -> u64 {
    offset & !(align - 1)
}

pub(crate) fn up(offset: u64, align: u64) -> u64 {
    down(offset + (align - 1), align)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_widened_range_is_aligned_holds_the_range_and_is_the_smallest(
            start in 0..=i64::MAX as u64 / 2, len in 1_u64..1 << 40, power in 0_u32..20
        ) {
            let align = 1_u64 << power;
            let range = start..start + len;
            let wide = widen(&range, align);
            prop_assert!(wide.start.is_multiple_of(align) && wide.end.is_multiple_of(align));
            prop_assert!(wide.start <= range.start && range.end <= wide.end);
            prop_assert!(range.start - wide.start < align && wide.end - range.end < align);
        }
    }
}
