//! The safetensors format: one file, several, or a model's index. As a checkpoint, the tensors by name; as a dataset, row i
//! of each is sample i.

mod diagnosis;
mod header;
mod index;
mod listing;
mod named;
mod rows;

pub(crate) use header::looks_like;
pub(crate) use index::{is_index_by_content, say_the_same};

use std::borrow::Cow;
use std::collections::{BTreeMap, HashSet};
use std::path::{Path, PathBuf};

use xxhash_rust::xxh3::Xxh3;

use self::named::Named;
use self::rows::Rows;
use super::error::DatasetError;
use super::fields::Fields;
use super::fingerprint::Fingerprint;
use super::interface::Dataset;
use super::layout::Layout;
use super::parallel::in_parallel;
use super::source::{DataFile, Source};
use super::spec::{FileRange, SampleSpec, StoredTensor, StoredTensors};
use super::text::shown;

/// Tensors in safetensors files.
///
/// Files that hold tensors of the same names follow one another, as the shards of one dataset do; otherwise, and always
/// with an index, all tensors belong together, as those of one model do. Where tensors that belong together share their
/// first dimension, sample i is row i of each, in the order of their data, or in that which
/// [`pack`](crate::pack::pack) has noted; else there are no samples, and
/// [`check_samples`](Self::check_samples) says why. Files that [`pack`](crate::pack::pack) has written of samples that
/// differ hold those samples, under their names.
#[derive(Debug)]
pub struct Safetensors {
    files: Vec<DataFile>,
    tensors: Vec<StoredTensor>,
    /// Why there are none, in `Err`.
    samples: Result<Samples, DatasetError>,
    /// Whether names occur in several files.
    is_sharded: bool,
    metadata: BTreeMap<String, String>,
    /// Of an index, a sum of the tensors that it names and where it says they are.
    map: Option<u64>,
}

/// What samples are made of.
#[derive(Debug)]
enum Samples {
    Rows(Rows),
    Named(Named),
}

impl Safetensors {
    /// Reads the headers of these files, or of those that an index names, where that is the one path given: a file `*.index.json`, or
    /// another of JSON that has a `weight_map` of them.
    ///
    /// # Errors
    /// [`DatasetError`] with path and offset, where a header breaks a rule of the format, the file is longer or shorter
    /// than its header says, or an index names what is not there or not inside its folder.
    pub fn open(paths: &[impl AsRef<Path>]) -> Result<Self, DatasetError> {
        match paths {
            [index] if is_index(index.as_ref()) => Self::open_index(index.as_ref()),
            files => Self::open_files(&files.iter().map(|path| path.as_ref().to_owned()).collect::<Vec<_>>()),
        }
    }

    fn open_files(paths: &[PathBuf]) -> Result<Self, DatasetError> {
        let headers = in_parallel(paths, |path| {
            let source = Source::open(path)?;
            Ok((header::read(&source)?, source.file))
        })?;
        let mut it = Contents::default();
        for (header, file) in headers {
            it.add(header, file, |_| true)?;
        }
        let metadata = it.metadata.take().unwrap_or_default();
        if metadata.get(Layout::KEY).is_some_and(|layout| layout == Layout::Samples.name()) {
            let samples = Named::new(&it.files, &it.tensors).map(Samples::Named);
            return Ok(Self { samples, files: it.files, tensors: it.tensors, is_sharded: true, metadata, map: None });
        }
        let is_sharded = it.ends.len() > 1 && it.has_a_name_twice();
        let groups = match is_sharded {
            true => it.by_file(),
            false => vec![&it.tensors[..]],
        };
        let order: Option<Vec<String>> =
            metadata.get(Layout::FIELDS).and_then(|fields| serde_json::from_str(fields).ok());
        let samples =
            Rows::new(&it.files, &groups).map(|rows| Samples::Rows(rows.in_order_of(&order.unwrap_or_default())));
        Ok(Self { samples, files: it.files, tensors: it.tensors, is_sharded, metadata, map: None })
    }

    fn open_index(path: &Path) -> Result<Self, DatasetError> {
        let mapped = index::read(path)?;
        let headers = in_parallel(&mapped, |(path, _)| {
            let source = Source::open(path)?;
            Ok((header::read(&source)?, source.file))
        })?;
        let mut it = Contents::default();
        for ((header, file), (_, names)) in headers.into_iter().zip(&mapped) {
            let wanted = |name: &str| names.binary_search_by(|wanted| wanted.as_str().cmp(name)).is_ok();
            let before = it.tensors.len();
            it.add(header, file, wanted)?;
            if it.tensors.len() - before < names.len() {
                let there: HashSet<&str> = it.tensors[before..].iter().map(|tensor| &*tensor.spec.name).collect();
                let lacking = names.iter().find(|name| !there.contains(name.as_str())).map_or("", String::as_str);
                let what = format!("tensor {lacking:?}, which {} says is here, is not", shown(path));
                let file = it.files.last().map_or(path, DataFile::path);
                return Err(DatasetError::malformed(file, None, what, "get both files again"));
            }
        }
        let samples = Rows::new(&it.files, &[&it.tensors]).map(Samples::Rows);
        let metadata = it.metadata.unwrap_or_default();
        let map = Some(sum_of(&it.tensors));
        Ok(Self { samples, files: it.files, tensors: it.tensors, is_sharded: false, metadata, map })
    }

