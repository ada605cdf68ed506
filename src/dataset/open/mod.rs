//! From paths to a dataset: folders and patterns, which format files are, and the settings of each.
//!
//! Owns: what `forebay` takes for a dataset. May touch: the names in a folder, and the first bytes of a file.

mod expand;
mod folder;
mod foreign;
mod format;
mod kind;
mod names;
mod options;
mod pattern;
mod sniff;

use std::path::{Path, PathBuf};

pub use format::{Format, UnknownFormat};
pub use options::OpenOptions;

use super::{Dataset, DatasetError, Safetensors};

/// Opens the dataset in these files, one after the other.
///
/// A path is a file, a folder, a brace pattern such as `shard-{000000..000005}.tar`, or a model's
/// `*.safetensors.index.json`:
/// - Of a folder those files are read whose names are of one format (`.safetensors`, `.npy`, `.npz`, `.tar`,
///   `.tfrecord`, `.idx` with its `.bin`, or files without a header: `.bin`, `.raw`, `.rec`, `.dat`, `.u16`, `.u32`), in
///   byte order of their names. Hidden files, folders inside it and all other names are left out. Files of two formats are
///   an error, unless [`OpenOptions::format`] says which; so is a file of the dataset that is compressed or only half
///   fetched, by its name. Files without a header do not count beside others, unless they are asked for. A folder with a
///   model's index is read through it.
/// - In a pattern, braces hold a range of numbers, `{0..9}`, `{000..099}` or `{0..90..10}`, or names, `{a,b}`; they
///   nest, and every name must be there. A file or folder that is called so, braces and all, comes first.
///
/// What a file is tells its content, else its name, unless [`OpenOptions::format`] does: then nothing is guessed, and a
/// file that breaks the format's rules is that format's error. Files without a header are records where
/// [`OpenOptions::record_bytes`] is given, and tokens where [`OpenOptions::seq_len`] is.
///
/// # Errors
/// [`DatasetError`] where a path is not there, a file is not sound, is of a kind that is not read or of none that can be
/// told, tensors make no samples, or a setting is missing or of no use to the format.
pub fn open(paths: &[impl AsRef<Path>], options: &OpenOptions) -> Result<Box<dyn Dataset>, DatasetError> {
    let (format, files) = resolve(paths, options)?;
    match format {
        Format::Safetensors => Ok(Box::new(Safetensors::open(&files)?.check_samples()?)),
        format => open_as(format, &files, options),
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
    /// How many samples they make; `None` where they make none, as the tensors of most models: they share no first
    /// dimension.
    pub samples: Option<u64>,
}

/// Opens files for what is stored in them: as [`open`], but tensors that make no samples are no error.
///
/// # Errors
/// As [`open`].
pub fn open_stored(paths: &[impl AsRef<Path>], options: &OpenOptions) -> Result<Stored, DatasetError> {
    let (format, files) = resolve(paths, options)?;
    match format {
        Format::Safetensors => {
            let tensors = Safetensors::open(&files)?;
            let samples = tensors.has_samples().then(|| tensors.len());
            Ok(Stored { format, dataset: Box::new(tensors), samples })
        }
        format => {
            let dataset = open_as(format, &files, options)?;
            Ok(Stored { format, samples: Some(dataset.len()), dataset })
        }
    }
}

fn resolve(paths: &[impl AsRef<Path>], options: &OpenOptions) -> Result<(Format, Vec<PathBuf>), DatasetError> {
    let files = expand::files(paths, options)?;
    let format = kind::of(&files, options)?;
    options.check(format, files.first().map_or(Path::new(""), PathBuf::as_path))?;
    Ok((format, files))
}

fn open_as(format: Format, files: &[PathBuf], _options: &OpenOptions) -> Result<Box<dyn Dataset>, DatasetError> {
    let first = files.first().map_or(Path::new(""), PathBuf::as_path);
    match format {
        Format::Safetensors => Ok(Box::new(Safetensors::open(files)?)),
        format => {
            let what = format!("it is {format}, which is not read yet");
            Err(DatasetError::unsupported(first, None, what, "write it as safetensors or npy"))
        }
    }
}
