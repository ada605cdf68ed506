//! CRC-32 as arithmetic with polynomials over GF(2), modulo the CRC's own: bytes that follow multiply a CRC by x^8 each, and the CRC
//! of the whole is the sum of its parts' CRCs, each so shifted. So parts may come in any order, and one number holds their sum.

use std::sync::LazyLock;

/// The CRC's polynomial without x^32. Bit 31 is the coefficient of x^0.
const POLYNOMIAL: u32 = 0xedb8_8320;
const ONE: u32 = 1 << 31;
const X_TO_8: u32 = 1 << 23;

/// What a CRC becomes when so many bytes follow: the power of x that it is multiplied by.
#[derive(Clone, Copy, Debug)]
pub(super) struct Shift(u32);

impl Shift {
    pub(super) fn by(bytes: u64) -> Self {
        let digits = bytes.to_le_bytes();
        let powers = POWERS.iter().zip(digits).filter(|&(_, digit)| digit != 0);
        Self(powers.fold(ONE, |power, (powers, digit)| product(power, powers[usize::from(digit)])))
    }

    pub(super) fn of(self, crc: u32) -> u32 {
        product(self.0, crc)
    }
}

/// For each byte of a number of bytes, x to the power of 8 times what it stands for.
static POWERS: LazyLock<[[u32; 256]; 8]> = LazyLock::new(|| {
    let mut powers = [[ONE; 256]; 8];
    let mut unit = X_TO_8;
    for of_digit in &mut powers {
        for digit in 1..256 {
            of_digit[digit] = product(of_digit[digit - 1], unit);
        }
        unit = product(of_digit[255], unit);
    }
    powers
});

fn product(a: u32, mut b: u32) -> u32 {
    let all_if = |bit: u32| 0_u32.wrapping_sub(bit & 1);
    let mut sum = 0;
    for power in 0..32 {
        // Masks and no branches: the bits are as good as random.
        sum ^= b & all_if(a >> (31 - power));
        b = b >> 1 ^ POLYNOMIAL & all_if(b);
    }
    sum
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_shifted_crc_and_that_of_what_follows_make_the_crc_of_both(
            first in prop::collection::vec(any::<u8>(), 0..300), second in prop::collection::vec(any::<u8>(), 0..3000),
        ) {
            let joined = Shift::by(second.len() as u64).of(crc32fast::hash(&first)) ^ crc32fast::hash(&second);
            prop_assert_eq!(joined, crc32fast::hash(&[first, second].concat()));
        }

        #[test]
        fn shifts_add_up_however_far(a: u64, b in 0_u64..1 << 40, crc: u32) {
            let a = a >> 1;
            prop_assert_eq!(Shift::by(a + b).of(crc), Shift::by(a).of(Shift::by(b).of(crc)));
        }
    }
}