    /// The tensors, by file and offset.
    pub fn tensors(&self) -> &[StoredTensor] {
        &self.tensors
    }

    /// Whether these are shards of a dataset and no model: names occur in several files, or are those of samples.
    pub fn is_sharded(&self) -> bool {
        self.is_sharded
    }

    /// Whether the tensors make samples.
    pub fn has_samples(&self) -> bool {
        self.samples.is_ok()
    }

    /// The entries of `__metadata__` that all files have alike.
    pub fn metadata(&self) -> &BTreeMap<String, String> {
        &self.metadata
    }

    /// Sees that there are samples.
    ///
    /// # Errors
    /// [`DatasetError`] with the tensor that has no rows, or not as many as others.
    pub fn check_samples(self) -> Result<Self, DatasetError> {
        match self.samples {
            Ok(_) => Ok(self),
            Err(why_not) => Err(why_not),
        }
    }
}

/// Which tensors, of which files, in order.
fn sum_of(tensors: &[StoredTensor]) -> u64 {
    let mut sum = Xxh3::new();
    for StoredTensor { spec, range } in tensors {
        sum.update(&range.file.to_le_bytes());
        sum.update(&(spec.name.len() as u64).to_le_bytes());
        sum.update(spec.name.as_bytes());
    }
    sum.digest()
}

/// Whether it is the index of a model, by its name or by what it says.
pub(crate) fn is_index(path: &Path) -> bool {
    path.as_os_str().as_encoded_bytes().ends_with(b".index.json") || is_index_by_content(path)
}

#[derive(Default)]
struct Contents {
    files: Vec<DataFile>,
    tensors: Vec<StoredTensor>,
    /// Where each file's tensors end.
    ends: Vec<usize>,
    /// What the files so far have alike.
    metadata: Option<BTreeMap<String, String>>,
}

impl Contents {
    fn add(
        &mut self,
        header: header::Header,
        file: DataFile,
        wanted: impl Fn(&str) -> bool,
    ) -> Result<(), DatasetError> {
        let number = u32::try_from(self.files.len())
            .map_err(|_| DatasetError::setting(file.path(), "there are more than 2^32 files", "give fewer"))?;
        for (spec, offset) in header.tensors.into_iter().filter(|(spec, _)| wanted(&spec.name)) {
            // The header was checked by its bytes.
            let len = spec.bytes().unwrap_or_default();
            self.tensors.push(StoredTensor { spec, range: FileRange { file: number, offset, len } });
        }
        match &mut self.metadata {
            None => self.metadata = Some(header.metadata.into_iter().collect()),
            Some(alike) => alike.retain(|key, value| header.metadata.get(key) == Some(value)),
        }
        self.files.push(file);
        self.ends.push(self.tensors.len());
        Ok(())
    }

    fn has_a_name_twice(&self) -> bool {
        let mut names: HashSet<&str> = HashSet::with_capacity(self.tensors.len());
        self.tensors.iter().any(|tensor| !names.insert(&tensor.spec.name))
    }

    fn by_file(&self) -> Vec<&[StoredTensor]> {
        let starts = std::iter::once(0).chain(self.ends.iter().copied());
        starts.zip(&self.ends).map(|(start, &end)| &self.tensors[start..end]).collect()
    }
}

impl Dataset for Safetensors {
    fn len(&self) -> u64 {
        match &self.samples {
            Ok(Samples::Rows(rows)) => rows.len(),
            Ok(Samples::Named(named)) => named.len(),
            Err(_) => 0,
        }
    }

    fn files(&self) -> &[DataFile] {
        &self.files
    }

    fn locate(&self, index: u64, sample: &mut SampleSpec) -> Result<(), DatasetError> {
        match &self.samples {
            Ok(Samples::Rows(rows)) => rows.locate(index, sample),
            Ok(Samples::Named(named)) => named.locate(index, &self.tensors, sample),
            Err(_) => Err(DatasetError::no_sample(index, 0)),
        }
    }

    fn fingerprint(&self) -> Fingerprint {
        let settings = self.map.map_or(String::new(), |sum| format!("index {sum:016x}"));
        Fingerprint::new("safetensors", settings, self.len(), &self.files)
    }

    fn id(&self, index: u64) -> Cow<'_, str> {
        match &self.samples {
            Ok(Samples::Named(named)) => named.id(index, &self.tensors).map(Cow::Borrowed),
            _ => None,
        }
        .unwrap_or_else(|| Cow::Owned(index.to_string()))
    }

    fn fields(&self) -> Option<Fields> {
        match &self.samples {
            Ok(Samples::Named(_)) => Fields::of_all(self).ok(),
            _ => self.sample(0).ok().map(|sample| Fields::uniform(sample.tensors(), self.len())),
        }
    }

    fn stored(&self) -> StoredTensors<'_> {
        Box::new(self.tensors.iter().cloned().map(Ok))
    }
}
