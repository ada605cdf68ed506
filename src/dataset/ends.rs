use std::ops::Range;

/// Things in a row, such as files or datasets, whose samples are numbered through: for each the number behind its last.
#[derive(Debug, Default)]
pub(crate) struct Ends(Vec<u64>);

impl Ends {
    pub(crate) fn with_capacity(things: usize) -> Self {
        Self(Vec::with_capacity(things))
    }

    /// One more thing, of so many samples; `None`, and no more thing, where they are too many to number.
    pub(crate) fn push(&mut self, samples: u64) -> Option<()> {
        self.0.push(self.len().checked_add(samples)?);
        Some(())
    }

    /// Samples in all.
    pub(crate) fn len(&self) -> u64 {
        self.0.last().copied().unwrap_or(0)
    }

    /// The thing that holds a sample, and the sample's number in it.
    pub(crate) fn find(&self, sample: u64) -> Option<(usize, u64)> {
        let thing = self.0.partition_point(|&end| end <= sample);
        self.0.get(thing)?;
        Some((thing, sample.checked_sub(self.range(thing).start)?))
    }

    /// The numbers of a thing's samples; none of one that is not there.
    pub(crate) fn range(&self, thing: usize) -> Range<u64> {
        let end = self.0.get(thing).copied().unwrap_or(self.len());
        let start = thing.checked_sub(1).map_or(0, |before| self.0.get(before).copied().unwrap_or(end));
        start..end
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_sample_is_found_once_and_in_order_and_empty_things_have_none() {
        let mut ends = Ends::default();
        [0, 3, 0, 0, 2, 1, 0].iter().for_each(|&samples| ends.push(samples).unwrap());
        let found: Vec<_> = (0..ends.len()).map(|sample| ends.find(sample).unwrap()).collect();
        assert_eq!(found, [(1, 0), (1, 1), (1, 2), (4, 0), (4, 1), (5, 0)]);
        assert_eq!((ends.find(6), ends.find(u64::MAX)), (None, None));
        assert_eq!([0, 1, 2, 4].map(|thing| ends.range(thing)), [0..0, 0..3, 3..3, 3..5]);
        assert!([7, 8, usize::MAX].iter().all(|&thing| ends.range(thing).is_empty()));
        assert_eq!(ends.push(u64::MAX - 5), None, "there is no number for the last");
        assert_eq!((ends.len(), ends.push(u64::MAX - 6)), (6, Some(())));
        assert_eq!(ends.find(u64::MAX - 1), Some((7, u64::MAX - 7)));
        assert_eq!((Ends::default().len(), Ends::default().find(0), Ends::default().range(0)), (0, None, 0..0));
    }
}
