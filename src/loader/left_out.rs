//! What is said of samples that are left out since they lack a field, by the loader and by `forebay order`.

use std::collections::BTreeMap;

use super::error::{LoaderError, LoaderFault};
use crate::dataset::{DataFile, Dataset, brief, shown};
use crate::sampler::Cursor;

/// Counts samples, and those of them that are left out, to warn once where they are most.
#[derive(Debug, Default)]
pub struct Tally {
    samples: u64,
    left_out: u64,
    /// How many lack each field.
    lacking: BTreeMap<String, u64>,
    has_warned: bool,
}

impl Tally {
    /// Counts the samples of a batch, left out or not.
    pub fn add_samples(&mut self, samples: u64) {
        self.samples += samples;
    }

    /// Counts samples that are left out since they lack a field.
    pub fn add_left_out(&mut self, field: &str, samples: u64) {
        self.left_out += samples;
        match self.lacking.get_mut(field) {
            Some(lacking) => *lacking += samples,
            None => drop(self.lacking.insert(field.to_owned(), samples)),
        }
    }

    /// After a batch: the warning that most samples are left out, the first time that they are. Of few samples that is
    /// judged once an epoch ends.
    pub fn warning(&mut self, dataset: &dyn Dataset, epoch_ends: bool) -> Option<String> {
        const FEW: u64 = 1000;
        let are_most = self.left_out > self.samples / 2 && (epoch_ends || self.samples >= FEW);
        if self.has_warned || !are_most {
            return None;
        }
        self.has_warned = true;
        let (field, lacking) = self.lacking.iter().max_by_key(|(_, lacking)| **lacking)?;
        Some(brief(format!(
            "{}: most samples are left out, {} of {} so far, and {lacking} of these lack the field {field}; remove that field \
             where it is stray, or allow absent rows (`LoaderBuilder::missing`, --missing allow)",
            files_of(dataset),
            self.left_out,
            self.samples
        )))
    }
}

/// The error where no sample of an epoch is left.
pub fn all_skipped(dataset: &dyn Dataset, skipped: u64, at: Cursor) -> LoaderError {
    let fault = LoaderFault::AllSkipped { files: files_of(dataset), skipped };
    LoaderError { sample: None, epoch: at.epoch, batch: at.batch, fault }
}

fn files_of(dataset: &dyn Dataset) -> String {
    match dataset.files() {
        [] => "the dataset".to_owned(),
        [first, others @ ..] => {
            let more = match others.len() {
                0 => String::new(),
                1 => " and 1 more file".to_owned(),
                more => format!(" and {more} more files"),
            };
            shown(DataFile::path(first)).into_owned() + &more
        }
    }
}
