use std::fmt;
use std::num::NonZeroU64;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// How samples are mixed. As text `none`, `full` or `blocks:N`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
#[non_exhaustive]
pub enum Shuffle {
    /// Not at all: the dataset's order, in every epoch.
    #[default]
    None,
    /// All with all, anew in every epoch. Of up to 4096 samples all orders are equally likely; of more it is a keyed
    /// permutation that takes no memory, however many they are.
    Full,
    /// Blocks of so many samples that follow each other in the dataset are mixed with each other, and the samples of each
    /// with each other, anew in every epoch: for storage that reads best what lies together. The block at the end has
    /// what is left.
    Blocks(NonZeroU64),
}

impl fmt::Display for Shuffle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::None => f.pad("none"),
            Self::Full => f.pad("full"),
            Self::Blocks(samples) => f.pad(&format!("blocks:{samples}")),
        }
    }
}

impl FromStr for Shuffle {
    type Err = UnknownShuffle;

    fn from_str(text: &str) -> Result<Self, UnknownShuffle> {
        match text {
            "none" => Ok(Self::None),
            "full" => Ok(Self::Full),
            _ => {
                let samples = text.strip_prefix("blocks:").filter(|n| n.bytes().all(|byte| byte.is_ascii_digit()));
                samples.and_then(|samples| samples.parse().ok()).map(Self::Blocks).ok_or(UnknownShuffle)
            }
        }
    }
}

impl TryFrom<String> for Shuffle {
    type Error = UnknownShuffle;

    fn try_from(text: String) -> Result<Self, UnknownShuffle> {
        text.parse()
    }
}

impl From<Shuffle> for String {
    fn from(shuffle: Shuffle) -> Self {
        shuffle.to_string()
    }
}

/// A text that is no [`Shuffle`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a shuffle is none, full or blocks:N, where N is a number of samples from 1, such as blocks:4096")]
pub struct UnknownShuffle;
