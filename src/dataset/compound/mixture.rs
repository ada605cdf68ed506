use std::borrow::Cow;
use std::fmt::Write as _;
use std::sync::Arc;

use super::children::Children;
use super::quota::{Turn, turns};
use super::ratio;
use crate::dataset::{
    Checksums, DataFile, Dataset, DatasetError, Fields, FileRange, Fingerprint, RangeCheck, SampleSpec, StoredTensors,
};

/// Datasets mixed by weight, in one fixed order whose proportions hold from the first sample on.
///
/// After any number n of samples, each dataset of weight w has given within 1 of n * w / (the sum of the weights), which
/// is always possible (Tijdeman's chairman assignment: within 1 - 1/(2k - 2) of k datasets). A dataset's own samples come
/// in their order; to shuffle, shuffle the mixture.
///
/// The order repeats after a period, of which a table of 8 bytes a step is kept, and finding a sample is one look into
/// it. Weights have a period of at most 2^20 where they are in proportion to whole numbers that add up to no more: whole
/// numbers themselves, or shares with up to six digits behind the point. Those proportions are kept exactly, over any
/// number of samples. Others, such as sizes in tokens, are rounded to parts of 2^20, which moves each share by less than
/// one in a million: within 1 + n / 2^20. [`counts`](Self::counts) tells what is kept.
///
/// A sample is called what its dataset calls it, with the dataset's position in front where there are several: `1/0`.
/// One that comes again is called the same again.
#[derive(Debug)]
pub struct Mixture {
    children: Children,
    /// Samples of each child.
    lens: Vec<u64>,
    counts: Vec<u32>,
    turns: Vec<Turn>,
    len: u64,
}

impl Mixture {
    /// `len` samples. A dataset whose samples are used up begins again with its first.
    ///
    /// # Errors
    /// [`DatasetFault::Setting`](crate::dataset::DatasetFault::Setting) where a weight is negative, infinite or no number,
    /// none is above 0, one is so low that its dataset would not come in 2^20 samples, or a dataset with a weight above 0
    /// has no samples. One with a weight of 0 never comes.
    pub fn new(datasets: Vec<(Arc<dyn Dataset>, f64)>, len: u64) -> Result<Self, DatasetError> {
        let (datasets, weights): (Vec<_>, Vec<_>) = datasets.into_iter().unzip();
        let counts = ratio::counts(&weights)?;
        let lens: Vec<u64> = datasets.iter().map(|dataset| dataset.len()).collect();
        if let Some(child) = counts.iter().zip(&lens).position(|(&count, &len)| count > 0 && len == 0) {
            let what = format!("dataset {child} of a mixture has a weight, but no samples");
            return Err(DatasetError::setting("", what, "leave it out"));
        }
        let turns = turns(&counts);
        Ok(Self { children: Children::new(datasets)?, lens, counts, turns, len })
    }

    /// As many samples as there are before one would have to come again: it stops where the first dataset is used up.
    ///
    /// # Errors
    /// As [`new`](Self::new).
    pub fn once(datasets: Vec<(Arc<dyn Dataset>, f64)>) -> Result<Self, DatasetError> {
        let mut mixture = Self::new(datasets, 0)?;
        let period = mixture.turns.len() as u64;
        let ends = (0_u64..).zip(&mixture.turns).filter_map(|(step, turn)| {
            let child = turn.child as usize;
            let (count, len) = (u64::from(mixture.counts[child]), mixture.lens[child]);
            // The turn at which the child would need a sample that it has not.
            (u64::from(turn.before) == len % count).then(|| (len / count).saturating_mul(period).saturating_add(step))
        });
        mixture.len = ends.min().unwrap_or(0);
        Ok(mixture)
    }

    /// How often each dataset comes in a period, in the order that they were given in.
    pub fn counts(&self) -> &[u32] {
        &self.counts
    }

    /// Which child sample `index` comes from, and its number there.
    fn place(&self, index: u64) -> Option<(usize, u64)> {
        let period = self.turns.len() as u64;
        if index >= self.len || period == 0 {
            return None;
        }
        let turn = self.turns[(index % period) as usize];
        let child = turn.child as usize;
        // Fewer than the mixture has had in all.
        let had = index / period * u64::from(self.counts[child]) + u64::from(turn.before);
        Some((child, had % self.lens[child]))
    }

    /// Whether each sample of each child with a weight comes at least once.
    fn has_every_sample(&self) -> bool {
        let period = self.turns.len() as u64;
        let (whole, rest) = match period {
            0 => return false,
            period => (self.len / period, (self.len % period) as usize),
        };
        let mut had: Vec<u64> = self.counts.iter().map(|&count| whole.saturating_mul(u64::from(count))).collect();
        for turn in &self.turns[..rest] {
            had[turn.child as usize] += 1;
        }
        let counted = self.counts.iter().zip(had.iter().zip(&self.lens)).filter(|(count, _)| **count > 0);
        counted.into_iter().all(|(_, (had, len))| had >= len)
    }
}

impl Dataset for Mixture {
    fn len(&self) -> u64 {
        self.len
    }

    fn files(&self) -> &[DataFile] {
        self.children.files()
    }

    fn locate(&self, index: u64, sample: &mut SampleSpec) -> Result<(), DatasetError> {
        let (child, index) = self.place(index).ok_or_else(|| DatasetError::no_sample(index, self.len))?;
        self.children.locate(child, index, sample)
    }

    fn fingerprint(&self) -> Fingerprint {
        let mut settings = String::from("in proportion");
        for count in &self.counts {
            let _ = write!(settings, " {count}");
        }
        self.children.fingerprint("mixture", settings, self.len)
    }

    fn id(&self, index: u64) -> Cow<'_, str> {
        match self.place(index) {
            Some((child, index)) => self.children.id(child, index),
            None => Cow::Owned(index.to_string()),
        }
    }

    /// Those of the samples that come: where children's samples differ and not all of them come, each that does is located.
    fn fields(&self) -> Option<Fields> {
        let fields = self.children.fields(|child| self.counts.get(child).is_some_and(|&count| count > 0))?;
        match fields.is_uniform() || self.has_every_sample() {
            true => Some(fields),
            false => Fields::of_all(self).ok(),
        }
    }

    fn checksums(&self) -> Checksums {
        self.children.checksums()
    }

    fn check_range(&self, range: FileRange) -> Option<Box<dyn RangeCheck + '_>> {
        self.children.check_range(range)
    }

    fn check(&self, index: u64, fields: &[&[u8]]) -> Result<(), DatasetError> {
        match self.place(index) {
            Some((child, index)) => self.children.check(child, index, fields),
            None => Err(DatasetError::no_sample(index, self.len())),
        }
    }

    /// Every dataset's tensors once, however often they come.
    fn stored(&self) -> StoredTensors<'_> {
        self.children.stored()
    }
}
