//! WebDataset: tar archives in which members that share a key are one sample.

mod beside;
mod build;
mod key_table;
mod shard;
mod shared_keys;

#[cfg(test)]
mod tests;

use std::borrow::Cow;
use std::collections::HashSet;
use std::path::PathBuf;
use std::sync::Arc;

use self::shard::Shard;
use self::shared_keys::SharedKeys;
use super::dtype::DType;
use super::error::DatasetError;
use super::fingerprint::Fingerprint;
use super::in_a_row::InARow;
use super::interface::Dataset;
use super::parallel::in_parallel_each;
use super::source::{DataFile, Source};
use super::spec::{FileRange, SampleSpec, TensorSpec};
use super::tar;
use super::text::text;

/// Where the index of an archive is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum TarIndex {
    /// In memory only: made each time the dataset is opened.
    #[default]
    Memory,
    /// Beside the archive too, as `NAME.forebay-index`, and used from there as long as it fits the archive: by size, time
    /// of writing, and the headers at some of the places it names. One that does not is made again, with a warning; where
    /// it cannot be written there is a warning, too.
    Beside,
}

/// Samples in tar archives, as webdataset 1.0.2 writes and reads them.
///
/// The key of a member is its name up to the first dot behind the last slash, and what follows the dot is the extension;
/// `train.v1/0001.seg.png` has the key `train.v1/0001`. Members without a key (no dot, or nothing before it) and those of
/// webdataset's own (`__name__`) belong to no sample. All members of an archive that share a key are one sample, whether
/// they lie together or not (webdataset yields them apart where they do not); each is a field of type U8 and shape
/// `[bytes]`, named by its extension with its case kept (webdataset's reader makes it small), in the order of the archive.
/// Samples come in the order in which their keys first do, one archive after the other.
///
/// A sample's [`id`](Dataset::id) is its key, with `\xNN` for bytes that are no text, and with the archive's name and a
/// slash before it where several archives hold that key.
///
/// Archives are ustar, pax, GNU and older ones, not compressed, without sparse members. Folders, links, devices and FIFOs in
/// them have no data and belong to no sample. Names lead nowhere: no file is made or opened by them.
#[derive(Debug)]
pub struct WebDataset {
    files: Vec<DataFile>,
    shards: Vec<Shard>,
    samples: InARow,
    shared: SharedKeys,
    /// What stands before a key that several shards hold.
    labels: Vec<String>,
}

impl WebDataset {
    /// Finds the members of these archives by their headers, on as many threads as there are processors.
    ///
    /// # Errors
    /// [`DatasetError`] with path and offset where an archive is cut, damaged, compressed or no archive, has a sparse
    /// member or one that readers of tar disagree on, or where a sample has one extension twice.
    pub fn open(paths: &[PathBuf], index: TarIndex) -> Result<Self, DatasetError> {
        let indexed = in_parallel_each(paths, |path| {
            let source = Source::open(path)?;
            let shard = match index {
                TarIndex::Memory => build::build(&source)?,
                TarIndex::Beside => beside::read_or_build(&source)?,
            };
            Ok((source.file, shard))
        })?;
        let (files, mut shards): (Vec<DataFile>, Vec<Shard>) = indexed.into_iter().unzip();
        name_exts(&mut shards);
        let samples = InARow::new(shards.iter().map(Shard::samples));
        let shared = SharedKeys::of(&shards, &samples);
        let labels = if shared.is_empty() { Vec::new() } else { labels(&files) };
        Ok(Self { files, shards, samples, shared, labels })
    }

    /// Whether a file that begins so is a tar archive.
    pub(crate) fn looks_like(head: &[u8]) -> bool {
        tar::looks_like(head)
    }
}

impl Dataset for WebDataset {
    fn len(&self) -> u64 {
        self.samples.len()
    }

    fn files(&self) -> &[DataFile] {
        &self.files
    }

    fn locate(&self, index: u64, sample: &mut SampleSpec) -> Result<(), DatasetError> {
        let (file, number) = self.samples.find(index).ok_or_else(|| DatasetError::no_sample(index, self.len()))?;
        for part in self.shards[file].parts(number as usize) {
            let range = FileRange { file: file as u32, offset: part.offset, len: part.size };
            sample.push(TensorSpec::new(Arc::clone(part.ext), DType::U8, [part.size]), [range]);
        }
        Ok(())
    }

    fn fingerprint(&self) -> Fingerprint {
        Fingerprint::new("webdataset", "", self.len(), &self.files)
    }

    fn id(&self, index: u64) -> Cow<'_, str> {
        let Some((file, number)) = self.samples.find(index) else { return Cow::Owned(index.to_string()) };
        let key = text(self.shards[file].key(number as usize));
        match self.labels.get(file) {
            Some(label) if self.shared.contains(index) => Cow::Owned(format!("{label}/{key}")),
            _ => key,
        }
    }
}

/// Extensions are few: all shards share their names.
fn name_exts(shards: &mut [Shard]) {
    let mut names: HashSet<Arc<str>> = HashSet::new();
    for shard in shards {
        shard.name_exts(|ext| {
            let name = text(ext);
            match names.get(&*name) {
                Some(known) => Arc::clone(known),
                None => {
                    let name: Arc<str> = name.into();
                    names.insert(Arc::clone(&name));
                    name
                }
            }
        });
    }
}

/// The files' names, or their paths where two have one name.
fn labels(files: &[DataFile]) -> Vec<String> {
    let name_of = |file: &DataFile| file.path().file_name().unwrap_or_default().to_owned();
    let mut once = HashSet::new();
    let mut twice = HashSet::new();
    for name in files.iter().map(name_of) {
        if !once.insert(name.clone()) {
            twice.insert(name);
        }
    }
    let label = |file: &DataFile| match name_of(file) {
        name if twice.contains(&name) => text(file.path().as_os_str().as_encoded_bytes()).into_owned(),
        name => text(name.as_encoded_bytes()).into_owned(),
    };
    files.iter().map(label).collect()
}
