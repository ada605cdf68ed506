//! A folder's data: its files of one kind, in byte order of their names.

use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use super::format::Format;
use super::names::{self, Kind, Named};
use super::options::OpenOptions;
use crate::dataset::parallel::in_parallel;
use crate::dataset::text::in_message;
use crate::dataset::{DatasetError, DatasetFault, safetensors};

/// The files that are read for a folder: not those in folders inside it, not hidden ones, and not those whose names are
/// of no format. With a model's index that is the index alone.
pub(super) fn files(folder: &Path, options: &OpenOptions) -> Result<Vec<PathBuf>, DatasetError> {
    let listed = list(folder)?;
    let named: Vec<(&PathBuf, Named)> =
        listed.iter().filter_map(|path| Some((path, names::named(path)?))).filter(|it| counts(it, options)).collect();
    let kind = the_kind(folder, &named, options)?;
    let safetensors = Kind::of(Format::Safetensors);
    let may_have_index = match (kind, options.format) {
        (Some(kind), _) => kind == safetensors,
        // Its files may lie below.
        (None, format) => format.is_none_or(|format| format == Format::Safetensors),
    };
    if may_have_index && let Some(index) = the_index(folder, &listed, &named)? {
        return Ok(vec![index.clone()]);
    }
    let Some(kind) = kind else {
        return Err(no_data(folder, &listed, &named, options));
    };
    for (path, named) in &named {
        refuse_what_is_missing(path, *named, kind)?;
    }
    Ok(named.iter().filter(|(_, named)| named.kind() == Some(kind)).map(|(path, _)| (*path).clone()).collect())
}

/// Everything in it but hidden files and folders, by name.
fn list(folder: &Path) -> Result<Vec<PathBuf>, DatasetError> {
    let failed = |error| DatasetError::new(folder, None, DatasetFault::Io(error));
    let mut paths = Vec::new();
    for entry in fs::read_dir(folder).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        let kind = entry.file_type().map_err(failed)?;
        // A link that leads nowhere is told by opening it.
        let is_folder = kind.is_dir() || kind.is_symlink() && entry.path().is_dir();
        if !is_folder && !entry.file_name().as_bytes().starts_with(b".") {
            paths.push(entry.path());
        }
    }
    paths.sort_unstable_by(|a, b| a.as_os_str().as_bytes().cmp(b.as_os_str().as_bytes()));
    Ok(paths)
}

/// Whether the name is one that data has here: other tools call files `.idx`, too, and `.bin` beside one is its data.
fn counts((path, named): &(&PathBuf, Named), options: &OpenOptions) -> bool {
    match named {
        Named::Format(Format::Megatron) => path.with_extension("bin").is_file(),
        Named::Raw => options.format.is_some() || !names::has_megatron_index(path),
        _ => true,
    }
}

/// The kind that was asked for, else the one that there is. Files without a header are a kind only where nothing else is
/// there, or what only they have is asked for: beside others they are mostly something else.
fn the_kind(folder: &Path, named: &[(&PathBuf, Named)], options: &OpenOptions) -> Result<Option<Kind>, DatasetError> {
    let has = |kind| named.iter().any(|(_, named)| named.kind() == Some(kind));
    if let Some(format) = options.format {
        return Ok(Some(Kind::of(format)).filter(|kind| has(*kind)));
    }
    let wants_raw = options.record_bytes.is_some() || options.splits_tokens();
    let headed = named.iter().find(|(_, named)| named.kind().is_some_and(|kind| kind != Kind::Raw));
    let Some((first, of_first)) = headed.or_else(|| named.iter().find(|(_, named)| named.kind().is_some())) else {
        return Ok(None);
    };
    let is_other = |named: &Named| {
        named.kind().is_some_and(|kind| Some(kind) != of_first.kind() && (kind != Kind::Raw || wants_raw))
    };
    match named.iter().find(|(_, named)| is_other(named)) {
        None => Ok(of_first.kind()),
        Some((other, _)) => {
            let what = format!("the folder has {} and {}, which are of different kinds", name(first), name(other));
            Err(DatasetError::setting(folder, what, "say which with a format (--format), or give the files themselves"))
        }
    }
}

/// The index of the model, by its name or by what it says. Several that say the same are one, and beside those of variants,
/// such as `model.safetensors.index.fp16.json`, the plain one is it.
fn the_index<'a>(
    folder: &Path,
    listed: &'a [PathBuf],
    named: &[(&'a PathBuf, Named)],
) -> Result<Option<&'a PathBuf>, DatasetError> {
    let has_name = |path: &PathBuf| named.iter().any(|(other, named)| *named == Named::ModelIndex && *other == path);
    let is_index = in_parallel(listed, |path| Ok(has_name(path) || safetensors::is_index_by_content(path)))?;
    let mut indices: Vec<_> = listed.iter().zip(is_index).filter_map(|(path, is)| is.then_some(path)).collect();
    let is_plain = |path: &&PathBuf| path.as_os_str().as_bytes().ends_with(b".safetensors.index.json");
    if indices.iter().any(is_plain) {
        indices.retain(is_plain);
    }
    let Some((&first, others)) = indices.split_first() else { return Ok(None) };
    match others.iter().find(|other| !safetensors::say_the_same(first, other)) {
        Some(other) => {
            let what = format!("the folder has two indices that differ, {} and {}", name(first), name(other));
            Err(DatasetError::setting(folder, what, "give one of them"))
        }
        None => Ok(Some(first)),
    }
}

/// A shard that cannot be read as it stands is not left out in silence.
fn refuse_what_is_missing(path: &Path, named: Named, kind: Kind) -> Result<(), DatasetError> {
    match named {
        Named::Packed(of, program) if of == kind => Err(packed(path, program)),
        Named::Unfinished(of) if of == kind => {
            let what = "by its name it is a file of this dataset that is not whole yet";
            Err(DatasetError::setting(path, what, "wait until it is, get it again, or remove it"))
        }
        _ => Ok(()),
    }
}

pub(super) fn packed(path: &Path, program: &str) -> DatasetError {
    let what = format!("it is compressed with {program}, and a compressed file has no sample that can be read alone");
    DatasetError::unsupported(path, 0, what, "decompress it first")
}

fn no_data(folder: &Path, listed: &[PathBuf], named: &[(&PathBuf, Named)], options: &OpenOptions) -> DatasetError {
    for (path, named) in named {
        match named {
            Named::Packed(_, program) => return packed(path, program),
            Named::Unfinished(kind) => {
                if let Err(error) = refuse_what_is_missing(path, *named, *kind) {
                    return error;
                }
            }
            _ => {}
        }
    }
    let what = match (listed, options.format) {
        ([], _) => "the folder has no files".to_owned(),
        ([one, ..], None) => {
            format!("no file in the folder is named as data of a known format is; the first is {}", name(one))
        }
        ([one, ..], Some(format)) => {
            format!("no file in the folder is named as data of format {format} is; the first is {}", name(one))
        }
    };
    DatasetError::setting(
        folder,
        what,
        "give the files themselves, as in FOLDER/*; folders inside it are not looked into",
    )
}

fn name(path: &Path) -> String {
    in_message(path.file_name().unwrap_or_default().as_bytes())
}
