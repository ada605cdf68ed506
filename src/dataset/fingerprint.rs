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

    /// All of it in one number.
    pub fn digest(&self) -> u64 {
        let mut sum = Xxh3::new();
        for text in [&self.format, &self.settings] {
            sum.update(&(text.len() as u64).to_le_bytes());
            sum.update(text.as_bytes());
        }
        for number in [self.samples, self.files, self.bytes, self.names, self.sizes, self.times] {
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
