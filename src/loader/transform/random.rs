//! Numbers that look drawn by chance and follow from a seed alone.

/// One to one, and such that a change of any bit changes each with even chance: the finaliser of SplitMix64 (Steele, Lea
/// and Flood, "Fast splittable pseudorandom number generators", 2014), after its step.
pub(super) fn mixed(x: u64) -> u64 {
    let x = x.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The first numbers of SplitMix64 from 1234567, as its authors' code prints them.
    #[test]
    fn it_is_splitmix64() {
        let step = 0x9e37_79b9_7f4a_7c15_u64;
        let drawn = [0, 1, 2].map(|i: u64| mixed(1_234_567_u64.wrapping_add(step.wrapping_mul(i))));
        assert_eq!(drawn, [6457827717110365317, 3203168211198807973, 9817491932198370423]);
    }
}
