//! From what was given to the files that are read: folders and patterns become their files, in order.

use std::ffi::{OsStr, OsString};
use std::fs::{self, Metadata};
use std::io;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use super::folder;
use super::format::Format;
use super::options::OpenOptions;
use super::pattern;
use crate::dataset::{DatasetError, DatasetFault, megatron};
use crate::storage::OpenFault;

/// At least one file; whether each can be opened is not known yet, but those of patterns were there.
pub(super) fn files(paths: &[impl AsRef<Path>], options: &OpenOptions) -> Result<Vec<PathBuf>, DatasetError> {
    let mut files = Vec::with_capacity(paths.len());
    for path in paths {
        let path = path.as_ref();
        if path.as_os_str().is_empty() {
            return Err(DatasetError::setting("", "a path is empty", "give the path of a file or folder"));
        }
        let found = fs::metadata(path);
        // A pattern only where nothing is called so.
        let names = if found.as_ref().is_err_and(is_absence) { names(path)? } else { None };
        let Some(names) = names else {
            if found.as_ref().is_err_and(is_absence)
                && let Some(index) = index_of(path, options)
            {
                files.push(index);
                continue;
            }
            if found.as_ref().is_err_and(is_absence) && path.as_os_str().as_bytes().contains(&b'*') {
                let what = "nothing is called so, and `*` stands for itself";
                let fix =
                    "leave `*` to the shell, without quotes, or give the folder, or a pattern such as x-{000..002}";
                return Err(DatasetError::setting(path, what, fix));
            }
            // What cannot be looked at is told better by opening it.
            add(&mut files, path.to_owned(), found.ok(), options)?;
            continue;
        };
        for path in names {
            match fs::metadata(&path) {
                Ok(found) => add(&mut files, path, Some(found), options)?,
                Err(error)
                    if is_absence(&error)
                        && let Some(index) = index_of(&path, options) =>
                {
                    files.push(index)
                }
                Err(error) => return Err(DatasetError::new(path, None, DatasetFault::Open(OpenFault::Io(error)))),
            }
        }
    }
    match files.is_empty() {
        true => Err(DatasetError::setting("", "there are no files to open", "give at least one file or folder")),
        false => Ok(files),
    }
}

/// The index of the pair that Megatron means by this name, which no file has; tokens without a header are not meant.
fn index_of(path: &Path, options: &OpenOptions) -> Option<PathBuf> {
    let may_be = options.format.is_none_or(|format| format == Format::Megatron);
    if may_be { megatron::index_of_prefix(path) } else { None }
}

fn add(
    files: &mut Vec<PathBuf>,
    path: PathBuf,
    found: Option<Metadata>,
    options: &OpenOptions,
) -> Result<(), DatasetError> {
    match found.is_some_and(|found| found.is_dir()) {
        true => files.extend(folder::files(&path, options)?),
        false => files.push(path),
    }
    Ok(())
}

/// The names that a pattern stands for; `None` where the path is no pattern.
fn names(path: &Path) -> Result<Option<Vec<PathBuf>>, DatasetError> {
    /// What is longer is not shown whole.
    const SHOWN: usize = 4096;
    let bytes = path.as_os_str().as_bytes();
    let names = pattern::expand(bytes).map_err(|refused| {
        let path = if bytes.len() > SHOWN { Path::new(OsStr::from_bytes(&bytes[..64])) } else { path };
        DatasetError::setting(path, refused.what(), "give a smaller pattern, or a folder")
    })?;
    Ok(names.map(|names| names.into_iter().map(|name| OsString::from_vec(name).into()).collect()))
}

/// Whether nothing is called so; a pattern may well be longer than a name can be.
fn is_absence(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory | io::ErrorKind::InvalidFilename)
}
