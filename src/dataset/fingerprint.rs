use std::fmt::Write as _;

use serde::{Deserialize, Serialize};
use xxhash_rust::xxh3::Xxh3;

use super::source::DataFile;

/// What a dataset is: its format and settings, and the names, sizes and times of its files. Saved with the state of a
/// loader, so that another dataset is not taken for the one it was saved from.
///
/// Names are file names without their folders, so that a dataset may be moved (with its times, as `rsync -a` and `mv`
/// do). Sums are XXH3 of 64 bits, in the order of the files.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Fingerprint {
    format: String,
    settings: String,
    samples: u64,
    files: u64,
    bytes: u64,
    names: u64,
    sizes: u64,
    times: u64,
}

impl Fingerprint {
    /// The fingerprint of so many samples in these files. `settings` are those that decide which samples there are, in
    /// any form that is the same for the same settings.
    pub fn new(format: impl Into<String>, settings: impl Into<String>, samples: u64, files: &[DataFile]) -> Self {
        let [mut names, mut sizes, mut times] = [(); 3].map(|()| Xxh3::new());
        let mut bytes = 0_u64;
        for file in files {
            let name = file.path().file_name().map(std::os::unix::ffi::OsStrExt::as_bytes).unwrap_or_default();
            names.update(&(name.len() as u64).to_le_bytes());
            names.update(name);
            sizes.update(&file.len().to_le_bytes());
            let (seconds, nanoseconds) = file.modified();
            times.update(&seconds.to_le_bytes());
            times.update(&nanoseconds.to_le_bytes());
            bytes = bytes.saturating_add(file.len());
        }
        Self {
            format: format.into(),
            settings: settings.into(),
            samples,
            files: files.len() as u64,
            bytes,
            names: names.digest(),
            sizes: sizes.digest(),
            times: times.digest(),
        }
    }

    /// The fingerprint of a dataset of so many samples that is made of others. `settings` are those that decide how.
    pub fn compound(
        format: impl Into<String>,
        settings: impl Into<String>,
        samples: u64,
        children: &[Fingerprint],
    ) -> Self {
        let mut all = Self::new(format, settings, samples, &[]);
        let [mut of, mut names, mut sizes, mut times] = [(); 4].map(|()| Xxh3::new());
        for child in children {
            for text in [&child.format, &child.settings] {
                of.update(&(text.len() as u64).to_le_bytes());
                of.update(text.as_bytes());
            }
            of.update(&child.samples.to_le_bytes());
            // Files belong to the child they are in: the same ones shared out otherwise are another dataset.
            names.update(&child.files.to_le_bytes());
            names.update(&child.names.to_le_bytes());
            sizes.update(&child.sizes.to_le_bytes());
            times.update(&child.times.to_le_bytes());
            all.files = all.files.saturating_add(child.files);
            all.bytes = all.bytes.saturating_add(child.bytes);
        }
        // In words while they are few; their sum tells what the words leave out.
        let first = children.iter().take(4).map(|child| format!("{} of {}", child.samples, child.format));
        let first = first.collect::<Vec<_>>().join(", ");
        let more = if children.len() > 4 { ", …" } else { "" };
        let _ = write!(all.settings, " [{first}{more}] {:016x}", of.digest());
        (all.names, all.sizes, all.times) = (names.digest(), sizes.digest(), times.digest());
        all
    }

    /// All of it in one number.
    pub fn digest(&self) -> u64 {
        self.sum(&[self.samples, self.files, self.bytes, self.names, self.sizes, self.times])
    }

    /// What the order of training depends on, in one number: all but the times of the files, so that copies of the data
    /// on several nodes, made with their times or without, are gone through in one order.
    pub fn order_key(&self) -> u64 {
        self.sum(&[self.samples, self.files, self.bytes, self.names, self.sizes])
    }

    fn sum(&self, numbers: &[u64]) -> u64 {
        let mut sum = Xxh3::new();
        for text in [&self.format, &self.settings] {
            sum.update(&(text.len() as u64).to_le_bytes());
            sum.update(text.as_bytes());
        }
        for number in numbers {
            sum.update(&number.to_le_bytes());
        }
        sum.digest()
    }

    /// In words what is different about `other`; `None` where it is the same.
    pub fn difference(&self, other: &Self) -> Option<String> {
        let mut said = String::new();
        let mut say = |what: &str, ours: &dyn std::fmt::Display, theirs: &dyn std::fmt::Display| {
            let _ = write!(said, "{}{what} {ours}, now {theirs}", if said.is_empty() { "" } else { "; " });
        };
        if self.format != other.format {
            say("the format was", &self.format, &other.format);
        }
        if self.settings != other.settings {
            say("the settings were", &self.settings, &other.settings);
        }
        for (what, ours, theirs) in [
            ("the samples were", self.samples, other.samples),
            ("the files were", self.files, other.files),
            ("the bytes were", self.bytes, other.bytes),
        ] {
            if ours != theirs {
                say(what, &ours, &theirs);
            }
        }
        if said.is_empty() {
            let sums = [
                (self.names == other.names, "files have other names, or another order"),
                (self.sizes == other.sizes, "files have other sizes"),
                (self.times == other.times, "files were written to since, or copied without their times"),
            ];
            said = sums.iter().filter(|(same, _)| !same).map(|(_, what)| *what).collect::<Vec<_>>().join("; ");
        }
        (!said.is_empty()).then_some(said)
    }
}
