//! Numbers that look drawn by chance and follow from a seed alone.

const STEP: u64 = 0x9e37_79b9_7f4a_7c15;

/// One to one, and such that a change of any bit changes each with even chance: the finaliser of SplitMix64 (Steele, Lea
/// and Flood, "Fast splittable pseudorandom number generators", 2014), after its step.
pub(super) fn mixed(x: u64) -> u64 {
    let x = x.wrapping_add(STEP);
    let x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

/// SplitMix64 from a seed.
#[cfg(feature = "images")]
pub(super) struct Draws(pub(super) u64);

#[cfg(feature = "images")]
impl Draws {
    pub(super) fn next(&mut self) -> u64 {
        let drawn = mixed(self.0);
        self.0 = self.0.wrapping_add(STEP);
        drawn
    }

    /// At least 0 and less than 1: any multiple of 2^-53 with the same chance.
    pub(super) fn unit(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// Any number up to and with `most`, with the same chance (but for one in 2^32).
    pub(super) fn up_to(&mut self, most: u32) -> u32 {
        let choices = u128::from(most) + 1;
        // Less than `choices`.
        ((u128::from(self.next()) * choices) >> 64) as u32
    }
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
