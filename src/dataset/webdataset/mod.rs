//! WebDataset: tar archives in which members that share a key are one sample.

mod beside;
mod build;
mod key_table;
mod left_out;
mod shard;
mod shared_keys;

#[cfg(test)]
mod tests;

use std::borrow::Cow;
use std::collections::{BTreeSet, HashSet};
use std::hash::Hash;
use std::path::Path;
use std::sync::Arc;

use self::shard::Shard;
use self::shared_keys::SharedKeys;
use super::dtype::DType;
use super::error::DatasetError;
use super::fields::Fields;
use super::fingerprint::Fingerprint;
use super::interface::Dataset;
use super::parallel::in_parallel_each;
use super::parts::{Parts, paths_of};
use super::source::{DataFile, Source};
use super::spec::{FileRange, SampleSpec, TensorSpec};
use super::tar;
use super::text::{shown, text};

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
/// slash before it where several archives hold that key, or where it begins as such an id does: its path where two have one name, and its path and position, as in
/// `a.tar#1`, where one is given twice.
///
/// Archives are ustar, pax, GNU and older ones, not compressed, without sparse members. Archives that were joined (`cat a.tar
/// b.tar`) are read on behind each end, as by `tar --ignore-zeros`. Names lead nowhere: no file is made or opened by them.
///
/// A hard or symbolic link to a file in its archive is a field with the bytes of that file (webdataset passes links over); GNU
/// tar stores the second name of a file as a link. Links that lead elsewhere, to nothing, in a circle or through a folder
/// that is a link itself are left out, with one warning that counts them, or are an error by
/// [`open_strict`](Self::open_strict). So are AppleDouble files (`._x`, and what is in `__MACOSX`), devices and FIFOs, with
/// a warning if their names have a key.
#[derive(Debug)]
pub struct WebDataset {
    parts: Parts,
    shards: Vec<Shard>,
    shared: SharedKeys,
    /// What stands before a key that several shards hold.
    labels: Vec<String>,
    label_set: HashSet<String>,
}

impl WebDataset {
    /// Finds the members of these archives by their headers, on as many threads as there are processors.
    ///
    /// # Errors
    /// [`DatasetError`] where none is given; with path and offset where one is cut, damaged, compressed or no archive, has a sparse
    /// member or one that readers of tar disagree on, or where a sample has one extension twice.
    pub fn open(paths: &[impl AsRef<Path>], index: TarIndex) -> Result<Self, DatasetError> {
        let dataset = Self::read(paths, index)?;
        left_out::warn(dataset.files(), &dataset.shards);
        Ok(dataset)
    }

    /// The same, but a link that leads to no file in its archive is an error.
    ///
    /// # Errors
    /// As [`open`](Self::open), and that.
    pub fn open_strict(paths: &[impl AsRef<Path>], index: TarIndex) -> Result<Self, DatasetError> {
        let dataset = Self::read(paths, index)?;
        left_out::deny_dangling_links(dataset.files(), &dataset.shards)?;
        left_out::warn(dataset.files(), &dataset.shards);
        Ok(dataset)
    }

    fn read(paths: &[impl AsRef<Path>], index: TarIndex) -> Result<Self, DatasetError> {
        let paths = &paths_of(paths)[..];
        let mut parts = Parts::of(paths)?;
        let indexed = in_parallel_each(paths, |path| {
            let source = Source::open(path)?;
            let shard = match index {
                TarIndex::Memory => build::build(&source)?,
                TarIndex::Beside => beside::read_or_build(&source)?,
            };
            Ok((source.file, shard))
        })?;
        let mut shards = Vec::with_capacity(paths.len());
        for (file, shard) in indexed {
            if shard.samples() == 0 {
                // As somebody would see who has the names wrong.
                tracing::warn!("{}: no member has a key and an extension, so it holds no sample", shown(file.path()));
            }
            parts.push(file, shard.samples())?;
            shards.push(shard);
        }
        name_exts(&mut shards);
        let shared = SharedKeys::of(&shards, &parts);
        let labels = if shared.is_empty() { Vec::new() } else { labels(parts.files()) };
        let label_set = labels.iter().cloned().collect();
        Ok(Self { parts, shards, shared, labels, label_set })
    }

    /// Whether a file that begins so is a tar archive.
    pub(crate) fn looks_like(head: &[u8]) -> bool {
        tar::looks_like(head)
    }
}

impl Dataset for WebDataset {
    fn len(&self) -> u64 {
        self.parts.len()
    }

    fn files(&self) -> &[DataFile] {
        self.parts.files()
    }

    fn locate(&self, index: u64, sample: &mut SampleSpec) -> Result<(), DatasetError> {
        let (file, number) = self.parts.find(index)?;
        for part in self.shards[file].parts(number as usize) {
            let range = FileRange { file: file as u32, offset: part.offset, len: part.size };
            sample.push(TensorSpec::new(Arc::clone(part.ext), DType::U8, [part.size]), [range]);
        }
        Ok(())
    }

    /// As the headers told when the archives were opened.
    fn fields(&self) -> Option<Fields> {
        let mut fields = Fields::new();
        for shard in &self.shards {
            let spec = |ext: &Arc<str>, size| TensorSpec::new(Arc::clone(ext), DType::U8, [size]);
            let used = shard.used_exts();
            let new = used.iter().filter(|(ext, ..)| !fields.has(ext)).map(|(.., sample)| *sample);
            let examples: BTreeSet<usize> = new.collect();
            let examples = examples.into_iter().map(|sample| shard.parts(sample).map(|part| spec(part.ext, part.size)));
            let counts: Vec<_> = used.iter().map(|(ext, count, _)| (spec(ext, 0), *count)).collect();
            fields.add_counted(&counts, shard.samples(), examples.map(Iterator::collect));
        }
        Some(fields)
    }

    fn fingerprint(&self) -> Fingerprint {
        Fingerprint::new("webdataset", "", self.len(), self.files())
    }

    fn id(&self, index: u64) -> Cow<'_, str> {
        let Ok((file, number)) = self.parts.find(index) else { return Cow::Owned(index.to_string()) };
        let key = text(self.shards[file].key(number as usize));
        match self.labels.get(file) {
            Some(label) if self.shared.contains(index) || self.looks_labelled(&key) => {
                Cow::Owned(format!("{label}/{key}"))
            }
            _ => key,
        }
    }
}

impl WebDataset {
    /// Whether a key begins as if another shard's label stood before it: without its own, it could be another sample's id.
    fn looks_labelled(&self, key: &str) -> bool {
        key.match_indices('/').any(|(slash, _)| self.label_set.contains(&key[..slash]))
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

/// The files' names; the path of one whose name another has, and of one that is there twice its position, too.
fn labels(files: &[DataFile]) -> Vec<String> {
    let name_of = |file: &DataFile| file.path().file_name().unwrap_or_default().to_owned();
    let names_twice = repeated(files.iter().map(name_of));
    let paths_twice = repeated(files.iter().map(DataFile::path));
    let label = |(position, file): (usize, &DataFile)| {
        let (name, path) = (name_of(file), shown(file.path()));
        match (names_twice.contains(&name), paths_twice.contains(file.path())) {
            (false, _) => text(name.as_encoded_bytes()).into_owned(),
            (true, false) => path.into_owned(),
            (true, true) => format!("{path}#{position}"),
        }
    };
    files.iter().enumerate().map(label).collect()
}

fn repeated<T: Hash + Eq + Clone>(all: impl Iterator<Item = T>) -> HashSet<T> {
    let mut once = HashSet::new();
    all.filter(|it| !once.insert(it.clone())).collect()
}
