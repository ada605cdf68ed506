//! Files of tokens with no index beside them.

mod header;
#[cfg(test)]
mod tests;

use std::path::{Path, PathBuf};

pub(crate) use header::looks_like;

use super::dtype::DType;
use super::error::DatasetError;
use super::fingerprint::Fingerprint;
use super::headerless::{OtherKind, warn_of};
use super::interface::Dataset;
use super::open::Format;
use super::parallel::in_parallel;
use super::parts::{Parts, paths_of, stem};
use super::source::{DataFile, Source};
use super::spec::{FileRange, SampleSpec, StoredTensor, StoredTensors, TensorSpec};
use super::split::{Split, Windows};

/// Files that are one long run of tokens each, whose samples are windows.
///
/// Sample `i` is window `i` as [`Split::Windows`] tells: one tensor called `tokens`, of `seq_len + 1`. The numbers of the
/// windows go on from file to file, and no window goes over the end of one.
///
/// Two kinds of files are read, told apart by how they begin: tokens and nothing else, little-endian, as nanoGPT has them;
/// and those of llm.c and its kin, with a header of 256 numbers of 32 bits that tells the type (20240520 and version 1:
/// `U16`; 20240801 and version 7: `U32`) and how many tokens there are, which must be as many as the file has room for.
#[derive(Debug)]
pub struct Tokens {
    parts: Parts,
    /// For each file where its tokens begin.
    data_offsets: Vec<u64>,
    window: TensorSpec,
    window_bytes: u64,
    token_bytes: u64,
    windows: Windows,
    split: Split,
}

impl Tokens {
    /// Looks at these files. `dtype` is the type of tokens, one of `U8`, `U16` and `U32`; where it is not given, it is the
    /// one that a header tells, and `U16` where no file has one. Files that begin as those of another kind do are read all
    /// the same, with one warning that names them; [`open`](super::open()) refuses them.
    ///
    /// # Errors
    /// [`DatasetError`] where a file cannot be read, does not have whole tokens, has other tokens than its header or
    /// `dtype` says, or has too few for a window; and of [`Split::Documents`], since these files do not tell where
    /// documents end.
    pub fn open(paths: &[impl AsRef<Path>], dtype: Option<DType>, split: Split) -> Result<Self, DatasetError> {
        Self::open_as(&paths_of(paths), dtype, split, OtherKind::Warn)
    }

    pub(crate) fn open_as(
        paths: &[PathBuf],
        dtype: Option<DType>,
        split: Split,
        other: OtherKind,
    ) -> Result<Self, DatasetError> {
        let Split::Windows { seq_len, stride } = split else {
            let what = "files of tokens without an index do not tell where documents end";
            return Err(DatasetError::setting("", what, "ask for windows, or give Megatron's .idx and .bin"));
        };
        let windows = Windows::new(seq_len, stride)?;
        if let Some(dtype) = dtype
            && !matches!(dtype, DType::U8 | DType::U16 | DType::U32)
        {
            return Err(DatasetError::setting("", format!("tokens are not of {dtype}"), "give U8, U16 or U32"));
        }
        let mut parts = Parts::of(paths)?;
        let files = in_parallel(paths, |path| {
            let source = Source::open(path)?;
            let other = other.look(&source, Format::Tokens)?;
            let told = header::read(&source)?;
            Ok((source.file, told, other))
        })?;
        let told = files.iter().find_map(|(_, told, _)| told.map(|tokens| tokens.dtype));
        let dtype = dtype.or(told).unwrap_or(DType::U16);
        let mut data_offsets = Vec::with_capacity(paths.len());
        let mut others = Vec::new();
        for (path, (file, told, other)) in paths.iter().zip(files) {
            others.extend(other.map(|other| (path, other)));
            let tokens = match told {
                Some(tokens) => tokens,
                None => headless(&file, dtype)?,
            };
            if tokens.dtype != dtype {
                let what = format!("its tokens are of {}, and not of {dtype}", tokens.dtype);
                let fix = "give files of one type, and no other type than theirs";
                return Err(DatasetError::setting(file.path(), what, fix));
            }
            let samples = windows.count_in(file.path(), tokens.count)?;
            parts.push(file, samples)?;
            data_offsets.push(tokens.offset);
        }
        warn_of(&others, Format::Tokens);
        let window = TensorSpec::new("tokens", dtype, [windows.tokens()]);
        // A window lies in a file, and a token is not more.
        let [window_bytes, token_bytes] = [windows.tokens(), 1].map(|tokens| dtype.bytes(tokens).unwrap_or(0));
        Ok(Self { parts, data_offsets, window, window_bytes, token_bytes, windows, split })
    }
}

/// The tokens of a file that has nothing else.
fn headless(file: &DataFile, dtype: DType) -> Result<header::Tokens, DatasetError> {
    let token_bytes = u64::from(dtype.bits() / 8);
    match file.len() % token_bytes {
        0 => Ok(header::Tokens { dtype, count: file.len() / token_bytes, offset: 0 }),
        left_over => {
            let what = format!("the file ends with {left_over} bytes of a token of {token_bytes}");
            let fix = "give the right type of tokens, or get the file again if it was cut short";
            Err(DatasetError::malformed(file.path(), file.len() - left_over, what, fix))
        }
    }
}

impl Dataset for Tokens {
    fn len(&self) -> u64 {
        self.parts.len()
    }

    fn files(&self) -> &[DataFile] {
        self.parts.files()
    }

    fn locate(&self, index: u64, sample: &mut SampleSpec) -> Result<(), DatasetError> {
        let (file, number) = self.parts.find(index)?;
        // All windows of a file lie in it, so this is less than its length.
        let offset = self.data_offsets[file] + self.windows.start(number) * self.token_bytes;
        sample.push(self.window.clone(), [FileRange { file: file as u32, offset, len: self.window_bytes }]);
        Ok(())
    }

    fn fingerprint(&self) -> Fingerprint {
        let settings = format!("{} of {}", self.split.settings(), self.window.dtype);
        Fingerprint::new("tokens", settings, self.len(), self.files())
    }

    fn stored(&self) -> StoredTensors<'_> {
        Box::new(self.files().iter().zip(&self.data_offsets).enumerate().map(|(file, (data, &offset))| {
            let len = data.len() - offset;
            let spec = TensorSpec::new(stem(data.path()), self.window.dtype, [len / self.token_bytes]);
            Ok(StoredTensor { spec, range: FileRange { file: file as u32, offset, len } })
        }))
    }
}
