use std::fmt;
use std::ops::Range;
use std::str::FromStr;

use super::world::World;

/// What becomes of the samples at the end of an epoch that do not make a full batch for every rank. As text `drop`, `pad`
/// or `uneven`.
///
/// Let `left` of them be left, for `ranks` ranks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Remainder {
    /// Every rank takes `left / ranks`, rounded down, in one last step; none where that is 0. What is still left, fewer
    /// samples than there are ranks, is dropped. Ranks take equal steps.
    Drop,
    /// Every rank takes `left / ranks`, rounded up, in one last step; what is missing is repeated from the beginning of
    /// the epoch, and counted. Ranks take equal steps, and no sample is lost.
    #[default]
    Pad,
    /// Every rank takes `left / ranks`, and the first ones one more until none is left. No sample is lost or repeated, but
    /// ranks whose share is none take one step fewer than the others: for training that does not wait for all ranks in
    /// every step.
    Uneven,
}

/// A rank's part of a step: as many samples, from that one of those that are left, and how many of them are repeated since
/// they lie behind the last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Share {
    pub start: u128,
    pub len: u64,
    pub padded: u64,
}

impl Share {
    /// The run of that many for the rank, behind those of the ranks before it.
    fn run(world: World, len: u64) -> Self {
        Self { start: u128::from(world.rank()) * u128::from(len), len, padded: 0 }
    }

    /// Where it lies among the samples that are left.
    pub(super) fn range(self) -> Range<u128> {
        self.start..self.start + u128::from(self.len)
    }
}

/// How an epoch is dealt out.
#[derive(Clone, Copy, Debug)]
pub(super) struct Deal {
    pub world: World,
    pub batch_size: u64,
    pub remainder: Remainder,
    pub drop_last: bool,
}

impl Deal {
    /// How many samples all ranks take in a full step; `None` where that is more than any dataset has.
    pub(super) fn full(self) -> Option<u64> {
        self.batch_size.checked_mul(u64::from(self.world.size()))
    }

    /// What this rank takes in a step before which so many samples are left; nothing at the end of its epoch.
    pub(super) fn share(self, left: u64) -> Option<Share> {
        let share = match self.full() {
            Some(full) if full <= left => Share::run(self.world, self.batch_size),
            _ if self.drop_last => return None,
            _ => self.remainder.share(left, self.world),
        };
        (share.len > 0).then_some(share)
    }

    /// How many samples all ranks together take in a step before which so many are left, or drop; none at the end of the
    /// epoch, where no rank has a step more.
    pub(super) fn taken(self, left: u64) -> Option<u64> {
        let first = Self { world: self.world.first(), ..self };
        // No rank takes more than the first.
        first.share(left)?;
        Some(self.full().map_or(left, |full| full.min(left)))
    }

    /// How many steps this rank takes while so many samples are left.
    pub(super) fn steps(self, left: u64) -> u64 {
        let (full, rest) = match self.full() {
            Some(full) => (left.checked_div(full).unwrap_or(0), left.checked_rem(full).unwrap_or(0)),
            None => (0, left),
        };
        full.saturating_add(u64::from(self.share(rest).is_some()))
    }
}

impl Remainder {
    /// A rank's part of what is left, where that is too little for a full step.
    fn share(self, left: u64, world: World) -> Share {
        let (rank, size) = (u64::from(world.rank()), u64::from(world.size()));
        let (each, rest) = (left / size, left % size);
        match self {
            Self::Drop => Share::run(world, each),
            Self::Pad => {
                let mut share = Share::run(world, left.div_ceil(size));
                let real = u128::from(left).saturating_sub(share.start).min(u128::from(share.len));
                share.padded = share.len - real as u64;
                share
            }
            Self::Uneven => Share {
                start: u128::from(rank) * u128::from(each) + u128::from(rank.min(rest)),
                len: each + u64::from(rank < rest),
                padded: 0,
            },
        }
    }
}

impl fmt::Display for Remainder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Drop => "drop",
            Self::Pad => "pad",
            Self::Uneven => "uneven",
        })
    }
}

impl FromStr for Remainder {
    type Err = UnknownRemainder;

    fn from_str(text: &str) -> Result<Self, UnknownRemainder> {
        match text {
            "drop" => Ok(Self::Drop),
            "pad" => Ok(Self::Pad),
            "uneven" => Ok(Self::Uneven),
            _ => Err(UnknownRemainder),
        }
    }
}

/// A text that is no [`Remainder`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a remainder policy is drop, pad or uneven")]
pub struct UnknownRemainder;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_and_policies_are_the_same() {
        for remainder in [Remainder::Drop, Remainder::Pad, Remainder::Uneven] {
            assert_eq!(remainder.to_string().parse(), Ok(remainder));
        }
        assert_eq!((Remainder::default(), "wrap".parse::<Remainder>()), (Remainder::Pad, Err(UnknownRemainder)));
    }
}
