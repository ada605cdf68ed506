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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_and_shuffles_are_the_same() {
        let blocks = |samples| Shuffle::Blocks(NonZeroU64::new(samples).unwrap());
        for (text, shuffle) in [
            ("none", Shuffle::None),
            ("full", Shuffle::Full),
            ("blocks:1", blocks(1)),
            ("blocks:18446744073709551615", blocks(u64::MAX)),
        ] {
            assert_eq!((text.parse(), shuffle.to_string().as_str()), (Ok(shuffle), text));
            let json = format!("\"{text}\"");
            assert_eq!(serde_json::to_string(&shuffle).unwrap(), json);
            assert_eq!(serde_json::from_str::<Shuffle>(&json).unwrap(), shuffle);
        }
        assert_eq!(Shuffle::default(), Shuffle::None);
    }

    #[test]
    fn any_other_text_is_refused_with_those_there_are() {
        for text in ["", "None", "block:4", "blocks", "blocks:", "blocks:0", "blocks:+4", "blocks:-1", "blocks:4KiB"] {
            let said = text.parse::<Shuffle>().unwrap_err().to_string();
            assert!(["none", "full", "blocks:N"].iter().all(|word| said.contains(word)), "{said}");
        }
    }
}
