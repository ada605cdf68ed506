//! From paths to a dataset: folders and patterns, which format files are, and the settings of each.
//!
//! Owns: what `forebay` takes for a dataset. May touch: the names in a folder, and the first bytes of a file.

mod expand;
mod folder;
mod forced;
mod format;
mod kind;
mod names;
mod options;
mod pattern;
mod shard_set;
mod sniff;

use std::path::{Path, PathBuf};

pub use format::{Format, UnknownFormat};
pub use options::OpenOptions;
pub(crate) use shard_set::others_of_sets;
pub(crate) use sniff::{Content, HEAD, content};

use super::{Dataset, DatasetError, Megatron, Npy, Npz, Records, Safetensors, Split, TfRecord, Tokens, WebDataset};

/// Opens the dataset in these files, one after the other.
///
/// A path is a file, a folder, a brace pattern such as `shard-{000000..000005}.tar`, or a model's
/// `*.safetensors.index.json`:
/// - Of a folder those files are read whose names are of one format (`.safetensors`, `.npy`, `.npz`, `.tar`,
///   `.tfrecord`, `.idx` with its `.bin`, or files without a header: `.bin`, `.raw`, `.rec`, `.dat`, `.u16`, `.u32`), in
///   byte order of their names. Hidden files, folders inside it and all other names are left out. Files of two formats are
///   an error, unless [`OpenOptions::format`] says which; so is a file of the dataset that is compressed or only half
///   fetched, by its name. Files without a header do not count beside others, unless they are asked for. A folder with a
///   model's index, whatever it is called, is read through it.
/// - In a pattern, braces hold a range of numbers, `{0..9}`, `{000..099}` or `{0..90..10}`, or names, `{a,b}`; they
///   nest, and every name must be there. A file or folder that is called so, braces and all, comes first.
///
/// What a file is tells its content, else its name, unless [`OpenOptions::format`] does: then nothing is guessed, and a
/// file that breaks the format's rules is that format's error. Files without a header are records where
/// [`OpenOptions::record_bytes`] is given, and tokens where [`OpenOptions::seq_len`] is. Those with a Megatron index beside
/// them are read by it: as documents, unless windows are asked for; `NAME` alone means `NAME.idx` and `NAME.bin`, where
/// nothing is called `NAME`. A file without a header that begins as one of another kind does, such as a pointer of Git LFS,
/// is an error, unless [`OpenOptions::format`] says that it is data.
///
/// Where names say how many files there are, as `model-00001-of-00003.safetensors` does, all of them must be among the
/// files, and of a folder in that folder, unless [`OpenOptions::allow_incomplete`] is set.
///
/// # Errors
/// [`DatasetError`] where a path is not there, a file is not sound, is of a kind that is not read or of none that can be
/// told, tensors make no samples, or a setting is missing or of no use to the format.
pub fn open(paths: &[impl AsRef<Path>], options: &OpenOptions) -> Result<Box<dyn Dataset>, DatasetError> {
    let (format, files) = resolve(paths, options)?;
    open_as(format, &files, options).map_err(|error| forced::explained(error, format, options))
}

fn open_as(format: Format, files: &[PathBuf], options: &OpenOptions) -> Result<Box<dyn Dataset>, DatasetError> {
    match format {
        Format::Safetensors => Ok(Box::new(Safetensors::open(files)?.check_samples()?)),
        Format::Npy => Ok(Box::new(Npy::open(files)?)),
        Format::Npz => Ok(Box::new(Npz::open(files)?)),
        Format::Records => Ok(Box::new(Records::open_as(files, options.record(first(files))?, options.other_kind())?)),
        Format::Tokens => {
            let Some(split) = options.split() else {
                let what = "it holds tokens, and how many of them are a sample is not said";
                return Err(DatasetError::setting(first(files), what, "give seq_len (--seq-len)"));
            };
            Ok(Box::new(Tokens::open_as(files, options.dtype, split, options.other_kind())?))
        }
        Format::Megatron => Ok(Box::new(Megatron::open(files, options.split().unwrap_or(Split::Documents))?)),
        Format::WebDataset if options.deny_dangling_links => {
            Ok(Box::new(WebDataset::open_strict(files, options.tar_index())?))
        }
        Format::WebDataset => Ok(Box::new(WebDataset::open(files, options.tar_index())?)),
        Format::TfRecord => Ok(Box::new(TfRecord::open(files, options.corrupt())?)),
        Format::Parquet | Format::Arrow => {
            let what = format!("{format} is not read yet");
            Err(DatasetError::unsupported(first(files), None, what, "write it as safetensors or npy"))
        }
    }
}

