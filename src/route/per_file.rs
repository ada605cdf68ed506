//! What is remembered of files, for as long as somebody has them open.

use std::collections::HashMap;
use std::sync::{Arc, Weak};

use crate::storage::{File, FileInner};

/// By the file's number. Those of files that nobody has open any more are let go of now and then, so that a program that
/// opens one file after the other does not grow.
#[derive(Debug)]
pub(super) struct PerFile<T> {
    known: HashMap<u64, (Weak<FileInner>, T)>,
    /// How many there may be before they are looked through.
    room: usize,
}

impl<T> Default for PerFile<T> {
    fn default() -> Self {
        Self { known: HashMap::new(), room: LEAST }
    }
}

const LEAST: usize = 256;

impl<T: Clone> PerFile<T> {
    pub(super) fn of(&self, file: &File) -> Option<T> {
        self.known.get(&file.inner.id).map(|(_, value)| value.clone())
    }

    pub(super) fn remember(&mut self, file: &File, value: T) {
        if self.known.len() >= self.room {
            self.known.retain(|_, (file, _)| file.strong_count() > 0);
            self.room = (2 * self.known.len()).max(LEAST);
        }
        self.known.insert(file.inner.id, (Arc::downgrade(&file.inner), value));
    }
}

#[cfg(all(test, not(forebay_loom)))]
mod tests {
    use super::*;

    #[test]
    fn files_that_are_gone_are_forgotten_and_open_ones_are_not() {
        let reader = crate::storage::Reader::builder().budget(1 << 20).build().unwrap();
        let open = || reader.open("Cargo.toml").unwrap();
        let kept: Vec<File> = (0..LEAST).map(|_| open()).collect();
        let mut numbers = PerFile::default();
        for (i, file) in kept.iter().enumerate() {
            numbers.remember(file, i);
        }
        for _ in 0..8 * LEAST {
            numbers.remember(&open(), usize::MAX);
        }
        assert!(numbers.known.len() <= 2 * LEAST, "{}", numbers.known.len());
        assert!(kept.iter().enumerate().all(|(i, file)| numbers.of(file) == Some(i)));
    }
}
