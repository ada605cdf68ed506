//! Where the result goes: its names, and how files come to have them.

use std::fs;
use std::io::{self, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use nix::libc;

use super::contents::Contents;
use super::error::PackError;
use super::options::{PackOptions, PackedFile};
use super::writer::MAKER;
use crate::dataset::{DataFile, shown};
use crate::temporary::{Temporary, sync_folder};

/// What says which file each tensor of a model is in, by the name that Hugging Face gives it.
const INDEX: &str = "model.safetensors.index.json";

#[derive(Debug)]
pub(super) enum Out {
    File(PathBuf),
    Folder(PathBuf),
}

impl Out {
    pub(super) fn new(path: &Path) -> Self {
        // A slash at the end says that it is a folder.
        let is_file = path.as_os_str().as_bytes().ends_with(b".safetensors");
        if is_file { Self::File(path.to_owned()) } else { Self::Folder(path.to_owned()) }
    }

    /// The final name of each file. Refuses what cannot be given them.
    pub(super) fn finals(&self, contents: &dyn Contents, options: &PackOptions) -> Result<Vec<PathBuf>, PackError> {
        const MOST: usize = 1_000_000;
        let shards = contents.shards();
        let (finals, taken) = match self {
            Self::File(path) if shards == 1 => {
                if path.is_dir() {
                    let error = io::Error::from_raw_os_error(libc::EISDIR);
                    return Err(PackError::io(path, None, "write it as a file", error));
                }
                let taken = path.symlink_metadata().is_ok().then(|| path.clone());
                (vec![path.clone()], taken.into_iter().collect())
            }
            Self::File(path) => {
                let what = format!(
                    "{}: {} bytes of data need {shards} files, and one was asked for",
                    shown(path),
                    contents.data_bytes()
                );
                return Err(PackError::setting(what, "give a folder, or allow larger shards"));
            }
            Self::Folder(_) if shards > MOST => {
                let what = format!("{} bytes of data need {shards} files", contents.data_bytes());
                return Err(PackError::setting(what, "allow larger shards"));
            }
            Self::Folder(folder) => {
                let finals = (0..shards).map(|number| folder.join(format!("shard-{number:06}.safetensors"))).collect();
                (finals, shards_in(folder)?)
            }
        };
        match taken.is_empty() || options.overwrite {
            true => Ok(finals),
            false => Err(PackError::Exists { paths: taken }),
        }
    }

    /// Sees that the folder is not one that the dataset lies in: its files would be those of two datasets then.
    pub(super) fn check_apart(&self, files: &[DataFile]) -> Result<(), PackError> {
        let Self::Folder(folder) = self else { return Ok(()) };
        // One that is not there yet holds nothing.
        let Ok(folder) = fs::canonicalize(folder) else { return Ok(()) };
        let is_inside = |file: &&DataFile| {
            let parent = file.path().parent().filter(|parent| !parent.as_os_str().is_empty());
            fs::canonicalize(parent.unwrap_or(Path::new("."))).is_ok_and(|parent| parent == folder)
        };
        match files.iter().find(is_inside) {
            None => Ok(()),
            Some(file) => {
                let what = format!("{}: {} of the dataset lies in this folder", shown(&folder), shown(file.path()));
                Err(PackError::setting(what, "give another one, which may be a folder inside it"))
            }
        }
    }

    /// The folder that files are written to, made where it is missing.
    pub(super) fn make_folder(&self) -> Result<Folder<'_>, PackError> {
        let path = self.folder();
        let is_new = matches!(self, Self::Folder(_)) && !path.exists();
        if is_new {
            let new = path.ancestors().take_while(|above| !above.as_os_str().is_empty() && !above.exists());
            let folder = Folder { path, new: new.collect() };
            fs::create_dir_all(path).map_err(|error| PackError::io(path, None, "make the folder", error))?;
            return Ok(folder);
        }
        Ok(Folder { path, new: Vec::new() })
    }

    /// Writes the index of a folder's files, without its final name.
    pub(super) fn write_index(&self, folder: &Path, text: &str) -> Result<Temporary, PackError> {
        let write = || {
            let index = Temporary::create(folder, MAKER)?;
            index.file().and_then(|mut file| {
                file.write_all(text.as_bytes())?;
                file.sync_all()
            })?;
            Ok(index)
        };
        write().map_err(|error| PackError::io(&folder.join(INDEX), None, "write it", error))
    }

    /// Gives files, all of them whole, their final names, and to the index behind them.
    pub(super) fn publish(
        &self,
        written: Vec<(Temporary, PackedFile)>,
        index: Option<Temporary>,
        overwrite: bool,
    ) -> Result<Vec<PackedFile>, PackError> {
        let mut files: Vec<PackedFile> = Vec::with_capacity(written.len());
        for (temporary, file) in written {
            let answer = if overwrite { temporary.replace(&file.path) } else { temporary.place(&file.path) };
            if let Err(error) = answer {
                // What was replaced cannot be had back; what was not there before need not stay.
                if !overwrite {
                    files.iter().for_each(|file| drop(fs::remove_file(&file.path)));
                }
                return Err(match error.kind() {
                    io::ErrorKind::AlreadyExists => PackError::Exists { paths: vec![file.path] },
                    _ => PackError::io(&file.path, None, "give the file its name", error),
                });
            }
            files.push(file);
        }
        if let Self::Folder(folder) = self {
            let has_index = index.is_some();
            if let Some(index) = index {
                let path = folder.join(INDEX);
                let answer = if overwrite { index.replace(&path) } else { index.place(&path) };
                answer.map_err(|error| PackError::io(&path, None, "give the file its name", error))?;
            }
            self.remove_others(folder, &files, has_index)?;
        }
        sync(self.folder())?;
        Ok(files)
    }

    /// Files of an earlier pack that were not replaced.
    fn remove_others(&self, folder: &Path, files: &[PackedFile], has_index: bool) -> Result<(), PackError> {
        for path in shards_in(folder)? {
            let is_index = path.file_name().is_some_and(|name| name == INDEX);
            if is_index && has_index {
                continue;
            }
            if files.binary_search_by(|file| file.path.cmp(&path)).is_err() {
                fs::remove_file(&path)
                    .map_err(|error| PackError::io(&path, None, "remove this shard of an earlier pack", error))?;
            }
        }
        Ok(())
    }

    fn folder(&self) -> &Path {
        match self {
            Self::Folder(folder) => folder,
            Self::File(path) => match path.parent() {
                Some(parent) if !parent.as_os_str().is_empty() => parent,
                _ => Path::new("."),
            },
        }
    }
}

