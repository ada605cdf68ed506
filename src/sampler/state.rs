use serde::{Deserialize, Serialize};

use super::error::SamplerError;
use super::shuffle::Shuffle;
use super::steps::Cursor;
use crate::dataset::Fingerprint;

/// Where training stood, to go on from there: saved as JSON, say, of less than 1 KiB.
///
/// It does not hold the number of ranks or the batch size, which may be others when it is resumed. Every rank has the same
/// after the same step, but for [`batch`](Self::batch), which differs where a [`Remainder::Uneven`](super::Remainder)
/// step left some ranks out. One of them is enough to save.
///
/// To deserialise one of another version is an error that names both; the format has to describe itself, as JSON does.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "serde_json::Value")]
pub struct State {
    version: u64,
    fingerprint: Fingerprint,
    seed: u64,
    shuffle: Shuffle,
    epoch: u64,
    position: u64,
    batch: u64,
}

impl State {
    /// The version of states that are written and read.
    pub const VERSION: u64 = 1;

    /// The state at a place in the order of that dataset, seed and shuffle.
    pub fn new(fingerprint: Fingerprint, seed: u64, shuffle: Shuffle, cursor: Cursor) -> Self {
        let Cursor { epoch, position, batch } = cursor;
        Self { version: Self::VERSION, fingerprint, seed, shuffle, epoch, position, batch }
    }

    /// The place in the order: what [`Sampler::start_at`](super::Sampler::start_at) takes.
    pub fn cursor(&self) -> Cursor {
        Cursor { epoch: self.epoch, position: self.position, batch: self.batch }
    }

    /// Of the dataset it was saved from.
    pub fn fingerprint(&self) -> &Fingerprint {
        &self.fingerprint
    }

    /// The seed it was saved with.
    pub fn seed(&self) -> u64 {
        self.seed
    }

    /// The shuffle it was saved with.
    pub fn shuffle(&self) -> Shuffle {
        self.shuffle
    }

    /// The epoch it stands in, from 0.
    pub fn epoch(&self) -> u64 {
        self.epoch
    }

    /// How many samples of the epoch all ranks together have behind them.
    pub fn position(&self) -> u64 {
        self.position
    }

    /// How many steps of the epoch the rank that saved it has behind it.
    pub fn batch(&self) -> u64 {
        self.batch
    }

    /// Whether it may be resumed with that dataset, and with the seed and the shuffle where one is asked for.
    ///
    /// # Errors
    /// [`SamplerError::Foreign`] with what differs, [`SamplerError::Seed`] and [`SamplerError::Shuffle`] with both values.
    pub fn check(
        &self,
        fingerprint: &Fingerprint,
        seed: Option<u64>,
        shuffle: Option<Shuffle>,
    ) -> Result<(), SamplerError> {
        if let Some(difference) = self.fingerprint.difference(fingerprint) {
            return Err(SamplerError::Foreign { difference });
        }
        match seed {
            Some(asked) if asked != self.seed => return Err(SamplerError::Seed { saved: self.seed, asked }),
            _ => {}
        }
        match shuffle {
            Some(asked) if asked != self.shuffle => Err(SamplerError::Shuffle { saved: self.shuffle, asked }),
            _ => Ok(()),
        }
    }
}

/// The version is looked at first: what follows it may be of another form in another version.
impl TryFrom<serde_json::Value> for State {
    type Error = String;

    fn try_from(value: serde_json::Value) -> Result<Self, String> {
        const FIX: &str = "give a state that forebay saved";
        let version = value.get("version").ok_or_else(|| format!("the state has no version; {FIX}"))?;
        let version = version.as_u64().ok_or_else(|| format!("the state's version {version} is no number; {FIX}"))?;
        if version != Self::VERSION {
            return Err(SamplerError::Version { found: version }.to_string());
        }
        let first =
            FirstVersion::deserialize(value).map_err(|error| format!("the state is damaged: {error}; {FIX}"))?;
        let FirstVersion { version, fingerprint, seed, shuffle, epoch, position, batch } = first;
        Ok(Self { version, fingerprint, seed, shuffle, epoch, position, batch })
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FirstVersion {
    version: u64,
    fingerprint: Fingerprint,
    seed: u64,
    shuffle: Shuffle,
    epoch: u64,
    position: u64,
    batch: u64,
}
