use std::path::Path;

use super::format::Format;
use crate::dataset::headerless::OtherKind;
use crate::dataset::{Corrupt, DType, DatasetError, Split, TarIndex, TensorSpec};

/// How files are to be read, where that does not follow from the files.
///
/// ```
/// use forebay::dataset::{DType, Format, OpenOptions};
///
/// let tokens = OpenOptions::new().format(Format::Tokens).dtype(DType::U16).seq_len(1024);
/// # let _ = tokens;
/// ```
#[derive(Clone, Debug, Default)]
#[must_use]
pub struct OpenOptions {
    pub(super) format: Option<Format>,
    pub(super) record_bytes: Option<u64>,
    pub(super) dtype: Option<DType>,
    pub(super) seq_len: Option<u64>,
    pub(super) stride: Option<u64>,
    pub(super) documents: bool,
    pub(super) skip_corrupt: bool,
    pub(super) keep_index: bool,
    pub(super) allow_incomplete: bool,
    pub(super) deny_dangling_links: bool,
}

impl OpenOptions {
    /// Everything as the files tell it.
    pub fn new() -> Self {
        Self::default()
    }

    /// The files are of this format, whatever they look like. Of formats without a header, files that begin as those of
    /// another kind do are read all the same, with one warning.
    pub fn format(mut self, format: Format) -> Self {
        self.format = Some(format);
        self
    }

    /// Files without a header are records of so many bytes each.
    pub fn record_bytes(mut self, bytes: u64) -> Self {
        self.record_bytes = Some(bytes);
        self
    }

    /// The type of tokens, or of the elements of records, which are `U8` unless this says otherwise.
    pub fn dtype(mut self, dtype: DType) -> Self {
        self.dtype = Some(dtype);
        self
    }

    /// A sample of tokens is a window of `seq_len` of them, and one more: inputs and shifted targets.
    pub fn seq_len(mut self, tokens: u64) -> Self {
        self.seq_len = Some(tokens);
        self
    }

    /// Windows begin so many tokens after one another; `seq_len` when not given.
    pub fn stride(mut self, tokens: u64) -> Self {
        self.stride = Some(tokens);
        self
    }

    /// Whether a sample of tokens is a document instead of a window.
    pub fn documents(mut self, yes: bool) -> Self {
        self.documents = yes;
        self
    }

    /// Whether TFRecords that break their checksums are left out, instead of refusing the file.
    pub fn skip_corrupt(mut self, yes: bool) -> Self {
        self.skip_corrupt = yes;
        self
    }

    /// Whether the index of a tar file is kept beside it, as `NAME.forebay-index`, so that it opens at once the next time.
    /// Formats that need none ignore this.
    pub fn keep_index(mut self, yes: bool) -> Self {
        self.keep_index = yes;
        self
    }

    /// Whether files may be missing of a set whose names say how many it has, such as `model-00001-of-00003.safetensors`;
    /// otherwise that is an error.
    pub fn allow_incomplete(mut self, yes: bool) -> Self {
        self.allow_incomplete = yes;
        self
    }

    /// Whether a link in a tar file that leads to no file in it is an error; when not, links are left out and a warning
    /// counts them.
    pub fn deny_dangling_links(mut self, yes: bool) -> Self {
        self.deny_dangling_links = yes;
        self
    }

    /// What a sample of tokens is; `None` where that is not said.
    pub(super) fn split(&self) -> Option<Split> {
        match (self.documents, self.seq_len) {
            (true, _) => Some(Split::Documents),
            (false, Some(seq_len)) => Some(Split::Windows { seq_len, stride: self.stride.unwrap_or(seq_len) }),
            (false, None) => None,
        }
    }

    /// What a record is: elements of one type that fill its bytes.
    pub(super) fn record(&self, path: &Path) -> Result<TensorSpec, DatasetError> {
        let Some(bytes) = self.record_bytes else {
            let what = "it holds records, and how long they are is not said";
            return Err(DatasetError::setting(path, what, "give record_bytes (--record-bytes)"));
        };
        let dtype = self.dtype.unwrap_or(DType::U8);
        let bits = u128::from(bytes) * 8;
        let elements = u64::try_from(bits / u128::from(dtype.bits())).ok();
        match elements.filter(|_| bits.is_multiple_of(u128::from(dtype.bits()))) {
            Some(elements) => Ok(TensorSpec::new("record", dtype, [elements])),
            None => {
                let what = format!("a record of {bytes} bytes is no whole number of {dtype}");
                Err(DatasetError::setting(path, what, "give another record_bytes (--record-bytes) or dtype (--dtype)"))
            }
        }
    }

    pub(super) fn tar_index(&self) -> TarIndex {
        if self.keep_index { TarIndex::Beside } else { TarIndex::Memory }
    }

    /// What becomes of files without a header that begin as others do.
    pub(super) fn other_kind(&self) -> OtherKind {
        if self.format.is_some() { OtherKind::Warn } else { OtherKind::Refuse }
    }

    pub(super) fn corrupt(&self) -> Corrupt {
        if self.skip_corrupt { Corrupt::Skip } else { Corrupt::Refuse }
    }

    /// Whether anything is set that only tokens have.
    pub(super) fn splits_tokens(&self) -> bool {
        self.seq_len.is_some() || self.documents
    }

    /// Sees that nothing is set that this format has no use for. `path` is the first file.
    pub(super) fn check(&self, format: Format, path: &Path) -> Result<(), DatasetError> {
        use Format::*;
        let rules = [
            (self.record_bytes.is_some(), "record_bytes (--record-bytes)", "records", &[Records][..]),
            (self.dtype.is_some(), "dtype (--dtype)", "records and tokens", &[Records, Tokens]),
            (self.seq_len.is_some(), "seq_len (--seq-len)", "tokens", &[Tokens, Megatron]),
            (self.stride.is_some(), "stride", "tokens", &[Tokens, Megatron]),
            (self.documents, "documents", "tokens", &[Tokens, Megatron]),
            (self.skip_corrupt, "skip_corrupt", "tfrecord", &[TfRecord]),
            (self.deny_dangling_links, "deny_dangling_links (--deny-dangling-links)", "webdataset", &[WebDataset]),
        ];
        for (set, name, those, formats) in rules {
            if set && !formats.contains(&format) {
                let what = format!("{name} is for {those}, and this is read as {format}");
                return Err(DatasetError::setting(path, what, "leave it out, or say the format (--format)"));
            }
        }
        if self.stride.is_some() && self.seq_len.is_none() {
            return Err(DatasetError::setting(path, "stride is for windows, and none are asked for", "give seq_len"));
        }
        if self.documents && (self.seq_len.is_some() || self.stride.is_some()) {
            let what = "samples cannot be documents and windows (seq_len, stride) at once";
            return Err(DatasetError::setting(path, what, "choose one"));
        }
        Ok(())
    }
}