/// A folder that, where it was made for this pack, is removed unless it is kept; and so are those above it.
pub(super) struct Folder<'a> {
    path: &'a Path,
    /// Those that were made, the innermost first.
    new: Vec<&'a Path>,
}

impl Folder<'_> {
    pub(super) fn path(&self) -> &Path {
        self.path
    }

    pub(super) fn keep(mut self) {
        self.new.clear();
    }
}

impl Drop for Folder<'_> {
    fn drop(&mut self) {
        for path in &self.new {
            // It fails where somebody else has put something there.
            let _ = fs::remove_dir(path);
        }
    }
}

/// What a pack has written to a folder before: reading the folder would take it for a part of this one.
fn shards_in(folder: &Path) -> Result<Vec<PathBuf>, PackError> {
    let failed = |error| PackError::io(folder, None, "list the folder", error);
    let entries = match fs::read_dir(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries.map_err(failed)?,
    };
    let mut found = Vec::new();
    for entry in entries {
        let name = entry.map_err(failed)?.file_name();
        if name == INDEX {
            found.push(folder.join(name));
            continue;
        }
        let digits = name.as_bytes().strip_prefix(b"shard-").and_then(|name| name.strip_suffix(b".safetensors"));
        if digits.is_some_and(|digits| digits.len() == 6 && digits.iter().all(u8::is_ascii_digit)) {
            found.push(folder.join(name));
        }
    }
    found.sort_unstable();
    Ok(found)
}

/// Has the new names in a folder on disk, and the folder's own.
fn sync(folder: &Path) -> Result<(), PackError> {
    // The folder above may be closed to us.
    if let Some(above) = folder.parent() {
        let _ = sync_folder(above);
    }
    sync_folder(folder).map_err(|error| PackError::io(folder, None, "sync the folder", error))
}
