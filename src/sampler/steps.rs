use super::error::SamplerError;
use super::order::{EpochOrder, Order};
use super::remainder::{Deal, Remainder};
use super::world::World;

/// A place between two steps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Cursor {
    /// The epoch, from 0.
    pub epoch: u64,
    /// How many samples of the epoch all ranks together have behind them: a place in the order, which is the same for
    /// every rank, and means the same in a world of another size.
    pub position: u64,
    /// How many steps of the epoch this rank has behind it.
    pub batch: u64,
}

impl Cursor {
    fn after_epoch(self) -> Self {
        Self { epoch: self.epoch.saturating_add(1), position: 0, batch: 0 }
    }
}

/// One batch of this rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    /// Where it begins.
    pub at: Cursor,
    /// What is behind it: where to go on from. The same place for every rank of the step; the beginning of the next epoch
    /// where no rank has a step of this one left.
    pub next: Cursor,
    /// How many of its samples, the last ones, are repeated from the beginning of the epoch by [`Remainder::Pad`].
    pub padded: u64,
}

/// Deals an [`Order`] out to one rank, batch by batch.
///
/// A step of `ranks` ranks takes the next `ranks * batch_size` samples of the order, of which rank `r` has those from
/// `r * batch_size` on; so the order that all ranks go through together depends on neither number. At the end of an epoch
/// the [`Remainder`] decides.
#[derive(Clone, Debug)]
pub struct Sampler {
    order: Order,
    epoch_order: EpochOrder,
    epoch: u64,
    deal: Deal,
    epochs: Option<u64>,
    at: Cursor,
}

impl Sampler {
    /// The batches of one rank, from the beginning of epoch 0. `batch_size` is a number of samples of one rank, and
    /// `epochs` how many there are in all, without end where `None`. `drop_last` drops the last batch of an epoch where it
    /// is not full for every rank, whatever `remainder` says.
    ///
    /// # Errors
    /// [`SamplerError::NoBatch`], [`SamplerError::NoSamples`], and [`SamplerError::NoStep`] where an epoch holds no step
    /// for this rank.
    pub fn new(
        order: Order,
        world: World,
        batch_size: u64,
        remainder: Remainder,
        drop_last: bool,
        epochs: Option<u64>,
    ) -> Result<Self, SamplerError> {
        let deal = Deal { world, batch_size, remainder, drop_last };
        let samples = order.samples();
        if batch_size == 0 {
            return Err(SamplerError::NoBatch);
        }
        if samples == 0 {
            return Err(SamplerError::NoSamples);
        }
        if deal.steps(samples) == 0 {
            let (rank, size) = (world.rank(), world.size());
            return Err(SamplerError::NoStep { samples, rank, size, batch_size, remainder, drop_last });
        }
        Ok(Self { epoch_order: order.epoch(0), epoch: 0, order, deal, epochs, at: Cursor::default() })
    }

    /// Begins there instead, with steps of the present world from that position on.
    ///
    /// # Errors
    /// [`SamplerError::Position`] where the epoch does not reach so far.
    pub fn start_at(mut self, cursor: Cursor) -> Result<Self, SamplerError> {
        let samples = self.order.samples();
        if cursor.position > samples {
            return Err(SamplerError::Position { position: cursor.position, samples });
        }
        self.at = self.settled(cursor);
        Ok(self)
    }

    /// As [`start_at`](Self::start_at), for a place where a step of this order begins or ends.
    pub(crate) fn go_to(&mut self, cursor: Cursor) {
        self.at = self.settled(cursor);
    }

    /// How many epochs there are in all; `None` without end.
    pub(crate) fn epochs(&self) -> Option<u64> {
        self.epochs
    }

    /// Where the next step begins.
    pub fn cursor(&self) -> Cursor {
        self.at
    }

    /// The order that is dealt out.
    pub fn order(&self) -> &Order {
        &self.order
    }

    /// How many steps this rank takes in an epoch from its beginning.
    pub fn steps_an_epoch(&self) -> u64 {
        self.deal.steps(self.order.samples())
    }

    /// How many steps this rank has still before it; `None` without end.
    pub fn steps_left(&self) -> Option<u64> {
        let epochs = self.epochs?.saturating_sub(self.at.epoch);
        let Some(later) = epochs.checked_sub(1) else { return Some(0) };
        let here = self.deal.steps(self.left());
        Some(later.saturating_mul(self.steps_an_epoch()).saturating_add(here))
    }

    /// The next batch: its samples' numbers in the dataset are appended to `indices`, which allocates nothing more once it
    /// has grown. `None` behind the last epoch.
    pub fn next_step(&mut self, indices: &mut Vec<u64>) -> Option<Step> {
        loop {
            if self.epochs.is_some_and(|epochs| self.at.epoch >= epochs) {
                return None;
            }
            let at = self.at;
            let left = self.left();
            let Some(share) = self.deal.share(left) else {
                // Its share of what a resumed epoch had left, or of an uneven last step, is none. A whole epoch has one.
                self.at = at.after_epoch();
                continue;
            };
            if self.epoch != at.epoch {
                self.epoch_order.become_epoch(&self.order, at.epoch);
                self.epoch = at.epoch;
            }
            for place in share.range() {
                indices.push(self.epoch_order.sample(position(at.position, left, place)));
            }
            let taken = self.deal.taken(left).unwrap_or(left);
            let position = at.position.saturating_add(taken);
            self.at = self.settled(Cursor { epoch: at.epoch, position, batch: at.batch.saturating_add(1) });
            return Some(Step { at, next: self.at, padded: share.padded });
        }
    }

    fn left(&self) -> u64 {
        self.order.samples().saturating_sub(self.at.position)
    }

    /// The same place, which is the beginning of the next epoch where no rank has a step of this one left.
    fn settled(&self, cursor: Cursor) -> Cursor {
        let left = self.order.samples().saturating_sub(cursor.position);
        match self.deal.taken(left) {
            Some(_) => cursor,
            None => cursor.after_epoch(),
        }
    }
}

/// The position of the epoch at that place of the samples that are left. Places behind the last begin the epoch again.
fn position(start: u64, left: u64, place: u128) -> u64 {
    match place.checked_sub(u128::from(left)) {
        None => start.saturating_add(place as u64),
        // Fewer than there are ranks; the order takes it modulo the number of samples.
        Some(behind) => behind as u64,
    }
}
