//! Megatron's indexed datasets: tokens in one file, and where documents lie in another.

mod index;
mod pair;
mod table;
#[cfg(test)]
mod tests;

use std::io;
use std::path::Path;

pub(crate) use index::looks_like;
pub(crate) use pair::index_of_prefix;

use super::dtype::DType;
use super::error::{DatasetError, DatasetFault};
use super::fingerprint::Fingerprint;
use super::headerless::Other;
use super::interface::Dataset;
use super::open::Format;
use super::parallel::in_parallel;
use super::parts::{Parts, paths_of, stem};
use super::source::{DataFile, Source};
use super::spec::{FileRange, SampleSpec, StoredTensor, StoredTensors, TensorSpec};
use super::split::{Split, Windows};
use super::text::shown;
use crate::storage::OpenFault;
use index::Index;
use table::Table;

/// Pairs of files that Megatron-LM and its kin write, `NAME.idx` and `NAME.bin`, whose samples are documents, or windows
/// over all their tokens.
///
/// Of [`Split::Documents`], sample `i` is document `i`: one tensor called `tokens`, as long as the document is. It may be
/// made of several sequences, and have no tokens. Of [`Split::Windows`], it is window `i`, of `seq_len + 1` tokens, over
/// the tokens of a pair as they lie, from one document into the next; the sequences must lie one after the other, as
/// Megatron writes them. Numbers go on from pair to pair, and no sample goes over the end of one.
///
/// Version 1 of the index is read, by the rules of Megatron-LM's `indexed_dataset.py`: `MMIDIDX`, the type of tokens, a
/// length (`i32`) and a place in bytes (`i64`) for each sequence, the sequence that each document begins with (`i64`),
/// and perhaps a byte that tells the kind of each sequence, which is not looked at. Every sequence must lie in the `.bin`,
/// which must end where the last of them ends. Of fairseq's `MMapIndexedDataset`, whose index is the same without documents,
/// each sequence is a document.
#[derive(Debug)]
pub struct Megatron {
    parts: Parts,
    tables: Vec<Table>,
    /// The index files, which are a part of what this dataset is.
    indices: Vec<DataFile>,
    token: TensorSpec,
    token_bytes: u64,
    windows: Option<Windows>,
    split: Split,
}

impl Megatron {
    /// Reads the indices of these pairs. Each may be given by either file, or by both, which then count once, or by the name
    /// that both have without their endings.
    ///
    /// # Errors
    /// [`DatasetError`] where a file is missing, cannot be read or is not sound; where an index and its `.bin` do not
    /// belong together; where pairs have tokens of two types; and where windows are asked for and a pair has too few
    /// tokens for one, or sequences that do not lie one after the other.
    pub fn open(paths: &[impl AsRef<Path>], split: Split) -> Result<Self, DatasetError> {
        let paths = &paths_of(paths)[..];
        let windows = match split {
            Split::Windows { seq_len, stride } => Some(Windows::new(seq_len, stride)?),
            Split::Documents => None,
        };
        let mut parts = Parts::of(paths)?;
        let pairs = in_parallel(&pair::pairs(paths)?, |(idx, bin)| {
            let idx = Source::open(idx).map_err(|error| without_index(error, bin))?;
            let bin = Source::open(bin)?;
            let index = Index::read(&idx)?;
            let (table, samples) = match table_of(&index, &bin, windows) {
                Ok(found) => found,
                // What does not fit the index may be no data at all.
                Err(error) => return Err(Other::of(&bin, Format::Megatron)?.map_or(error, |other| other.refuse(&bin))),
            };
            Ok((index.dtype, idx.file, bin.file, table, samples))
        })?;
        // There is at least one pair.
        let dtype = pairs.first().map_or(DType::U16, |(dtype, ..)| *dtype);
        let (mut tables, mut indices) = (Vec::with_capacity(pairs.len()), Vec::with_capacity(pairs.len()));
        for (other, idx, bin, table, samples) in pairs {
            if other != dtype {
                let what = format!("its tokens are of {other}, and those of {} of {dtype}", shown(&paths[0]));
                return Err(DatasetError::setting(idx.path(), what, "give pairs of one type"));
            }
            parts.push(bin, samples)?;
            tables.push(table);
            indices.push(idx);
        }
        let token = TensorSpec::new("tokens", dtype, []);
        Ok(Self { parts, tables, indices, token, token_bytes: u64::from(dtype.bits() / 8), windows, split })
    }

    fn tokens(&self, count: u64) -> TensorSpec {
        TensorSpec { shape: [count].into(), ..self.token.clone() }
    }
}

/// What begins as an index does may have the name of the data.
fn without_index(error: DatasetError, bin: &Path) -> DatasetError {
    let is_index = || {
        let source = Source::open(bin).ok()?;
        let mut head = [0; 9];
        source.read_up_to(0, &mut head).ok().filter(|_| looks_like(&head))
    };
    match &error.fault {
        DatasetFault::Open(OpenFault::Io(refused))
            if refused.kind() == io::ErrorKind::NotFound && is_index().is_some() =>
        {
            let what = "by its first bytes it is an index of Megatron's, by its name the data of one";
            DatasetError::setting(bin, what, "call the pair NAME.idx and NAME.bin")
        }
        _ => error,
    }
}

/// Where the samples of a pair lie, and how many there are.
fn table_of(index: &Index<'_>, bin: &Source, windows: Option<Windows>) -> Result<(Table, u64), DatasetError> {
    match windows {
        None => {
            let table = Table::of_documents(index, bin)?;
            let documents = table.documents();
            Ok((table, documents))
        }
        Some(windows) => {
            let table = Table::of_tokens(index, bin)?;
            let samples = windows.count_in(bin.path(), table.tokens())?;
            Ok((table, samples))
        }
    }
}

impl Dataset for Megatron {
    fn len(&self) -> u64 {
        self.parts.len()
    }

    fn files(&self) -> &[DataFile] {
        self.parts.files()
    }

    fn locate(&self, index: u64, sample: &mut SampleSpec) -> Result<(), DatasetError> {
        let (file, number) = self.parts.find(index)?;
        let table = &self.tables[file];
        match (self.windows, table) {
            (Some(windows), Table::Tokens { offset, .. }) => {
                // All windows lie in the file, so these are no more than its length.
                let offset = offset + windows.start(number) * self.token_bytes;
                let len = windows.tokens() * self.token_bytes;
                sample.push(self.tokens(windows.tokens()), [FileRange { file: file as u32, offset, len }]);
            }
            _ => {
                let (tokens, ranges) = table.document(number, self.token_bytes, file as u32);
                sample.push(self.tokens(tokens), ranges);
            }
        }
        Ok(())
    }

    fn fingerprint(&self) -> Fingerprint {
        let settings = format!("{} of {}", self.split.settings(), self.token.dtype);
        let files: Vec<DataFile> = self.indices.iter().chain(self.files()).cloned().collect();
        Fingerprint::new("megatron", settings, self.len(), &files)
    }

    fn stored(&self) -> StoredTensors<'_> {
        Box::new(self.parts.iter().map(|(file, data, _)| {
            let range = FileRange { file: file as u32, offset: 0, len: data.len() };
            let spec = TensorSpec::new(stem(data.path()), self.token.dtype, [data.len() / self.token_bytes]);
            Ok(StoredTensor { spec, range })
        }))
    }
}
