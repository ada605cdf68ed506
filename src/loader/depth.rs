//! How far ahead of the consumer batches are made: as far as it takes that he never waits, within the budget.

/// Bytes of batches that may be under way or ready at once.
#[derive(Debug)]
pub(super) struct Depth {
    now: u64,
    least: u64,
    most: u64,
    calm: u32,
}

/// Batches taken in a row without waiting, with a quarter of what is allowed ready, after which less is kept.
const CALM: u32 = 256;

impl Depth {
    pub(super) fn new(least: u64, most: u64) -> Self {
        let least = least.min(most);
        Self { now: least, least, most, calm: 0 }
    }

    pub(super) fn bytes(&self) -> u64 {
        self.now
    }

    /// The consumer has taken a batch: whether he had to wait for it, and how many bytes are ready.
    pub(super) fn note(&mut self, waited: bool, ready: u64) {
        if waited {
            self.now = self.now.saturating_mul(2).min(self.most);
            self.calm = 0;
        } else if ready >= self.now / 4 {
            self.calm += 1;
            if self.calm == CALM {
                self.now = (self.now / 4 * 3).max(self.least);
                self.calm = 0;
            }
        } else {
            self.calm = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_grows_when_the_consumer_waits_and_shrinks_when_he_never_does() {
        let mut depth = Depth::new(1 << 20, 10 << 20);
        depth.note(true, 0);
        assert_eq!(depth.bytes(), 2 << 20);
        (0..9).for_each(|_| depth.note(true, 0));
        assert_eq!(depth.bytes(), 10 << 20);
        (0..CALM - 1).for_each(|_| depth.note(false, 9 << 20));
        assert_eq!(depth.bytes(), 10 << 20);
        depth.note(false, 9 << 20);
        assert!(depth.bytes() < 8 << 20);
        (0..100 * CALM).for_each(|_| depth.note(false, 9 << 20));
        assert_eq!(depth.bytes(), 1 << 20);
        // With little ready it is not too deep.
        depth.note(true, 0);
        (0..10 * CALM).for_each(|_| depth.note(false, 0));
        assert_eq!(depth.bytes(), 2 << 20);
    }
}
