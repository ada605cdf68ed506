//! What a measurement found best for reading a file system, on its drive, to a device: kept in a folder, and found again.
//!
//! Owns: what a finding is keyed by, and its file. `forebay bench --tune --save` makes them, [`ReaderBuilder::tuned`],
//! [`LoaderBuilder::tuned`](crate::LoaderBuilder::tuned) and [`LoadOptions::tuned`](crate::checkpoint::LoadOptions::tuned) read
//! them. May touch: `storage`, `device`, and what /sys and /proc tell.
//!
//! ```
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let folder = tempfile::tempdir()?;
//! use forebay::tuning::{Key, Profile, Profiles};
//! use forebay::{Device, Reader, ReaderSettings};
//!
//! let profiles = Profiles::at(folder.path()); // or Profiles::usual(), those of this user
//! let key = Key::of(".", &Device::host())?;
//! let mut settings = ReaderSettings::DEFAULT;
//! settings.depth = 64;
//! profiles.save(&Profile::new(key.clone(), settings, "random"))?;
//!
//! let found = profiles.find(&key)?.expect("it was just saved");
//! let reader = Reader::builder().settings(&found.settings).budget(8 << 20).build()?;
//! # assert_eq!(found.settings, settings);
//! # Ok(())
//! # }
//! ```
#![forbid(unsafe_code)]

mod error;
mod key;
mod profile;
mod profiles;

use std::path::Path;

pub use error::TuningError;
pub use key::Key;
pub use profile::Profile;
pub use profiles::Profiles;

use crate::device::Device;
use crate::storage::{ReaderBuilder, ReaderSettings};

impl ReaderBuilder {
    /// With the engine, chunk, depth, rings and polling that `forebay bench --tune --save` found best for what lies where
    /// `path` does and goes to `device`; as it is where nothing was saved for them. What is set afterwards counts.
    ///
    /// # Errors
    /// [`TuningError`] where `path` is not there, there is no home to look in, or what was saved cannot be read.
    ///
    /// ```no_run
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let device = forebay::Device::auto();
    /// let reader = forebay::Reader::builder().tuned("/data", &device)?;
    /// let carrier = forebay::Carrier::builder().device(&device).reader(reader).build()?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn tuned(self, path: impl AsRef<Path>, device: &Device) -> Result<Self, TuningError> {
        Ok(match saved(path.as_ref(), device)? {
            Some(settings) => self.settings(&settings),
            None => self,
        })
    }
}

/// What this user has saved.
pub(crate) fn saved(path: &Path, device: &Device) -> Result<Option<ReaderSettings>, TuningError> {
    let key = Key::of(path, device)?;
    let found = Profiles::usual()?.find(&key)?;
    match &found {
        Some(profile) => tracing::debug!("{key}: reads as tuned for {}: {:?}", profile.tuned_for, profile.settings),
        None => tracing::debug!("{key}: nothing was tuned for it; `forebay bench --tune --save` does"),
    }
    Ok(found.map(|profile| profile.settings))
}
