/// Files whose samples are numbered through: those of one follow those of the one before.
#[derive(Debug)]
pub(crate) struct InARow {
    /// For each file the number of its first sample, and last how many there are.
    firsts: Vec<u64>,
}

impl InARow {
    /// Files of so many samples each.
    pub(crate) fn new(samples: impl Iterator<Item = u64>) -> Self {
        let firsts = [0].into_iter().chain(samples.scan(0_u64, |before, samples| {
            *before = before.saturating_add(samples);
            Some(*before)
        }));
        Self { firsts: firsts.collect() }
    }

    /// Samples in all.
    pub(crate) fn len(&self) -> u64 {
        self.firsts.last().copied().unwrap_or_default()
    }

    /// The file that holds a sample, and the sample's number in it.
    pub(crate) fn find(&self, sample: u64) -> Option<(usize, u64)> {
        if sample >= self.len() {
            return None;
        }
        let file = self.firsts.partition_point(|&first| first <= sample).checked_sub(1)?;
        Some((file, sample.checked_sub(*self.firsts.get(file)?)?))
    }

    /// The numbers of a file's samples.
    pub(crate) fn of_file(&self, file: usize) -> std::ops::Range<u64> {
        match (self.firsts.get(file), self.firsts.get(file + 1)) {
            (Some(&first), Some(&next)) => first..next,
            _ => 0..0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_sample_is_found_once_and_in_order() {
        let samples = [0, 3, 0, 0, 2, 1, 0];
        let row = InARow::new(samples.into_iter());
        let found: Vec<_> = (0..row.len()).map(|sample| row.find(sample).unwrap()).collect();
        assert_eq!(found, [(1, 0), (1, 1), (1, 2), (4, 0), (4, 1), (5, 0)]);
        assert_eq!(row.find(6), None);
        assert_eq!([row.of_file(1), row.of_file(2), row.of_file(4), row.of_file(7)], [0..3, 3..3, 3..5, 0..0]);
        assert_eq!((InARow::new([].into_iter()).len(), InARow::new([].into_iter()).find(0)), (0, None));
    }
}
