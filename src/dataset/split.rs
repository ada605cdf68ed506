use std::path::Path;

use super::error::DatasetError;

/// What a sample of a file of tokens is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Split {
    /// Runs of `seq_len + 1` tokens, of which the first `seq_len` are inputs and the last as many their targets. Each
    /// begins `stride` tokens behind the one before. A file of `n` tokens has `(n - 1 - seq_len) / stride + 1` of them,
    /// rounded down; what is left over at its end is in none, and none goes on in the next file.
    Windows {
        /// Tokens that a model is given at once; not 0.
        seq_len: u64,
        /// Tokens from the beginning of a window to that of the next; not 0.
        stride: u64,
    },
    /// The documents that the file's index tells apart, each as long as it is.
    Documents,
}

impl Split {
    /// Windows that follow one another: the last target of each is the first input of the next. A file of `n` tokens has
    /// `(n - 1) / seq_len` of them, rounded down.
    pub fn windows(seq_len: u64) -> Self {
        Split::Windows { seq_len, stride: seq_len }
    }

    /// The same text for the same split: a part of fingerprints.
    pub(crate) fn settings(self) -> String {
        match self {
            Split::Windows { seq_len, stride } => format!("windows of {seq_len} + 1 every {stride}"),
            Split::Documents => "documents".to_owned(),
        }
    }
}

/// Windows over the tokens of one file.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Windows {
    seq_len: u64,
    stride: u64,
}

impl Windows {
    pub(crate) fn new(seq_len: u64, stride: u64) -> Result<Self, DatasetError> {
        let zero = |what| Err(DatasetError::setting("", format!("the {what} is 0"), "give at least 1"));
        match (seq_len, stride) {
            (0, _) => zero("sequence length"),
            (_, 0) => zero("stride"),
            // A window has one token more, and files have at most as many bytes.
            (u64::MAX, _) => Err(DatasetError::setting("", "the sequence length is too large", "give a smaller one")),
            _ => Ok(Self { seq_len, stride }),
        }
    }

    /// Tokens of a window.
    pub(crate) fn tokens(self) -> u64 {
        self.seq_len + 1
    }

    /// How many there are of `tokens` tokens; `None` where there are too few for one.
    pub(crate) fn count(self, tokens: u64) -> Option<u64> {
        tokens.checked_sub(self.tokens()).map(|behind_first| behind_first / self.stride + 1)
    }

    /// How many there are of the `tokens` tokens of a file.
    pub(crate) fn count_in(self, path: &Path, tokens: u64) -> Result<u64, DatasetError> {
        self.count(tokens).ok_or_else(|| {
            let what = format!("the file has {tokens} tokens, and a window needs {}", self.tokens());
            DatasetError::setting(path, what, "ask for shorter windows, or leave the file out")
        })
    }

    /// The token that window `number` begins with; the number must be below the [`count`](Self::count).
    pub(crate) fn start(self, number: u64) -> u64 {
        number * self.stride
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// With a file shorter than a window, `n - seq_len - 1` must not wrap.
    #[test]
    fn as_many_windows_as_fit_and_none_past_the_end() {
        for n in 0..40_u64 {
            for seq_len in 1..10 {
                for stride in 1..10 {
                    let windows = Windows::new(seq_len, stride).unwrap();
                    let fitting = (0..n).step_by(stride as usize).filter(|start| start + seq_len < n).count() as u64;
                    assert_eq!(windows.count(n).unwrap_or(0), fitting, "{n} {seq_len} {stride}");
                }
                let windows = Windows::new(seq_len, seq_len).unwrap();
                assert_eq!(windows.count(n).unwrap_or(0), n.saturating_sub(1) / seq_len);
            }
        }
    }

    #[test]
    fn the_largest_numbers_do_not_overflow() {
        let windows = Windows::new(u64::MAX - 1, u64::MAX).unwrap();
        assert_eq!((windows.tokens(), windows.count(u64::MAX)), (u64::MAX, Some(1)));
        let windows = Windows::new(1, 1).unwrap();
        assert_eq!(windows.count(u64::MAX), Some(u64::MAX - 1));
        assert_eq!(windows.start(u64::MAX - 2), u64::MAX - 2);
        for (seq_len, stride) in [(0, 1), (1, 0), (u64::MAX, 1)] {
            assert!(Windows::new(seq_len, stride).is_err());
        }
    }
}