/// What is stored in files, whether it makes samples or not.
#[derive(Debug)]
#[non_exhaustive]
pub struct Stored {
    /// Their format.
    pub format: Format,
    /// The files, and the tensors in them as [`Dataset::stored`] tells.
    pub dataset: Box<dyn Dataset>,
    /// How many samples they make; `None` where they make none: the tensors of most models, and the arrays of an archive,
    /// which share no first dimension, and tokens of which [`OpenOptions::seq_len`] does not say how many are one.
    pub samples: Option<u64>,
}

/// Opens files for what is stored in them: as [`open`], but tensors and tokens that make no samples are no error.
///
/// # Errors
/// As [`open`].
pub fn open_stored(paths: &[impl AsRef<Path>], options: &OpenOptions) -> Result<Stored, DatasetError> {
    let (format, files) = resolve(paths, options)?;
    stored_as(format, &files, options).map_err(|error| forced::explained(error, format, options))
}

fn stored_as(format: Format, files: &[PathBuf], options: &OpenOptions) -> Result<Stored, DatasetError> {
    let (dataset, samples): (Box<dyn Dataset>, _) = match format {
        Format::Safetensors => {
            let tensors = Safetensors::open(files)?;
            let samples = tensors.has_samples().then(|| tensors.len());
            (Box::new(tensors), samples)
        }
        Format::Npz => super::npz::open_stored(files)?,
        Format::Npy => super::npy::open_stored(files)?,
        // Of any split the tokens are the same.
        Format::Tokens if options.split().is_none() => {
            let tokens = Tokens::open_as(files, options.dtype, Split::windows(1), options.other_kind())?;
            (Box::new(tokens), None)
        }
        format => {
            let dataset = open_as(format, files, options)?;
            let samples = Some(dataset.len());
            (dataset, samples)
        }
    };
    Ok(Stored { format, dataset, samples })
}

fn resolve(paths: &[impl AsRef<Path>], options: &OpenOptions) -> Result<(Format, Vec<PathBuf>), DatasetError> {
    let files = expand::files(paths, options)?;
    // Before formats: such a model's folder has other files, too.
    if let Some(index) = files.iter().find(|file| super::safetensors::is_index(file))
        && files.len() > 1
    {
        let what = "it is the index of a whole model, and other files are given beside it";
        return Err(DatasetError::setting(index, what, "give it alone or the folder, or concatenate datasets"));
    }
    let format = kind::of(&files, options)?;
    options.check(format, first(&files))?;
    if !options.allow_incomplete {
        let given: Vec<&Path> = paths.iter().map(AsRef::as_ref).filter(|path| path.is_dir()).collect();
        shard_set::check(&files, format, |directory| given.contains(&directory))?;
    }
    Ok((format, files))
}

/// The files of a checkpoint: this one, or those of a folder, by its one index or all.
pub(crate) fn checkpoint_files(path: &Path, allow_incomplete: bool) -> Result<Vec<PathBuf>, DatasetError> {
    let options = OpenOptions::new().format(Format::Safetensors).allow_incomplete(allow_incomplete);
    let files = match path.is_dir() {
        true => folder::files(path, &options)?,
        false => vec![path.to_owned()],
    };
    if !allow_incomplete {
        shard_set::check(&files, Format::Safetensors, |directory| directory == path)?;
    }
    Ok(files)
}

/// What a file is that begins so and was taken for a safetensors file, in words that follow `this is`.
pub(crate) fn in_place_of_safetensors(head: &[u8], len: u64) -> Option<String> {
    match sniff::content(head, len) {
        Content::Format(Format::Safetensors) | Content::Unknown => None,
        Content::Format(Format::Npz) => Some("npz, a zip archive of arrays".to_owned()),
        Content::Format(format) => Some(format!("a file of format {format}")),
        Content::Foreign(foreign) => foreign.what.strip_prefix("it is ").map(str::to_owned),
    }
}

fn first(files: &[PathBuf]) -> &Path {
    files.first().map_or(Path::new(""), PathBuf::as_path)
}
