use std::fmt;
use std::str::FromStr;

use serde::Serialize;

/// The kinds of files that samples are read from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(into = "&'static str")]
#[non_exhaustive]
pub enum Format {
    /// Tensors with a JSON header; see [`Safetensors`](crate::dataset::Safetensors).
    Safetensors,
    /// One array a file, as numpy saves it.
    Npy,
    /// Arrays in an uncompressed zip archive, as numpy saves several.
    Npz,
    /// Records of one length and no header.
    Records,
    /// Tokens of one width: without a header, or with that of llm.c.
    Tokens,
    /// Tokens with an index of their documents, `.bin` and `.idx`.
    Megatron,
    /// Tar archives in which members of one key are a sample.
    WebDataset,
    /// Records with lengths and checksums, as TensorFlow writes them.
    TfRecord,
    /// Known by name, but not read yet.
    Parquet,
    /// Known by name, but not read yet.
    Arrow,
}

impl Format {
    const ALL: [(Format, &'static str); 10] = [
        (Self::Safetensors, "safetensors"),
        (Self::Npy, "npy"),
        (Self::Npz, "npz"),
        (Self::Records, "records"),
        (Self::Tokens, "tokens"),
        (Self::Megatron, "megatron"),
        (Self::WebDataset, "webdataset"),
        (Self::TfRecord, "tfrecord"),
        (Self::Parquet, "parquet"),
        (Self::Arrow, "arrow"),
    ];

    /// Other names of formats, by what their files are called.
    const OTHERS: [(Format, &'static str); 2] = [(Self::WebDataset, "tar"), (Self::WebDataset, "wds")];

    /// All of them.
    pub fn all() -> impl Iterator<Item = Format> {
        Self::ALL.into_iter().map(|(format, _)| format)
    }

    /// Its name on the command line, such as `safetensors`.
    pub fn name(self) -> &'static str {
        Self::ALL[self as usize].1
    }
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl From<Format> for &'static str {
    fn from(format: Format) -> Self {
        format.name()
    }
}

/// A name that no format has.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "no format is called {0:?}; give one of safetensors, npy, npz, records, tokens, megatron, webdataset, tfrecord, parquet, arrow"
)]
pub struct UnknownFormat(pub String);

/// Its name; webdataset is `tar` or `wds`, too.
impl FromStr for Format {
    type Err = UnknownFormat;

    fn from_str(name: &str) -> Result<Self, UnknownFormat> {
        let named = Self::ALL.into_iter().chain(Self::OTHERS).find(|(_, known)| *known == name);
        named.map(|(format, _)| format).ok_or_else(|| UnknownFormat(name.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_in_the_order_of_the_enum_and_names_lead_back() {
        for (i, format) in Format::all().enumerate() {
            assert_eq!(format as usize, i);
            assert_eq!(format.to_string().parse(), Ok(format));
            assert!(UnknownFormat(String::new()).to_string().contains(format.name()));
        }
        for name in ["tar", "wds"] {
            assert_eq!(name.parse(), Ok(Format::WebDataset));
        }
        for name in ["", "NPY", "npy ", "csv", "token"] {
            assert_eq!(name.parse::<Format>(), Err(UnknownFormat(name.to_owned())));
        }
    }
}
