//! Files one after the other: the numbers of their samples go on from each to the next.

use std::ffi::OsStr;
use std::ops::Range;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use super::ends::Ends;
use super::error::DatasetError;
use super::source::DataFile;
use super::text::text;

/// The paths, of whatever type they were given as.
pub(crate) fn paths_of(paths: &[impl AsRef<Path>]) -> Vec<PathBuf> {
    paths.iter().map(|path| path.as_ref().to_owned()).collect()
}

/// The files of a dataset, and how many samples lie in each.
#[derive(Debug)]
pub(crate) struct Parts {
    files: Vec<DataFile>,
    ends: Ends,
}

impl Parts {
    /// Room for the files at `paths`, of which there is at least one.
    pub(crate) fn of(paths: &[PathBuf]) -> Result<Self, DatasetError> {
        if paths.is_empty() {
            return Err(DatasetError::setting("", "no file was given", "give one or more"));
        }
        if u32::try_from(paths.len()).is_err() {
            return Err(DatasetError::setting("", format!("{} files are too many", paths.len()), "merge some of them"));
        }
        Ok(Self { files: Vec::with_capacity(paths.len()), ends: Ends::with_capacity(paths.len()) })
    }

    /// Adds a file of so many samples behind the others.
    pub(crate) fn push(&mut self, file: DataFile, samples: u64) -> Result<(), DatasetError> {
        if self.ends.push(samples).is_none() {
            let what = format!("{samples} samples and the {} before them are too many to number", self.len());
            return Err(DatasetError::malformed(file.path(), None, what, "leave the file out"));
        }
        self.files.push(file);
        Ok(())
    }

    pub(crate) fn files(&self) -> &[DataFile] {
        &self.files
    }

    /// Samples in all.
    pub(crate) fn len(&self) -> u64 {
        self.ends.len()
    }

    /// The file that sample `index` lies in, and which it is there.
    pub(crate) fn find(&self, index: u64) -> Result<(usize, u64), DatasetError> {
        self.ends.find(index).ok_or_else(|| DatasetError::no_sample(index, self.len()))
    }

    /// The numbers of a file's samples.
    pub(crate) fn range(&self, file: usize) -> Range<u64> {
        self.ends.range(file)
    }

    /// Each file with how many samples it has.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (usize, &DataFile, u64)> {
        self.files.iter().enumerate().map(|(i, file)| {
            let Range { start, end } = self.range(i);
            (i, file, end.saturating_sub(start))
        })
    }
}

/// The name of a file without its folder and its last extension, as text.
pub(crate) fn stem(path: &Path) -> String {
    text(path.file_stem().map(OsStr::as_bytes).unwrap_or_default()).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_go_on_from_file_to_file_and_empty_files_take_none() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let file = DataFile::new(file.path()).unwrap();
        let mut parts = Parts::of(&[PathBuf::new()]).unwrap();
        for samples in [0, 2, 0, 3, 0] {
            parts.push(file.clone(), samples).unwrap();
        }
        let found: Vec<_> = (0..5).map(|index| parts.find(index).unwrap()).collect();
        assert_eq!(found, [(1, 0), (1, 1), (3, 0), (3, 1), (3, 2)]);
        assert!(parts.find(5).is_err());
        assert_eq!(parts.iter().map(|(_, _, samples)| samples).collect::<Vec<_>>(), [0, 2, 0, 3, 0]);
        assert!(parts.push(file, u64::MAX).is_err(), "there is no number for the last");
        assert!(Parts::of(&[]).is_err());
    }

    #[test]
    fn names_that_are_no_text_are_shown() {
        assert_eq!(stem(Path::new(OsStr::from_bytes(b"/x/a\xff\xc3\xa4.b.npy"))), "a\\xffä.b");
        assert_eq!(stem(Path::new("..")), "");
    }
}
